"""torch.compiler's stance: "force_eager" is obeyed by hits as well; under any other than the default nothing is learned,
and nothing raises because it would have been."""

from __future__ import annotations

import pytest
import torch
from support import programs
from support.routes import routed, warm

import trident_hook

X, HALF = torch.randn(16), torch.randn(16).half()
OTHERS = ["eager_on_recompile", "fail_on_recompile", "eager_then_compile", "aot_eager_then_compile"]


def test_force_eager_is_the_plain_function(through):
    fn = through(programs.shift)
    warm(fn, X, 3)
    with torch.compiler.set_stance("force_eager"):
        routed(fn, X, 3, via="bypass", launches=0)
        routed(fn, HALF, 3, via="bypass")
    routed(fn, X, 3, via="scm")
    assert len(trident_hook.explain(fn).specializations) == 1


def test_force_eager_before_anything_is_known(through):
    fn = through(programs.shift)
    with torch.compiler.set_stance("force_eager"):
        routed(fn, X, 3, via="python")
    warm(fn, X, 3)


@pytest.mark.parametrize("stance", OTHERS)
def test_other_stances_serve_what_is_known_and_learn_nothing(through, stance):
    fn = through(programs.shift)
    warm(fn, X, 3)
    with torch.compiler.set_stance(stance):
        routed(fn, X, 3, via="scm")
        for _ in range(3):
            routed(fn, HALF, 3, via="python")
    assert len(trident_hook.explain(fn).specializations) == 1
    warm(fn, HALF, 3)


def test_a_forced_backend_is_for_compiled_functions(served):
    fn = served(programs.shift)
    with torch.compiler.set_stance("default", force_backend="eager"):
        warm(fn, X, 3)
