"""Patches are in place while a capture runs, and what was there before is there again afterwards."""

from __future__ import annotations

import os
import threading

import pytest

from trident_hook.dynamo.patches import catalogue, registry


class Base:
    @classmethod
    def kind(cls):
        return cls.__name__

    def inherited(self):
        return "base"


class Owner(Base):
    def method(self, number):
        return number


@registry.patch("an example", gone_when="never")
def example(changes):
    """For these tests."""
    changes.in_front(Owner, "method", lambda self, number: -1 if number == 3 else None)
    changes.in_front(Owner, "inherited", lambda self: "ours")
    changes.replace(Owner, "kind", lambda original: classmethod(lambda cls: "our " + original.__func__(cls)))


def answers() -> list:
    return [Owner().method(3), Owner().method(4), Owner().inherited(), Owner.kind()]


PLAIN, OURS = [3, 4, "base", "Owner"], [-1, 4, "ours", "our Owner"]


@pytest.fixture(autouse=True)
def unchanged():
    before = dict(vars(Owner))
    yield
    assert dict(vars(Owner)) == before
    assert not registry._holders
    assert not registry._in_place


def test_nested_blocks_restore_at_the_last():
    assert answers() == PLAIN
    with registry.in_force([example]):
        with registry.in_force([example]):
            assert answers() == OURS
        assert answers() == OURS
        assert registry.is_capturing()
    assert answers() == PLAIN
    assert not registry.is_capturing()


def test_a_block_that_raises_restores():
    with pytest.raises(ZeroDivisionError), registry.in_force([example]):
        _ = 1 / 0
    assert answers() == PLAIN


def test_other_threads_are_left_alone_and_blocks_overlap():
    seen, inside, over = [], threading.Event(), threading.Event()

    def other():
        seen.append(answers()[:3])
        with registry.in_force([example]):
            inside.set()
            over.wait(30)
            seen.append(answers())

    with registry.in_force([example]):
        thread = threading.Thread(target=other)
        thread.start()
        assert inside.wait(30)
    assert vars(Owner)["method"] is not before_method
    assert answers()[:3] == PLAIN[:3]
    over.set()
    thread.join()
    assert seen == [PLAIN[:3], OURS]


before_method = vars(Owner)["method"]


def test_what_somebody_else_replaces_stays():
    """Between two captures it is what ours stands in front of; during one, it is not taken away."""
    original = Owner.method
    try:
        with registry.in_force([example]):
            pass
        Owner.method = lambda self, number: number * 10
        with registry.in_force([example]):
            assert (Owner().method(3), Owner().method(4)) == (-1, 40)
            Owner.method = theirs = lambda self, number: "theirs"
        assert vars(Owner)["method"] is theirs
    finally:
        Owner.method = original


def test_a_name_that_is_gone_is_said_and_nothing_is_changed():
    @registry.patch("of another version", gone_when="never")
    def other(changes):
        changes.in_front(Owner, "method", lambda self, number: -1)
        changes.in_front(Owner, "gone", lambda self: None)

    with registry.in_force([other]):
        assert answers() == PLAIN
    assert "gone" in other.missing


def test_a_version_that_does_not_need_it_is_left_alone():
    @registry.patch("of old versions", gone_when="never", below=(1, 0))
    def other(changes):
        raise AssertionError

    with registry.in_force([other]):
        assert answers() == PLAIN
    assert not other.missing


def test_a_child_process_has_no_capture_of_other_threads():
    inside, over = threading.Event(), threading.Event()

    def other():
        with registry.in_force([example]):
            inside.set()
            over.wait(30)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(30)
    child = os.fork()
    if not child:
        os._exit(0 if answers() == PLAIN and vars(Owner)["method"] is before_method and not registry._holders else 1)
    over.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_real_patches_leave_pytorch_as_it_was():
    owners = {id(change.owner): change.owner for patch in catalogue.PATCHES for change in patch.changes()}
    before = {key: dict(vars(owner)) for key, owner in owners.items()}
    with catalogue.in_force():
        changed = {key for key, owner in owners.items() if dict(vars(owner)) != before[key]}
    assert changed == set(owners)
    assert {key: dict(vars(owner)) for key, owner in owners.items()} == before
