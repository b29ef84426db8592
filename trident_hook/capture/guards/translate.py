"""From the recorded construction of Dynamo's guard tree to `Guard`s. Nothing is dropped: what has no native form is
kept as a call to Dynamo's own leaf guard, and what cannot be kept either refuses the specialization."""

from __future__ import annotations

import ast
import collections
import enum
import itertools
import re
import types
from typing import Any

from ...dynamo.generated_names import item_of_tuple_iterator
from ...dynamo.patches.guard_recording import GuardLog, Node
from ...errors import Unsupported
from ...ir.guard import Guard, ShapeText, TensorFacts
from ...ir.kinds import GuardKind, RootKind, StepKind
from ...ir.objects import ObjectKey
from ...ir.source import Source
from ..graph import float_inputs
from .identity import guards_of_identity
from .of_the_environment import guards_of_the_environment
from .set_order import without_order

#: Names under which Dynamo itself installs objects into a function's globals. They stand for the object that they
#: held at capture, and go away with Dynamo's cache entry, so the object is the root instead.
_DYNAMO_GLOBALS = re.compile(r"__import_|__builtins_dict__|___unnamed_scope|__subclass_|\w*_\d{6,}_c[\w/]+$")

_SIMPLE_ACCESSORS = {
    "get_generic_dict": StepKind.GENERIC_DICT,
    "type": StepKind.TYPE,
    "type_dict": StepKind.TYPE_DICT,
    "type_mro": StepKind.TYPE_MRO,
    "code": StepKind.CODE,
    "closure": StepKind.CLOSURE,
    "func_defaults": StepKind.DEFAULTS,
    "func_kwdefaults": StepKind.KWDEFAULTS,
    "weakref_call": StepKind.CALL,
    "call_function_no_args": StepKind.CALL,
}
_KEYED_ACCESSORS = {
    "getattr": (StepKind.ATTR, "attr"),
    "generic_getattr": (StepKind.ATTR, "attr"),
    "dict_getitem": (StepKind.DICT_ITEM, "key"),
    "list_getitem": (StepKind.LIST_ITEM, "key"),
    "tuple_getitem": (StepKind.TUPLE_ITEM, "key"),
    "get_key": (StepKind.DICT_KEY_AT, "index"),
    "get_value": (StepKind.DICT_VALUE_AT, "index"),
}
_ITEMS: dict[Any, StepKind] = {tuple: StepKind.TUPLE_ITEM, list: StepKind.LIST_ITEM, dict: StepKind.DICT_ITEM}
_CONSTANTS = {
    "none_match": GuardKind.NONE,
    "not_none": GuardKind.NOT_NONE,
    "true_match": GuardKind.TRUE,
    "false_match": GuardKind.FALSE,
}
#: Methods whose name is not that of the leaf class that they make.
_LEAF_CLASSES = {"tuple_iterator_length": "tuple_iterator_len"}
#: Leaf guards on the root that the dispatcher's state check covers (see `ext/guard/state.cpp`): the whole state is
#: compared word by word, and nothing is served while a mode or a saved-tensor hook is active.
_STATE_LEAVES = ("global_state", "torch_function_mode_stack", "dual_level_match")
_STATE_LAMBDAS = ("top_saved_tensors_hooks ids == None", "compare_functorch_state([])")


