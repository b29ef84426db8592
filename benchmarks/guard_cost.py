"""What it costs to find out that a call can be served: dispatch, guards and argument recipes, without what follows.

  dispatch      a hit with 64 specializations against a hit with one
  environment   a hit of a function guarded by 200 globals and attributes against one guarded by 5; and one that reads an
                attribute of each of 100 instances, whose 200 pins are compared on every call
  rms_norm      guards and recipes alone, in a loop in C, against Dynamo's guard_manager.check on the same values

The loop in C (`_core.scm_check`) does all that a hit does up to its first allocation: torch state, dispatch, guards,
argument recipe, the launch's device, stream and preconditions. Dynamo's check is called from Python; the same call of a
guard manager without guards is what that costs, and is taken off before the two are compared. So is, of ours, reading the
device and stream of the launch: no guard of Dynamo's. The share with it is there too.

python -m benchmarks.guard_cost --out benchmarks/results/guard_cost.json
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import types
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns

import torch

from benchmarks.device import conditions, simulated, synchronize, use_device, without_interpretation
from benchmarks.report import publish
from benchmarks.rivals import copy_of

SPECIALIZATIONS = 64
FEW, MANY = 5, 200
OURS = "rms_norm: our guards and recipes"
TORCH_COMPILE = "rms_norm: guard_manager.check, torch.compile"
SAME_GUARDS = "rms_norm: guard_manager.check, the guards that ours came from"
LAUNCH = "rms_norm: the current device and stream, of ours"
NOTHING = "the call of a check without guards"
LOOPED = 10  # times as many calls in C as from Python
BARS = {
    "hit on the last of 64 specializations / hit with one": 1.3,
    "hits on all 64 in turn / hit with one": 1.3,
    "hit guarded by 200 globals and attributes / by 5": 1.05,
    "our guards / Dynamo's check of rms_norm, device and stream apart": 0.1,
    "guards and recipes of rms_norm, us": 0.5,
}


def interleaved(contestants: dict[str, Callable[[int], None]], rounds: int, calls: int) -> dict[str, dict]:
    """Name -> nanoseconds of one call. Every round times every contestant once, over `calls` calls, the device idle before;
    the order turns, so that none always follows the same one. A round's share of each is short: a longer one would be
    interrupted more often."""
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        run(calls)
    names = list(contestants)
    gc.collect()
    gc.disable()
    try:
        for round_ in range(rounds):
            for name in names[round_ % len(names) :] + names[: round_ % len(names)]:
                synchronize()
                start = perf_counter_ns()
                contestants[name](calls)
                samples[name].append((perf_counter_ns() - start) / calls)
    finally:
        gc.enable()
    synchronize()
    return {name: spread(sorted(times)) for name, times in samples.items()}


def spread(ordered: list[float]) -> dict[str, float]:
    tenth = len(ordered) // 10
    values = {"median": statistics.median(ordered), "p10": ordered[tenth], "p90": ordered[-1 - tenth]}
    return {f"{key}_ns": round(value, 1) for key, value in values.items()}


def calls_of(fn: Callable, argument_lists: list[tuple]) -> Callable[[int], None]:
    """Calls with one of the argument lists after the other. One loop for all, so that the loop cancels out."""

    def run(n: int) -> None:
        for place in range(n):
            fn(*argument_lists[place % len(argument_lists)])

    return run


def guards_of(served: Callable, args: tuple) -> Callable[[int], None]:
    """The loop in C."""
    from trident_hook import _core

    fn = served.__wrapped__

    def run(n: int) -> None:
        if _core.scm_check(fn, args, n) is None:
            raise AssertionError(f"{fn.__name__} would not be served")

    return run


def assert_hits(served: Callable, run: Callable[[int], None], calls: int) -> None:
    import trident_hook

    before = trident_hook.counts(served)
    run(calls)
    after = trident_hook.counts(served)
    moved = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    if moved != {"hits": calls}:
        raise AssertionError(f"{calls} calls should be {calls} hits, the counters moved by {moved}")


# --- what is measured ----------------------------------------------------------------------------------------------------


def dispatch(rounds: int, calls: int) -> dict:
    from trident_hook.testing import workloads
    from trident_hook.testing.specialize import specialize

    device = use_device()
    inputs = [(torch.randn(64 * (n + 1), device=device),) for n in range(SPECIALIZATIONS)]
    last = inputs[-1]
    one = specialize(copy_of(workloads.silu), [last])
    all_ = specialize(copy_of(workloads.silu), inputs)
    shuffled = [inputs[(place * 37) % SPECIALIZATIONS] for place in range(SPECIALIZATIONS)]
    hits = {
        "hit with one": calls_of(one, [last] * SPECIALIZATIONS),
        "hit on the last of 64": calls_of(all_, [last] * SPECIALIZATIONS),
        "hits on all 64 in turn": calls_of(all_, shuffled),
    }
    for name, run in hits.items():
        assert_hits(one if name == "hit with one" else all_, run, 2 * SPECIALIZATIONS)
    rows = interleaved(hits, rounds, calls)
    guards = {
        "guards with one": guards_of(one, last),
        "guards, the last of 64": guards_of(all_, last),
        "guards, the first of 64": guards_of(all_, inputs[0]),
    }
    return {**rows, **interleaved(guards, rounds, LOOPED * calls)}


def guarded_by(number: int) -> tuple[types.FunctionType, int]:
    """A function that reads so many names: globals, attributes of an instance, a namespace, a class and a module. And the
    sum of their values."""
    space, owner = types.ModuleType(f"guarded_by_{number}"), type("Owner", (), {})
    places = {"C{}": space, "settings.s{}": owner(), "names.n{}": types.SimpleNamespace(), "Owner.o{}": owner,
              "other.m{}": types.ModuleType("other")}  # fmt: skip
    space.settings, space.names, space.Owner, space.other = list(places.values())[1:]
    terms = []
    for index in range(number):
        pattern = list(places)[index % len(places)]
        terms.append(pattern.format(index))
        setattr(places[pattern], terms[-1].split(".")[-1], index)
    exec(f"def reads(x):\n    return x + ({' + '.join(terms)})\n", vars(space))
    sys.modules[space.__name__] = space
    space.reads.__module__ = space.__name__
    return space.reads, sum(range(number))


def guarded_by_instances(number: int) -> tuple[types.FunctionType, int]:
    """One that reads an attribute of each of so many instances: the class and the __dict__ of each are pinned."""
    space, owner = types.ModuleType(f"instances_{number}"), type("Owner", (), {})
    for index in range(number):
        instance = owner()
        instance.value = index
        setattr(space, f"i{index}", instance)
    exec(f"def reads(x):\n    return x + ({' + '.join(f'i{n}.value' for n in range(number))})\n", vars(space))
    sys.modules[space.__name__] = space
    space.reads.__module__ = space.__name__
    return space.reads, sum(range(number))


def environment(rounds: int, calls: int) -> dict:
    import trident_hook
    from trident_hook.testing.specialize import specialize

    x = torch.zeros(64, device=use_device())
    functions = {"5": guarded_by(FEW), "200": guarded_by(MANY), "100 instances": guarded_by_instances(MANY // 2)}
    contestants, guards, numbers = {}, {}, {}
    for name, (fn, total) in functions.items():
        served = specialize(fn, [(x,)])
        if served(x)[0].item() != total:
            raise AssertionError(f"guarded by {name}: a wrong answer")
        texts = trident_hook.explain(served).guards[0]
        numbers[f"by {name}"] = sum(text.startswith("[env]") for text in texts)
        run = contestants[f"hit guarded by {name}"] = calls_of(served, [(x,)])
        assert_hits(served, run, calls)
        guards[f"guards of it, by {name}"] = guards_of(served, (x,))
    rows = {**interleaved(contestants, rounds, calls), **interleaved(guards, rounds, LOOPED * calls)}
    return {"rows": rows, "environment_guards": numbers}


def against_dynamo(rounds: int, calls: int) -> dict:
    """Two guard managers of Dynamo's for rms_norm: torch.compile's own, and that of our captures (which see the same
    function through the launcher adapters), so that both sides check the same."""
    from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list
    from torch._C._dynamo.guards import RootGuardManager

    import trident_hook
    from trident_hook import _rt, api
    from trident_hook.testing import workloads
    from trident_hook.testing.specialize import specialize

    device = use_device()
    x, weight = torch.randn(1024, 128, device=device), torch.randn(128, device=device)
    args = (x, weight, 1e-5)
    values = dict(zip(("x", "weight", "eps"), args, strict=True))
    served, captured = specialize(copy_of(workloads.rms_norm), [args]), trident_hook.jit(copy_of(workloads.rms_norm))
    compiled = copy_of(workloads.rms_norm)
    torch.compile(compiled, backend="eager")(*args)

    def looped(fn):
        def run(n: int) -> None:
            for _ in range(n):
                fn(values)

        return run

    def manager_of(fn):
        (entry,) = _debug_get_cache_entry_list(fn.__code__)
        found = entry.guard_manager
        if not found.check(values) or found.check({**values, "eps": 2e-5}):
            raise AssertionError("Dynamo's guards do not tell the call from another")
        return found

    ours = guards_of(served, args)
    with api.find_record(captured).locks.state:  # Dynamo's entry is dropped by the build, which waits for this
        captured(*args)
        managers = {TORCH_COMPILE: manager_of(compiled), SAME_GUARDS: manager_of(captured.__wrapped__)}
        contestants = {
            OURS: lambda n: ours(LOOPED * n),
            LAUNCH: lambda n: _rt.launch_env(LOOPED * n),
            NOTHING: looped(RootGuardManager().check),
        }
        contestants |= {name: looped(manager.check) for name, manager in managers.items()}
        rows = interleaved(contestants, rounds, calls)
    for name in (OURS, LAUNCH):
        rows[name] = {key: round(value / LOOPED, 1) for key, value in rows[name].items()}
    texts = trident_hook.explain(served).guards[0]
    numbers = {name: leaves(manager.root) for name, manager in managers.items()}
    return {"rows": rows, "guards": {OURS: sum(text.startswith(("[env]", "[input]")) for text in texts), **numbers}}


def leaves(manager) -> int:
    return len(manager.get_leaf_guards()) + sum(map(leaves, manager.get_child_managers()))


def with_launch(rows: dict) -> float:
    """Of Dynamo's check, what all of our loop takes."""
    ns = {name: row["median_ns"] for name, row in rows.items()}
    return ns[OURS] / (min(ns[TORCH_COMPILE], ns[SAME_GUARDS]) - ns[NOTHING])


