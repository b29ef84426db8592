"""Anybody's test suite with trident_hook on: `pytest -p trident_hook.pytest_plugin --trident-hook`.

Tests run as they are; the last lines say how many functions were served, how often, and what was refused. Not an entry
point: pytest would import PyTorch with it in every project of the environment, asked for or not."""

from __future__ import annotations

import inspect
import weakref
from collections import Counter
from dataclasses import dataclass, field

import pytest

_OUTCOMES = ("hits", "misses", "errors", "python", "bypasses")
_REASONS_SHOWN = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("trident_hook", "functions that launch Triton kernels, served from native code")
    group.addoption("--trident-hook", action="store_true", help="enable trident_hook while the tests run")
    group.addoption(
        "--trident-hook-build",
        choices=("sync", "background"),
        default="sync",
        help="sync (the default): a miss is built before its call returns, so the next call can be a hit",
    )
    group.addoption(
        "--trident-hook-verify",
        action="store_true",
        help="run the plain function behind each hit and compare (slow)",
    )
    group.addoption(
        "--trident-hook-repeat",
        type=int,
        default=1,
        metavar="N",
        help="call each test function N times with the same fixtures (also without --trident-hook): a test that calls "
        "an operator once meets what trident_hook learned from it only in its second or third run",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("trident_hook_repeat") < 1:
        raise pytest.UsageError("--trident-hook-repeat takes a number of at least 1")
    if config.getoption("trident_hook"):
        config.pluginmanager.register(_Serving(config), "trident_hook_serving")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function):
    """The first runs are made here, the last one by pytest, so that it has pytest's own treatment."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):  # those need another plugin's event loop
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        for _ in range(pyfuncitem.config.getoption("trident_hook_repeat") - 1):
            pyfuncitem.obj(**arguments)
    return (yield)


@dataclass
class Tally:
    """Of one process, or summed over xdist's workers. `calls`: hits, misses, errors, python, bypasses. `refusals`: reason -> functions."""

    functions: int = 0
    served: int = 0  # with at least one hit
    calls: Counter = field(default_factory=Counter)
    refusals: Counter = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        self.functions += other.functions
        self.served += other.served
        self.calls.update(other.calls)
        self.refusals.update(other.refusals)

    def plain(self) -> dict:
        """What execnet can send: dictionaries, strings and numbers."""
        return vars(self) | {"calls": dict(self.calls), "refusals": dict(self.refusals)}

    def __str__(self) -> str:
        text = f"trident_hook: {self.served} of {self.functions} functions served, "
        text += ", ".join(f"{self.calls[name]} {name}" for name in _OUTCOMES[:3])
        text += f", {self.calls['python']} left to Python"
        text += f", {self.calls['bypasses']} bypassed for the thread's state" if self.calls["bypasses"] else ""
        if self.calls["verified"] or self.calls["different"]:
            text += f"; {self.calls['verified']} hits verified, {self.calls['different']} of them differed"
        text += f"; {self.refusals.total()} refusals"
        for reason, count in self.refusals.most_common(_REASONS_SHOWN):
            text += f"\n  {count} x {reason}"
        if len(self.refusals) > _REASONS_SHOWN:
            text += f"\n  and {len(self.refusals) - _REASONS_SHOWN} other reasons"
        return text


class _Records:
    """What each function's record last said. Records go with their functions (a test's own closures, say): their numbers
    stay here."""

    def __init__(self) -> None:
        self._seen: dict[
            int, tuple[weakref.ref, dict, tuple]
        ] = {}  # id of a record -> itself, its counts, its refusals
        self._gone: list[tuple[dict, tuple]] = []
        self.before: Counter = Counter()

    def update(self) -> Counter:
        """What happened since the last call, by outcome."""
        from trident_hook import api

        for _, record in list(api._known()):
            known = self._seen.get(id(record))
            if known is not None and known[0]() is not record:
                self._gone.append(known[1:])
            reasons = tuple(f"{slug}: {detail}" if detail else slug for slug, detail in record.refusals.counted)
            self._seen[id(record)] = weakref.ref(record), record.counts(), reasons
        total = self.tally().calls
        happened, self.before = Counter({name: total[name] - self.before[name] for name in _OUTCOMES}), total
        return happened

    def tally(self) -> Tally:
        tally = Tally()
        for counts, reasons in [*self._gone, *(known[1:] for known in self._seen.values())]:
            if not any(counts[name] for name in _OUTCOMES):
                continue
            tally.functions += 1
            tally.served += counts["hits"] > 0
            tally.calls.update({name: counts[name] for name in _OUTCOMES})
            tally.refusals.update(reasons)
        return tally


class _Serving:
    """Registered where --trident-hook was given. Under xdist the workers serve and the controller adds up."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.total = Tally()
        self.off_reason: str | None = None
        self.records = _Records()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session):
        if self._is_controller():
            return (yield)
        import trident_hook

        self.off_reason = trident_hook.status().off_reason
        from trident_hook.verification import hits

        settings = trident_hook.config.build, trident_hook.config.verify
        trident_hook.config.build = self.config.getoption("trident_hook_build")
        trident_hook.config.verify |= self.config.getoption("trident_hook_verify")
        verified = Counter(hits.counted)
        self.records.update()  # what was served before is not this run's
        start = self.records.tally()
        try:
            with trident_hook.enable():
                outcome = yield
        finally:
            trident_hook.settle()
            trident_hook.config.build, trident_hook.config.verify = settings
            self.records.update()
            self.total.add(self.records.tally())
            self.total.calls.subtract(start.calls)
            self.total.calls.update(Counter(hits.counted) - verified)
        return outcome

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item):
        """How the test's own calls went is among its report's properties: junit files and the log show it."""
        self.records.update()
        try:
            return (yield)
        finally:
            item.user_properties.append(("trident_hook", dict(self.records.update())))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["trident_hook"] = self.total.plain() | {"off_reason": self.off_reason}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node, error) -> None:
        """An xdist worker ended. One that crashed took its counts with it."""
        sent = dict(getattr(node, "workeroutput", {}).get("trident_hook", {}))
        if sent:
            self.off_reason = sent.pop("off_reason")
            sent["calls"], sent["refusals"] = Counter(sent["calls"]), Counter(sent["refusals"])
            self.total.add(Tally(**sent))

    def pytest_terminal_summary(self, terminalreporter) -> None:
        terminalreporter.write_line("")
        if self.off_reason:
            terminalreporter.write_line(f"trident_hook: off, because {self.off_reason}")
        else:
            terminalreporter.write_line(str(self.total))

    def _is_controller(self) -> bool:
        return not hasattr(self.config, "workerinput") and self.config.getoption("dist", "no") != "no"
