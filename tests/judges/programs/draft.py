"""A program while it is written: definitions, parameters, lines of one function, and what may change between its calls."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import textwrap
from collections.abc import Callable, Iterator

#: Every feature by name: (what writes it, the kinds of faults that it looks for, its weight).
FEATURES: dict[str, tuple[Callable, tuple[int, ...], float]] = {}


def feature(*kinds: int, weight: float = 1.0):
    """Registers a function that writes one part of a program."""

    def register(write: Callable) -> Callable:
        FEATURES[write.__name__] = (write, kinds, weight)
        return write

    return register


@dataclasses.dataclass
class Step:
    """One state of the world, and how often the function is called in it."""

    changes: list[str]  # statements, run once in the module
    arguments: dict[
        str, str
    ]  # parameter -> expression; "same NAME" is that argument's object, "kept" the last call's own
    mode: str | None = None  # a context manager
    backward: bool = False
    calls: int = 2


@dataclasses.dataclass
class Program:
    source: str
    steps: list[Step]
    features: tuple[str, ...] = ()
    undo: list[str] = dataclasses.field(default_factory=list)  # for changes of the process

    @property
    def calls(self) -> int:
        return sum(step.calls for step in self.steps)


@dataclasses.dataclass
class Parameter:
    name: str
    values: list[str]
    sort: str


class Draft:
    """What features write into. `rng` is the feature's own, so that leaving one out changes nothing in the others."""

    def __init__(self) -> None:
        self.rng = random.Random(0)
        self.definitions: list[str] = []
        self.parameters: list[Parameter] = []
        self.lines: list[str] = []
        self.changes: list[str] = []
        self.undo: list[str] = []
        self.modes: list[str] = []
        self.tensors: list[str] = ["x"]
        self.results: list[str] = []
        self._indent, self._count = 1, 0
        self._own = ""

    def begin(self, number: int, rng: random.Random) -> None:
        """The next feature writes: its names end in its number."""
        self.rng, self._own, self._count = rng, str(number), 0

    # -- names and values --------------------------------------------------------------------------------------------
    def name(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._own}_{self._count}"

    def any(self) -> str:
        """A tensor that the function has."""
        return self.rng.choice(self.tensors)

    def number(self) -> int:
        return self.rng.choice((2, 3, 4, 5, 7))

    def one_of(self, *choices):
        return self.rng.choice(choices)

    # -- what the program has -----------------------------------------------------------------------------------------
    def define(self, text: str) -> None:
        self.definitions.append(textwrap.dedent(text).strip("\n"))

    def glob(self, value: str, stem: str = "G") -> str:
        """A global variable."""
        name = self.name(stem)
        self.define(f"{name} = {value}")
        return name

    def argument(self, *values: str, sort: str = "value") -> str:
        name = self.name("a")
        self.parameters.append(Parameter(name, list(values), sort))
        return name

    def change(self, *texts: str) -> None:
        """Each is a statement that may run between two calls."""
        self.changes += texts

    def line(self, *texts: str) -> None:
        for text in texts:
            self.lines += textwrap.indent(textwrap.dedent(text).strip("\n"), "    " * self._indent).splitlines()

    def process(self, text: str, undo: str) -> None:
        """A change of the process, which both worlds see; `undo` runs when the program is over."""
        self.changes.append(f"process: {text}")
        if undo not in self.undo:
            self.undo.append(undo)

    @contextlib.contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Lines that are written inside stand under `head`."""
        self.line(head)
        self._indent += 1
        yield
        self._indent -= 1

    def tensor(self, value: str) -> str:
        """Assigns a tensor of the shape of x, that other features may use."""
        name = self.name("t")
        self.line(f"{name} = {value}")
        if self._indent == 1:
            self.tensors.append(name)
        return name

    def keep(self, value: str) -> None:
        """It is part of what the function returns."""
        name = self.name("r")
        self.line(f"{name} = {value}")
        self.results.append(name)