def bar_values(ns: dict[str, float]) -> tuple[float, ...]:
    dynamo = min(ns[TORCH_COMPILE], ns[SAME_GUARDS]) - ns[NOTHING]
    ours = ns[OURS]
    return (
        ns["hit on the last of 64"] / ns["hit with one"],
        ns["hits on all 64 in turn"] / ns["hit with one"],
        ns["hit guarded by 200"] / ns["hit guarded by 5"],
        (ours - ns[LAUNCH]) / dynamo,
        ours / 1e3,
    )


def run(rounds: int, calls: int) -> dict:
    use_device()
    with without_interpretation():
        rows = dispatch(rounds, calls)
        env = environment(rounds, calls)
        rms_norm = against_dynamo(rounds, calls)
    rows.update({**env["rows"], **rms_norm["rows"]})
    values = {key: bar_values({name: row[key] for name, row in rows.items()}) for key in ("median_ns", "p10_ns")}
    found = conditions()
    found["samples"] = (
        f"medians of {rounds} interleaved rounds, {calls} calls each ({LOOPED * calls} of the loops in C)"
    )
    if simulated():
        found["note"] = "launches checked, not executed: device and stream come from a stand-in"
    return {
        "kind": "guard_cost",
        "conditions": found,
        "rows": rows,
        "environment_guards": env["environment_guards"],
        "guards": rms_norm["guards"],
        "share_with_device_and_stream": round(with_launch(rows), 4),
        "bars": {
            name: {"value": round(value, 4), "at_p10": round(quiet, 4), "at_most": bar, "holds": value <= bar}
            for (name, bar), value, quiet in zip(BARS.items(), values["median_ns"], values["p10_ns"], strict=True)
        },
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/latest/guard_cost.json"))
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--calls", type=int, default=100)
    options = parser.parse_args()
    publish(run(options.rounds, options.calls), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
