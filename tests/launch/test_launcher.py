"""The launcher test: what a specialization launches is what Triton's own launcher launches, byte for byte."""

from __future__ import annotations

import collections

import pytest

from . import compare, corpus

_verdicts: dict[str, compare.Verdict] = {}


@pytest.fixture(autouse=True)
def recording_only(clean_slate):
    with compare.stable_tuning():
        yield


@pytest.mark.parametrize("case", corpus.CASES, ids=lambda case: case.name)
def test_launch_equals_stock(case):
    with case.around():
        verdict = compare.judge(case.fn, case.args, lambda served: [served(*args) for args in case.before])
    _verdicts[case.name] = verdict
    if case.refused is None:
        assert verdict.served, verdict.reason
        empty = (case.name.startswith("grid") and "0" in case.name.replace("65535", "")) or "zero" in case.name
        assert (verdict.launches == 0) == (empty or case.name == "a tensor without elements")
    else:
        assert not verdict.served
        assert case.refused in verdict.reason


def test_the_corpus_is_large_enough():
    """And says, when all of it ran, how much was served."""
    assert len(corpus.CASES) >= 80
    served = [v for v in _verdicts.values() if v.served]
    refused = collections.Counter(v.reason for v in _verdicts.values() if not v.served)
    print(f"\n{len(served)} of {len(_verdicts)} launches served, {sum(refused.values())} refused")
    for reason, count in refused.items():
        print(f"  {count} x {reason}")
