"""Every kind of guard, step, fact, condition and check has a row with everybody who treats kinds differently. That nobody names a
kind by a string, past the tables, is asked in test_layout.py."""

from __future__ import annotations

import enum
import re
from pathlib import Path

import pytest

from trident_hook import _rt
from trident_hook.codegen import dispatch_code, facts, guard_code, module, numbers, step_code, values
from trident_hook.ir import guard, kinds, source
from trident_hook.ir.kinds import WATCHED, CheckKind, ConditionKind, GuardKind, Matter, RootKind, StepKind
from trident_hook.ir.specialization import _GRAD_MODE_BIT, HOOKS_WORD
from trident_hook.misses import explain_miss
from trident_hook.runtime import watching

ROOT = Path(__file__).resolve().parents[2]
FACTS = set(facts.FactKind)

#: Who has a table, and which kinds have to stand in it.
TABLES = {
    "guards: what all know of them": (kinds.GUARDS, GuardKind),
    "guards: in words": (guard.WORDS, GuardKind),
    "guards: as statements": (guard_code.WRITERS, GuardKind),
    "guards: as steps": (step_code.STEPS, WATCHED),
    "guards: their order": (module.PLACES, GuardKind),
    "guards: what a plan protects": (module.PROTECTED, WATCHED),
    "guards: what the dispatcher asks": (facts.OF_GUARDS, GuardKind),
    "guards: seen in a miss": (explain_miss.VIEWS, GuardKind),
    "guards: explained in a miss": (explain_miss.GUARDS, GuardKind),
    "roots: in words": (source.ROOT_TEXT, RootKind),
    "steps: what all know of them": (kinds.STEPS, StepKind),
    "steps: in words": (source.STEP_TEXT, StepKind),
    "steps: read by a call": (values.Reader.reads, StepKind),
    "steps: read by the dispatcher": (values.StoredReader.reads, StepKind),
    "steps: read by a check": (step_code.READS, StepKind),
    "steps: watched": (watching.STEPS, StepKind),
    "steps: seen in a miss": (explain_miss.STEPS, StepKind),
    "steps: cost of the dispatcher's": (facts.STEP_COST, StepKind),
    "facts: in words": (facts.WORDS, FACTS),
    "facts: their cost": (facts.COST, FACTS),
    "facts: asked": (dispatch_code.READERS, FACTS),
    "conditions: as steps": (step_code.CONDITIONS, ConditionKind),
    "conditions: what a plan protects": (module.PROTECTED_CONDITIONS, ConditionKind),
    "matters: watched": (watching.MATTERS, Matter),
    "checks: explained in a miss": (explain_miss.CHECKS, CheckKind),
}  # fmt: skip


def wrong_rows(table, wanted) -> set:
    return set(table) ^ set(wanted)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_a_row_for_every_kind(name):
    assert not wrong_rows(*TABLES[name])


@pytest.mark.parametrize("name", TABLES)
def test_a_new_kind_is_noticed_in_each_table(name):
    """Of the test itself."""
    table, wanted = TABLES[name]
    assert wrong_rows(table, {*wanted, "a new one"}) == {"a new one"}


def test_no_table_of_kinds_is_forgotten():
    """Every dict of a module of the product whose keys are kinds only, and which is long enough to be about all, is above."""
    known = [table for table, _ in TABLES.values()]
    some = {name: value for name, value in tables_of_the_product() if not any(value is table for table in known)}
    assert set(some) == {
        "trident_hook.codegen.step_code._CONSTANTS",
        "trident_hook.codegen.values._CALLS",
        "trident_hook.codegen.values._GETTERS",
        "trident_hook.codegen.facts._SINGLETONS",
        "trident_hook.misses.explain_miss._CONSTANTS",
        "trident_hook.runtime.watching._FUNCTION_PINS",
    }, "a table of kinds that no test asks for its rows"


def tables_of_the_product():
    import sys

    for name, loaded in sorted(sys.modules.items()):
        if name.startswith("trident_hook."):
            for key, value in vars(loaded).items():
                if isinstance(value, dict) and value and all(is_kind(k) for k in value):
                    yield f"{name}.{key}", value


