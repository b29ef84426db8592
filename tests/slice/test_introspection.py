"""What people ask it: status(), explain(), counts(), logs; and what it answers to a wrong question."""

from __future__ import annotations

import functools
import os
import re

import pytest
import torch
from support import programs
from support.routes import routed, twin, warm

import trident_hook
from trident_hook import _compat, _core
from trident_hook._config import LOG_CHANNELS, Config
from trident_hook._variables import complaints
from trident_hook.errors import ConfigError, NotAFunctionError, TridentHookError
from trident_hook.testing import workloads

X = torch.arange(32, dtype=torch.float32)


# -- status ------------------------------------------------------------------------------------------------------------


def test_status_follows_enable_and_disable():
    def seen():
        status = trident_hook.status()
        return status.hook, status.enabled

    trident_hook.config.promote = False
    assert seen() == ("off", False)
    with trident_hook.enable():
        assert seen() == ("on", True)
        assert "is enabled; hook on" in str(trident_hook.status())
    assert seen() == ("off", False)
    assert "is not enabled; hook off" in str(trident_hook.status())


@pytest.mark.skipif(not _compat.FUNCTIONS_CAN_BE_PROMOTED, reason="CPython 3.11 has no call door: the hook stays in")
def test_no_hook_where_every_function_has_its_call_door():
    with trident_hook.enable(include=[twin(programs.shift)]):
        assert (trident_hook.status().hook, trident_hook.status().enabled) == ("off", True)


def test_status_tells_versions_and_settings(tmp_path):
    import platform

    import triton

    trident_hook.config.cache_dir = tmp_path
    status = trident_hook.status()
    assert (status.python, status.torch) == (platform.python_version(), torch.__version__)
    assert status.triton == triton.__version__
    assert (status.build, status.cache_dir) == ("sync", str(tmp_path))
    assert status.off_reason is None
    text = str(status)
    for value in (status.python, status.torch, status.triton, status.cache_dir, f"ABI {status.abi}", "builds: sync"):
        assert value in text


def test_status_counts_the_functions(served):
    before = trident_hook.status().functions
    fn = served(programs.shift)
    assert trident_hook.status().functions == before + 1
    assert f"{before + 1} function(s) known" in str(trident_hook.status())
    del fn


def test_an_unsupported_environment_stays_off_and_says_why(monkeypatch):
    monkeypatch.setattr(_compat, "torch_version", lambda: (2, 99, 0))
    fn = twin(programs.shift)
    with trident_hook.enable(include=[fn]):
        assert (trident_hook.status().hook, trident_hook.status().enabled) == ("off", False)
        assert "is not supported" in trident_hook.status().off_reason
        assert "off because PyTorch" in str(trident_hook.status())
        routed(fn, X, 3, via="alone")
    assert trident_hook.jit(fn) is fn


# -- explain -----------------------------------------------------------------------------------------------------------


def test_explain_of_what_is_not_known():
    for unknown in (twin(programs.shift), len, 3, None, "shift"):
        explanation = trident_hook.explain(unknown)
        assert not explanation.known
        assert "is not served" in str(explanation)
        assert set(trident_hook.counts(unknown).values()) == {0}


def test_explain_of_what_was_never_called(served):
    fn = served(programs.shift)
    explanation = trident_hook.explain(fn)
    assert explanation.known
    assert (explanation.specializations, explanation.source, explanation.builds) == ((), "", 0)
    assert (explanation.last_miss, explanation.refused, explanation.served_after) == ("none", None, None)
    assert "0 hits, 0 misses" in str(explanation)


def test_explain_has_the_whole_story(through):
    fn = through(programs.shift)
    warm(fn, X, 3)
    warm(fn, X.half(), 3)
    explanation = trident_hook.explain(fn)
    assert explanation.name == "support.programs.shift"
    assert explanation.counts == trident_hook.counts(fn)
    assert (explanation.counts["hits"], explanation.counts["misses"]) == (2, 2)
    assert sum(explanation.doors.values()) == 2
    assert explanation.doors["frame" if through.door == "frame" else "call"] == 2
    assert "float32" in explanation.last_miss
    assert "L['x']" in explanation.last_miss
    text = str(explanation)
    assert "2 hits, 2 misses, 0 errors, 0 bypasses, 2 to Dynamo, 0 to plain Python" in text
    for number, spec in enumerate(explanation.specializations):
        assert f"specialization {number}\n" in text
        assert str(spec.recipe).splitlines()[0] in text
        for i, guard in enumerate(explanation.guards[number]):
            assert f"    guard {i}: {guard}" in text
    assert explanation.build_seconds > 0
    assert explanation.served_after > 0


