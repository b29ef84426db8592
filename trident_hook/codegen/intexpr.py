"""Integer and boolean expressions as C, with Python's meaning, over int64_t values.

Two readers, one writer: `from_sympy` reads the expressions of PyTorch's ShapeEnv, `from_python` the text in which
Dynamo prints shape guards. Arithmetic goes through the helpers of ext/abi/tdh_num.h, which note in a flag whatever does
not fit 64 bits (and a division by zero): with the flag clear the value is Python's, with the flag set it means
nothing. Operands that Python would not evaluate (`and`, `or`, a conditional) are not evaluated here either.

A float may stand in the middle, as in `math.ceil(math.sqrt(n)) <= 1024` or `n / 132 > 1.0`: a finite C double, bit for
bit Python's. An int becomes one only if it has at most 53 bits; the flag is set otherwise.

What has no exact translation is refused (`Unsupported`)."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from ..errors import Unsupported

Dialect = Literal["cython", "c"]

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
FLOAT_EXACT = 2**53  # ints up to here, of either sign, are doubles
_MAX_EXPONENT = 64  # tdh_pow multiplies that often; beyond it only -1, 0 and 1 would not overflow


def from_sympy(expr: Any, symbol_to_c: Callable[..., Any], *, ovf: str = "ovf", dialect: Dialect = "cython") -> str:
    """`expr` as a C expression; a boolean one yields a C boolean. `symbol_to_c(symbol)` is the C text of a symbol, of
    type int64_t and without effects. `ovf` names an `int` variable, the overflow flag."""
    value = _SympyReader(_Writer(ovf, dialect), symbol_to_c).read(expr)
    if value.kind == "float":
        _refuse(f"{expr} is a float")
    return value.text


def from_python(
    text: str,
    resolve: Callable[[ast.AST], str | None],
    *,
    ovf: str = "ovf",
    dialect: Dialect = "cython",
    kind: Literal["bool", "int"] = "bool",
) -> str:
    """A guard as Dynamo prints it (or, with kind="int", an integer expression) as a C expression. `resolve(node)` is
    the C text, of type int64_t and without effects, of a leaf such as `L['x'].size()[0]`; None if it is none."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise Unsupported("int-expr", f"not an expression: {text!r}") from error
    value = _PythonReader(_Writer(ovf, dialect), resolve).read(tree.body)
    if value.kind != kind:
        _refuse(f"{text!r} is of kind {value.kind}, not {kind}")
    return value.text


def literal(value: int, *, dialect: Dialect = "cython") -> str:
    """An int64_t constant. Refused if it does not fit."""
    return _Writer("ovf", dialect).integer(value).text


# --- the writer ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Value:
    text: str
    kind: Literal["int", "bool", "float"]
    constant: int | None = None


def _refuse(detail: str) -> NoReturn:
    raise Unsupported("int-expr", detail)