def is_kind(value) -> bool:
    return isinstance(value, enum.StrEnum) and type(value).__module__.startswith("trident_hook.")


def test_what_can_be_watched_can_be_read_by_a_check_and_followed():
    """But the namespace that may not be there: a guard on it is refused."""
    telling = {kind for kind, about in kinds.STEPS.items() if about.tells}
    assert {kind for kind, read in step_code.READS.items() if read} == telling - {StepKind.SPACE}
    assert {kind for kind, follow in watching.STEPS.items() if follow} == telling - {StepKind.SPACE}


def test_what_is_never_a_statement_is_watched_or_written_apart():
    never = {kind for kind, write in guard_code.WRITERS.items() if write is None}
    assert never - WATCHED == {GuardKind.NOT_OF_ENV}


def test_the_dispatcher_reads_what_it_may_ask():
    for kind, cost in facts.STEP_COST.items():
        assert cost is None or values.StoredReader.reads[kind] is not None, kind


def test_an_unknown_kind_is_no_guard():
    with pytest.raises(ValueError, match="no_such_kind"):
        guard.Guard("no_such_kind", source.Source((RootKind.NONE,)))
    with pytest.raises(ValueError, match="no_such_step"):
        source.Source((RootKind.NONE,)).then("no_such_step")


# -- numbers that C has as well --------------------------------------------------------------------------------------------


def test_numbers_shared_with_c_are_those_of_c():
    assert _rt.STATE_HOOKS == HOOKS_WORD
    assert len(_rt.state_read()[1]) == _rt.STATE_WORDS
    name, bits = _rt.STATE_FLAGS[0]
    assert (name, (1 << bits) - 1) == ("grad mode", _GRAD_MODE_BIT)
    assert (_rt.SCRATCH_GLOBAL, _rt.SCRATCH_PROFILE) == (0, 1)  # the order of a kernel's scratch, in the IR as well
    assert numbers.kernel_flags(True, True) == _rt.KERNEL_PDL | _rt.KERNEL_COOPERATIVE
    assert len({_rt.KERNEL_PDL, _rt.KERNEL_COOPERATIVE, 0}) == 3


def test_each_flag_of_the_state_is_where_its_name_says():
    import torch

    def flags() -> dict[str, int]:
        word, found = _rt.state_read()[1][2], {}
        for name, bits in _rt.STATE_FLAGS:
            found[name], word = word & (1 << bits) - 1, word >> bits
        assert word == 0
        return found

    before = flags()
    with torch.no_grad():
        assert {n for n, v in flags().items() if v != before[n]} == {"grad mode"}
    with torch.inference_mode():
        assert flags()["inference mode"] == 1
    torch.backends.cudnn.allow_tf32, was = not torch.backends.cudnn.allow_tf32, torch.backends.cudnn.allow_tf32
    try:
        assert {n for n, v in flags().items() if v != before[n]} == {"TF32 in convolutions"}
    finally:
        torch.backends.cudnn.allow_tf32 = was


def test_steps_are_named_as_in_the_header():
    header = (ROOT / "ext" / "abi" / "tdh_rt.h").read_text()
    named = set(re.findall(r"\bTDH_(?:READ|ASK)_\w+", header)) - {"TDH_READ_", "TDH_ASK_"}
    used = {f"TDH_READ_{what}" for what, _ in filter(None, step_code.READS.values())}
    text = (ROOT / "trident_hook" / "codegen" / "step_code.py").read_text()
    used |= {f"TDH_{what}" for what in re.findall(r'"((?:READ|ASK)_\w+)"', text)}
    used |= {f"TDH_ASK_{what}" for what, _ in step_code._CONSTANTS.values()}
    assert used == named


def test_dumps_of_the_dispatcher_have_one_reader():
    readers = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "trident_hook").rglob("*.py")
        if "_dispatch_dump" in path.read_text()
    ]
    assert readers == ["trident_hook/runtime/trusted_kernels.py"]