class GuardTranslator:
    """Translates one capture. `code` and `scope_globals` are the frame's."""

    def __init__(
        self, log: GuardLog, root, code, scope_globals: dict, keys_of, traced_code: list, symbolic_floats: set
    ) -> None:
        self.symbolic_floats = symbolic_floats
        self.log, self.root, self.code, self.globals, self.keys_of = log, root, code, scope_globals, keys_of
        self.traced_code = traced_code
        self._sources: dict[int, Source] = {}

    def translate(self) -> list[Guard]:
        nodes = self.log.tree_of(self.root)
        if not nodes:
            raise Unsupported("guards-not-recorded", "Dynamo built a guard tree that was not seen being built")
        guards: list[Guard] = []
        parents = {id(node.parent) for node in nodes}
        for node in nodes:
            source = self._source_of(node)
            if (
                not node.leaves
                and id(node) not in parents
                and "example_value" in node.kwargs
                and node.parent
                and node.parent.parent
            ):
                # Reading it is the guard (HASATTR); its type is more than Dynamo asks for.
                guards.append(Guard(GuardKind.TYPE, source, ObjectKey(type(node.kwargs["example_value"])), "is there"))
            for kind, args in node.leaves:
                if kind == "dimension_marking":
                    guards += _unmarked(source, args)
                    continue
                guard = self._leaf(node, source, kind, args)
                if guard is not None:
                    guards.append(guard)
        for kind, args in self.log.relational:
            guards.append(self._relational(kind, args))
        for root_id, args in self.log.epilogue:
            if root_id == id(self.root):
                guards.extend(self._epilogue(args, nodes))
        self._check_complete(nodes)
        guards = guards_of_identity(nodes, self._source_of, guards)
        values = [node.kwargs.get("example_value") for node in nodes]
        added = guards_of_the_environment(guards, values, self.traced_code, self.globals)
        return _dedupe([*without_order(guards, self.code), *added])

    # -- sources -------------------------------------------------------------------------------------------------
    def _source_of(self, node: Node) -> Source:
        known = self._sources.get(id(node))
        if known is None:
            known = self._sources[id(node)] = self._make_source(node)
        return known

    def _make_source(self, node: Node) -> Source:
        if node.parent is None:
            return Source((RootKind.NONE,), (), "root")
        accessor, kwargs = node.accessor, node.kwargs
        text = kwargs.get("source") or (node.args[1] if len(node.args) > 1 else "")
        if accessor == "framelocals":
            return Source((RootKind.LOCAL, kwargs["key"][0]), (), text)
        if accessor == "globals_dict":
            return Source((RootKind.GLOBAL,), (), "G")
        base = self._source_of(node.parent)
        if accessor == "dict_getitem" and base.root == (RootKind.GLOBAL,) and not base.steps:
            name = kwargs["key"]
            if isinstance(name, str) and _DYNAMO_GLOBALS.match(name):
                return Source((RootKind.OBJECT, ObjectKey(self.globals[name])), (), text)
        if accessor in _SIMPLE_ACCESSORS:
            return base.then(_SIMPLE_ACCESSORS[accessor], None, text)
        if accessor == "get_value" and (key := _key_at(node.parent, kwargs["index"])) is not None:
            # As the recipe names it; a guard on the key at that place exists.
            return base.then(StepKind.DICT_ITEM, key, text)
        if accessor in _KEYED_ACCESSORS:
            step, argument = _KEYED_ACCESSORS[accessor]
            return base.then(step, kwargs[argument], text)
        if accessor == "getitem":
            value = node.parent.kwargs.get("example_value")
            step = _ITEMS.get(type(value), StepKind.ITEM)
            return base.then(step, kwargs["key"], text)
        if accessor == "tuple_iterator_getitem":
            return base.then(StepKind.APPLY, ObjectKey(_item_of_tuple_iterator(kwargs["index"])), text)
        if accessor == "set_getitem":
            return base.then(StepKind.APPLY, ObjectKey(_member_of_set(kwargs["index"])), text)
        if accessor == "grad":
            return base.then(StepKind.ATTR, "grad", text)
        if accessor == "lambda":
            fixed = _constant_lambda(kwargs.get("python_lambda"))
            if fixed is not None:
                return Source((RootKind.OBJECT, ObjectKey(fixed)), (), text)
            if node.parent.parent is not None:
                return base.then(StepKind.APPLY, ObjectKey(kwargs["python_lambda"]), text)
        raise Unsupported("guard-accessor", f"{accessor} ({text})")

    # -- leaves --------------------------------------------------------------------------------------------------
    def _leaf(self, node: Node, source: Source, kind: str, args: tuple) -> Guard | None:
        value = node.kwargs.get("example_value")
        text = _text(args)
        if node.parent is None:
            if kind in _STATE_LEAVES:
                return None
            if kind == "default_device":
                return Guard(GuardKind.DEFAULT_DEVICE, source, _current_device(), text)
            if kind == "lambda" and any(known in text for known in _STATE_LAMBDAS):
                return None
            raise Unsupported("guard", f"{kind} on the frame: {text}")
        if kind == "tensor_match":
            return Guard(GuardKind.TENSOR, source, self._tensor_facts(value, args), text)
        if kind == "type_match":
            _check_scalar_subclass(type(value), source)
            return Guard(GuardKind.TYPE, source, ObjectKey(_resolve(args[0], type(value), kind, text)), text)
        if kind == "id_match":
            return Guard(GuardKind.ID, source, ObjectKey(_resolve(args[0], value, kind, text)), text)
        if kind == "equals_match":
            return Guard(GuardKind.EQUALS, source, ObjectKey(args[0]), text)
        if kind in ("float_is_nan", "complex_is_nan"):
            return Guard(GuardKind.NAN, source, ObjectKey(value), text)
        if kind in _CONSTANTS:
            return Guard(_CONSTANTS[kind], source, None, text)
        if kind == "length_check":
            return Guard(GuardKind.LENGTH, source, args[0], text)
        if kind == "dict_length_check":
            return Guard(GuardKind.DICT_LENGTH, source, args[0], text)
        if kind == "dict_contains":
            return Guard(GuardKind.DICT_CONTAINS, source, (bool(args[0]), args[1]), text)
        if kind == "no_hasattr":
            return Guard(GuardKind.NO_ATTR, source, args[0], text)
        # The tree owns its leaves: one that is called after the tree is gone ends the process.
        return Guard(
            GuardKind.RESIDUAL, source, (ObjectKey(self._leaf_object(node, kind, args)), ObjectKey(self.root)), text
        )

    def _leaf_object(self, node: Node, kind: str, args: tuple):
        """Dynamo's own leaf guard, which can be called with a value. TENSOR_MATCH must never come here: called alone
        it compares with stale thread state."""
        wanted = _LEAF_CLASSES.get(kind, kind).replace("_", "").lower()
        for leaf in node.manager.get_leaf_guards():
            name = type(leaf).__name__.replace("_", "").lower().removesuffix("guard")
            is_wanted = name in (wanted, wanted + "match") and callable(leaf)
            if is_wanted and list(leaf.verbose_code_parts()) == list(_parts(args)):
                return leaf
        raise Unsupported("guard", f"{kind}: {_text(args)}")

    def _tensor_facts(self, value, args: tuple) -> TensorFacts:
        sizes, strides, type_ = args[1], args[2], args[6]
        keys = self.keys_of(value)
        if _overrides_operators(type_):
            raise Unsupported("subclass", f"{type_.__name__} sees its operators called")
        if keys is None:
            raise Unsupported("tensor", f"{type_.__name__} without plain sizes and strides")
        return TensorFacts(
            type_, keys, value.dtype, value.device.type, value.device.index, value.requires_grad,
            tuple(sizes), tuple(strides),
        )  # fmt: skip

    def _relational(self, kind: str, args: tuple) -> Guard:
        if kind == "no_tensor_aliasing_guard":
            sources = tuple(self._source_of(self.log.node_of(m)) for m in args[0])
            return Guard(GuardKind.DISTINCT, sources[0], sources, _text(args))
        if kind == "object_aliasing_guard":
            first, second = (self._source_of(self.log.node_of(m)) for m in args[:2])
            return Guard(GuardKind.SAME, first, second, _text(args))
        raise Unsupported("guard", f"{kind}: {_text(args)}")

    def _epilogue(self, args: tuple, nodes: list[Node]) -> list[Guard]:
        """Shape guards and duplicate-input guards: texts of Python expressions over L[...] and G[...]."""
        sources: dict[str, Source] = {}
        for node in nodes:
            if node.parent is not None:
                source = self._source_of(node)
                sources.setdefault(source.text, source)
        guards, texts = [], []
        for part in args[1]:
            text = part.split("  #")[0].strip()
            tree = float_inputs.float_of_guard(text)
            if tree is None:
                texts.append(text)
            else:
                guards.append(Guard(GuardKind.FINITE, self._named(tree, sources), None, text))
        for text in texts:
            float_inputs.refuse_compared(text, self.symbolic_floats)
            pair = _identity(text)
            if pair is None:
                guards.append(
                    Guard(GuardKind.SHAPE, Source((RootKind.NONE,), (), text), _shape_text(text, sources), text)
                )
            else:
                first, second = (self._named(side, sources) for side in pair)
                guards.append(Guard(GuardKind.SAME, first, second, text))
        return guards

    def _named(self, tree: ast.AST, sources: dict) -> Source:
        """The source of an expression over L and G, where no guard has read it; names that Dynamo installed stand for
        their object."""
        text = ast.unparse(tree)
        if text in sources:
            return sources[text]
        local, name = local_name(tree), local_name(tree, "G")
        if local is not None:
            return Source((RootKind.LOCAL, local), (), text)
        if name is not None and _DYNAMO_GLOBALS.match(name):
            return Source((RootKind.OBJECT, ObjectKey(self.globals[name])), (), text)
        if name is not None:
            return Source((RootKind.GLOBAL,), ((StepKind.DICT_ITEM, name),), text)
        if isinstance(tree, ast.Attribute):
            return self._named(tree.value, sources).then(StepKind.ATTR, tree.attr, text)
        if isinstance(tree, ast.Subscript) and isinstance(tree.slice, ast.Constant):
            return self._named(tree.value, sources).then(StepKind.ITEM, tree.slice.value, text)
        raise Unsupported("guard", f"identity of a value that no guard reads: {text}")

    def _check_complete(self, nodes: list[Node]) -> None:
        """Every leaf of the finished tree was seen being added; a leaf that was not would be a guard lost."""
        seen = {id(node.manager): len(node.leaves) for node in nodes}
        lambdas = sum(1 for root_id, _ in self.log.epilogue if root_id == id(self.root))
        if len(self.root.get_epilogue_lambda_guards()) != lambdas:
            raise Unsupported("guards-not-recorded", f"{lambdas} epilogue guards were seen")
        stack = [self.root]
        relational = {"NO_TENSOR_ALIASING", "OBJECT_ALIASING", "STORAGE_OVERLAPPING", "SYMBOLIC_SHAPE_GUARD"}
        while stack:
            manager = stack.pop()
            own = [leaf for leaf in manager.get_leaf_guards() if type(leaf).__name__ not in relational]
            if len(own) > seen.get(id(manager), -1) and own:
                raise Unsupported("guards-not-recorded", f"{manager.get_source()}: {len(own)} leaves in the tree")
            stack.extend(manager.get_child_managers())


