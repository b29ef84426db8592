"""From the code object that Dynamo generated to a return recipe, by symbolic evaluation.

The generated code is a straight line: take the graph's inputs out of the locals, call the graph, carry out what was
deferred, build the result. Each instruction is followed with expressions in place of objects. Anything that is not
known here is refused (`Unsupported`), never guessed: the caller can always run the generated code itself."""

from __future__ import annotations

import builtins
import collections
import dis
import inspect
import sys
from types import CodeType, ModuleType
from typing import Any, TypeGuard

from .. import _compat
from ..dynamo.generated_names import helpers, is_dynamos_global, meaning_of
from ..dynamo.launch_result import LaunchResult
from ..errors import Unsupported
from ..ir.recipe import (
    Arg,
    Attr,
    Call,
    Const,
    DelAttr,
    DelItem,
    Dict,
    Effect,
    Evaluate,
    Expr,
    Global,
    Item,
    List,
    OffsetOf,
    Out,
    ReturnRecipe,
    Set,
    SetAttr,
    SetFree,
    SetGlobal,
    SetItem,
    Size,
    SizeOf,
    Slice,
    StrideOf,
    Tuple,
    walk,
)


def analyse(code: CodeType, graph_fn_name: str, globals: dict) -> ReturnRecipe:
    """The recipe of `code`, in which the captured graph is the global `graph_fn_name`. Raises `Unsupported`."""
    for name in code.co_names:
        if name.startswith("__resume_at_"):
            raise Unsupported("graph-break", name)
    if code.co_exceptiontable:
        raise Unsupported("exception-table", f"{code.co_name} handles exceptions after the graph")
    return _Evaluator(code, graph_fn_name, globals).run()


def _is_plain_key(key: Expr) -> bool:
    if isinstance(key, Const):
        return type(key.value) in _PLAIN_KEYS
    return isinstance(key, Call) and isinstance(key.func, Const) and meaning_of(key.func.value) == "a key"


_UNKNOWN = object()