class _Writer:
    """Builds C text from operands. Operands of the wrong kind are refused: Python's `True + 1` is not worth it."""

    _COMPARISONS = frozenset(("==", "!=", "<", "<=", ">", ">="))

    def __init__(self, ovf: str, dialect: Dialect) -> None:
        self.ovf, self.dialect = ovf, dialect

    def leaf(self, text: str) -> _Value:
        return _Value(text if re.fullmatch(r"\w+(\[\w+\]|\.\w+|->\w+)*", text) else f"({text})", "int")

    def integer(self, value: int) -> _Value:
        if not INT64_MIN <= value <= INT64_MAX:
            _refuse(f"{value} does not fit 64 bits")
        if -(2**31) < value < 2**31:  # an int literal in C and in Cython, and promoted wherever it is used
            text = str(value) if value >= 0 else f"({value})"
        elif value == INT64_MIN:  # no literal: it would be a negated 2**63
            text = f"({self._wide(-INT64_MAX)} - 1)"
        else:
            text = self._wide(value)
        return _Value(text, "int", value)

    def _wide(self, value: int) -> str:
        literal = f"<int64_t>{abs(value)}" if self.dialect == "cython" else f"INT64_C({abs(value)})"
        return f"(-{literal})" if value < 0 else f"({literal})"

    def number(self, value: float) -> _Value:
        if not math.isfinite(value):
            _refuse(f"{value} is not finite")
        text = repr(value)  # the shortest decimal that is read back as the same double, by C and by Cython as well
        return _Value(f"({text})" if text.startswith("-") else text, "float")

    def truth(self, value: bool) -> _Value:
        return _Value("1" if value else "0", "bool")

    def _need(self, kind: str, values: Sequence[_Value]) -> None:
        for value in values:
            if value.kind != kind:
                _refuse(f"{value.text} is of kind {value.kind} where {kind} is needed")

    def _call(
        self,
        name: str,
        *args: _Value,
        flag: bool = True,
        takes: str = "int",
        gives: Literal["int", "bool", "float"] = "int",
    ) -> _Value:
        self._need(takes, args)
        texts = [arg.text for arg in args] + ([f"&{self.ovf}"] if flag else [])
        return _Value(f"{name}({', '.join(texts)})", gives)

    def to_float(self, a: _Value) -> _Value:
        if a.kind == "float":
            return a
        if a.constant is None:
            return self._call("tdh_float_of", a, gives="float")
        if abs(a.constant) > FLOAT_EXACT:
            _refuse(f"{a.constant} as a float")
        return self.number(float(a.constant))

    def _alike(self, values: Sequence[_Value]) -> Sequence[_Value]:
        """As Python's comparisons see them: one float among them makes all of them floats."""
        return [self.to_float(value) for value in values] if any(v.kind == "float" for v in values) else values

    def add(self, a: _Value, b: _Value) -> _Value:
        return self._call("tdh_add", a, b)

    def sub(self, a: _Value, b: _Value) -> _Value:
        return self._call("tdh_sub", a, b)

    def neg(self, a: _Value) -> _Value:
        if a.kind == "float":
            return _Value(f"(-{a.text})", "float")
        if a.constant is None or a.constant == INT64_MIN:
            return self.sub(self.integer(0), a)
        return self.integer(-a.constant)

    def mul(self, a: _Value, b: _Value) -> _Value:
        """Of ints. Other products of floats are refused, as their sums are: sympy reorders them and folds their
        constants, and then rounds otherwise than the program."""
        if a.constant == -1 and b.kind == "float":  # how the negative of a float is printed
            return self.neg(b)
        return self._call("tdh_mul", a, b)

    def floordiv(self, a: _Value, b: _Value) -> _Value:
        return self._call("tdh_floordiv", a, b)

    def mod(self, a: _Value, b: _Value) -> _Value:
        return self._call("tdh_mod", a, b)

    def ceildiv(self, a: _Value, b: _Value) -> _Value:
        return self.neg(self.floordiv(self.neg(a), b))

    def float_exact(self, a: _Value) -> _Value:
        """`a`, noting an overflow unless it fits 53 bits. Python's `a / b` is the nearest float to the quotient. If
        a has 53 bits, a quotient that is no integer is farther from any integer than half a float's spacing, so
        rounding never reaches one and floor and ceil of the float are those of the quotient."""
        if a.constant is not None and abs(a.constant) < FLOAT_EXACT:
            return a
        scale = self.integer(2**10)
        return self.floordiv(self.mul(a, scale), scale)

    def true_division(self, a: _Value, b: _Value) -> _Value:
        return self._call("tdh_float_div", self.to_float(a), self.to_float(b), takes="float", gives="float")

    def root(self, a: _Value) -> _Value:
        return self._call("tdh_float_sqrt", self.to_float(a), takes="float", gives="float")

    def rounded(self, how: str, a: _Value) -> _Value:
        """`how`: floor, ceil, trunc, or round (halves to the even side)."""
        return a if a.kind == "int" else self._call(f"tdh_float_{how}", a, takes="float")

    def rounded_division(self, how: str, a: _Value, b: _Value) -> _Value:
        """Of the true division: where ints say the same, in ints, which go farther."""
        divide = {"floor": self.floordiv, "ceil": self.ceildiv}.get(how)
        if divide is None or "float" in (a.kind, b.kind):
            return self.rounded(how, self.true_division(a, b))
        return divide(self.float_exact(a), b)

    def power(self, a: _Value, exponent: Any) -> _Value:
        if exponent is None or not 0 <= exponent <= _MAX_EXPONENT:
            _refuse(f"power with exponent {exponent}")
        return self._call("tdh_pow", a, self.integer(exponent))

    def least(self, values: Sequence[_Value]) -> _Value:
        return self._fold("min", values)

    def greatest(self, values: Sequence[_Value]) -> _Value:
        return self._fold("max", values)

    def _fold(self, name: str, values: Sequence[_Value]) -> _Value:
        if not values:
            _refuse(f"{name} of nothing")
        result, *others = self._alike(values)
        kind: Literal["float", "int"] = "float" if result.kind == "float" else "int"
        self._need(kind, (result,))
        function = "tdh_float_" + name if kind == "float" else "tdh_" + name
        for value in others:
            result = self._call(function, result, value, flag=False, takes=kind, gives=kind)
        return result

    def absolute(self, a: _Value) -> _Value:
        return self.greatest([a, self.neg(a)])

    def bitwise(self, operator: str, a: _Value, b: _Value) -> _Value:
        self._need("int", (a, b))
        return _Value(f"({a.text} {operator} {b.text})", "int")  # two's complement, as Python's endless one

    def compare(self, a: _Value, operator: str, b: _Value) -> _Value:
        if operator not in self._COMPARISONS:
            _refuse(f"comparison {operator}")
        a, b = self._alike((a, b))
        if a.kind != "float":
            self._need("int", (a, b))
        return _Value(f"({a.text} {operator} {b.text})", "bool")

    def all_of(self, values: Sequence[_Value]) -> _Value:
        return self._join("and", "&&", values)

    def any_of(self, values: Sequence[_Value]) -> _Value:
        return self._join("or", "||", values)

    def _join(self, cython: str, c: str, values: Sequence[_Value]) -> _Value:
        self._need("bool", values)
        if len(values) == 1:
            return values[0]
        word = cython if self.dialect == "cython" else c
        return _Value(f"({f' {word} '.join(value.text for value in values)})", "bool")

    def negation(self, a: _Value) -> _Value:
        self._need("bool", (a,))
        return _Value(f"(not {a.text})" if self.dialect == "cython" else f"(!{a.text})", "bool")

    def choose(self, condition: _Value, then: _Value, otherwise: _Value) -> _Value:
        self._need("bool", (condition,))
        self._need("int", (then, otherwise))
        if self.dialect == "cython":  # the casts keep Cython from finding a common type of its own
            return _Value(f"(<int64_t>{then.text} if {condition.text} else <int64_t>{otherwise.text})", "int")
        return _Value(f"({condition.text} ? (int64_t){then.text} : (int64_t){otherwise.text})", "int")


