"""Generated integer expressions against Python's own integers: equal, or the overflow flag is set; and the flag is
clear when nothing on the way left 64 bits. Expressions are compiled a batch at a time with the C compiler."""

from __future__ import annotations

import ast
import ctypes
import importlib.util
import math
import operator
import re
import shlex
import subprocess
import sysconfig
import types
from pathlib import Path

import pytest
import sympy
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch.utils._sympy import functions as ts
from torch.utils._sympy.printers import PythonPrinter

from trident_hook.codegen.intexpr import from_python, from_sympy, literal
from trident_hook.errors import Unsupported

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("a", "b", "c")
LOW, HIGH = -(2**63), 2**63 - 1
a, b, c = sympy.symbols("a b c", integer=True)


def resolve(node: ast.AST) -> str | None:
    text = ast.unparse(node)
    known = {"L['x'].size()[0]": "a", "L['y'].size()[1]": "b", "L['n']": "c", "L['x'].stride()[1]": "b"}
    known["L['x'].storage_offset()"] = "c"
    return text if text in NAMES else known.get(text)


# --- running generated code ------------------------------------------------------------------------------------------


def build(source: Path, library: Path) -> None:
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    include = ["-I", str(ROOT / "ext/rt"), "-I", sysconfig.get_path("include")]
    subprocess.run([*compiler, "-O1", "-w", "-shared", "-fPIC", *include, "-o", library, source], check=True)


def compile_c(expressions: list[str], folder: Path):
    """For each expression a function (a, b, c) -> (value, flag)."""
    lines = ['#include "tdh_num.h"']
    for number, text in enumerate(expressions):
        lines.append(f"int64_t f{number}(int64_t a, int64_t b, int64_t c, int *flag) {{")
        lines.append(f"  int ovf = 0; int64_t value = {text}; *flag = ovf; return value;\n}}")
    source, library = folder / "batch.c", folder / "batch.so"
    source.write_text("\n".join(lines))
    build(source, library)
    loaded = ctypes.CDLL(str(library))

    def function(number: int):
        raw = getattr(loaded, f"f{number}")
        raw.restype, raw.argtypes = ctypes.c_int64, [ctypes.c_int64] * 3 + [ctypes.POINTER(ctypes.c_int)]

        def call(*values):
            flag = ctypes.c_int()
            result = raw(*values, ctypes.byref(flag))
            return result, bool(flag.value)

        return call

    return [function(number) for number in range(len(expressions))]


class Peak:
    """How far from 0 the values of one evaluation went: `value` exactly, `bound` in whatever order sums and products
    are formed; and whether a true division met more than 53 bits."""

    def __init__(self) -> None:
        self.value_fits = True
        self.bound = 0
        self.exact_division = True