def _unmarked(source: Source, args: tuple) -> list[Guard]:
    """PyTorch 2.14: one leaf for all attributes by which `mark_dynamic` and its relatives mark a tensor's dimensions."""
    expected, absent, dependent = args[:3]
    if expected or dependent:
        raise Unsupported("guard", f"dimensions of {source} are marked: {_text(args)}")
    return [Guard(GuardKind.NO_ATTR, source, name, f"not hasattr({source}, {name!r})") for name in absent]


def _check_scalar_subclass(type_: type, source: Source) -> None:
    """Dynamo takes an instance of a subclass of str for an object without `==`: it answers False where Python compares."""
    is_scalar = issubclass(type_, (str, bytes, bytearray, int, float, complex))
    is_known = type_ in (str, bytes, int, float, complex, bool) or issubclass(type_, enum.Enum)
    if is_scalar and not is_known and type_.__module__.split(".")[0] != "torch":
        raise Unsupported("scalar-subclass", f"{source} is a {type_.__name__}")


def _overrides_operators(type_: Any) -> bool:
    """Dynamo does not follow __torch_function__ of subclasses everywhere (torch.as_strided loses the class)."""
    import torch

    return type_ is not torch.Tensor and type_.__torch_function__ is not torch._C._disabled_torch_function_impl