class _Marker:
    """Something on the stack that is not an object of the recipe."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


_NULL = _Marker("NULL")
_GRAPH = _Marker("the graph")
_OUTPUTS = _Marker("the graph's outputs")


class _Items(_Marker):
    """`.items()` of a dict that this code has made and not shown to anybody: what Dynamo refills a user's dict with. An
    iterator over it once `GET_ITER` has seen it."""

    def __init__(self, pairs: tuple) -> None:
        super().__init__("the items of a dict")
        self.pairs = list(pairs)


# --- the evaluator ---------------------------------------------------------------------------------------------------


class _Evaluator:
    def __init__(self, code: CodeType, graph_fn_name: str, globals: dict) -> None:
        self.code = code
        self.graph_fn_name = graph_fn_name
        self.globals = globals
        self.stack: list[Expr | _Marker] = []
        self.consts: dict[int, Const] = {}
        self.outputs: dict[int, Out] = {}
        self.graph_args: tuple[Expr, ...] | None = None
        #: Reads and effects after the graph call, in the order of the code.
        self.timeline: list[Expr | Effect] = []
        self.early_reads: list[Expr] = []
        # By id, and holding the node, so that an id stays its own:
        self.used: dict[int, Expr] = {}  # operands: a list among them can no longer grow
        self.exposed: dict[int, Expr] = {}  # seen by an effect: their contents may have changed
        self.ran_unknown_code = False
        self.call_names: tuple[str, ...] = ()  # KW_NAMES, until the CALL

        n_args = code.co_argcount + code.co_kwonlyargcount
        n_args += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        self.cells = {*code.co_cellvars, *code.co_freevars}
        self.values: dict[str, Expr | _Marker] = {
            name: Arg(name) for name in (*code.co_varnames[:n_args], *code.co_freevars)
        }

    def run(self) -> ReturnRecipe:
        instructions = list(dis.get_instructions(self.code))
        self.places = {instruction.offset: place for place, instruction in enumerate(instructions)}
        self.place = 0
        while self.place < len(instructions):
            instruction = instructions[self.place]
            self.place += 1
            name = instruction.opname
            if name in _NO_OPERATION:
                continue
            if name in ("RETURN_VALUE", "RETURN_CONST"):
                result = self.const(instruction.argval) if name == "RETURN_CONST" else self.pop()
                return self.finish(self.plain(result))
            handler = getattr(self, "op_" + name, None)
            if handler is None:
                raise Unsupported(f"bytecode:{name}", str(instruction.argrepr))
            handler(instruction)
        raise Unsupported("bytecode:no-return", self.code.co_name)

    def finish(self, result: Expr) -> ReturnRecipe:
        if self.graph_args is None:
            raise Unsupported("no-graph-call", self.graph_fn_name)
        effects = [entry for entry in self.timeline if isinstance(entry, Effect)]
        live = {id(node) for node in walk(*effects, result)}
        done = {id(node) for node in walk(*self.graph_args)}
        for node in self.early_reads:
            if id(node) in live and id(node) not in done:
                raise Unsupported("early-read", str(node))
        # Reads are late by default; those that would come after an effect that they preceded are put before it.
        ordered: list[Effect] = []
        waiting: list[Expr] = []
        for entry in self.timeline:
            if isinstance(entry, Expr):
                if id(entry) in live:
                    waiting.append(entry)
                continue
            needed = {id(node) for node in walk(entry)}
            for node in waiting:
                if id(node) not in done and id(node) not in needed:
                    ordered.append(Evaluate(node))
                    done |= {id(inner) for inner in walk(node)}
            done |= needed
            waiting = []
            ordered.append(entry)
        return ReturnRecipe(self.graph_args, tuple(ordered), result)

    # nodes

    def pop(self) -> Expr | _Marker:
        if not self.stack:
            raise Unsupported("bytecode:stack", "more is popped than was pushed")
        return self.stack.pop()

    def pop_many(self, n: int) -> list[Expr]:
        """The `n` topmost, oldest first, all of them ordinary objects that now become operands."""
        return [self.plain(node) for node in reversed([self.pop() for _ in range(n)])]

    def plain(self, node: Expr | _Marker) -> Expr:
        if isinstance(node, _Marker):
            raise Unsupported("graph-output-escapes" if node is _OUTPUTS else "bytecode:stack", str(node))
        self.used[id(node)] = node
        return node

    def const(self, value: object) -> Const:
        return self.consts.setdefault(id(value), Const(value))

    def out(self, index: int) -> Out:
        return self.outputs.setdefault(index, Out(index))

    def read(self, node: Expr) -> Expr:
        (self.early_reads if self.graph_args is None else self.timeline).append(node)
        return node

    def effect(self, effect: Effect) -> None:
        if self.graph_args is None:
            raise Unsupported("effect-before-graph", str(effect))
        self.timeline.append(effect)
        self.exposed |= {id(node): node for node in walk(effect)}

    def grow(self, depth: int, build) -> None:
        """Replace the container at `depth` by `build(container)`: the same object, further into its construction."""
        if not 0 < depth <= len(self.stack):
            raise Unsupported("bytecode:stack", "no container to grow")
        old = self.stack[-depth]
        if id(old) in self.used or not isinstance(old, (List, Set, Dict)):
            raise Unsupported("container-shared", str(old))
        new = build(old)
        self.stack = [new if node is old else node for node in self.stack]
        self.values = {name: new if node is old else node for name, node in self.values.items()}

    def known_object(self, node: Expr | _Marker) -> object:
        """The object that an expression stands for if it is a constant or found in modules without running code."""
        if isinstance(node, Const):
            return node.value
        if isinstance(node, Global):
            return self.globals.get(node.name, getattr(builtins, node.name, _UNKNOWN))
        if isinstance(node, Attr):
            owner = self.known_object(node.owner)
            if type(owner) is ModuleType:
                return vars(owner).get(node.name, _UNKNOWN)
        return _UNKNOWN

    def named(self, node: Expr) -> Expr:
        """`node`, or the constant that it is when it names one of the helpers of Dynamo's own code."""
        value = self.known_object(node)
        if id(value) in helpers(sys.modules.get("torch")):
            return self.const(value)
        return self.read(node)

    # loads and stores

    def load(self, name: str) -> None:
        if name in self.cells:
            raise Unsupported("closure", f"the cell of {name} is used as an object")
        self.stack.append(self.value(name))

    def value(self, name: str) -> Expr | _Marker:
        if name not in self.values:
            raise Unsupported("bytecode:unbound", name)
        return self.values[name]

    def op_LOAD_FAST(self, ins) -> None:
        self.load(ins.argval)

    op_LOAD_FAST_CHECK = op_LOAD_FAST

    def op_LOAD_FAST_LOAD_FAST(self, ins) -> None:
        for name in ins.argval:
            self.load(name)

    def op_STORE_FAST(self, ins) -> None:
        self.values[ins.argval] = self.pop()

    def op_STORE_FAST_STORE_FAST(self, ins) -> None:
        for name in ins.argval:
            self.values[name] = self.pop()

    def op_STORE_FAST_LOAD_FAST(self, ins) -> None:
        stored, loaded = ins.argval
        self.values[stored] = self.pop()
        self.load(loaded)

    def op_DELETE_FAST(self, ins) -> None:
        self.values.pop(ins.argval, None)

    def op_LOAD_CLOSURE(self, ins) -> None:
        raise Unsupported("closure", f"the cell of {ins.argval} is used as an object")

    def op_MAKE_FUNCTION(self, ins) -> None:
        raise Unsupported("closure", "a function is created")

    def op_LOAD_DEREF(self, ins) -> None:
        name = ins.argval
        value = self.value(name)
        if self.ran_unknown_code and name in self.code.co_freevars:
            raise Unsupported("closure", f"{name} is read after code that may have changed it")
        self.stack.append(value)

    def op_STORE_DEREF(self, ins) -> None:
        name, value = ins.argval, self.pop()
        if name in self.code.co_freevars:
            self.effect(SetFree(name, self.plain(value)))
        self.values[name] = value

    def op_LOAD_CONST(self, ins) -> None:
        self.stack.append(self.const(ins.argval))

    def op_LOAD_GLOBAL(self, ins) -> None:
        node = self.global_(ins.argval)
        pushes_null = bool(ins.arg & 1)
        self.push_callable(node) if pushes_null else self.stack.append(node)

    def global_(self, name: str) -> Expr | _Marker:
        if name == self.graph_fn_name:
            return _GRAPH
        if name.startswith("__compiled_fn_"):
            raise Unsupported("other-graph", name)
        if name in self.globals and is_dynamos_global(name, self.globals[name]):
            return self.const(self.globals[name])
        if name not in self.globals and not hasattr(builtins, name):
            raise Unsupported("global-missing", name)
        return self.named(Global(name))

    def op_STORE_GLOBAL(self, ins) -> None:
        (value,) = self.pop_many(1)
        self.effect(SetGlobal(ins.argval, value))

    def op_LOAD_ATTR(self, ins) -> None:
        (owner,) = self.pop_many(1)
        if isinstance(owner, Const) and type(owner.value) is LaunchResult:
            node: Expr = Attr(owner, "recorded")  # the same in every hit
        else:
            node = self.named(Attr(owner, ins.argval))
        is_method_load = _compat.LOAD_ATTR_LOADS_METHODS and bool(ins.arg & 1)
        self.push_callable(node) if is_method_load else self.stack.append(node)

    def op_LOAD_METHOD(self, ins) -> None:
        (owner,) = self.pop_many(1)
        self.push_callable(self.named(Attr(owner, ins.argval)))

    def op_STORE_ATTR(self, ins) -> None:
        value, owner = self.pop_many(2)
        self.effect(SetAttr(owner, ins.argval, value))

    def op_DELETE_ATTR(self, ins) -> None:
        (owner,) = self.pop_many(1)
        self.effect(DelAttr(owner, ins.argval))

    # the stack itself

    def op_PUSH_NULL(self, ins) -> None:
        self.stack.append(_NULL)

    def op_POP_TOP(self, ins) -> None:
        self.pop()

    def op_COPY(self, ins) -> None:
        self.check_depth(ins.arg)
        self.stack.append(self.stack[-ins.arg])

    def op_SWAP(self, ins) -> None:
        self.check_depth(ins.arg)
        self.stack[-1], self.stack[-ins.arg] = self.stack[-ins.arg], self.stack[-1]

    def check_depth(self, depth: int) -> None:
        if depth > len(self.stack):
            raise Unsupported("bytecode:stack", f"depth {depth} of {len(self.stack)}")

    # containers

    def op_BUILD_TUPLE(self, ins) -> None:
        self.stack.append(Tuple(tuple(self.pop_many(ins.arg))))

    def op_BUILD_LIST(self, ins) -> None:
        self.stack.append(List(tuple(self.pop_many(ins.arg))))

    def op_BUILD_SET(self, ins) -> None:
        self.stack.append(Set(tuple(self.pop_many(ins.arg))))

    def op_BUILD_SLICE(self, ins) -> None:
        self.stack.append(Slice(tuple(self.pop_many(ins.arg))))

    def op_BUILD_MAP(self, ins) -> None:
        flat = self.pop_many(2 * ins.arg)
        self.stack.append(Dict(tuple(zip(flat[::2], flat[1::2]))))

    def op_BUILD_CONST_KEY_MAP(self, ins) -> None:
        keys = self.constant_tuple(self.pop())
        self.stack.append(Dict(tuple(zip(map(self.const, keys), self.pop_many(ins.arg)))))

    def op_LIST_EXTEND(self, ins) -> None:
        items = self.items_of(self.pop())
        self.grow(ins.arg, lambda old: List(old.items + tuple(map(self.plain, items))))

    def op_LIST_APPEND(self, ins) -> None:
        item = self.plain(self.pop())
        self.grow(ins.arg, lambda old: List((*old.items, item)))

    def op_SET_UPDATE(self, ins) -> None:
        items = self.items_of(self.pop())
        self.grow(ins.arg, lambda old: Set(old.items + tuple(map(self.plain, items))))

    def op_DICT_UPDATE(self, ins) -> None:
        other = self.plain(self.pop())
        if not isinstance(other, Dict) or id(other) in self.exposed:
            raise Unsupported(f"bytecode:{ins.opname}", f"of {other}")
        self.grow(ins.arg, lambda old: Dict(old.pairs + other.pairs))

    op_DICT_MERGE = op_DICT_UPDATE

    def op_LIST_TO_TUPLE(self, ins) -> None:
        (items,) = self.pop_many(1)
        self.stack.append(Tuple(tuple(self.items_of(items))))

    def op_CALL_INTRINSIC_1(self, ins) -> None:
        if ins.argrepr != "INTRINSIC_LIST_TO_TUPLE":
            raise Unsupported(f"bytecode:{ins.opname}", str(ins.argrepr))
        self.op_LIST_TO_TUPLE(ins)

    def op_UNPACK_SEQUENCE(self, ins) -> None:
        sequence = self.pop()
        if sequence is _OUTPUTS:
            items: list = [self.out(index) for index in range(ins.arg)]
        else:
            items = self.items_of(sequence)
        if len(items) != ins.arg:
            raise Unsupported(f"bytecode:{ins.opname}", f"{ins.arg} out of {sequence}")
        self.stack.extend(reversed(items))

    def op_BINARY_SUBSCR(self, ins) -> None:
        key, container = self.plain(self.pop()), self.pop()
        index = key.value if isinstance(key, Const) and type(key.value) is int else None
        if container is _OUTPUTS:
            if index is None or index < 0:
                raise Unsupported("graph-output-escapes", f"item {key}")
            self.stack.append(self.out(index))
            return
        container = self.plain(container)
        if index is not None and self.contents_known(container) and 0 <= index < len(container.items):
            self.stack.append(container.items[index])
        else:
            self.stack.append(self.read(Item(container, key)))

    def op_STORE_SUBSCR(self, ins) -> None:
        value, container, key = self.pop_many(3)
        self.effect(SetItem(container, key, value))

    def op_DELETE_SUBSCR(self, ins) -> None:
        container, key = self.pop_many(2)
        self.effect(DelItem(container, key))

    def op_GET_ITER(self, ins) -> None:
        if isinstance(self.stack[-1] if self.stack else None, _Items):
            return  # each is gone through once
        (iterable,) = self.pop_many(1)
        self.stack.append(self.call(self.const(iter), [iterable]))

    def op_FOR_ITER(self, ins) -> None:
        """Unrolled: the items are known, and each goes once through the body."""
        items = self.stack[-1] if self.stack else None
        if not isinstance(items, _Items):
            raise Unsupported(f"bytecode:{ins.opname}", f"over {items}")
        if items.pairs:
            self.stack.append(Tuple(items.pairs.pop(0)))
            return
        self.stack.pop()
        self.place = self.places[ins.argval] + _compat.INSTRUCTIONS_SKIPPED_BEHIND_A_LOOP

    def op_JUMP_BACKWARD(self, ins) -> None:
        """Only ever to a FOR_ITER: every other kind of loop asks a condition, and those are refused."""
        self.place = self.places[ins.argval]

    def contents_known(self, node: Expr | _Marker) -> TypeGuard[Tuple | List]:
        return isinstance(node, Tuple) or (isinstance(node, List) and id(node) not in self.exposed)

    def items_of(self, node: Expr | _Marker) -> list[Expr]:
        """The items of a sequence whose contents are known."""
        if self.contents_known(node):
            return list(node.items)
        if isinstance(node, Const) and type(node.value) in (tuple, frozenset):
            return [self.const(value) for value in node.value]
        raise Unsupported("unknown-sequence", str(node))

    def constant_tuple(self, node: Expr | _Marker) -> tuple:
        if isinstance(node, Const) and type(node.value) is tuple:
            return node.value
        raise Unsupported("unknown-sequence", str(node))

    # calls

    def push_callable(self, node: Expr | _Marker) -> None:
        """A callable that is not a method with its self, and the NULL that says so, in this version's order."""
        self.stack.extend((node, _NULL) if _compat.NULL_FOLLOWS_CALLABLE else (_NULL, node))

    def pop_callable(self) -> tuple[Expr | _Marker, list[Expr]]:
        """The callable and, for a method, the self that goes before the other arguments."""
        second, first = self.pop(), self.pop()
        if _compat.NULL_FOLLOWS_CALLABLE:
            return first, [] if second is _NULL else [self.plain(second)]
        return (second, []) if first is _NULL else (first, [self.plain(second)])

    def items_view(self, function: Expr | _Marker, args: list[Expr]) -> _Items | None:
        """What `d.items()` gives where `d`, made here, can hold nothing but what was put into it."""
        if not isinstance(function, Attr) or function.name != "items" or args:
            return None
        made = function.owner
        inner: Any = made
        if isinstance(made, Call) and isinstance(made.func, Const) and made.func.value is collections.OrderedDict:
            inner = made.args[0] if len(made.args) == 1 and not made.kwnames else made
        if id(made) in self.exposed or not self.is_plain_dict(inner):
            return None
        keys = [key.value for key, _ in inner.pairs if isinstance(key, Const)]
        return _Items(inner.pairs) if len(set(keys)) == len(keys) else None

    def is_plain_dict(self, node: Expr) -> TypeGuard[Dict]:
        """A new dict whose keys are constants, or keys of a dict of the program's, which are guarded."""
        if not isinstance(node, Dict) or id(node) in self.exposed:
            return False
        return all(_is_plain_key(key) for key, _ in node.pairs)

    def op_KW_NAMES(self, ins) -> None:
        self.call_names = self.code.co_consts[ins.arg]

    def op_CALL(self, ins) -> None:
        args = self.pop_many(ins.arg)
        function, self_ = self.pop_callable()
        names, self.call_names = self.call_names, ()
        self.stack.append(self.call(function, self_ + args, names))

    def op_CALL_KW(self, ins) -> None:
        self.call_names = self.constant_tuple(self.pop())
        self.op_CALL(ins)

    def op_CALL_FUNCTION_EX(self, ins) -> None:
        names: tuple = ()
        values: list[Expr] = []
        if ins.arg & 1:
            keywords = self.plain(self.pop())
            if not isinstance(keywords, Dict) or id(keywords) in self.exposed:
                raise Unsupported("unknown-sequence", f"**{keywords}")
            names = tuple(key.value if isinstance(key, Const) else None for key, _ in keywords.pairs)
            if not all(type(name) is str for name in names) or len(set(names)) != len(names):
                raise Unsupported("unknown-sequence", f"**{keywords}")
            values = [value for _, value in keywords.pairs]
        args = self.items_of(self.pop())
        function, self_ = self.pop_callable()
        self.stack.append(self.call(function, self_ + args + values, names))

    def call(self, function: Expr | _Marker, args: list[Expr], names: tuple[str, ...] = ()) -> Expr | _Marker:
        if function is _GRAPH:
            if self.graph_args is not None:
                raise Unsupported("two-graph-calls", self.graph_fn_name)
            if names:
                raise Unsupported("graph-call-by-name", str(names))
            self.graph_args = tuple(args)
            return _OUTPUTS
        if (items := self.items_view(function, args)) is not None:
            return items
        function = self.plain(function)
        meaning = meaning_of(function.value) if isinstance(function, Const) else None
        if meaning == "nothing":
            return self.const(None)
        if meaning in ("size of", "stride of"):
            if len(args) == 2 and not names and isinstance(args[1], Const) and type(args[1].value) is int:
                return self.read((SizeOf if meaning == "size of" else StrideOf)(args[0], args[1].value))
        elif meaning == "offset of":
            if len(args) == 1 and not names:
                return self.read(OffsetOf(args[0]))
        elif meaning == "ordered dict":
            meaning = "pure" if len(args) == 1 and not names and self.is_plain_dict(args[0]) else None
        elif meaning == "size" and len(args) == 1 and not names and self.contents_known(args[0]):
            return Size(args[0].items)
        node = Call(function, tuple(args), names)
        if meaning is not None:
            return self.read(node)
        self.ran_unknown_code = True
        self.effect(Evaluate(node))
        return node


_PLAIN_KEYS = (str, int, bool, float, bytes, type(None))

_NO_OPERATION = frozenset(
    # A cell is only ever created for a variable that the code keeps to itself: using one as an object is refused.
    ("RESUME", "NOP", "CACHE", "PRECALL", "EXTENDED_ARG", "MAKE_CELL", "COPY_FREE_VARS")
)
