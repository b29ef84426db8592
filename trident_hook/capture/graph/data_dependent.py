"""Numbers that only the data decides: `.item()`, `tolist`, the length of `nonzero`. Dynamo captures them where its
`capture_scalar_outputs` and `capture_dynamic_output_shape_ops` are on, as symbols that have no value while tracing.

A number that is passed on or returned is simply carried along. One that is computed with, or is the size of something,
was traced under assumptions (Dynamo's runtime assertions, and that a size is neither 0 nor 1). They become `Check`s:
where one does not hold, the call is the plain function's, which is possible only as long as the program has had no
effect. Later, such programs are refused."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import SequenceKey, tree_leaves

from ...dynamo.fake_numbers import AS_INT, OFFSET, SIZE, decided_by_data
from ...dynamo.patches.float_symbols import reads_number
from ...errors import Unsupported
from ...ir.program import Bound, Check, NumberArg, OpCall

_PLAIN = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float64, torch.float32,
          torch.float16, torch.bfloat16)  # fmt: skip
_SYMBOLIC = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)


class Numbers:
    """What is known of a graph's data-dependent numbers, while its program is built node by node."""

    def __init__(self, graph) -> None:
        self.given: dict = {}  # symbols that the inputs bind
        self._kinds: dict = {}  # symbol -> "int", "float", "bool", "size"
        self._late: set = set()  # symbols of operations behind the first effect
        self._returned: dict = {}  # node of a float or bool -> NumberArg
        self._effect = ""
        self._sized = set()  # symbols in the size or stride of some tensor
        for node in graph.nodes:
            for value in tree_leaves(node.meta.get("val")):
                if isinstance(value, torch.Tensor) and value.layout is torch.strided:
                    self._sized |= decided_by_data(value)

    @property
    def has_effect(self) -> bool:
        """Whether an operation that was told of cannot be undone."""
        return bool(self._effect)

    def binds(self, node) -> bool:
        return bool(self._bindings(node))

    def _bindings(self, node) -> dict:
        """symbol -> where it is in the result. A number read from a CPU scalar that was passed in has a symbol with a
        value while tracing, which is guarded where tracing made use of it."""
        found = node.meta.get("unbacked_bindings") or {}
        value = node.meta.get("val")
        if not found and node.target is torch.ops.aten.item.default and isinstance(value, torch.SymInt):
            symbol = value.node.expr
            if symbol.is_Symbol and symbol not in (*self.given, *self._kinds) and not decided_by_data(value):
                found = {symbol: ()}
        return found

    def bind(self, node) -> tuple[Bound, ...]:
        """The symbols that the node's operation gives a value."""
        symbols = self._bindings(node).items()
        # A storage offset is the operation's own affair; an expression that uses it is refused, as it has no value.
        found = tuple(self._bound(node, s, path) for s, path in symbols if path[-1:] != (OFFSET,))
        for bound in found:
            self._kinds[bound.symbol] = bound.kind
            if self._effect:
                self._late.add(bound.symbol)
        return found

    def _bound(self, node, symbol, path: tuple) -> Bound:
        value = node.meta["val"]
        leaves = tree_leaves(value)
        number = next((v for v in leaves if isinstance(v, (torch.SymInt, torch.SymFloat, torch.SymBool))), None)
        if number is not None and len(leaves) == 1:
            self._need_plain(node, number, symbol)
            kind = {torch.SymInt: "int", torch.SymFloat: "float", torch.SymBool: "bool"}[type(number)]
            if path == ((AS_INT,) if kind == "bool" else ()):
                if kind != "int":
                    self._returned[node] = NumberArg(symbol, kind)
                return Bound(symbol, kind)
        elif all(isinstance(v, torch.Tensor) for v in leaves):
            index = 0
            if isinstance(value, (tuple, list)) and path and isinstance(path[0], SequenceKey):
                index, path = path[0].idx, path[1:]
                flat = all(isinstance(v, torch.Tensor) for v in value)
            else:
                flat = isinstance(value, torch.Tensor)
            tensor: Any = leaves[index] if flat else None
            if flat and len(path) == 2 and path[0] == SIZE and isinstance(path[1], SequenceKey):
                self._need_unreplaced(tensor.size(path[1].idx), symbol)
                return Bound(symbol, "size", index, path[1].idx)
        raise Unsupported("data-dependent", f"{node.name} decides {symbol}, which is {path} of its result")

    def _need_plain(self, node, number, symbol) -> None:
        source = next((a for a in node.args if isinstance(a, torch.fx.Node)), None)
        tensor = source.meta.get("val") if source is not None else None
        if not isinstance(tensor, torch.Tensor) or tensor.dtype not in _PLAIN:
            raise Unsupported("data-dependent", f"{node.name} reads a number of {getattr(tensor, 'dtype', 'nothing')}")
        self._need_unreplaced(number, symbol)

    def _need_unreplaced(self, number, symbol) -> None:
        """Tracing may have concluded that the symbol equals something else: the operation's own value would be lost."""
        node = getattr(number, "node", None)
        if node is None or symbol not in node.expr.free_symbols:
            raise Unsupported("data-dependent", f"tracing took {symbol} for {number}")

    def refuse_remembered(self, node) -> None:
        """Tracing remembers what the data of a tensor decided, and does not see a kernel write to it: behind an effect, the
        same symbol may stand for another number."""
        values = [v for v in tree_leaves(node.meta.get("val")) if isinstance(v, (torch.Tensor, torch.SymInt))]
        read = node.target is torch.ops.aten.item.default
        if self._effect and (read or any(decided_by_data(v) for v in values)):
            raise Unsupported("data-dependent", f"{node.name} is decided anew behind {self._effect}")

    # -- what it may be used for ---------------------------------------------------------------------------------------
    def known(self, expr) -> frozenset:
        """Those of the expression's symbols that have a value, and may be computed with."""
        bound = {s for s in expr.free_symbols if self._kinds.get(s) in ("int", "size")}
        return frozenset(bound if expr.is_Symbol else bound - self._late)

    def argument(self, node) -> NumberArg | None:
        return self._returned.get(node)

    # -- checks --------------------------------------------------------------------------------------------------------
    def passed(self, node, launch: bool) -> None:
        """Told of every operation, in order, after its program was written."""
        if not self._effect and (launch or has_effect(node)):
            self._effect = node.name

    def checks_of(self, op) -> list[Check]:
        """A size of 0 or 1 has meanings (broadcasting, contiguity) that tracing left aside."""
        import sympy

        symbols = [b.symbol for b in op.binds if b.symbol in self._sized] if isinstance(op, OpCall) else []
        return [self._check(sympy.Ge(s, 2), f"{s}, a size that the data decides, is neither 0 nor 1") for s in symbols]

    def assertion(self, node) -> Check | None:
        """Dynamo's runtime assertion of what it relied on."""
        value = node.args[0].meta.get("val") if isinstance(node.args[0], torch.fx.Node) else node.args[0]
        if value is True:
            return None
        if not isinstance(value, torch.SymBool):
            raise Unsupported("data-dependent", f"an assertion of {value}")
        condition = value.node.expr
        if condition == True:  # noqa: E712 - sympy's
            return None
        if any(self._kinds.get(s) not in ("int", "size", None) for s in condition.free_symbols):
            raise Unsupported("data-dependent", f"an assertion of {condition}")
        return self._check(condition, f"traced for {condition}")

    def _check(self, condition, text: str) -> Check:
        if self._effect:
            raise Unsupported("data-dependent", f"{text}: known only after {self._effect}, which cannot be undone")
        return Check(condition, text)