def _key_at(node: Node, index: int) -> str | None:
    """The key at a place of a dict, where it is a string."""
    example: Any = node.kwargs.get("example_value")
    keys = list(example) if type(example) in (dict, collections.OrderedDict) else []
    return keys[index] if index < len(keys) and type(keys[index]) is str else None


def _item_of_tuple_iterator(index: int):
    return lambda iterator: item_of_tuple_iterator(iterator, index)


def _member_of_set(index: int):
    """By its place in the order in which the set gives them: the trace goes through them so."""
    return lambda members: next(itertools.islice(members, index, None))


def _constant_lambda(function):
    """The module that an import lambda of Dynamo's returns, whatever it is given; else None."""
    if isinstance(function, types.FunctionType) and function.__defaults__ and len(function.__defaults__) == 1:
        value = function.__defaults__[0]
        if isinstance(value, types.ModuleType) and function.__code__.co_names == ():
            return value
    return None


def _resolve(expected_id: int, candidate, kind: str, text: str):
    if id(candidate) != expected_id:
        raise Unsupported("guard", f"{kind} on an object that is not at hand: {text}")
    return candidate


def _current_device():
    import torch.utils._device as device

    return ObjectKey(device.CURRENT_DEVICE)


def _parts(args: tuple) -> list[str]:
    """The verbose code parts among a leaf's arguments: the last list of strings."""
    for arg in reversed(args):
        if isinstance(arg, (list, tuple)) and all(isinstance(a, str) for a in arg) and arg:
            return list(arg)
    return []


def _text(args: tuple) -> str:
    """Dynamo's text of a guard without the user's source line behind it."""
    return "; ".join(part.split("  #")[0].strip() for part in _parts(args))


def _identity(text: str) -> tuple[ast.AST, ast.AST] | None:
    """`L['a'] is L['b']` -> the two sides."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return None
    if not (isinstance(tree, ast.Compare) and len(tree.ops) == 1 and isinstance(tree.ops[0], ast.Is)):
        return None
    return tree.left, tree.comparators[0]


def _shape_text(text: str, sources: dict) -> ShapeText:
    """The expression with the sources that it names, longest first so that none hides in another."""
    named = sorted((t for t in sources if t and t in text), key=len, reverse=True)
    return ShapeText(text, tuple((t, sources[t]) for t in named))


def local_name(node: ast.AST, scope: str = "L") -> str | None:
    """The name in `L['name']`."""
    if (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == scope
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    ):
        return node.slice.value
    return None


def _dedupe(guards: list[Guard]) -> list[Guard]:
    seen, unique = set(), []
    for guard in guards:
        key = (guard.kind, guard.source.key, repr(guard.arg) if guard.kind is not GuardKind.ID else guard.arg)
        if key not in seen:
            seen.add(key)
            unique.append(guard)
    return unique
