"""Strings of the program in generated text: whatever a name, a key or an attribute holds, none of it becomes code."""

from __future__ import annotations

import ast
import ctypes
import os
import re
from pathlib import Path

import pytest
import torch

import trident_hook
import trident_hook.codegen
from trident_hook.codegen import writer

FOLDER = Path(trident_hook.codegen.__file__).parent
HOSTILE = {
    "newline": "a\nb",
    "carriage return": "a\rb",
    "line separators": "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg",
    "nul": "a\0b",
    "surrogate": "a\ud800b",
    "wide": "\U0001f600\u03b1",
    "end of a C comment": "*/ int x; /*",
    "split end": "**//",
    "quotes": '"' * 7 + "'" * 7,
    "backslash at the end": "a\\",
    "escapes": "\\n\\x0a\\012\\u000a",
    "trigraph": "a??/",
    "hash": "# cython: x\n#",
    "format": "{name} {0} %s %n",
    "long": "x" * 155 + "*/" * 10,
}


@pytest.fixture(params=HOSTILE)
def hostile(request):
    return HOSTILE[request.param]


def test_what_a_comment_may_say(hostile):
    text = writer.plain_text(hostile)
    assert all(" " <= c <= "~" for c in text)
    for ending in ('"' * 3, "*/", "/*", "??", "\\"):
        assert ending not in text
    comment = writer.c_comment(3, hostile)
    assert comment.endswith(" */")
    assert '"' not in comment
    assert comment.count("*/") == 1


def test_part_of_a_name(hostile):
    assert re.fullmatch(r"[A-Za-z0-9_]*", writer.identifier(hostile))
    assert writer.identifier("x_1") == "x_1"


def test_a_c_string_is_the_string(hostile):
    """Read as Cython reads it, and then as C does."""
    literal = ast.literal_eval('"""' + writer.c_string(hostile) + ' """').strip()
    assert re.fullmatch(r'"(?:[A-Za-z0-9_ $.%-]|\\[0-7]{3})*"', literal)
    read = re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), literal[1:-1].encode())
    assert read == hostile.encode("utf-8", "surrogatepass")


def comments_with_values() -> list[tuple[str, ast.expr]]:
    """Every value that an f-string of the code generator puts behind the begin of a comment."""
    found = []
    for path in sorted(FOLDER.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.JoinedStr):
                continue
            inside = False
            for part in node.values:
                if isinstance(part, ast.Constant):
                    last = max(part.value.rfind("# "), part.value.rfind("/*"))
                    inside = (inside or last >= 0) and part.value.rfind("*/") <= last
                elif inside:
                    found.append((f"{path.name}:{node.lineno}", part.value))
    return found


#: Comments whose values are ours: numbers, and words that stand in the code generator itself.
OURS = {"of", "what", "number", "begin - 1"}


def test_every_value_in_a_comment_passes_through_the_one_function():
    places = comments_with_values()
    assert len(places) > 5
    for where, value in places:
        called = isinstance(value, ast.Call) and getattr(value.func, "id", "") == "plain_text"
        assert called or ast.unparse(value) in OURS, f"{where}: {ast.unparse(value)}"


MARK = "TDH_TEST_MARK"
INJECTED = f'''evil
cdef extern from *:
    """
#include <stdlib.h>
static void __attribute__((constructor)) tdh_evil(void) {{ setenv("{MARK}", "1", 1); }}
    """
#'''


class Holder:
    pass


def by_qualname(text):
    space = {"torch": torch, "__name__": "hostile"}
    exec("def f(x):\n    return (x + 1).relu()\n", space)
    space["f"].__qualname__ = text
    return space["f"], ()


def by_attribute(text):
    holder = Holder()
    setattr(holder, text, 2.5)
    space = {"torch": torch, "holder": holder, "__name__": "hostile"}
    exec(f"def f(x):\n    return x * getattr(holder, {text!r})\n", space)
    return space["f"], ()


def by_key(text):
    space = {"torch": torch, "table": {text: 3}, "__name__": "hostile"}
    exec(f"def f(x):\n    return x * table[{text!r}]\n", space)
    return space["f"], ()


def by_value(text):
    space = {"torch": torch, "__name__": "hostile"}
    exec(f"def f(x, word):\n    return x + (1 if word == {text!r} else 2)\n", space)
    return space["f"], (text,)


def by_file_and_name(text):
    space = {"torch": torch, "__name__": text}
    exec("def f(x):\n    return x + 4\n", space)
    function = space["f"]
    function.__code__ = function.__code__.replace(co_filename=text.replace("\0", "0"), co_name=text, co_qualname=text)
    function.__name__ = function.__qualname__ = text
    return function, ()


@pytest.mark.slow
@pytest.mark.parametrize("make", [by_qualname, by_attribute, by_key, by_value, by_file_and_name])
def test_served_and_not_injected(make, cache_dir):
    """With each of the strings, and one that would leave a mark. Where it cannot be served, eager answers."""
    from trident_hook._config import config

    before = config.build, config.cache_dir
    config.build, config.cache_dir = "sync", cache_dir
    os.environ.pop(MARK, None)
    x, hits = torch.randn(4), 0
    try:
        for text in (INJECTED, "a\nb*/\\", 'q"""\u2028\ud800'):
            function, more = make(text)
            expected, served = function(x, *more), trident_hook.jit(function)
            for _ in range(3):
                assert torch.equal(served(x, *more), expected)
            hits += trident_hook.counts(function)["hits"]
            for line in trident_hook.explain(function).source.splitlines():
                assert "tdh_evil" not in line or line.lstrip().startswith("#") or "/*" in line
        assert hits > 0
    finally:
        config.build, config.cache_dir = before
    getenv = ctypes.CDLL(None).getenv  # os.environ was read when the process began
    getenv.restype = ctypes.c_char_p
    assert getenv(MARK.encode()) is None