def test_explain_has_the_generated_source(served):
    fn = served(programs.shift)
    warm(fn, X, 3)
    source = trident_hook.explain(fn).source
    assert "Specialization Cache Module of support.programs.shift" in source
    assert "explain(fn).source" in str(trident_hook.explain(fn))
    for guarded in ("L['x']", "L['a']", "G['shift_kernel']"):
        assert re.search(rf"(#|/\*).*{re.escape(guarded)}", source), f"no comment names {guarded}"


def test_the_same_answers_for_every_form_of_the_function(served):
    fn = twin(programs.shift)
    jitted = trident_hook.jit(fn)
    warm(jitted, X, 3)
    assert trident_hook.counts(fn) == trident_hook.counts(jitted)

    class Holder:
        method = jitted

    assert trident_hook.counts(Holder().method) == trident_hook.counts(fn)
    assert trident_hook.explain(fn).source == trident_hook.explain(jitted).source


def test_explaining_changes_nothing(served):
    fn = served(programs.shift)
    warm(fn, X, 3)
    for _ in range(3):
        str(trident_hook.explain(fn)), str(trident_hook.status()), trident_hook.counts(fn)
    routed(fn, X, 3, via="scm", launches=1)
    counts = trident_hook.counts(fn)
    counts["hits"] = 999
    assert trident_hook.counts(fn)["hits"] == 2


def test_specializations_compare_and_print(served):
    one, two = served(programs.shift), served(programs.shift)
    warm(one, X, 3)
    warm(two, X, 3)
    (a,), (b,) = trident_hook.explain(one).specializations, trident_hook.explain(two).specializations
    assert str(a) == str(b)
    warm(two, X.half(), 3)
    assert str(trident_hook.explain(two).specializations[1]) != str(a)


# -- logs --------------------------------------------------------------------------------------------------------------


def test_silent_without_channels(served, capfd):
    fn = served(programs.shift)
    warm(fn, X, 3)
    warm(fn, X.half(), 3)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.parametrize("channel", LOG_CHANNELS)
def test_a_log_channel_logs_the_life_of_a_function(through, capfd, channel):
    if channel == "hook" and through.door == "jit":
        return  # no hook is involved
    trident_hook.config.logs = {channel}
    fn = through(programs.shift)
    warm(fn, X, 3)
    warm(fn, X.half(), 3)
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("[trident_hook:")]
    assert lines
    assert all(line.startswith(f"[trident_hook:{channel}] ") for line in lines)
    if channel in ("build", "guards"):
        assert any("support.programs.shift" in line for line in lines)


# -- the selection -----------------------------------------------------------------------------------------------------


def hits_by_three_calls(fn) -> int:
    before = trident_hook.counts(fn)["hits"]
    for _ in range(3):
        fn(X, 3)
    return trident_hook.counts(fn)["hits"] - before


@pytest.mark.parametrize("promote", [True, False])
@pytest.mark.parametrize(
    ("include", "exclude", "is_served"),
    [
        (None, None, True),
        (["support.programs.*"], None, True),
        ("support.*", None, True),
        (["support.programs.shift"], None, True),
        (["*.stretch", "*.shift"], None, True),
        (["support.programs.shif"], None, False),
        (["shift"], None, False),
        (["Support.Programs.Shift"], None, False),
        ([], None, False),
        (None, ["support.*"], False),
        (None, "*.shift", False),
        (None, ["*.stretch"], True),
        (["support.*"], ["*.shift"], False),
    ],
)
def test_patterns(include, exclude, is_served, promote):
    trident_hook.config.promote = promote
    fn = twin(programs.shift)
    with trident_hook.enable(include, exclude):
        assert hits_by_three_calls(fn) == (2 if is_served else 0)
        assert trident_hook.explain(fn).known == is_served


@pytest.fixture
def hook_that_stays():
    """A hook that stepped aside sees a new function only after its first call has started."""
    _core.quiet_after_set(0)
    yield
    _core.quiet_after_set(5000)


def test_functions_in_the_lists(hook_that_stays):
    trident_hook.config.promote = False
    one, two = twin(programs.shift), twin(programs.shift)
    with trident_hook.enable(include=[one]):
        assert hits_by_three_calls(one) == 2
        assert hits_by_three_calls(two) == 0
    with trident_hook.enable(exclude=[one]):
        assert hits_by_three_calls(one) == 0
        assert hits_by_three_calls(two) == 2, str(trident_hook.explain(two))
    with trident_hook.enable(include=one):
        assert hits_by_three_calls(one) == 3


