"""Fixtures of the hook tests: the core and the fake SCM, loaded without the trident_hook package.

``core`` is handed out clean and is put back: whatever a test leaves behind (hook, sentinel, discoverer, call doors)
would otherwise route the next test's calls, and pytest's own.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import build_core
from hook_support import HAS_CALL_DOOR, Record


@pytest.fixture(scope="session")
def _core():
    return build_core.load_core()


@pytest.fixture(scope="session")
def fake():
    return build_core.load_fake()


@pytest.fixture
def core(_core):
    yield _core
    _core.hook_remove()
    _core.discoverer_set(None)
    _core.quiet_after_set(5000)
    _core.delegation_setup(None)
    _core.demote_all()
    if "trident_hook.api" in sys.modules:  # the product shares this library's state: it sets itself up again
        sys.modules["trident_hook.api"]._set_up.cache_clear()
    assert _core.hook_state() == "off"
    assert _core.live_counts()["promoted"] == 0


@pytest.fixture
def record():
    return Record()


@pytest.fixture
def serve(core, fake):
    """serve(func, mode='const', value='scm', doors=3): give ``func``'s code an entry with a fake SCM."""
    made = []

    def make(func, mode="const", value="scm", doors=3, record=None):
        func = getattr(func, "__func__", func)
        core.entry_create(func.__code__, record, doors)
        core.entry_scm_set(func.__code__, fake.scm(mode, value))
        made.append(func.__code__)
        return func

    yield make
    for code in made:
        core.entry_drop(code)


@pytest.fixture(params=["frame", "call", "jit"])
def door(request, core):
    """Each way in. door(func) returns the callable to call; call it through the fixture's door only."""
    if request.param == "call" and not HAS_CALL_DOOR:
        pytest.skip("no call door on plain functions before CPython 3.12")

    def enter(func):
        if request.param == "frame":
            core.entry_doors_set(func.__code__, 1)
            core.hook_install()
            return func
        core.entry_doors_set(func.__code__, 2)
        if request.param == "call":
            assert core.promote(func)
            return func
        return core.JitFunction(func)

    enter.name = request.param
    return enter
