"""Text with indentation, and the tables that a module's functions share."""

from __future__ import annotations

import contextlib
from typing import Any

from ..ir.objects import ObjectKey


class Lines:
    def __init__(self, indent: int = 0) -> None:
        self.lines: list[str] = []
        self.indent = indent

    def __call__(self, text: str = "") -> None:
        self.lines.append("    " * self.indent + text if text else "")

    def comment(self, text: str) -> None:
        """A comment, on one line: whatever a guard or an operator prints."""
        self(f"# {plain_text(text)}")

    @contextlib.contextmanager
    def block(self, head: str) -> Any:
        self(head)
        self.indent += 1
        yield
        self.indent -= 1

    def text(self) -> str:
        return "\n".join(self.lines)


#: What could end the comment or the string that a comment stands in, or be read as another character.
_ENDINGS = (('"' * 3, "'" * 3), ("*/", "* /"), ("/*", "/ *"), ("??", "? ?"))
#: What stands for itself in a C string: no letter that could be read as part of an escape before it.
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_ $.%-")


def plain_text(text: object) -> str:
    """What a comment may say of a string that comes from the program. Every such string passes through here, or through
    `identifier` or `c_string`: nothing in it can end the comment, in Cython or in the C that Cython hands on. One line of
    printable ASCII, cut where it is long; no backslash (it would join the next line or begin an escape), no trigraph."""
    line = " ".join(str(text).split())
    line = line if len(line) <= 160 else line[:157] + "..."
    line = "".join(c if " " <= c <= "~" else f"<{ord(c):x}>" for c in line.replace("\\", "/"))
    for seen, written in _ENDINGS:
        line = line.replace(seen, written)
    return line


def c_comment(number: int, text: object) -> str:
    """A C comment inside a string of Cython's."""
    return f"/* {number}: {plain_text(text)} */".replace('"', "'")


def identifier(text: str) -> str:
    """Part of a name in the generated text. Python's names may have letters that C does not know."""
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"_{ord(c):x}_" for c in text)


def c_string(text: str) -> str:
    """A C string inside a string of Cython's, which takes one level of backslashes away."""
    encoded = text.encode("utf-8", "surrogatepass")
    return '"' + "".join(chr(b) if chr(b) in _PLAIN else f"\\\\{b:03o}" for b in encoded) + '"'


class Tables:
    """Objects, operator sites and kernels of a module, each stored once."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self._object_index: dict[Any, Any] = {}
        self.sites: list[tuple[Any, ...]] = []  # (op, overload, template, number of tensor results)
        self.kernels: list[Any] = []
        self.versions: dict[int, int] = {}

    def version(self, facts: Any) -> int:
        """Place in `version[]` for the last version tag of a class that was found to be as `facts` (an ObjectKey) say."""
        return self.versions.setdefault(id(facts.value), len(self.versions))

    def object(self, value: Any) -> str:
        """C expression of a Python object that `bind` is given."""
        return f"obj[{self.index(value)}]"

    def index(self, value: Any) -> int:
        """Of a Python object among those that `bind` is given."""
        if isinstance(value, ObjectKey):
            value = value.value
        key = (type(value), value) if isinstance(value, (str, int)) else id(value)
        index = self._object_index.get(key)
        if index is None:
            index = self._object_index[key] = len(self.objects)
            self.objects.append(value)
        return index

    def site(self, op: str, overload: str, template: tuple[Any, ...], n_outs: int) -> str:
        self.sites.append((op, overload, template, n_outs))
        return f"site[{len(self.sites) - 1}]"

    def kernel(self, kernel: Any) -> str:
        for index, known in enumerate(self.kernels):
            if known == kernel:
                return f"kernel_{index}"
        self.kernels.append(kernel)
        return f"kernel_{len(self.kernels) - 1}"


def literal(value: int) -> str:
    """A 64-bit int constant in Cython. What needs more than 32 bits has a type: Cython would compare it as a Python object."""
    if not -(2**63) <= value < 2**63:
        raise OverflowError(f"{value} does not fit 64 bits")
    if value == -(2**63):
        return "(<int64_t>-9223372036854775807 - 1)"
    if -(2**31) < value < 2**31:
        return str(value)
    return f"(<int64_t>{value})" if value > 0 else f"(-<int64_t>{-value})"
