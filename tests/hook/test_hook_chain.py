"""Where our evaluator sits: install and remove in any order with an evaluator of somebody else."""

import pytest


def plain(x):
    return ("plain", x)


def test_install_and_remove_are_idempotent(core, fake):
    assert core.hook_state() == "off"
    assert core.hook_install() is True
    assert core.hook_install() is False
    assert core.hook_state() == "on"
    assert fake.evaluator() == "other"
    assert core.hook_remove() is True
    assert core.hook_remove() is False
    assert core.hook_state() == "off"
    assert fake.evaluator() == "default"


def test_foreign_below_is_chained_to_and_restored(core, fake, serve):
    fake.foreign_install()
    try:
        serve(plain, doors=1)
        core.hook_install()
        before = fake.foreign_count()
        assert plain(1) == "scm"
        sorted([2, 1], key=lambda v: v)
        assert fake.foreign_count() > before
        core.hook_remove()
        assert fake.evaluator() == "foreign"
    finally:
        fake.foreign_remove(True)


def test_foreign_above_is_never_removed(core, fake, serve):
    serve(plain, doors=1)
    core.hook_install()
    fake.foreign_install()
    assert core.hook_state() == "covered"
    assert plain(1) == "scm"  # it chains to us, so we still serve
    assert core.hook_remove() is True
    assert fake.evaluator() == "foreign"
    assert core.hook_state() == "covered"
    assert plain(1) == ("plain", 1)  # only forwarding now
    fake.foreign_remove(False)  # puts ours back on top, which leaves with the next frame
    assert plain(1) == ("plain", 1)
    assert core.hook_state() == "off"
    assert fake.evaluator() == "default"


def test_install_again_while_covered(core, fake, serve):
    serve(plain, doors=1)
    core.hook_install()
    fake.foreign_install()
    core.hook_remove()
    assert core.hook_install() is True
    assert core.hook_state() == "covered"
    assert plain(1) == "scm"
    fake.foreign_remove(False)
    assert core.hook_state() == "on"
    assert plain(1) == "scm"


def test_dropped_from_the_chain_is_noticed(core, fake, serve):
    """A foreign evaluator that goes back to the default, not to us (Dynamo does when we were installed above it)."""
    serve(plain, doors=1)
    core.hook_install()
    fake.foreign_install()
    fake.foreign_remove(True)
    assert core.hook_state() == "on"  # asking settles it
    assert plain(1) == "scm"


def test_dropped_and_removed(core, fake):
    core.hook_install()
    fake.foreign_install()
    fake.foreign_remove(True)
    assert core.hook_remove() is True
    assert fake.evaluator() == "default"
    assert core.hook_state() == "off"


def test_remove_during_a_call(core, fake, serve):
    serve(plain, "call", lambda func, args: (core.hook_remove(), args[0]), doors=1)
    core.hook_install()
    assert plain(5) == (True, 5)
    assert core.hook_state() == "off"
    assert plain(5) == ("plain", 5)


def test_remove_and_install_in_nested_plain_frames(core, fake):
    def inner():
        core.hook_remove()
        core.hook_install()
        return core.hook_state()

    core.hook_install()
    assert inner() == "on"
    assert core.hook_state() == "on"


@pytest.mark.parametrize("call", ["entry_create", "entry_drop", "entry_record", "promote", "discoverer_set"])
def test_wrong_arguments_are_type_errors(core, call):
    args = (3, None, 1) if call == "entry_create" else (3,)
    with pytest.raises(TypeError, match="expected a"):
        getattr(core, call)(*args)
