"""Programs from seeds: which features, which states of the world, which calls. A plan says all of it, so that a part can be left
out and the rest stays the same."""

from __future__ import annotations

import dataclasses
import random

from . import features as _features  # noqa: F401  registers them
from .draft import FEATURES, Draft, Program, Step

#: Values of x: base first. Sizes stay small: kernels are interpreted.
_TENSORS = {
    "value": ["ramp(3, 4)", "ramp(3, 4, start=5.0)", "ramp(2, 4)", "ramp(4, 3).t()", "ramp(3, 8)[:, ::2]", "ramp(1, 4)",
              "ramp(3, 4, dtype=torch.float64)", "ramp(13)[1:].view(3, 4)", "ramp(3, 1).expand(3, 4).clone()",
              "ramp(6, 4)[::2]", "ramp(0, 4)"],
    "grad": ["leaf(3, 4)", "leaf(3, 4, start=2.0)", "leaf(2, 4)", "leaf(3, 4) * 1", "leaf(4, 3).t()", "ramp(3, 4)",
             "nn.Parameter(ramp(3, 4))", "leaf(3, 4, dtype=torch.float64)"],
}  # fmt: skip
_MODES = ("torch.no_grad()", "torch.inference_mode()", "torch.autocast('cpu', dtype=torch.bfloat16)",
          "torch.enable_grad()")  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Plan:
    """Features with a seed each, a seed for the states, and those of the states that are left in."""

    parts: tuple[tuple[str, int], ...]
    seed: int
    kept: tuple[int, ...] | None = None  # numbers of states; None for all

    def without_part(self, number: int) -> Plan:
        return dataclasses.replace(self, parts=self.parts[:number] + self.parts[number + 1 :])


def plan_of(seed: int, number: int, off: frozenset[str] = frozenset()) -> Plan:
    """The plan of program `number` of a run. Features that are off are left out of it, the rest is the same."""
    rng = random.Random(f"{seed}:{number}")
    names = list(FEATURES)
    weights = [FEATURES[name][2] for name in names]
    count = rng.choice((1, 1, 2, 2, 2, 3, 3, 4))
    parts = [(name, rng.getrandbits(30)) for name in rng.choices(names, weights, k=count)]
    others = [name for name in names if name not in off]
    own = random.Random(rng.getrandbits(30))
    left = tuple(part for part in parts if part[0] not in off) or ((own.choice(others), own.getrandbits(30)),)
    return Plan(left, rng.getrandbits(30))


def program_of(plan: Plan) -> Program:
    """The program that a plan stands for."""
    draft = Draft()
    for number, (name, seed) in enumerate(plan.parts):
        draft.begin(number + 1, random.Random(seed))
        FEATURES[name][0](draft)
    rng = random.Random(plan.seed)
    draft.begin(0, rng)
    results = draft.results or draft.tensors[-1:]
    if len(draft.tensors) > 1 and draft.tensors[-1] not in results:
        results = [*results, draft.tensors[-1]]
    names = ", ".join(["x", *(p.name for p in draft.parameters)])
    form = rng.choice(("({},)", "[{}]", "({},)")) if len(results) != 1 else rng.choice(("{}", "({},)"))
    body = [*draft.lines, "    return " + form.format(", ".join(results))]
    source = "\n".join([*draft.definitions, "", f"def fn({names}):", *body, ""])
    steps = _steps(draft, rng)
    if plan.kept is not None:
        steps = [steps[i] for i in plan.kept if i < len(steps)]
    return Program(source, steps, tuple(name for name, _ in plan.parts), draft.undo)


def _steps(draft: Draft, rng: random.Random) -> list[Step]:
    """The ordinary state first, then states with one or two changes each."""
    tensors = _TENSORS[rng.choice(("value", "value", "grad"))]
    values = {"x": tensors, **{p.name: p.values for p in draft.parameters}}
    sorts = {"x": "tensor", **{p.name: p.sort for p in draft.parameters}}
    base = {name: choices[0] for name, choices in values.items()}
    backward = tensors is _TENSORS["grad"] and rng.random() < 0.6
    steps = [Step([], dict(base), None, backward, 6)]
    changes = list(draft.changes)
    rng.shuffle(changes)
    for _ in range(6):
        step = Step([], dict(base), None, backward, rng.choice((3, 4, 5, 6)))
        for _ in range(rng.choice((0, 1, 1, 1, 2))):
            _vary(step, values, sorts, changes, draft.modes, rng)
        steps.append(step)
        if rng.random() < 0.2:
            base = {name: value for name, value in step.arguments.items() if not value.startswith(("same", "kept"))} | {
                name: base[name] for name, value in step.arguments.items() if value.startswith(("same", "kept"))
            }
    return steps


def _vary(step: Step, values: dict, sorts: dict, changes: list, modes: list, rng: random.Random) -> None:
    what = rng.random()
    if changes and what < 0.45:
        step.changes.append(changes.pop() if rng.random() < 0.8 else rng.choice(changes))
        return
    if what < 0.52:
        step.mode = rng.choice((*_MODES, *modes, *modes))
        return
    name = rng.choice(list(values))
    twins = [other for other in values if other != name and sorts[other] == sorts[name]]
    order = list(values)
    twins = [other for other in twins if order.index(other) < order.index(name)]
    if twins and rng.random() < 0.4:
        step.arguments[name] = "same " + rng.choice(twins)
    elif sorts[name] in ("object", "list", "dict", "tensor") and rng.random() < 0.3:
        step.arguments[name] = "kept"
    else:
        step.arguments[name] = rng.choice(values[name])