def refuse_stale_numbers(graph_module) -> None:
    """Of Dynamo's own graph. Its tensors remember what their data decided until their version changes, which an operator of
    a library need not do: a second `.item()` behind it is taken for the first, and may be gone from the graph. Behind a launch
    of a kernel they have forgotten (dynamo/patches/triton_launch.py)."""
    decided = None
    for node in graph_module.graph.nodes:
        if reads_number(node):
            continue
        if decided is not None and _writes_unseen(node.target):
            raise Unsupported("data-dependent", f"{decided} reads the data before {node.name} may write it")
        for value in tree_leaves(node.meta.get("example_value")):
            if node.target == "item" or (isinstance(value, _SYMBOLIC) and decided_by_data(value)):
                decided = node.name


def _writes_unseen(target) -> bool:
    if isinstance(target, torch._ops.OpOverloadPacket):
        target = target.default if "default" in target.overloads() else target
    if isinstance(target, torch._ops.OpOverload):
        return target.namespace != "aten" and target._schema.is_mutable
    if isinstance(target, torch._ops.HigherOrderOperator):
        return target.name() != "triton_kernel_wrapper_mutation"
    return isinstance(target, torch._ops.OpOverloadPacket)


def has_effect(node) -> bool:
    """Whether there is no way back to the plain function: something is written, drawn at random, or not known to us."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return target is torch._C._set_grad_enabled
    if target is torch.ops.aten.detach_.default:  # of a constant that the program has just copied
        return node.args[0].target is not torch.ops.aten.lift_fresh_copy.default
    schema = target._schema
    if target.namespace != "aten" or schema.is_mutable or torch.Tag.nondeterministic_seeded in target.tags:
        return True
    return any(a.name in ("running_mean", "running_var") for a in schema.arguments)  # written, and not declared so
