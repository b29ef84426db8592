"""What a return recipe means, executably: a small interpreter, used as the yardstick in tests. Imports no torch."""

from __future__ import annotations

import builtins
import inspect

from trident_hook.ir import recipe as r


class _Run:
    def __init__(self, args: dict, globals: dict, function=None) -> None:
        self.args, self.globals, self.function = args, globals, function
        self.values: dict[int, object] = {}
        self.outputs: tuple = ()

    def value(self, node: r.Expr):
        if id(node) not in self.values:
            self.values[id(node)] = self.compute(node)
        return self.values[id(node)]

    def many(self, nodes) -> list:
        return [self.value(node) for node in nodes]

    def compute(self, node: r.Expr):
        match node:
            case r.Arg(name):
                return self.args[name]
            case r.Const(value):
                return value
            case r.Out(index):
                return self.outputs[index]
            case r.Global(name):
                return self.globals[name] if name in self.globals else getattr(builtins, name)
            case r.Tuple(items):
                return tuple(self.many(items))
            case r.List(items):
                return self.many(items)
            case r.Set(items):
                return set(self.many(items))
            case r.Dict(pairs):
                return {self.value(key): self.value(value) for key, value in pairs}
            case r.Slice(parts):
                return slice(*self.many(parts))
            case r.Size(items):
                import torch

                return torch.Size(self.many(items))
            case r.SizeOf(tensor, dim):
                return self.value(tensor).size(dim)
            case r.StrideOf(tensor, dim):
                return self.value(tensor).stride(dim)
            case r.OffsetOf(tensor):
                return self.value(tensor).storage_offset()
            case r.Attr(owner, name):
                return getattr(self.value(owner), name)
            case r.Item(container, key):
                return self.value(container)[self.value(key)]
            case r.Call(func, args, kwnames):
                function, values = self.value(func), self.many(args)
                plain = len(values) - len(kwnames)
                return function(*values[:plain], **dict(zip(kwnames, values[plain:], strict=True)))
        raise AssertionError(f"no meaning for {type(node).__name__}")

    def carry_out(self, effect: r.Effect) -> None:
        match effect:
            case r.Evaluate(expr):
                self.value(expr)
            case r.SetAttr(owner, name, value):
                setattr(self.value(owner), name, self.value(value))
            case r.DelAttr(owner, name):
                delattr(self.value(owner), name)
            case r.SetItem(container, key, value):
                self.value(container)[self.value(key)] = self.value(value)
            case r.DelItem(container, key):
                del self.value(container)[self.value(key)]
            case r.SetGlobal(name, value):
                self.globals[name] = self.value(value)
            case r.SetFree(name, value):
                index = self.function.__code__.co_freevars.index(name)
                self.function.__closure__[index].cell_contents = self.value(value)
            case _:
                raise AssertionError(f"no meaning for {type(effect).__name__}")


def bind(function, args: tuple, kwargs: dict) -> dict:
    """The locals of a call at entry, and the contents of the free variables."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    values = dict(bound.arguments)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        values[name] = cell.cell_contents
    return values


def run(recipe: r.ReturnRecipe, graph, args: dict, globals: dict, function=None):
    """Return the value of a call with these locals, where `graph(*inputs)` returns the sequence of outputs."""
    state = _Run(args, globals, function)
    state.outputs = tuple(graph(*state.many(recipe.graph_args)))
    for effect in recipe.effects:
        state.carry_out(effect)
    return state.value(recipe.result)
