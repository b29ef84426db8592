"""`trident_hook.report()`: a summary over the functions of a library, each with its state and its reason."""

from __future__ import annotations

import pytest
import torch
from support import programs
from support.routes import twin

import trident_hook


def refused(x):
    print(end="")
    return programs.shift(x, 3)


def rest_in_python(y, n):
    torch._dynamo.graph_break()
    return y * n


def calls_python(x):
    return rest_in_python(programs.shift(x, 3), 3)


def test_each_function_has_its_state(served):
    def quiet(x):
        return programs.shift(x, 3)

    def never(x):
        return programs.shift(x, 3)

    kept = [trident_hook.jit(fn) for fn in (quiet, never, twin(refused))]
    for _ in range(4):
        kept[0](torch.ones(4))
        kept[2](torch.ones(4))
    names = [
        name
        for name in (row.name for row in trident_hook.report().rows)
        if "test_each_function" in name or name.endswith(".refused")
    ]
    rows = {name.rsplit(".", 1)[-1]: row for name in names for row in trident_hook.report(name).rows}
    assert {name: row.state for name, row in rows.items()} == {
        "quiet": "served",
        "never": "not called",
        "refused": "left alone",
    }
    assert (rows["quiet"].hits, rows["quiet"].others, rows["quiet"].launches) == (3, 1, 1)
    assert rows["quiet"].why == ""
    assert "graph-break" in rows["refused"].why
    text = str(trident_hook.report("*quiet"))
    assert "1 of 1 functions that were called are served" in text
    assert "1 native launch" in text


def test_a_hit_that_calls_python_is_served_in_part(served):
    fn = served(calls_python)
    for _ in range(3):
        fn(torch.ones(4))
    (row,) = trident_hook.report("*.calls_python").rows
    assert (row.state, row.hits, row.python) == ("in part", 2, ("rest_in_python",))
    assert "calls rest_in_python in Python" in str(trident_hook.report("*.calls_python"))


def test_nothing_is_known_of_a_library_that_is_not_there():
    assert "no function is known" in str(trident_hook.report("no.such.library.*"))
    with pytest.raises(TypeError, match="give a pattern"):
        trident_hook.report(3)