class Tracked(int):
    """Python's int, noting in `peak` what it went through."""

    def __new__(cls, value: int, peak: Peak, bound: int | None = None):
        self = super().__new__(cls, value)
        self.peak, self.bound = peak, abs(value) if bound is None else bound
        peak.value_fits &= LOW <= value <= HIGH
        peak.bound = max(peak.bound, self.bound)
        return self

    def _of(self, value, bound=None) -> Tracked:
        return Tracked(int(value), self.peak, bound)

    def __add__(self, other):
        return self._of(int(self) + int(other), self.bound + _bound(other))

    def __sub__(self, other):
        return self._of(int(self) - int(other), self.bound + _bound(other))

    def __mul__(self, other):
        return self._of(int(self) * int(other), max(self.bound, 1) * max(_bound(other), 1))

    def __pow__(self, other):
        return self._of(int(self) ** int(other), max(self.bound, 1) ** int(other))

    def __floordiv__(self, other):
        return self._of(int(self) // int(other), max(self.bound, _bound(other)))

    def __mod__(self, other):
        return self._of(int(self) % int(other), max(self.bound, _bound(other)))

    def __truediv__(self, other):
        self.peak.exact_division &= -(2**53) <= self < 2**53
        return int(self) / int(other)

    def __neg__(self):
        return self._of(-int(self), self.bound)

    def __abs__(self):
        return self._of(abs(int(self)), self.bound)

    def __and__(self, other):
        return self._of(int(self) & int(other))

    def __or__(self, other):
        return self._of(int(self) | int(other))

    def __xor__(self, other):
        return self._of(int(self) ^ int(other))

    __radd__ = __add__
    __rmul__ = __mul__
    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __rsub__(self, other):
        return self._of(int(other)) - self

    def __rfloordiv__(self, other):
        return self._of(int(other)) // self

    def __rmod__(self, other):
        return self._of(int(other)) % self

    def __rtruediv__(self, other):
        return self._of(int(other)) / self


def _bound(value) -> int:
    return value.bound if isinstance(value, Tracked) else abs(value)


class Literals(ast.NodeTransformer):
    def visit_Constant(self, node):
        return ast.Call(ast.Name("T", ast.Load()), [node], []) if type(node.value) is int else node


def python_code(text: str):
    tree = Literals().visit(ast.parse(text, mode="eval"))
    return compile(ast.fix_missing_locations(tree), text, "eval")


def python_value(code, values, peak: Peak):
    names = {name: Tracked(value, peak) for name, value in zip(NAMES, values)}
    rounding = types.SimpleNamespace(
        ceil=lambda x: Tracked(math.ceil(x), peak), floor=lambda x: Tracked(math.floor(x), peak)
    )
    names |= {"T": lambda value: Tracked(value, peak), "math": rounding, "Eq": operator.eq, "Ne": operator.ne}
    names |= {"FloorDiv": operator.floordiv, "Mod": operator.mod, "CeilDiv": lambda x, y: -(-x // y)}
    return eval(code, {"__builtins__": {"min": min, "max": max, "abs": abs}}, names)


def compare(text: str, code, function, values, *, any_order: bool) -> None:
    peak = Peak()
    got, flagged = function(*values)
    where = f"{text} at {values}"
    try:
        wanted = python_value(code, values, peak)
    except ZeroDivisionError:
        assert flagged, f"{where}: division by zero not noted"
        return
    assert flagged or got == wanted, f"{where}: {got} for {wanted}"
    if any_order:
        may_be_flagged = peak.bound > HIGH
    else:
        may_be_flagged = not peak.value_fits
    assert not flagged or may_be_flagged or not peak.exact_division, f"{where}: flag set without need"


# --- strategies ------------------------------------------------------------------------------------------------------

_CENTRES = [0, 1, -1, 16, -16, 2**31, -(2**31), 2**53, -(2**53), 2**62, -(2**62), HIGH - 3, LOW + 3]
integers = st.builds(operator.add, st.sampled_from(_CENTRES), st.integers(-3, 3))
points = st.lists(st.tuples(integers, integers, integers), min_size=12, max_size=12)
small = st.sampled_from([1, 2, 3, 4, 8, 16, 128])
constants = st.one_of(small, small, integers)


def _texts(children):
    def of(pattern, *parts):
        return st.builds(lambda *texts: pattern.format(*texts), *parts)

    return st.one_of(
        of("({} + {})", children, children),
        of("({} - {})", children, children),
        of("{} * {}", children.map("({})".format), children.map("({})".format)),
        of("({} // {})", children, children.map("({})".format)),
        of("(({}) % ({}))", children, children),
        of("(-({}))", children),
        of("min({}, {}, {})", children, children, children),
        of("max({}, {})", children, children),
        of("abs({})", children),
        of("({})**{}", children, st.integers(0, 5)),
        of("math.ceil(({}) / ({}))", children, children),
        of("math.floor(({}) / ({}))", children, children),
        of("CeilDiv({}, {})", children, children),
        of("(({}) & ({}))", children, children),
        of("({} if {} < {} else {})", children, children, children, children),
    )


int_texts = st.recursive(st.one_of(st.sampled_from(NAMES), constants.map(lambda n: f"({n})")), _texts, max_leaves=8)
comparisons = st.builds("{} {} {}".format, int_texts, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), int_texts)
chains = st.builds("{} <= {} < {}".format, int_texts, int_texts, int_texts)
bool_texts = st.recursive(
    st.one_of(comparisons, chains, st.builds("Eq({}, {})".format, int_texts, int_texts)),
    lambda children: st.one_of(
        st.builds("({} and {})".format, children, children),
        st.builds("({} or {})".format, children, children),
        st.builds("(not {})".format, children),
    ),
    max_leaves=4,
)


def _sympys(children):
    positive = small.map(sympy.Integer)
    return st.one_of(
        st.builds(operator.add, children, children),
        st.builds(operator.sub, children, children),
        st.builds(operator.mul, children, children),
        st.builds(operator.neg, children),
        st.builds(ts.FloorDiv, children, positive),
        st.builds(ts.PythonMod, children, positive),
        st.builds(ts.Min, children, children),
        st.builds(ts.Max, children, children),
        st.builds(operator.pow, children, st.integers(0, 4)),
        st.builds(lambda p, q: ts.CeilToInt(ts.IntTrueDiv(p, q)), st.sampled_from([a, b, a + 1, a * b]), positive),
        st.builds(lambda p, q: ts.CeilDiv(p, q), children, positive),
    )


int_sympys = st.recursive(st.one_of(st.sampled_from([a, b, c]), constants.map(sympy.Integer)), _sympys, max_leaves=7)
kinds = st.sampled_from([sympy.Eq, sympy.Ne, sympy.Le, sympy.Lt])
relations = st.builds(lambda kind, p, q: kind(p, q), kinds, int_sympys, int_sympys)
joined = st.builds(lambda join, p, q: join(p, q), st.sampled_from([sympy.And, sympy.Or]), relations, relations)
bool_sympys = st.one_of(relations, joined, relations.map(sympy.Not))

BATCH = settings(
    max_examples=8,
    phases=[Phase.generate],  # shrinking would compile at each step; a failure names one expression and one point
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


# --- properties ------------------------------------------------------------------------------------------------------


@given(st.lists(int_texts, min_size=25, max_size=25), st.lists(bool_texts, min_size=15, max_size=15), points)
@BATCH
def test_python_text_keeps_pythons_value(tmp_path_factory, ints, bools, values):
    written = [(text, from_python(text, resolve, dialect="c", kind="int")) for text in ints]
    written += [(text, from_python(text, resolve, dialect="c")) for text in bools]
    functions = compile_c([expression for _, expression in written], tmp_path_factory.mktemp("text"))
    for (text, _), function in zip(written, functions):
        code = python_code(text)
        for point in values:
            compare(text, code, function, point, any_order=False)


@given(st.lists(int_sympys, min_size=20, max_size=20), st.lists(bool_sympys, min_size=10, max_size=10), points)
@BATCH
def test_sympy_keeps_pythons_value(tmp_path_factory, ints, bools, values):
    written, refused = [], []
    for expr in (*ints, *bools):
        try:
            written.append((PythonPrinter().doprint(expr), from_sympy(expr, lambda s: s.name, dialect="c")))
        except Unsupported as refusal:
            refused.append(refusal.detail)  # sympy multiplied out to something beyond 64 bits, or to a fraction
    assert all(re.search("does not fit|Rational|exponent", detail) for detail in refused), refused
    functions = compile_c([expression for _, expression in written], tmp_path_factory.mktemp("sympy"))
    for (text, _), function in zip(written, functions):
        code = python_code(text)
        for point in values:
            compare(text, code, function, point, any_order=True)


def test_cython_reads_its_dialect_alike(tmp_path):
    """The dialects differ in a few words only: each of those once through the real Cython."""
    texts = {
        "a - 9223372036854775807 < -9223372036854775808": "bool",
        "not (a == 1) and (b > 2 or c < -5)": "bool",
        "(a if b > 2 else 9223372036854775807)": "int",
        "(5 if b > 2 else -9223372036854775808)": "int",
        "a + 4611686018427387904": "int",
        "a * -4611686018427387905 % 7": "int",
        "min(a, 1099511627776) // max(b, 3)": "int",
        "-9223372036854775808": "int",
        "(a & 1099511627775)": "int",
    }
    lines = ["from libc.stdint cimport int64_t", 'cdef extern from "tdh_num.h":']
    for name in ("add", "sub", "mul", "floordiv", "mod", "pow"):
        lines.append(f"    int64_t tdh_{name}(int64_t a, int64_t b, int *ovf) nogil")
    lines += [f"    int64_t tdh_{name}(int64_t a, int64_t b) nogil" for name in ("min", "max")]
    for number, (text, kind) in enumerate(texts.items()):
        lines += [f"def f{number}(int64_t a, int64_t b, int64_t c):", "    cdef int ovf = 0", "    cdef int64_t value"]
        lines += [f"    value = {from_python(text, resolve, kind=kind)}", "    return value, ovf != 0"]
    (tmp_path / "dialect.pyx").write_text("\n".join(lines))

    from Cython.Compiler.Main import CompilationOptions, compile_single

    result = compile_single(str(tmp_path / "dialect.pyx"), CompilationOptions(language_level=3), "dialect")
    assert result.num_errors == 0
    library = tmp_path / "dialect.so"
    build(tmp_path / "dialect.c", library)
    spec = importlib.util.spec_from_file_location("dialect", library)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for number, text in enumerate(texts):
        code, function = python_code(text), getattr(module, f"f{number}")
        for point in [(0, 0, 0), (1, 3, -6), (-1, -4, 5), (HIGH, 3, LOW), (LOW, 2, HIGH), (2**40 + 5, 9, 1)]:
            compare(text, code, function, point, any_order=False)


# --- what is printed, what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 <= L['x'].size()[0]  # _dynamo/output_graph.py:1 in f", "(2 <= a)"),
        ("L['x'].size()[0]*L['y'].size()[1] <= 2147483647", "(tdh_mul(a, b, &ovf) <= 2147483647)"),
        ("L['x'].size()[0] % 16 == 0", "(tdh_mod(a, 16, &ovf) == 0)"),
        ("2 <= L['n'] <= 1024", "((2 <= c) and (c <= 1024))"),
        ("((L['n'] + 1)//2) != L['x'].stride()[1]", "(tdh_floordiv(tdh_add(c, 1, &ovf), 2, &ovf) != b)"),
        ("not Eq(L['x'].storage_offset(), 0)", "(not (c == 0))"),
        ("L['x'].size()[0] == 4294967296", "(a == (<int64_t>4294967296))"),
        ("True", "1"),
    ],
)
def test_guard_text(text, expected):
    assert from_python(text, resolve) == expected


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (a - 2 * b, "tdh_sub(a, tdh_mul(b, 2, &ovf), &ovf)"),
        (-a, "tdh_sub(0, a, &ovf)"),
        (-a - b, "tdh_sub(tdh_sub(0, a, &ovf), b, &ovf)"),
        (ts.CeilDiv(a, 16), "tdh_floordiv(tdh_add(15, a, &ovf), 16, &ovf)"),
        (ts.CleanDiv(a, b), "tdh_floordiv(a, b, &ovf)"),
        (ts.ModularIndexing(a, 4, b), "tdh_mod(tdh_floordiv(a, 4, &ovf), b, &ovf)"),
        (ts.Identity(a), "a"),
        (ts.Where(a < 3, a, b), "(<int64_t>a if (a < 3) else <int64_t>b)"),
        (sympy.Mul(2, 2, a, evaluate=False), "tdh_mul(tdh_mul(2, a, &ovf), 2, &ovf)"),
        (sympy.Integer(-(2**63)), "((-<int64_t>9223372036854775807) - 1)"),
        (sympy.true, "1"),
        (sympy.Eq(ts.Mod(a, 16), 0), "(tdh_mod(a, 16, &ovf) == 0)"),
    ],
)
def test_sympy_text(expr, expected):
    assert from_sympy(expr, lambda symbol: symbol.name) == expected