def test_exclude_wins():
    fn = twin(programs.shift)
    with trident_hook.enable(include=[fn], exclude=["support.*"]):
        assert hits_by_three_calls(fn) == 0


@pytest.mark.parametrize("promote", [True, False])
def test_another_enable_replaces_the_selection(promote):
    trident_hook.config.promote = promote
    one, two = twin(programs.shift), twin(programs.shift)
    trident_hook.enable(include=[one])
    assert hits_by_three_calls(one) == 2
    trident_hook.enable(include=[two])
    assert hits_by_three_calls(two) == 2
    assert hits_by_three_calls(one) == 0


def test_nothing_but_launchers_is_found():
    with trident_hook.enable():
        fn = twin(programs.aten_only)
        for _ in range(3):
            fn(X.view(4, 8), torch.ones(8, 2))
        assert not trident_hook.explain(fn).known


# -- on, off, and nested -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("promote", [True, False])
def test_enable_and_disable_are_idempotent(promote):
    trident_hook.config.promote = promote
    trident_hook.disable()
    fn = twin(programs.shift)
    for _ in range(3):
        trident_hook.enable()
    assert _core.hook_state() == "on"
    assert hits_by_three_calls(fn) == 2
    for _ in range(3):
        trident_hook.disable()
        assert (_core.hook_state(), trident_hook.status().enabled) == ("off", False)
    routed(fn, X, 3, via="alone")
    trident_hook.enable()
    assert hits_by_three_calls(fn) == 3, "what was learned was kept"


@pytest.mark.parametrize("promote", [True, False])
def test_nested_contexts_restore_what_was_before(promote):
    trident_hook.config.promote = promote
    outer, inner = twin(programs.shift), twin(programs.shift)
    with trident_hook.enable(include=[outer]):
        assert hits_by_three_calls(outer) == 2
        with trident_hook.enable(include=[inner]):
            assert hits_by_three_calls(inner) == 2
        assert hits_by_three_calls(outer) == 3
        assert hits_by_three_calls(inner) == 0
        with trident_hook.enable():
            assert hits_by_three_calls(inner) == 3
            assert hits_by_three_calls(outer) == 3
        assert hits_by_three_calls(inner) == 0
    assert hits_by_three_calls(outer) == 0
    assert not trident_hook.status().enabled


def test_an_error_in_the_block_is_the_users():
    with pytest.raises(KeyError, match="mine"):
        with trident_hook.enable():
            raise KeyError("mine")
    assert (_core.hook_state(), trident_hook.status().enabled) == ("off", False)


def test_disable_inside_the_block():
    with trident_hook.enable():
        trident_hook.disable()
        assert not trident_hook.status().enabled
    assert (_core.hook_state(), trident_hook.status().enabled) == ("off", False)


def test_a_failing_enable_changes_nothing():
    fn = twin(programs.shift)
    with trident_hook.enable(include=[fn]):
        assert hits_by_three_calls(fn) == 2
        with pytest.raises(NotAFunctionError):
            trident_hook.enable(include=[3])
        assert hits_by_three_calls(fn) == 3


def test_jit_outlives_disable(served):
    fn = served(programs.shift)
    warm(fn, X, 3)
    with trident_hook.enable():
        routed(fn, X, 3, via="scm")
    routed(fn, X, 3, via="scm")


def test_the_enabled_object_prints():
    with trident_hook.enable() as enabled:
        assert repr(enabled) == "<trident_hook enabled, hook on>"


# -- TRIDENT_HOOK_DISABLE ----------------------------------------------------------------------------------------------


def test_disabled_by_the_environment(monkeypatch):
    monkeypatch.setenv("TRIDENT_HOOK_DISABLE", "1")
    fn = twin(programs.shift)
    assert trident_hook.jit(fn) is fn
    with trident_hook.enable(include=[fn]):
        with trident_hook.enable():
            assert (trident_hook.status().hook, trident_hook.status().enabled) == ("off", False)
            for _ in range(3):
                routed(fn, X, 3, via="alone")
    assert trident_hook.status().off_reason == "TRIDENT_HOOK_DISABLE is set"
    assert "off because TRIDENT_HOOK_DISABLE is set" in str(trident_hook.status())
    assert not trident_hook.explain(fn).known


@pytest.mark.parametrize("value", ["0", "false", "no", "off", "", " 0 "])
def test_not_disabled_by_a_value_that_says_no(monkeypatch, value):
    monkeypatch.setenv("TRIDENT_HOOK_DISABLE", value)
    assert trident_hook.status().off_reason is None
    with trident_hook.enable():
        assert trident_hook.status().enabled