# --- sympy -----------------------------------------------------------------------------------------------------------


class _SympyReader:
    """Finds a method by the names of the expression's class and its bases, so that torch's classes and sympy's are
    told by name (`Mod`, `Min`) and PyTorch need not be imported here."""

    def __init__(self, write: _Writer, symbol_to_c: Callable[..., Any]) -> None:
        self.write, self.symbol_to_c = write, symbol_to_c

    def read(self, expr: Any) -> _Value:
        for cls in type(expr).__mro__:
            method = getattr(self, "read_" + cls.__name__, None)
            if method is not None:
                found: _Value = method(expr)
                return found
        return _refuse(f"{type(expr).__name__}: {expr}")

    def all(self, exprs: Any) -> list[_Value]:
        return [self.read(expr) for expr in exprs]

    def read_Symbol(self, expr: Any) -> _Value:
        if expr.is_integer is not True:
            _refuse(f"{expr} is not known to be an integer")
        return self.write.leaf(self.symbol_to_c(expr))

    def read_Integer(self, expr: Any) -> _Value:
        return self.write.integer(int(expr))

    read_int = read_Integer

    def read_Float(self, expr: Any) -> _Value:
        value = float(expr)
        if type(expr)(value) != expr:
            _refuse(f"{expr} is not a double")
        return self.write.number(value)

    def read_BooleanTrue(self, expr: Any) -> _Value:
        return self.write.truth(True)

    def read_BooleanFalse(self, expr: Any) -> _Value:
        return self.write.truth(False)

    def read_bool(self, expr: Any) -> _Value:
        return self.write.truth(expr)

    def read_Add(self, expr: Any) -> _Value:
        positive = [term for term in expr.args if not self._negated(term)]
        negative = [term for term in expr.args if self._negated(term)]
        if positive:
            total = self.read(positive[0])
        else:
            total = self.read(negative.pop(0))
        for term in positive[1:]:
            total = self.write.add(total, self.read(term))
        for term in negative:
            total = self.write.sub(total, self.read(-term))
        return total

    @staticmethod
    def _negated(term: Any) -> bool:
        """Whether `a + term` is better written `a - (-term)`."""
        coefficient = term.as_coeff_Mul()[0]
        return bool(coefficient.is_Integer and INT64_MIN < int(coefficient) < 0)

    def read_Mul(self, expr: Any) -> _Value:
        first, *others = expr.args
        if not first.is_Integer:
            return self._product(expr.args)
        if first == -1:
            return self.write.neg(self._product(others))
        return self._product((*others, first))

    def _product(self, factors: Any) -> _Value:
        result = self.read(factors[0])
        for factor in factors[1:]:
            result = self.write.mul(result, self.read(factor))
        return result

    def read_Pow(self, expr: Any) -> _Value:
        base, exponent = expr.args
        return self.write.power(self.read(base), int(exponent) if exponent.is_Integer else None)

    read_PowByNatural = read_Pow

    def read_FloorDiv(self, expr: Any) -> _Value:  # CleanDiv is a subclass
        return self.write.floordiv(*self.all(expr.args))

    def read_Mod(self, expr: Any) -> _Value:
        return self.write.mod(*self.all(expr.args))

    read_PythonMod = read_Mod

    def read_ModularIndexing(self, expr: Any) -> _Value:
        base, divisor, modulus = self.all(expr.args)
        return self.write.mod(self.write.floordiv(base, divisor), modulus)

    def read_IntTrueDiv(self, expr: Any) -> _Value:
        return self.write.true_division(*self.all(expr.args))

    read_FloatTrueDiv = read_IntTrueDiv

    def read_ToFloat(self, expr: Any) -> _Value:
        return self.write.to_float(self.read(expr.args[0]))

    def read_OpaqueUnaryFn_sqrt(self, expr: Any) -> _Value:
        return self.write.root(self.read(expr.args[0]))

    def read_FloorToInt(self, expr: Any) -> _Value:
        return self._rounded("floor", expr)

    def read_CeilToInt(self, expr: Any) -> _Value:
        return self._rounded("ceil", expr)

    def read_TruncToInt(self, expr: Any) -> _Value:
        return self._rounded("trunc", expr)

    def read_RoundToInt(self, expr: Any) -> _Value:
        return self._rounded("round", expr)

    def _rounded(self, how: str, expr: Any) -> _Value:
        (number,) = expr.args
        if type(number).__name__ == "IntTrueDiv":
            return self.write.rounded_division(how, *self.all(number.args))
        return self.write.rounded(how, self.read(number))

    def read_Min(self, expr: Any) -> _Value:
        return self.write.least(self.all(expr.args))

    def read_Max(self, expr: Any) -> _Value:
        return self.write.greatest(self.all(expr.args))

    def read_Abs(self, expr: Any) -> _Value:
        return self.write.absolute(self.read(expr.args[0]))

    def read_Identity(self, expr: Any) -> _Value:
        return self.read(expr.args[0])

    def read_BitwiseFn_bitwise_and(self, expr: Any) -> _Value:
        return self.write.bitwise("&", *self.all(expr.args))

    def read_BitwiseFn_bitwise_or(self, expr: Any) -> _Value:
        return self.write.bitwise("|", *self.all(expr.args))

    def read_BitwiseFn_bitwise_xor(self, expr: Any) -> _Value:
        return self.write.bitwise("^", *self.all(expr.args))

    def read_Where(self, expr: Any) -> _Value:
        return self.write.choose(*self.all(expr.args))

    def read_Piecewise(self, expr: Any) -> _Value:
        *cases, (default, condition) = expr.args
        if condition != True:  # noqa: E712  sympy's true
            _refuse(f"no default in {expr}")
        result = self.read(default)
        for value, condition in reversed(cases):
            result = self.write.choose(self.read(condition), self.read(value), result)
        return result

    def read_Relational(self, expr: Any) -> _Value:
        return self.write.compare(self.read(expr.lhs), expr.rel_op, self.read(expr.rhs))

    def read_And(self, expr: Any) -> _Value:
        return self.write.all_of(self.all(expr.args))

    def read_Or(self, expr: Any) -> _Value:
        return self.write.any_of(self.all(expr.args))

    def read_Not(self, expr: Any) -> _Value:
        return self.write.negation(self.read(expr.args[0]))


