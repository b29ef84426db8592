"""Return recipes: how the arguments of the captured graph are taken out of a call, and how the Python result is put
together from the graph's outputs. Plain data; nothing here evaluates anything.

One node is one object of the run: a node that appears twice means the same Python object twice, so nodes compare by
identity. The meaning of a recipe, which code generation must keep:

1. `graph_args` are evaluated, left to right; the graph is called with them; its outputs are the `Out` nodes;
2. `effects` are carried out in order;
3. `result` is evaluated and returned.

A node is evaluated once, when it is first needed, and kept. That is exact: where being late would let a read see a
later effect, there is an `Evaluate` at the place where the original code did the read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from .objects import ObjectKey

# --- expressions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    #: The value depends on when it is looked up: attribute, item, global, size, or whatever a call does.
    is_read: ClassVar[bool] = False

    def children(self) -> tuple[Expr, ...]:
        return ()

    def _text(self, of: Any) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        return self._text(str)


@dataclass(frozen=True, slots=True, eq=False)
class Arg(Expr):
    """A local as it was passed in (argument, `*args` tuple, `**kw` dict), or the contents of a free variable."""

    name: str

    def _text(self, of: Any) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Const(Expr):
    """An object that is known now; the recipe owns a reference to it."""

    value: Any

    def _text(self, of: Any) -> str:
        return repr(ObjectKey(self.value))


@dataclass(frozen=True, slots=True, eq=False)
class Out(Expr):
    """The graph's output number `index`, the very object."""

    index: int

    def _text(self, of: Any) -> str:
        return f"out[{self.index}]"


@dataclass(frozen=True, slots=True, eq=False)
class Global(Expr):
    """A global of the function, else a builtin, looked up when evaluated."""

    name: str
    is_read: ClassVar[bool] = True

    def _text(self, of: Any) -> str:
        return f"global {self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class Tuple(Expr):
    items: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        return self.items

    def _text(self, of: Any) -> str:
        return f"({', '.join(map(of, self.items))}{',' if len(self.items) == 1 else ''})"


@dataclass(frozen=True, slots=True, eq=False)
class List(Expr):
    """A new list."""

    items: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        return self.items

    def _text(self, of: Any) -> str:
        return f"[{', '.join(map(of, self.items))}]"


@dataclass(frozen=True, slots=True, eq=False)
class Set(Expr):
    """A new set."""

    items: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        return self.items

    def _text(self, of: Any) -> str:
        return f"{{{', '.join(map(of, self.items))}}}" if self.items else "set()"


@dataclass(frozen=True, slots=True, eq=False)
class Dict(Expr):
    """A new dict, filled in order."""

    pairs: tuple[tuple[Expr, Expr], ...]

    def children(self) -> tuple[Expr, ...]:
        return tuple(node for pair in self.pairs for node in pair)

    def _text(self, of: Any) -> str:
        return f"{{{', '.join(f'{of(key)}: {of(value)}' for key, value in self.pairs)}}}"


@dataclass(frozen=True, slots=True, eq=False)
class Slice(Expr):
    """`slice(*parts)`, two or three of them."""

    parts: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        return self.parts

    def _text(self, of: Any) -> str:
        return f"slice({', '.join(map(of, self.parts))})"


@dataclass(frozen=True, slots=True, eq=False)
class Size(Expr):
    """`torch.Size(items)`; every item is an int."""

    items: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        return self.items

    def _text(self, of: Any) -> str:
        return f"Size([{', '.join(map(of, self.items))}])"


@dataclass(frozen=True, slots=True, eq=False)
class SizeOf(Expr):
    tensor: Expr
    dim: int
    is_read: ClassVar[bool] = True

    def children(self) -> tuple[Expr, ...]:
        return (self.tensor,)

    def _text(self, of: Any) -> str:
        return f"size({of(self.tensor)}, {self.dim})"


@dataclass(frozen=True, slots=True, eq=False)
class StrideOf(Expr):
    tensor: Expr
    dim: int
    is_read: ClassVar[bool] = True

    def children(self) -> tuple[Expr, ...]:
        return (self.tensor,)

    def _text(self, of: Any) -> str:
        return f"stride({of(self.tensor)}, {self.dim})"


@dataclass(frozen=True, slots=True, eq=False)
class OffsetOf(Expr):
    """The storage offset."""

    tensor: Expr
    is_read: ClassVar[bool] = True

    def children(self) -> tuple[Expr, ...]:
        return (self.tensor,)

    def _text(self, of: Any) -> str:
        return f"offset({of(self.tensor)})"