def test_disabled_after_enable(through, monkeypatch):
    """Nothing new is learned or built, misses run as plain Python, and status() says why. (What is served already
    stays served until disable(): no call reads the environment.)"""
    fn = through(programs.shift)
    warm(fn, X, 3)
    monkeypatch.setenv("TRIDENT_HOOK_DISABLE", "1")
    for _ in range(3):
        routed(fn, X.half(), 3, via="over")
    assert len(trident_hook.explain(fn).specializations) == 1
    assert torch.equal(fn(X, 3), X + 3)
    assert "off because TRIDENT_HOOK_DISABLE is set" in str(trident_hook.status())
    other = twin(programs.shift)
    assert trident_hook.jit(other) is other
    trident_hook.enable(include=[other])
    routed(other, X, 3, via="alone")
    trident_hook.disable()
    assert _core.hook_state() == "off"
    monkeypatch.delenv("TRIDENT_HOOK_DISABLE")
    with trident_hook.enable(include=[getattr(fn, "__wrapped__", fn)]):
        routed(fn, X, 3, via="scm")
        warm(fn, X.half(), 3)


# -- bad input ---------------------------------------------------------------------------------------------------------


class NotAFunction:
    def method(self):
        pass

    def __call__(self):
        pass


WRONG = {
    "int": 3,
    "builtin": len,
    "class": NotAFunction,
    "instance": NotAFunction(),
    "bound method": NotAFunction().method,
    "staticmethod": staticmethod(programs.shift),
    "classmethod": classmethod(programs.shift),
    "partial": functools.partial(programs.shift, a=3),
    "kernel": programs.shift_kernel,
    "None": None,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_jit_of_something_else(wrong):
    with pytest.raises(NotAFunctionError) as raised:
        trident_hook.jit(WRONG[wrong])
    says(raised.value, "trident_hook.jit()", type(WRONG[wrong]).__name__, "plain Python function")


@pytest.mark.parametrize("name", ["include", "exclude"])
@pytest.mark.parametrize("wrong", ["int", "builtin", "class", "instance", "None"])
def test_enable_with_something_else_in_a_list(name, wrong):
    with pytest.raises(NotAFunctionError) as raised:
        trident_hook.enable(**{name: [programs.shift, WRONG[wrong]]})
    says(raised.value, f"trident_hook.enable({name}=...)", type(WRONG[wrong]).__name__, "plain Python function")
    assert not trident_hook.status().enabled


@pytest.mark.parametrize("wrong", ["int", "builtin", "class"])
def test_enable_with_no_list_at_all(wrong):
    with pytest.raises(NotAFunctionError):
        trident_hook.enable(include=WRONG[wrong])


def says(error, seen, *more):
    """What was seen, what was expected, what to do."""
    assert isinstance(error, TridentHookError)
    assert seen in error.seen
    assert error.expected
    assert error.remedy.endswith(".")
    text = str(error)
    for part in (error.seen, error.expected, error.remedy, *more):
        assert part in text
    assert "expected" in text


@pytest.mark.parametrize(
    ("name", "value"),
    [("build", "now"), ("build", None), ("limit", 0), ("limit", -1), ("limit", True), ("limit", 2.0), ("limit", "8"),
     ("rebuilds", 0), ("promote", 1), ("promote", None), ("cache", "yes"), ("nonsense", 1), ("disabled_", True)],
)  # fmt: skip
def test_a_setting_that_means_nothing(name, value):
    before = dict(vars(trident_hook.config))
    with pytest.raises(ConfigError) as raised:
        setattr(trident_hook.config, name, value)
    says(raised.value, f"config.{name}")
    assert dict(vars(trident_hook.config)) == before


@pytest.mark.parametrize("value", ["nonsense", {"nonsense"}, 3])
def test_a_log_channel_that_does_not_exist(value):
    with pytest.raises(ConfigError):
        trident_hook.config.logs = value


def test_a_cache_folder_that_is_none():
    with pytest.raises(ConfigError):
        trident_hook.config.cache_dir = 3


@pytest.mark.parametrize(
    ("variable", "value", "attribute"),
    [("BUILD", "later", "build"), ("LIMIT", "0", "limit"), ("LIMIT", "many", "limit"), ("LIMIT", "1.5", "limit"),
     ("REBUILDS", "-1", "rebuilds"), ("NO_PROMOTE", "perhaps", "promote"), ("NO_CACHE", "2", "cache"),
     ("LOGS", "hook,nonsense", "logs"), ("CACHE_LIMIT", "a lot", "cache_limit"), ("VERIFY", "y", "verify")],
)  # fmt: skip
def test_a_variable_that_means_nothing(monkeypatch, variable, value, attribute):
    """It is as if it were not set; the import has named it."""
    name = f"TRIDENT_HOOK_{variable}"
    monkeypatch.delenv(name, raising=False)
    default, before = getattr(Config(), attribute), complaints(os.environ)
    monkeypatch.setenv(name, value)
    assert getattr(Config(), attribute) == default
    (complaint,) = set(complaints(os.environ)) - set(before)
    for part in (name, repr(value), "ignored", "expected"):
        assert part in complaint


@pytest.mark.parametrize("value", ["perhaps", "maybe", "ture", "2"])
def test_a_disable_variable_that_means_nothing(monkeypatch, value):
    """It disables: whoever set it wanted that."""
    monkeypatch.setenv("TRIDENT_HOOK_DISABLE", value)
    fn = twin(programs.shift)
    assert trident_hook.jit(fn) is fn
    with trident_hook.enable(include=[fn]):
        status = trident_hook.status()
        assert (status.hook, status.enabled) == ("off", False)
        assert f"TRIDENT_HOOK_DISABLE is set (to {value!r}" in status.off_reason
        routed(fn, X, 3, via="alone")
    assert any("TRIDENT_HOOK_DISABLE" in text and repr(value) in text for text in complaints(os.environ))


@pytest.mark.parametrize(
    ("name", "meant"),
    [("TRIDENT_HOOK_DISBALE", "TRIDENT_HOOK_DISABLE"), ("TRIDENT_HOOK_LOG", "TRIDENT_HOOK_LOGS"),
     ("trident_hook_build", "TRIDENT_HOOK_BUILD"), ("TRIDENT_HOOKS_VERIFY", "TRIDENT_HOOK_VERIFY"),
     ("TRIDENT_HOOK_\udcff", "")],
)  # fmt: skip
def test_a_variable_with_a_name_that_means_nothing(monkeypatch, name, meant):
    before = complaints(os.environ)
    monkeypatch.setenv(name, "1")
    (complaint,) = set(complaints(os.environ)) - set(before)
    assert name in complaint
    assert meant in complaint


def test_a_variable_that_is_right_is_not_named(monkeypatch, tmp_path):
    right = {"BUILD": "sync", "LIMIT": "3", "NO_PROMOTE": "off", "LOGS": "all", "CACHE_DIR": str(tmp_path), "CC": "gcc",
             "CACHE_LIMIT": "1.5GB", "DISABLE": "0", "VERIFY": ""}  # fmt: skip
    for name in [name for name in os.environ if name.startswith("TRIDENT_HOOK_")]:
        monkeypatch.delenv(name)
    for name, value in right.items():
        monkeypatch.setenv(f"TRIDENT_HOOK_{name}", value)
    assert complaints(os.environ) == []


def test_variables_are_read(monkeypatch, tmp_path):
    for name, value in (("BUILD", "sync"), ("LIMIT", "3"), ("REBUILDS", "5"), ("NO_PROMOTE", "1"), ("NO_CACHE", "true"),
                        ("LOGS", "hook, build"), ("CACHE_DIR", str(tmp_path))):  # fmt: skip
        monkeypatch.setenv(f"TRIDENT_HOOK_{name}", value)
    config = Config()
    assert (config.build, config.limit, config.rebuilds, config.promote, config.cache) == ("sync", 3, 5, False, False)
    assert (config.logs, config.cache_dir) == ({"hook", "build"}, tmp_path)
    monkeypatch.setenv("TRIDENT_HOOK_LOGS", "all")
    assert Config().logs == set(LOG_CHANNELS)
    for name in list(vars(config)):
        assert name in repr(config)


def rest_in_python(y, n):
    torch._dynamo.graph_break()
    return y * n


def breaks_at_its_last_call(x):
    return rest_in_python(workloads.silu(x), 3)


def test_explain_names_what_a_hit_still_calls_in_python(served):
    """A graph break at the last call leaves one graph: a hit, of which the rest is Python, and that is said."""
    fn = served(breaks_at_its_last_call)
    warm(fn, torch.randn(64))
    routed(fn, torch.randn(64), via="scm", launches=1)
    assert "a hit calls rest_in_python() in Python" in str(trident_hook.explain(fn))
    whole = served(workloads.silu)
    warm(whole, torch.randn(64))
    assert "in Python" not in str(trident_hook.explain(whole)).split("specialization 0")[1]