# --- Python text -----------------------------------------------------------------------------------------------------


class _PythonReader:
    def __init__(self, write: _Writer, resolve: Callable[[ast.AST], str | None]) -> None:
        self.write, self.resolve = write, resolve

    def read(self, node: ast.AST) -> _Value:
        method = getattr(self, "read_" + type(node).__name__, None)
        if method is None:
            return self.leaf(node)
        found: _Value = method(node)
        return found

    def all(self, nodes: Any) -> list[_Value]:
        return [self.read(node) for node in nodes]

    def leaf(self, node: ast.AST) -> _Value:
        text = self.resolve(node)
        if text is None:
            _refuse(f"no translation of {ast.unparse(node)}")
        return self.write.leaf(text)

    def read_Constant(self, node: ast.Constant) -> _Value:
        if isinstance(node.value, bool):
            return self.write.truth(node.value)
        if isinstance(node.value, int):
            return self.write.integer(node.value)
        if isinstance(node.value, float):
            return self.write.number(node.value)
        return _refuse(f"constant {node.value!r}")

    def read_BoolOp(self, node: ast.BoolOp) -> _Value:
        values = self.all(node.values)
        return self.write.all_of(values) if isinstance(node.op, ast.And) else self.write.any_of(values)

    def read_UnaryOp(self, node: ast.UnaryOp) -> _Value:
        # -9223372036854775808 is one literal to us, though 9223372036854775808 would not fit.
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant) and type(node.operand.value) is int:
            return self.write.integer(-node.operand.value)
        operand = self.read(node.operand)
        if isinstance(node.op, ast.USub):
            return self.write.neg(operand)
        if isinstance(node.op, ast.Not):
            return self.write.negation(operand)
        if isinstance(node.op, ast.UAdd) and operand.kind != "bool":
            return operand
        return _refuse(ast.unparse(node))

    def read_BinOp(self, node: ast.BinOp) -> _Value:
        left, right = self.read(node.left), self.read(node.right)
        match node.op:
            case ast.Add():
                return self.write.add(left, right)
            case ast.Sub():
                return self.write.sub(left, right)
            case ast.Mult():
                return self.write.mul(left, right)
            case ast.Div():
                return self.write.true_division(left, right)
            case ast.FloorDiv():
                return self.write.floordiv(left, right)
            case ast.Mod():
                return self.write.mod(left, right)
            case ast.Pow():
                return self.write.power(left, right.constant)
            case ast.BitAnd():
                return self.write.bitwise("&", left, right)
            case ast.BitOr():
                return self.write.bitwise("|", left, right)
            case ast.BitXor():
                return self.write.bitwise("^", left, right)
        return _refuse(ast.unparse(node))

    _OPERATORS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}

    def read_Compare(self, node: ast.Compare) -> _Value:
        values = self.all((node.left, *node.comparators))
        links = []
        for left, operator, right in zip(values, node.ops, values[1:]):
            if type(operator) not in self._OPERATORS:
                _refuse(ast.unparse(node))
            links.append(self.write.compare(left, self._OPERATORS[type(operator)], right))
        return self.write.all_of(links)

    def read_IfExp(self, node: ast.IfExp) -> _Value:
        return self.write.choose(*self.all((node.test, node.body, node.orelse)))

    def read_Call(self, node: ast.Call) -> _Value:
        text = self.resolve(node)
        if text is not None:
            return self.write.leaf(text)
        name = ast.unparse(node.func)
        if name not in _FUNCTIONS or node.keywords or any(isinstance(arg, ast.Starred) for arg in node.args):
            _refuse(f"no translation of {ast.unparse(node)}")
        accepted, method = _FUNCTIONS[name]
        if accepted is not None and len(node.args) != accepted:
            _refuse(f"{len(node.args)} arguments in {ast.unparse(node)}")
        return method(self, node.args)

    def rounded(self, how: str, arg: ast.AST) -> _Value:
        if isinstance(arg, ast.BinOp) and isinstance(arg.op, ast.Div):
            return self.write.rounded_division(how, self.read(arg.left), self.read(arg.right))
        return self.write.rounded(how, self.read(arg))

    def compared(self, args: Any, operator: str) -> _Value:
        left, right = self.all(args)
        return self.write.compare(left, operator, right)