def test_names_are_the_callers():
    text = from_sympy(a + b, lambda symbol: f"t->sizes[{symbol}] + 1", ovf="lost")
    assert text == "tdh_add((t->sizes[a] + 1), (t->sizes[b] + 1), &lost)"


def test_literal():
    assert literal(5) == "5"
    assert literal(-(2**40)) == "(-<int64_t>1099511627776)"
    assert literal(2**40, dialect="c") == "(INT64_C(1099511627776))"
    with pytest.raises(Unsupported):
        literal(2**63)


@pytest.mark.parametrize(
    "text",
    [
        "L['z'].size()[0] > 2",
        "unknown(a) == 1",
        "a",
        "a / b == 2",
        "math.ceil(a * 0.5) == 1",
        "a == 1.5",
        "a == 9223372036854775808",
        "a ** b == 4",
        "a ** 65 == 4",
        "a << 2 == 4",
        "a in (1, 2)",
        "a is b",
        "(a == b) + 1 == 2",
        "(a and b) == 1",
        "not a",
        "min(*a) == 1",
        "min(a) == 1",
        "a == 'text'",
        "a ==",
        "(a := 1) == 1",
        "a == 1 if b == 1 else c == 1",
    ],
)
def test_text_refused(text):
    with pytest.raises(Unsupported) as refusal:
        from_python(text, resolve)
    assert refusal.value.slug == "int-expr"


