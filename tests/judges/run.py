"""`python -m tests.judges.run --states N --seed S`: judges N random states of the corpus, prints what came of them."""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def judge(states: int, seed: int, courts: int = 4, several: int = 3, only: str = "", progress=None):
    """Spreads the states evenly over the corpus. Per function: `courts` instances with one specialization each (so that
    every miss has one cause), and one with `several` and symbolic shapes by Dynamo's own policy."""
    import torch

    from judges import corpus  # noqa: F401
    from judges.harness import Court, Tally
    from judges.places import SUBJECTS

    chosen = [s for s in SUBJECTS if not only or any(word in s.place for word in only.split(","))]
    plans = [(s, n, 1) for s in chosen for n in range(courts)]
    plans += [(s, courts, several) for s in chosen] if several > 1 else []
    total, share = Tally(), max(1, states // max(1, len(plans)))
    for subject, number, limit in plans:
        rng = random.Random(f"{seed} {subject.name} {number}")
        torch._dynamo.reset()
        court = Court(subject, number, limit, rng)
        if number == 0:
            starts = [{}]
        else:
            starts = [{}] if limit > 1 else []
            starts += [court.random_choice() for _ in range(3 * limit)]
        started = time.perf_counter()
        words = "refused"
        if court.learn(starts):
            learned = time.perf_counter() - started
            for _ in range(share):
                court.judge(court.random_choice())
            tally, taken = court.tally, time.perf_counter() - started
            words = (
                f"{share} states, learned in {learned:.1f} s, {taken:.1f} s; "
                f"{tally.hits} hits, {len(tally.violations)} violations"
            )
        total.add(court.tally)
        if progress:
            progress(f"{court.name}: {words}", total)
    return total


def report(total, limit: int = 40) -> str:
    lines = [
        f"states {total.states}  courts {total.courts}  hits {total.hits}  errors {total.errors}  "
        f"misses {total.misses}  bypasses {total.bypasses}",
    ]
    for words, right, counter in (
        ("misses where Dynamo would hit and be right", True, total.stricter),
        ("more of these, counted apart", True, total.apart),
        ("misses where Dynamo would hit and be wrong", False, total.saved),
    ):
        lines.append(f"{words}: {sum(counter.values())} ({share(counter, total)} %)")
        lines += [f"  {n:6d}  {kind}    e.g. {total.examples[kind, right]}" for kind, n in counter.most_common()]
    lines.append("our kinds in the captures: " + ", ".join(f"{k} {n}" for k, n in total.kinds.most_common()))
    lines.append("Dynamo's methods in them: " + ", ".join(f"{k} {n}" for k, n in total.methods.most_common()))
    lines.append(f"refused: {len(total.refused)}")
    lines += [f"  {name}: {why}" for name, why in total.refused.items()]
    lines.append(f"violations: {len(total.violations)}")
    lines += [
        f"  {judge} {name} {choice} against {base}: {problem[:400]}"
        for judge, name, choice, base, problem in smallest(total.violations)[:limit]
    ]
    return "\n".join(lines)


def share(counter, total) -> float:
    """Percent of the states."""
    return round(100 * sum(counter.values()) / max(1, total.states), 4)


def as_json(total, **run) -> dict:
    """What is kept of a run. Nothing in it names the machine."""
    import torch
    import triton

    versions = {"python": platform.python_version(), "torch": torch.__version__, "triton": triton.__version__}
    counts = {n: getattr(total, n) for n in ("states", "courts", "hits", "errors", "misses", "bypasses", "agreed")}
    return {
        "date": datetime.date.today().isoformat(),
        **run,
        "versions": versions,
        **counts,
        "functions": len({name.split("#")[0] for name in total.judged}),
        "violations": [[judge, name, problem] for judge, name, *_, problem in smallest(total.violations)],
        "false_misses": dict(total.stricter.most_common()),
        "false_misses_percent": share(total.stricter, total),
        "false_misses_counted_apart": dict(total.apart.most_common()),
        "false_misses_with_these_percent": share(total.stricter + total.apart, total),
        "false_misses_by_change": dict(total.where.most_common(60)),
        "misses_where_dynamo_would_be_wrong": dict(total.saved.most_common()),
        "examples": {
            f"{kind} ({'right' if right else 'wrong'})": text for (kind, right), text in total.examples.items()
        },
        "kinds": dict(total.kinds.most_common()),
        "guard_builder_methods": dict(total.methods.most_common()),
        "refused": total.refused,
    }


def smallest(violations: list) -> list:
    """One of each (judge, function, changed slots), the one with the fewest changes first."""
    kept = {}
    for v in sorted(violations, key=lambda v: sum(1 for i in v[2].values() if i)):
        changed = frozenset(n for n, i in v[2].items() if i and not any(c.get(n) == i for c in v[3]))
        key = (v[0], v[1].split("#")[0])
        if not any(k[:2] == key and k[2] <= changed for k in kept):
            kept[(*key, changed)] = v
    return list(kept.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--courts", type=int, default=4)
    parser.add_argument("--several", type=int, default=3)
    parser.add_argument("--only", default="", help="parts of module.function, separated by commas")
    parser.add_argument("--cache", help="folder for compiled modules (default: a temporary one)")
    parser.add_argument("--json", type=Path, help="a file for the results; written after each function, too")
    parser.add_argument("-v", action="store_true")
    args = parser.parse_args()

    import trident_hook
    from trident_hook.testing import simdriver

    with tempfile.TemporaryDirectory() as folder:
        trident_hook.config.build, trident_hook.config.cache_dir = "sync", args.cache or folder
        simdriver.install()

        def progress(text: str, so_far) -> None:
            if args.v:
                print(text, flush=True)
            if args.json:
                run = {"seed": args.seed, "courts_of_one": args.courts, "specializations_of_the_last": args.several}
                args.json.write_text(json.dumps(as_json(so_far, **run), indent=1) + "\n")

        total = judge(args.states, args.seed, args.courts, args.several, args.only, progress)
    print(report(total))
    return 1 if total.violations else 0


if __name__ == "__main__":
    sys.exit(main())
