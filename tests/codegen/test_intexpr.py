"""Generated integer expressions against Python's own integers: equal, or the overflow flag is set; and the flag is
clear when nothing on the way left 64 bits (53 where a float is made of it). Expressions are compiled a batch at a time
with the C compiler."""

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
    include = ["-I", str(ROOT / "ext/abi"), "-I", sysconfig.get_path("include")]
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
    """Python's int, noting in `peak` what it went through. Other operands are of this kind too, or floats."""

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
        if isinstance(other, float):
            return NotImplemented
        return self._of(int(self) * int(other), max(self.bound, 1) * max(_bound(other), 1))

    def __pow__(self, other):
        return self._of(int(self) ** int(other), max(self.bound, 1) ** int(other))

    def __floordiv__(self, other):
        return self._of(int(self) // int(other), max(self.bound, _bound(other)))

    def __mod__(self, other):
        return self._of(int(self) % int(other), max(self.bound, _bound(other)))

    def __truediv__(self, other):
        self.peak.exact_division &= -(2**53) <= self < 2**53
        return NotImplemented if isinstance(other, float) else int(self) / int(other)

    __neg__ = lambda self: self._of(-int(self), self.bound)
    __abs__ = lambda self: self._of(abs(int(self)), self.bound)
    __and__ = lambda self, other: self._of(int(self) & int(other))
    __or__ = lambda self, other: self._of(int(self) | int(other))
    __xor__ = lambda self, other: self._of(int(self) ^ int(other))


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

    def to_int(function):
        return lambda x: Tracked(function(x), peak)

    rounding = {name: to_int(getattr(math, name)) for name in ("ceil", "floor", "trunc")}
    names |= {"math": types.SimpleNamespace(sqrt=math.sqrt, **rounding), "round": to_int(round)}
    names |= {"torch": types.SimpleNamespace(sym_float=float)}
    names |= {"T": lambda value: Tracked(value, peak), "Eq": operator.eq, "Ne": operator.ne}
    names |= {"FloorDiv": operator.floordiv, "Mod": operator.mod, "CeilDiv": lambda x, y: -(-x // y)}
    return eval(code, {"__builtins__": {"min": min, "max": max, "abs": abs}}, names)


def compare(text: str, code, function, values, *, any_order: bool, floats: bool = False) -> None:
    peak = Peak()
    got, flagged = function(*values)
    where = f"{text} at {values}"
    try:
        wanted = python_value(code, values, peak)
    except (ZeroDivisionError, ValueError):  # the latter: the root of a negative
        assert flagged, f"{where}: division by zero or root of a negative not noted"
        return
    assert flagged or got == wanted, f"{where}: {got} for {wanted}"
    most = 2**53 if floats else HIGH
    may_be_flagged = peak.bound > most if any_order or floats else not peak.value_fits
    assert not flagged or may_be_flagged or not peak.exact_division, f"{where}: flag set without need"


def compare_all(written: list[tuple[str, str]], folder: Path, values, **how) -> None:
    """Pairs of Python's text and ours, at each point."""
    functions = compile_c([expression for _, expression in written], folder)
    for (text, _), function in zip(written, functions):
        code = python_code(text)
        for point in values:
            compare(text, code, function, point, **how)


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


def _floats_of(first, one, two):
    """Made of `first` with functions of one float and of two."""

    def wider(children):
        made = [st.builds(function, children) for function in one]
        return st.one_of(*made, *(st.builds(function, children, children) for function in two))

    return st.recursive(first, wider, max_leaves=4)


ROUNDINGS = ("math.floor", "math.ceil", "math.trunc", "round")
_decimals = st.sampled_from([1.0, 2.0, 0.5, -2.5, 0.1, 132.0, 1e-05, 1e16, 12.333333333333334])
_leaf_texts = st.sampled_from(["a", "b", "(a*b)", "(c - a)", "3", "(-132)", "1"])
_first_texts = [st.builds("({} / {})".format, _leaf_texts, _leaf_texts), _leaf_texts.map("torch.sym_float({})".format)]
float_texts = _floats_of(
    st.one_of(*_first_texts, _decimals.map("({!r})".format)),
    ["math.sqrt({})".format, "(-{})".format, "abs({})".format],
    ["({} / {})".format, "max({}, {})".format, "min({}, {})".format],
)
rounded_texts = st.builds("{}({})".format, st.sampled_from(ROUNDINGS), float_texts)
_sides = st.one_of(float_texts, rounded_texts, _leaf_texts)
float_comparisons = st.builds("{} {} {}".format, _sides, st.sampled_from(["==", "!=", "<", "<=", ">="]), float_texts)

_leaf_sympys = st.sampled_from([a, b, a * b, a + 1, ts.FloorDiv(a, 2)])
float_sympys = _floats_of(
    st.one_of(st.builds(ts.IntTrueDiv, _leaf_sympys, _leaf_sympys), _leaf_sympys.map(ts.ToFloat)),
    [lambda p: ts.OpaqueUnaryFn_sqrt(p), operator.neg, sympy.Abs],
    [lambda p, q: ts.FloatTrueDiv(p, q), ts.Max, ts.Min],
)
_roundings = st.sampled_from([ts.FloorToInt, ts.CeilToInt, ts.TruncToInt, ts.RoundToInt])
rounded_sympys = st.builds(lambda rounding, p: rounding(p), _roundings, float_sympys)

kinds = st.sampled_from([sympy.Eq, sympy.Ne, sympy.Le, sympy.Lt])
relations = st.builds(lambda kind, p, q: kind(p, q), kinds, int_sympys, int_sympys)
joined = st.builds(lambda join, p, q: join(p, q), st.sampled_from([sympy.And, sympy.Or]), relations, relations)
bool_sympys = st.one_of(relations, joined, relations.map(sympy.Not))
_other_sides = st.one_of(float_sympys, _decimals.map(sympy.Float), _leaf_sympys)
float_relations = st.builds(lambda kind, p, q: kind(p, q), kinds, float_sympys, _other_sides)

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
    compare_all(written, tmp_path_factory.mktemp("text"), values, any_order=False)


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
    compare_all(written, tmp_path_factory.mktemp("sympy"), values, any_order=True)


def near(values):
    """As many points where products have few bits."""
    return [tuple(value % 4099 - 300 for value in point) for point in values]


@given(st.lists(rounded_texts, min_size=20, max_size=20), st.lists(float_comparisons, min_size=30, max_size=30), points)
@BATCH
def test_floats_of_python_text_are_pythons(tmp_path_factory, ints, bools, values):
    written = [(text, from_python(text, resolve, dialect="c", kind="int")) for text in ints]
    written += [(text, from_python(text, resolve, dialect="c")) for text in bools]
    compare_all(written, tmp_path_factory.mktemp("floats"), values + near(values), any_order=False, floats=True)


@given(st.lists(rounded_sympys, min_size=20, max_size=20), st.lists(float_relations, min_size=30, max_size=30), points)
@BATCH
def test_floats_of_sympy_are_pythons(tmp_path_factory, ints, bools, values):
    printed, exprs = PythonPrinter().doprint, [*ints, *bools]
    written = [(printed(expr), from_sympy(expr, lambda s: s.name, dialect="c")) for expr in exprs]
    compare_all(written, tmp_path_factory.mktemp("floats"), values + near(values), any_order=False, floats=True)


# --- floats in the middle --------------------------------------------------------------------------------------------

#: As torch 2.11 prints guards: the text, values (a, b) that pass, and the nearest ones that do not.
FLOAT_GUARDS = [
    ("L['x'].size()[0]*L['y'].size()[1]/132 <= 1.0", (12, 11), (133, 1)),
    ("((L['x'].size()[0]*L['y'].size()[1]) / 132) > 1", (133, 1), (12, 11)), ("1.0 < a / 132", (133, 0), (132, 0)),
    ("(a / 132) == 1.0", (132, 0), (133, 0)), ("(a / 132) != 1.5", (197, 0), (198, 0)),
    ("Eq(a / 132, 1)", (132, 0), (131, 0)), ("Ne(1.5, a / 132)", (199, 0), (198, 0)),
    ("(a / 3) == 12.333333333333334", (37, 0), (38, 0)), ("(a / 3) < 12.333333333333336", (37, 0), (38, 0)),
    ("(a / 4) != torch.sym_float(a // 4)", (37, 0), (36, 0)), ("(a / 3) <= (b / 2)", (3, 2), (4, 2)),
    ("(a / b) > 0.5", (26, 51), (25, 51)), ("(a / 4) > torch.sym_float(b)", (9, 2), (8, 2)),
    ("math.ceil(math.sqrt(torch.sym_float(L['y'].size()[1]*L['x'].size()[0]))) <= 1024", (1024, 1024), (1024**2 + 1, 1)),
    ("((-1) + math.ceil(math.sqrt(torch.sym_float(b*a)))) == 43", (1850, 1), (1849, 1)),
    ("math.floor(math.sqrt(torch.sym_float(a))) > 5", (36, 0), (35, 0)),
    ("math.trunc(math.sqrt(torch.sym_float(a))) > 5", (36, 0), (35, 0)), ("math.sqrt(a) <= 5.0", (25, 0), (26, 0)),
    ("math.trunc(a / 3) > -3", (-8, 0), (-9, 0)), ("math.floor(((a / 3) / 2.0)) == -1", (-1, 0), (0, 0)),
    ("math.ceil(((a / 3) / 2.0)) == 1", (6, 0), (7, 0)), ("round(a / 3) > 5", (17, 0), (16, 0)),
    ("round(a / 2) == 2", (5, 0), (6, 0)), ("round(a / 2) == -2", (-5, 0), (-6, 0)),
    ("torch.sym_float(a) > 5.5", (6, 0), (5, 0)), ("a < 2.5", (2, 0), (3, 0)),
    ("max(1.0, a / 3) > 5.5", (17, 0), (16, 0)), ("min(a / 3, 1) < 0.5", (1, 0), (2, 0)),
    ("abs(a / 3) > 5.5", (-17, 0), (-16, 0)), ("(-1)*(a / 3) < -5.5", (17, 0), (16, 0)),
    ("-(a / 3) < +5.5", (-16, 0), (-17, 0)), ("(((a / 3) / 2.0)) > 0.5", (4, 0), (3, 0)),
    ("torch.sym_float(math.floor(((a / 3) / 2.0))) > 0.5", (6, 0), (5, 0)), ("1.5 <= a / 2 < 2.5", (3, 0), (5, 0)),
    ("a / 3 > 1.0 and b / 3 < 1.0", (4, 2), (4, 3)),
]  # fmt: skip


def test_float_guards(tmp_path):
    functions = compile_c([from_python(text, resolve, dialect="c") for text, _, _ in FLOAT_GUARDS], tmp_path)
    for (text, passing, failing), function in zip(FLOAT_GUARDS, functions):
        assert function(*passing, 0) == (1, False), text
        assert function(*failing, 0) == (0, False), text


#: For values of a what comes out; None where the flag must be set.
FLOAT_EDGES = {
    "a / 1 == 9007199254740992.0": {2**53: 1, 2**53 + 1: None},  # of both Python says 1
    "a / 1 == -9007199254740992.0": {-(2**53): 1, -(2**53) - 1: None},
    "1 / a > 0.0": {2**53: 1, 2**53 + 1: None, HIGH: None, LOW: None, 0: None},
    "0 / a == 0.0": {0: None, -1: 1},  # -0.0
    "a / 9007199254740992 < 1.0": {2**53 - 1: 1, 2**53: 0},
    "1.5 / (0 / a) > 0.0": {-1: None},
    "a <= 9007199254740992.0": {2**53: 1, 2**53 + 1: None},  # the nearest double would say 1, Python says 0
    "a < 9007199254740991.0": {2**53 - 2: 1, 2**53 - 1: 0, HIGH: None, LOW: None},
    "max(a, 0.5) > 0.5": {2**53: 1, 2**53 + 1: None},
    "torch.sym_float(a) > 0.0": {2**53: 1, 2**53 + 1: None},
    "math.sqrt(a) > 0.0": {0: 0, 1: 1, -1: None, 2**53: 1, 2**53 + 1: None},
    "math.sqrt(a / 3) >= 0.0": {0: 1, -1: None},
    "math.sqrt(0 / a) == 0.0": {-1: 1},  # the root of -0.0
    "a / 5e-324 > 1.0": {0: 0, 1: None, -1: None},  # infinite
    "a / 1e308 > 0.0": {1: 1},  # below the normal floats
    "1.0 > a or a / 0 > 1.0": {0: 1, 1: None},
}


def test_float_edges(tmp_path):
    functions = compile_c([from_python(text, resolve, dialect="c") for text in FLOAT_EDGES], tmp_path)
    for (text, wanted), function in zip(FLOAT_EDGES.items(), functions):
        code = python_code(text)
        for value, answer in wanted.items():
            got, flagged = function(value, 0, 0)
            assert (None if flagged else got) == answer, f"{text} at {value}"
            assert flagged or got == python_value(code, (value, 0, 0), Peak()), f"{text} at {value}"


def test_rounding_up_to_the_last_int(tmp_path):
    """x * 1024, written as a division, reaches the ends of 64 bits; x / 4 has every kind of fraction."""
    texts = [f"{name}(a / {divisor})" for name in ROUNDINGS for divisor in ("0.0009765625", "torch.sym_float(4)")]
    functions = compile_c([from_python(text, resolve, dialect="c", kind="int") for text in texts], tmp_path)
    values = [*range(-20, 21), 2**52 + 1, 2**53 - 1, 2**53, 1 - 2**53, -(2**53)]
    for text, function in zip(texts, functions):
        for value in values:
            got, flagged = function(value, 0, 0)
            wanted = python_value(python_code(text), (value, 0, 0), Peak())
            assert (None if flagged else got) == (wanted if LOW <= wanted <= HIGH else None), f"{text} at {value}"


def test_roots_of_squares_and_their_neighbours(tmp_path):
    texts = [f"{name}(math.sqrt(torch.sym_float(a)))" for name in ROUNDINGS]
    functions = compile_c([from_python(text, resolve, dialect="c", kind="int") for text in texts], tmp_path)
    last = math.isqrt(2**53)
    roots = [*range(1, 2000), *(2**n for n in range(11, 27)), *range(last - 500, last + 1)]
    for text, function in zip(texts, functions):
        rounding = eval(text.split("(")[0])
        for root in roots:
            for value in (root * root - 1, root * root, root * root + 1):
                assert function(value, 0, 0) == (rounding(math.sqrt(value)), False), f"{text} at {value}"
        assert function((last + 1) ** 2, 0, 0)[1], "beyond 53 bits"


def test_division_is_rounded_as_pythons(tmp_path):
    """At the quotient itself and at the floats on either side of it."""
    pairs = [(1, 3), (1, 10), (2**53 - 1, 3), (2**53, 2**53 - 1), (1, 2**53), (-7, 11), (10**15, 49), (355, -113)]
    texts = []
    for a, b in pairs:
        near = math.nextafter(a / b, -math.inf), a / b, math.nextafter(a / b, math.inf)
        texts += [from_python(f"a / b == {number!r}", resolve, dialect="c") for number in near]
    functions = iter(compile_c(texts, tmp_path))
    for a, b in pairs:
        assert [next(functions)(a, b, 0) for _ in range(3)] == [(0, False), (1, False), (0, False)], (a, b)


NUMBERS = [0.1, 1 / 3, 1.0, 12.333333333333334, 1e16, 1e22, 123456789012345680.0, 2.0**53 - 1, 5e-324, 1e-05, 0.0]
NUMBERS += [2.2250738585072014e-308, 2.225073858507201e-308, 1.7976931348623157e308, math.pi, -math.e, -0.0]


def number_text(number: float, dialect: str) -> str:
    text = from_python(f"a < {number!r}", resolve, dialect=dialect)
    return text.removeprefix("(tdh_float_of(a, &ovf) < ").removesuffix(")")


def test_c_reads_the_very_same_float(tmp_path):
    functions = compile_c([f"{number_text(number, 'c')} == {number.hex()}" for number in NUMBERS], tmp_path)
    assert [function(0, 0, 0) for function in functions] == [(1, False)] * len(NUMBERS)


def test_cython_reads_its_dialect_alike(tmp_path):
    """The dialects differ in a few words only: each of those once through the real Cython."""
    texts = [
        "(a if b > 2 else 9223372036854775807)", "(5 if b > 2 else -9223372036854775808)", "a + 4611686018427387904",
        "a * -4611686018427387905 % 7", "min(a, 1099511627776) // max(b, 3)", "-9223372036854775808", "(a & 1099511627775)",
        *(f"{name}((a / 3) / 2.5)" for name in ROUNDINGS),
    ]  # fmt: skip
    kinds = dict.fromkeys(texts, "int") | {
        "a - 9223372036854775807 < -9223372036854775808": "bool",
        "not (a == 1) and (b > 2 or c < -5)": "bool",
        "max(min(-1.5, a / 3), abs(b / -7), -2.5) < math.sqrt(torch.sym_float(b)) / 1e-05 and a != 0.5": "bool",
    }
    declared = (ROOT / "ext/abi/tdh.pxd").read_text()
    lines = ["from libc.stdint cimport int64_t", 'cdef extern from "tdh_num.h":']
    lines += re.findall(r"^    (?:int64_t|double) tdh_\w+\((?:int64_t|double|int\*|, )+\) nogil$", declared, re.M)
    for number, (text, kind) in enumerate(kinds.items()):
        lines += [f"def f{number}(int64_t a, int64_t b, int64_t c):", "    cdef int ovf = 0", "    cdef int64_t value"]
        lines += [f"    value = {from_python(text, resolve, kind=kind)}", "    return value, ovf != 0"]
    lines += ["def read():", "    cdef double value", "    values = []"]
    for number in NUMBERS:
        lines += [f"    value = {number_text(number, 'cython')}", "    values.append(value)"]
    (tmp_path / "dialect.pyx").write_text("\n".join([*lines, "    return values"]))

    from Cython.Compiler.Main import CompilationOptions, compile_single

    result = compile_single(str(tmp_path / "dialect.pyx"), CompilationOptions(language_level=3), "dialect")
    assert result.num_errors == 0
    build(tmp_path / "dialect.c", tmp_path / "dialect.so")
    spec = importlib.util.spec_from_file_location("dialect", tmp_path / "dialect.so")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert [value.hex() for value in module.read()] == [number.hex() for number in NUMBERS]
    for number, text in enumerate(kinds):
        code, function = python_code(text), getattr(module, f"f{number}")
        for point in [(0, 0, 0), (1, 3, -6), (-1, -4, 5), (HIGH, 3, LOW), (LOW, 2, HIGH), (2**40 + 5, 9, 1)]:
            compare(text, code, function, point, any_order=False, floats="." in text)


# --- what is printed, what is refused --------------------------------------------------------------------------------

GUARD_TEXTS = [
    ("2 <= L['x'].size()[0]  # _dynamo/output_graph.py:1 in f", "(2 <= a)"),
    ("L['x'].size()[0]*L['y'].size()[1] <= 2147483647", "(tdh_mul(a, b, &ovf) <= 2147483647)"),
    ("L['x'].size()[0] % 16 == 0", "(tdh_mod(a, 16, &ovf) == 0)"),
    ("2 <= L['n'] <= 1024", "((2 <= c) and (c <= 1024))"),
    ("((L['n'] + 1)//2) != L['x'].stride()[1]", "(tdh_floordiv(tdh_add(c, 1, &ovf), 2, &ovf) != b)"),
    ("not Eq(L['x'].storage_offset(), 0)", "(not (c == 0))"),
    ("L['x'].size()[0] == 4294967296", "(a == (<int64_t>4294967296))"), ("True", "1"),
    ("(L['x'].size()[0] / 132) > 1", "(tdh_float_div(tdh_float_of(a, &ovf), 132.0, &ovf) > 1.0)"),
    ("L['n'] == -0.5", "(tdh_float_of(c, &ovf) == (-0.5))"),
    ("math.ceil(math.sqrt(a)) < 9", "(tdh_float_ceil(tdh_float_sqrt(tdh_float_of(a, &ovf), &ovf), &ovf) < 9)"),
    ("math.floor(a / b) > 5", "(tdh_floordiv(tdh_floordiv(tdh_mul(a, 1024, &ovf), 1024, &ovf), b, &ovf) > 5)"),
    ("min(1, a / 4.0) < 2", "(tdh_float_min(1.0, tdh_float_div(tdh_float_of(a, &ovf), 4.0, &ovf)) < 2.0)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), GUARD_TEXTS)
def test_guard_text(text, expected):
    assert from_python(text, resolve) == expected


SYMPY_TEXTS = [
    (a - 2 * b, "tdh_sub(a, tdh_mul(b, 2, &ovf), &ovf)"), (-a, "tdh_sub(0, a, &ovf)"),
    (-a - b, "tdh_sub(tdh_sub(0, a, &ovf), b, &ovf)"),
    (ts.CeilDiv(a, 16), "tdh_floordiv(tdh_add(15, a, &ovf), 16, &ovf)"),
    (ts.CleanDiv(a, b), "tdh_floordiv(a, b, &ovf)"),
    (ts.ModularIndexing(a, 4, b), "tdh_mod(tdh_floordiv(a, 4, &ovf), b, &ovf)"), (ts.Identity(a), "a"),
    (ts.Where(a < 3, a, b), "(<int64_t>a if (a < 3) else <int64_t>b)"),
    (sympy.Mul(2, 2, a, evaluate=False), "tdh_mul(tdh_mul(2, a, &ovf), 2, &ovf)"),
    (sympy.Integer(-(2**63)), "((-<int64_t>9223372036854775807) - 1)"), (sympy.true, "1"),
    (sympy.Eq(ts.Mod(a, 16), 0), "(tdh_mod(a, 16, &ovf) == 0)"),
    (ts.IntTrueDiv(a, 132) > 1.0, "(tdh_float_div(tdh_float_of(a, &ovf), 132.0, &ovf) > 1.0)"),
    (ts.OpaqueUnaryFn_sqrt(ts.ToFloat(a)) <= 2.5, "(tdh_float_sqrt(tdh_float_of(a, &ovf), &ovf) <= 2.5)"),
    (ts.FloatTrueDiv(9.0, ts.ToFloat(a)) < b, "(tdh_float_div(9.0, tdh_float_of(a, &ovf), &ovf) < tdh_float_of(b, &ovf))"),
    (ts.TruncToInt(-ts.ToFloat(a)), "tdh_float_trunc((-tdh_float_of(a, &ovf)), &ovf)"),
    (ts.RoundToInt(ts.Max(1.5, ts.ToFloat(a))), "tdh_float_round(tdh_float_max(1.5, tdh_float_of(a, &ovf)), &ovf)"),
]  # fmt: skip


@pytest.mark.parametrize(("expr", "expected"), SYMPY_TEXTS)
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


REFUSED_TEXTS = [
    "L['z'].size()[0] > 2", "unknown(a) == 1", "a", "math.ceil(a * 0.5) == 1", "a * 0.5 > 1.0",
    "0.5*torch.sym_float(a) > 5.0", "a / 3 + 1.0 > 0.5", "a / 3 - 1 > 0.5", "-1.0*(a / 3) > 0.5", "2*(a / 3) > 0.5",
    "(-1)*(a == b) < 0", "(a / 3) // 2.0 > 0.5", "(a / 3) % 2.0 <= 0.5", "torch.sym_float(a) ** 0.5 > 5.0",
    "(a / 3) ** 2 > 5.0", "2 ** (a / 3) > 5.0", "math.log2(torch.sym_float(a)) > 5.0", "round(a / 3, 1) > 5.0", "a / 3",
    "torch.sym_float(a)", "not a / 3", "(a == b) / 2 > 0.5", "(a == b) < 0.5", "torch.sym_float(a == b) > 0.5",
    "math.sqrt(a == b) > 0.5", "math.floor(a == b) > 0", "math.floor(a == b)", "min(0.5, a == b) > 0.1",
    "(a / 2 if a > b else 0.5) > 1.0", "(a / 2) & 1 == 0", "a < 1e999", "a < 1.5j", "a / 9007199254740993 < 1.0",
    "a / 2 < 9007199254740993", "a == 9223372036854775808", "a ** b == 4", "a ** 65 == 4", "a << 2 == 4", "a in (1, 2)",
    "a is b", "(a == b) + 1 == 2", "(a and b) == 1", "not a", "min(*a) == 1", "min(a) == 1", "a == 'text'", "a ==",
    "(a := 1) == 1", "a == 1 if b == 1 else c == 1",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED_TEXTS)
def test_text_refused(text):
    with pytest.raises(Unsupported) as refusal:
        from_python(text, resolve)
    assert refusal.value.slug == "int-expr"


REFUSED_SYMPYS = [
    ts.IntTrueDiv(a, b), ts.ToFloat(a), ts.OpaqueUnaryFn_sqrt(ts.ToFloat(a)), -ts.IntTrueDiv(a, b),
    ts.CeilToInt(0.5 * ts.ToFloat(a)), ts.IntTrueDiv(a, 3) + 1.0 > 0.5, ts.IntTrueDiv(a, 3) * ts.IntTrueDiv(b, 3) > 0.5,
    ts.IntTrueDiv(a, 3) ** 2 > 0.5, ts.FloatPow(ts.ToFloat(a), sympy.Float(0.5)) > 5.0,
    ts.OpaqueUnaryFn_log2(ts.ToFloat(a)) > 5.0, ts.RoundDecimal(ts.IntTrueDiv(a, 3), 1) > 5.0,
    ts.TruncToFloat(ts.IntTrueDiv(a, 3)) > 5.0, ts.Mod(ts.IntTrueDiv(a, 3), sympy.Float(2.0)) > 0.5,
    ts.Where(a < 3, ts.ToFloat(a), ts.ToFloat(b)) > 0.5, ts.ToFloat(a) < sympy.Float("0.1", 30),
    ts.ToFloat(a) < sympy.Float("1e400"), ts.FloatTrueDiv(ts.ToFloat(a), sympy.oo) < 1.0,
    ts.ToFloat(a) < sympy.Rational(1, 3), ts.ToFloat(sympy.Symbol("f")) < 1.0, ts.PowByNatural(sympy.Integer(2), a),
    a / 2, sympy.Pow(a, -1), sympy.Float(1.5), sympy.Symbol("f"), sympy.Integer(2**63), sympy.oo, sympy.floor(a / 2),
]  # fmt: skip


@pytest.mark.parametrize("expr", REFUSED_SYMPYS, ids=str)
def test_sympy_refused(expr):
    with pytest.raises(Unsupported):
        from_sympy(expr, lambda symbol: symbol.name)


def test_where_only_the_chosen_side_counts(tmp_path):
    texts = ["(a // b if b != 0 else -1)", "(b == 0 or a // b > 1)", "(b != 0 and a // b > 1)"]
    kinds = ["int", "bool", "bool"]
    functions = compile_c([from_python(t, resolve, dialect="c", kind=k) for t, k in zip(texts, kinds)], tmp_path)
    assert [function(8, 0, 0) for function in functions] == [(-1, False), (1, False), (0, False)]
    assert [function(8, 2, 0) for function in functions] == [(4, False), (1, False), (1, False)]