@pytest.mark.parametrize(
    "expr",
    [
        ts.IntTrueDiv(a, b),
        ts.CeilToInt(ts.FloatTrueDiv(a, b)),
        ts.ToFloat(a),
        ts.PowByNatural(sympy.Integer(2), a),
        a / 2,
        sympy.Pow(a, -1),
        sympy.Float(1.5),
        sympy.Symbol("f"),
        sympy.Integer(2**63),
        sympy.oo,
        sympy.floor(a / 2),
        ts.TruncToInt(ts.IntTrueDiv(a, b)),
    ],
    ids=str,
)
def test_sympy_refused(expr):
    with pytest.raises(Unsupported):
        from_sympy(expr, lambda symbol: symbol.name)


def test_where_only_the_chosen_side_counts(tmp_path):
    texts = ["(a // b if b != 0 else -1)", "(b == 0 or a // b > 1)", "(b != 0 and a // b > 1)"]
    kinds = ["int", "bool", "bool"]
    functions = compile_c([from_python(t, resolve, dialect="c", kind=k) for t, k in zip(texts, kinds)], tmp_path)
    assert [function(8, 0, 0) for function in functions] == [(-1, False), (1, False), (0, False)]
    assert [function(8, 2, 0) for function in functions] == [(4, False), (1, False), (1, False)]