@dataclass(frozen=True, slots=True, eq=False)
class Attr(Expr):
    owner: Expr
    name: str
    is_read: ClassVar[bool] = True

    def children(self) -> tuple[Expr, ...]:
        return (self.owner,)

    def _text(self, of: Any) -> str:
        return f"{of(self.owner)}.{self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class Item(Expr):
    container: Expr
    key: Expr
    is_read: ClassVar[bool] = True

    def children(self) -> tuple[Expr, ...]:
        return (self.container, self.key)

    def _text(self, of: Any) -> str:
        return f"{of(self.container)}[{of(self.key)}]"


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expr):
    """`func(*args)`, where the last `len(kwnames)` arguments are passed by name. A call that may do anything besides
    returning a value is also in the recipe's effects, as an `Evaluate`."""

    func: Expr
    args: tuple[Expr, ...]
    kwnames: tuple[str, ...] = ()
    is_read: ClassVar[bool] = True

    def children(self) -> tuple[Expr, ...]:
        return (self.func, *self.args)

    def _text(self, of: Any) -> str:
        plain = len(self.args) - len(self.kwnames)
        texts = [of(arg) for arg in self.args[:plain]]
        texts += [f"{name}={of(arg)}" for name, arg in zip(self.kwnames, self.args[plain:])]
        return f"{of(self.func)}({', '.join(texts)})"


# --- effects -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    def children(self) -> tuple[Expr, ...]:
        raise NotImplementedError

    def _text(self, of: Any) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        return self._text(str)


@dataclass(frozen=True, slots=True, eq=False)
class Evaluate(Effect):
    """Evaluate now: a call with effects, or a read that must not be late."""

    expr: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.expr,)

    def _text(self, of: Any) -> str:
        found: str = of(self.expr)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class SetAttr(Effect):
    owner: Expr
    name: str
    value: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.value, self.owner)

    def _text(self, of: Any) -> str:
        return f"{of(self.owner)}.{self.name} = {of(self.value)}"


@dataclass(frozen=True, slots=True, eq=False)
class DelAttr(Effect):
    owner: Expr
    name: str

    def children(self) -> tuple[Expr, ...]:
        return (self.owner,)

    def _text(self, of: Any) -> str:
        return f"del {of(self.owner)}.{self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class SetItem(Effect):
    container: Expr
    key: Expr
    value: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.value, self.container, self.key)

    def _text(self, of: Any) -> str:
        return f"{of(self.container)}[{of(self.key)}] = {of(self.value)}"


@dataclass(frozen=True, slots=True, eq=False)
class DelItem(Effect):
    container: Expr
    key: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.container, self.key)

    def _text(self, of: Any) -> str:
        return f"del {of(self.container)}[{of(self.key)}]"


@dataclass(frozen=True, slots=True, eq=False)
class SetGlobal(Effect):
    name: str
    value: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def _text(self, of: Any) -> str:
        return f"global {self.name} = {of(self.value)}"


@dataclass(frozen=True, slots=True, eq=False)
class SetFree(Effect):
    """Store into the function's closure cell. `Arg(name)` still means the contents at entry."""

    name: str
    value: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def _text(self, of: Any) -> str:
        return f"nonlocal {self.name} = {of(self.value)}"


# --- the recipe ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ReturnRecipe:
    graph_args: tuple[Expr, ...]
    effects: tuple[Effect, ...]
    result: Expr

    def __str__(self) -> str:
        """The recipe as a small program: `t0`, `t1`, ... name what is used more than once."""
        return "\n".join(_Printer(self).lines())


def walk(*roots: Expr | Effect) -> Iterator[Expr]:
    """Every expression under `roots`, each once, operands before what uses them."""
    seen: set[int] = set()

    def visit(node: Any) -> Any:
        if id(node) in seen:
            return
        seen.add(id(node))
        for child in node.children():
            yield from visit(child)
        if isinstance(node, Expr):
            yield node

    for root in roots:
        yield from visit(root)


class _Printer:
    _ALWAYS_INLINE = (Arg, Const, Out)

    def __init__(self, recipe: ReturnRecipe) -> None:
        self.recipe = recipe
        self.uses: dict[int, int] = {}
        self.names: dict[int, str] = {}
        roots: list[Any] = [*recipe.graph_args, *recipe.effects, recipe.result]
        nodes: list[Any] = [*walk(*roots), *recipe.effects]
        for node in nodes:
            for child in node.children():
                self.uses[id(child)] = self.uses.get(id(child), 0) + 1
        for root in (*recipe.graph_args, recipe.result):
            self.uses[id(root)] = self.uses.get(id(root), 0) + 1

    def lines(self) -> Iterator[str]:
        args = self.recipe.graph_args
        yield from self._name_shared(args)
        yield f"out = graph({', '.join(map(self._of, args))})"
        for effect in self.recipe.effects:
            yield from self._name_shared((effect,))
            # The line that named the node was the evaluation.
            if not (isinstance(effect, Evaluate) and id(effect.expr) in self.names):
                yield effect._text(self._of)
        yield from self._name_shared((self.recipe.result,))
        yield f"return {self._of(self.recipe.result)}"

    def _name_shared(self, roots: Any) -> Iterator[str]:
        for node in walk(*roots):
            shared = self.uses[id(node)] > 1 and not isinstance(node, self._ALWAYS_INLINE)
            if shared and id(node) not in self.names:
                text = node._text(self._of)
                name = self.names[id(node)] = f"t{len(self.names)}"
                yield f"{name} = {text}"

    def _of(self, node: Expr) -> str:
        return self.names.get(id(node)) or node._text(self._of)
