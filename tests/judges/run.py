"""`python -m tests.judges.run --states N --seed S`: judges N random states of the corpus, prints what came of them."""

from __future__ import annotations

import argparse
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
        if court.learn(starts):
            learned = time.perf_counter() - started
            for _ in range(share):
                court.judge(court.random_choice())
            if progress:
                progress(
                    f"{court.name}: {share} states, learned in {learned:.1f} s, {time.perf_counter() - started:.1f} s; "
                    f"{court.tally.hits} hits, {len(court.tally.violations)} violations"
                )
        elif progress:
            progress(f"{court.name}: refused: {court.tally.refused[court.name]}")
        total.add(court.tally)
    return total


def report(total, limit: int = 40) -> str:
    lines = [
        f"states {total.states}  courts {total.courts}  hits {total.hits}  errors {total.errors}  "
        f"misses {total.misses}  bypasses {total.bypasses}",
        f"misses and bypasses where Dynamo would hit: {sum(total.stricter.values())} "
        f"({100 * sum(total.stricter.values()) / max(1, total.states):.3f} %)",
    ]
    lines += [f"  {n:6d}  {kind}    e.g. {total.examples[kind]}" for kind, n in total.stricter.most_common()]
    lines.append("guard kinds met: " + ", ".join(f"{k} {n}" for k, n in total.kinds.most_common()))
    lines.append(f"refused: {len(total.refused)}")
    lines += [f"  {name}: {why}" for name, why in total.refused.items()]
    lines.append(f"violations: {len(total.violations)}")
    lines += [
        f"  {judge} {name} {choice} against {base}: {problem[:400]}"
        for judge, name, choice, base, problem in smallest(total.violations)[:limit]
    ]
    return "\n".join(lines)


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
    parser.add_argument("-v", action="store_true")
    args = parser.parse_args()

    import trident_hook
    from trident_hook.testing import simdriver

    with tempfile.TemporaryDirectory() as folder:
        trident_hook.config.build, trident_hook.config.cache_dir = "sync", args.cache or folder
        simdriver.install()
        total = judge(
            args.states,
            args.seed,
            args.courts,
            args.several,
            args.only,
            (lambda text: print(text, flush=True)) if args.v else None,
        )
    print(report(total))
    return 1 if total.violations else 0


if __name__ == "__main__":
    sys.exit(main())
