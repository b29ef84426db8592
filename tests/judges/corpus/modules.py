"""Functions of nn.Modules: attributes, parameters, buffers, sub-modules, hooks, patched classes."""

from __future__ import annotations

from torch import nn

from ..places import MISSING, Attribute, Entry, Place, Slot, argument, constants, subject
from ..values import layouts, ramp

X = argument("x", *layouts(4, 6)[:6])


class Block(nn.Module):
    gain = 2

    def __init__(self, width=6, shift=1.0):
        super().__init__()
        self.weight = nn.Parameter(ramp(width, width))
        self.register_buffer("mean", ramp(width))
        self.shift = shift
        self.sizes = [1, 2]

    def forward(self, x):
        return (x - self.mean) @ self.weight * self.gain + self.shift + self.sizes[1]


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block()
        self.second = nn.ReLU()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.second(self.first(x)))


def changed(make, change):
    def made():
        module = make()
        change(module)
        return module

    return made


def _tie(m):
    m.other = m.weight


def _extra(m):
    m.extra = 1


BLOCKS = [
    Block,
    lambda: Block(shift=2.0),
    lambda: Block(shift=1),
    lambda: Block(5),
    lambda: Block().eval(),
    lambda: Block().double(),
    changed(Block, lambda m: m.weight.requires_grad_(False)),
    changed(Block, lambda m: setattr(m, "mean", ramp(6, start=3.0))),
    changed(Block, lambda m: setattr(m, "mean", None)),
    changed(Block, lambda m: setattr(m, "weight", nn.Parameter(ramp(6, 6).t()))),
    changed(Block, lambda m: setattr(m, "gain", 5)),
    changed(Block, lambda m: setattr(m, "sizes", [1, 3])),
    changed(Block, lambda m: setattr(m, "sizes", (1, 2))),
    changed(Block, lambda m: m.register_forward_hook(lambda m, args, out: out * 3)),
    changed(Block, lambda m: m.register_forward_pre_hook(lambda m, args: (args[0] * 3,))),
    changed(Block, lambda m: setattr(m, "forward", lambda x: x * 7)),
    changed(Block, _tie),
    changed(Block, _extra),
    changed(Block, lambda m: m.weight.data.mul_(2)),
    lambda: nn.Linear(6, 6),
    lambda: None,
]


class Hooked(Place):
    """A hook on every module of the process."""

    def apply(self, fn, value, bound):
        if value is None:
            return None
        handle = nn.modules.module.register_module_forward_hook(value)
        return handle.remove


def tripled(module, args, out):
    return out * 3


@subject(
    X,
    argument("m", *BLOCKS),
    Slot("gain", Attribute(Block, "gain"), constants(2, 4, 2.0)),
    Slot("everywhere", Hooked(), constants(None, tripled)),
    Slot("forward", Attribute(Block, "forward"), constants(Block.forward, lambda self, x: x)),
)
def module_called(x, m):
    return m(x) + 1


@subject(X, argument("m", *BLOCKS))
def module_read(x, m):
    return x * m.shift + m.weight.sum() if m.training else x - 1


def _linear():
    m = nn.Linear(6, 3)
    m.weight.data.copy_(ramp(3, 6))
    m.bias.data.copy_(ramp(3))
    return m


@subject(
    X,
    argument(
        "m",
        _linear,
        changed(_linear, lambda m: m.eval()),
        changed(_linear, lambda m: setattr(m, "bias", None)),
        changed(_linear, lambda m: m.double()),
        changed(_linear, lambda m: m.register_forward_hook(tripled)),
        lambda: nn.Identity(),
        changed(_linear, lambda m: m.requires_grad_(False)),
        changed(_linear, lambda m: setattr(m, "forward", lambda x: x * 5)),
    ),
    Slot("forward", Attribute(nn.Linear, "forward"), constants(nn.Linear.forward, lambda self, x: x * 2)),
    Slot("linear", Attribute(nn.functional, "linear"), constants(nn.functional.linear, lambda x, w, b: x * 4)),
)
def linear(x, m):
    return m(x) * 2


STACK = Stack()
STACK.first.weight.data.copy_(ramp(6, 6))


class Training(Place):
    def apply(self, fn, value, bound):
        STACK.train(value)
        return lambda: STACK.train(False)


STACK.eval()


@subject(
    X,
    Slot("training", Training(), constants(False, True)),
    Slot("shift", Attribute(STACK.first, "shift"), constants(1.0, 2.0, 1, True)),
    Slot("own forward", Attribute(STACK.second, "forward"), constants(MISSING, lambda x: x * 5)),
    Slot(
        "second",
        Entry(STACK._modules, "second"),
        [lambda: STACK._modules["second"], lambda: nn.Sigmoid(), lambda: nn.ReLU()],
    ),
    Slot(
        "weight",
        Entry(STACK.first._parameters, "weight"),
        [
            lambda: STACK.first._parameters["weight"],
            lambda: nn.Parameter(ramp(6, 6, start=1.0)),
            lambda: nn.Parameter(ramp(6, 3)),
        ],
    ),
    Slot("hook", Entry(STACK.first._forward_hooks, 12345), constants(MISSING, tripled)),
)
def global_module(x):
    return STACK(x)


@subject(
    X,
    argument(
        "m",
        lambda: nn.BatchNorm1d(6),
        lambda: nn.BatchNorm1d(6).eval(),
        lambda: nn.BatchNorm1d(6, momentum=0.5),
        lambda: nn.BatchNorm1d(6, affine=False),
    ),
)
def running_mean(x, m):
    return m(x)


@subject(
    X,
    argument(
        "m",
        lambda: nn.Sequential(nn.ReLU(), nn.Sigmoid()),
        lambda: nn.Sequential(nn.Sigmoid(), nn.ReLU()),
        lambda: nn.Sequential(nn.ReLU()),
        lambda: nn.Sequential(nn.ReLU(), nn.Sigmoid(), nn.ReLU()),
    ),
)
def sequential(x, m):
    return m(x) + 1


@subject(
    X,
    argument("a", lambda: nn.Parameter(ramp(4, 6)), lambda: nn.Parameter(ramp(4, 6, start=2.0))),
    argument("b", lambda: nn.Parameter(ramp(4, 6)), lambda made: made["a"]),
)
def two_parameters(x, a, b):
    if a is b:
        return x * a
    return x * a + b