def _several(method: str) -> Any:
    def read(reader: _PythonReader, args: Any) -> _Value:
        if len(args) < 2:
            _refuse(f"{method} of {len(args)} values")  # of one: an iterable in Python
        found: _Value = getattr(reader.write, method)(reader.all(args))
        return found

    return read


def _one(method: str) -> Any:
    return 1, lambda reader, args: getattr(reader.write, method)(reader.read(args[0]))


def _rounding(how: str) -> Any:
    return 1, lambda reader, args: reader.rounded(how, args[0])


#: Functions of guard text: how many arguments (None: two or more), and how they are read.
_FUNCTIONS: dict[str, tuple[int | None, Callable[[_PythonReader, list[Any]], _Value]]] = {
    **dict.fromkeys(("min", "Min", "torch.sym_min"), (None, _several("least"))),
    **dict.fromkeys(("max", "Max", "torch.sym_max"), (None, _several("greatest"))),
    **dict.fromkeys(("abs", "Abs"), _one("absolute")),
    **dict.fromkeys(("math.floor", "__math_floor", "FloorToInt"), _rounding("floor")),
    **dict.fromkeys(("math.ceil", "__math_ceil", "CeilToInt"), _rounding("ceil")),
    **dict.fromkeys(("math.trunc", "TruncToInt"), _rounding("trunc")),
    **dict.fromkeys(("round", "RoundToInt"), _rounding("round")),
    **dict.fromkeys(("torch.sym_float", "ToFloat"), _one("to_float")),
    "math.sqrt": _one("root"),
    **dict.fromkeys(("FloorDiv", "CleanDiv"), (2, lambda reader, args: reader.write.floordiv(*reader.all(args)))),
    **dict.fromkeys(("Mod", "PythonMod"), (2, lambda reader, args: reader.write.mod(*reader.all(args)))),
    "CeilDiv": (2, lambda reader, args: reader.write.ceildiv(*reader.all(args))),
    "Identity": (1, lambda reader, args: reader.read(args[0])),
    "Eq": (2, lambda reader, args: reader.compared(args, "==")),
    "Ne": (2, lambda reader, args: reader.compared(args, "!=")),
    "Not": _one("negation"),
    "And": (None, _several("all_of")),
    "Or": (None, _several("any_of")),
}
