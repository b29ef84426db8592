"""Random walks over the arguments of launches.

    python -m tests.launch.walk --calls 20000 --seed 1
    python -m tests.launch.walk --device cuda --calls 2000 --jobs 6

Every step changes some arguments of a function under jit, and makes the call both ways. A hit whose launch is not that
of Triton's own launcher has used a stale binary: there must be none. Misses are free.

On the simulated driver launches are compared byte for byte; a sample of the calls also runs in the interpreter, and the
results are compared (`--results`: of all calls). On a GPU the result of every call is compared, bit for bit. Wherever a
function can hand on what its launches return, the compiled kernels are compared as well."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

if not any((Path(entry) / "support" / "routes.py").is_file() for entry in sys.path):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import triton
from support.routes import same, twin

import trident_hook
from trident_hook.testing import simdriver

from . import compare
from . import kernels as k
from .places import place

LIMIT = 10  # specializations of a function: a step beyond them is served by Python
_BASES: dict = {}
_device = "cpu"


def base(dtype, which: int) -> torch.Tensor:
    if (dtype, which) not in _BASES:
        _BASES[dtype, which] = (torch.arange(256) % 7).to(dtype).to(_device)
    return _BASES[dtype, which]


# -- what an argument may be. The first choices are the likely ones: a walk that never returns is never served


def likely(rng: random.Random, choices):
    """Each choice a fifth as likely as the one before it, down to a floor."""
    weights = [max(0.2**i, 0.01) for i in range(len(choices))]
    return rng.choices(choices, weights)[0]


def number(rng):
    kind = rng.random()
    if kind < 0.35:
        return rng.randrange(2, 200)
    if kind < 0.5:
        return 16 * rng.randrange(-40, 40)
    around = rng.choices([1, 16, 2**31, -(2**31), 2**32, 2**63], [4, 4, 4, 2, 1, 1])[0]
    value = around + rng.choice([-17, -16, -15, -2, -1, 0, 1, 2, 15, 16, 17])
    if value >= 2**63:  # a constant of its specialization: few of them
        return 2**63 + 16 * (value & 1)
    return value


def small(rng):
    value = number(rng)
    return value if -(2**31) <= value < 2**31 else value % 1000


def any_scalar(rng):
    return rng.choices([number(rng), rng.choice([0.5, -2.0, 1.0]), rng.random() < 0.5], [8, 1, 1])[0]


def size(rng):
    return rng.choices([rng.randrange(2, 100), 16 * rng.randrange(1, 7), 1, 17], [60, 30, 2, 8])[0]


def tensor(which, dtypes=(torch.float32, torch.float16, torch.int32)):
    def draw(rng, n=None):
        offset = likely(rng, [0, 1, 16, 4, 3, 8])
        n = size(rng) if n is None else n
        return base(likely(rng, dtypes), which)[offset : offset + n]

    return draw


def optional(draw):
    return lambda rng: None if rng.random() < 0.3 else draw(rng)


# -- the functions. Those whose binaries depend on arguments alone return what their launches return


@dataclasses.dataclass(frozen=True)
class Walk:
    name: str
    fn: Callable
    draws: tuple


def _number(x, y, a):
    return k.plain[(triton.cdiv(x.numel(), 64),)](x, y, a, x.numel(), BLOCK=64)


def _two(x, y, a, b):
    return k.unused[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), a, b, BLOCK=64)


def _unspecialized(x, y, a):
    return k.not_specialized[(2,)](x, y, a, x.numel(), BLOCK=64)


def _unaligned(x, y, a):
    return k.not_aligned[(2,)](x, y, a, x.numel(), BLOCK=64)


def _declared(x, y, a, b):
    return k.as_i64[(2,)](x, y, a, x.numel(), BLOCK=64), k.as_i32[(2,)](x, y, b, x.numel(), BLOCK=64)


def _optional(x, bias, y):
    return k.with_none[(2,)](x, bias, y, x.numel(), BLOCK=64)


def _view(x, y, start, n):
    k.copy[(1,)](x[start:], y, n, BLOCK=64)


def _chain(x):
    h = torch.empty_like(x)
    y = torch.zeros(x.shape[0] + 3, dtype=x.dtype, device=x.device)
    k.copy[(triton.cdiv(x.numel(), 64),)](x, h, x.numel(), BLOCK=64)
    k.copy[(triton.cdiv(x.numel(), 64),)](h, y[3:], x.numel(), BLOCK=64, num_warps=2)
    return h, y


def _tuned(x, y):
    return k.tuned_by_n[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())


def _heuristic(x, y):
    return k.heuristic[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), BLOCK=32)


def _grid(x, y, a, b):
    return k.copy_3d[(a, b)](x, y, x.numel(), BLOCK=32)


def _strides(x, y, a):
    return k.plain[(2,)](x, y, x.stride(0) * a, x.shape[0], BLOCK=64)


def matrix(rng):
    rows, columns = size(rng) % 8 + 1, size(rng) % 20 + 1
    x = base(torch.float32, 0)[: rows * columns].view(rows, columns)
    return x.t() if rng.random() < 0.3 else x


X, Y = tensor(0), tensor(1)
FLOAT_X, FLOAT_Y = tensor(0, (torch.float32, torch.float16)), tensor(1, (torch.float32,))
WHOLE_Y = lambda rng: base(torch.float32, 1)
tuned_size = lambda rng: base(torch.float32, 0)[: rng.choice([16, 40, 96])]
WALKS = (
    Walk("a number", _number, (FLOAT_X, FLOAT_Y, any_scalar)),
    Walk("two numbers", _two, (FLOAT_X, WHOLE_Y, number, lambda rng: rng.choice([3, 5, 9, 1]))),
    Walk("do_not_specialize", _unspecialized, (FLOAT_X, FLOAT_Y, number)),
    Walk("do_not_specialize_on_alignment", _unaligned, (FLOAT_X, FLOAT_Y, number)),
    Walk("annotated", _declared, (FLOAT_X, WHOLE_Y, lambda rng: min(number(rng), 2**63 - 1), small)),
    Walk("None or a tensor", _optional, (FLOAT_X, optional(lambda rng: FLOAT_X(rng, 100)), FLOAT_Y)),
    Walk("a view", _view, (lambda rng: X(rng, 100), Y, lambda rng: rng.randrange(20), size)),
    Walk("results", _chain, (X,)),
    Walk("autotuned by a size", _tuned, (tuned_size, FLOAT_Y)),
    Walk("a heuristic", _heuristic, (FLOAT_X, FLOAT_Y)),
    Walk("a grid", _grid, (X, Y, lambda rng: rng.choice([0, 1, 2, 3, 7, 16, 2**16]), lambda rng: rng.randrange(5))),
    Walk("strides", _strides, (matrix, WHOLE_Y, small)),
)


@dataclasses.dataclass
class Tally:
    calls: int = 0
    hits: int = 0
    results: int = 0  # calls whose results were compared
    kernels: int = 0  # hits that returned their compiled kernels, which were compared
    raised: int = 0  # both ways
    hits_of: dict = dataclasses.field(default_factory=dict)
    seconds_of: dict = dataclasses.field(default_factory=dict)

    def add(self, other: Tally) -> None:
        for name, value in vars(other).items():
            setattr(
                self, name, {**getattr(self, name), **value} if isinstance(value, dict) else getattr(self, name) + value
            )


def run(walk: Walk, calls: int, seed: int, tally: Tally, results_every: int = 50) -> None:
    """Raises compare.Differs at the first difference, with all that is needed to repeat it."""
    rng = random.Random(f"{seed} {walk.name}")
    served, plain = trident_hook.jit(twin(walk.fn)), twin(walk.fn)
    args = [draw(rng) for draw in walk.draws]
    begun = time.perf_counter()
    for step in range(calls):
        for index, draw in enumerate(walk.draws):
            if rng.random() < 0.6:
                args[index] = draw(rng)
        where = f"walk {walk.name!r}, seed {seed}, step {step}, arguments {_text(args)}"
        simulated = _device == "cpu"
        results = step % results_every == 0 and not (simulated and _is_heavy(args))
        with simdriver.no_interpret() if simulated and not results else contextlib.nullcontext():
            _one(plain, served, args, where, results, tally)
        tally.calls += 1
        tally.results += results
    tally.hits_of[walk.name] = trident_hook.counts(served)["hits"]
    tally.hits += tally.hits_of[walk.name]
    tally.seconds_of[walk.name] = round(time.perf_counter() - begun, 1)


def _is_heavy(args) -> bool:
    """A grid too large for the interpreter."""
    return any(type(a) is int and a >= 2**16 for a in args)


def _one(plain, served, args, where: str, results: bool, tally: Tally) -> None:
    """One call each way."""
    before = [t.clone() for t in _BASES.values()] if results else []
    expected, theirs = compare.launches_of(lambda: plain(*args))
    if results:
        _synchronize()
        after = [t.clone() for t in _BASES.values()]
        for tensor_, value in zip(_BASES.values(), before, strict=True):
            tensor_.copy_(value)
    hits = trident_hook.counts(served)["hits"]
    got, ours = compare.launches_of(lambda: served(*args))
    hit = trident_hook.counts(served)["hits"] > hits
    if isinstance(expected, Exception):
        if type(got).__name__ not in (type(expected).__name__, "LaunchError"):
            raise compare.Differs(f"{where}: stock raised {expected!r}, ours {got!r}")
        tally.raised += 1
        return
    if isinstance(got, Exception):
        raise compare.Differs(f"{where}: raised {got!r}") from got
    if hit:
        compare.assert_same(theirs, ours, expected, got, args, where)
    (expected, kernels), (got, ours) = _apart(expected), _apart(got)
    if kernels != ours:
        raise compare.Differs(
            f"{where}: {'a stale binary' if hit else 'another kernel returned'}: {ours}, not {kernels}"
        )
    tally.kernels += hit and bool(kernels)
    if results:
        _synchronize()
        if not all(map(same, _BASES.values(), after)) or not same(got, expected):
            raise compare.Differs(f"{where}: another result")


def _synchronize() -> None:
    torch.cuda.synchronize() if _device == "cuda" else simdriver.synchronize()


def _apart(value) -> tuple[list, list]:
    """Tensors, and hashes of the compiled kernels."""
    values = value if isinstance(value, tuple) else (value,)
    tensors = [v for v in values if v is None or isinstance(v, torch.Tensor)]
    return tensors, [v.hash for v in values if v is not None and not isinstance(v, torch.Tensor)]


def _text(args) -> str:
    return str([f"{a.dtype} {tuple(a.shape)}/{a.stride()} at {a.storage_offset()}" if isinstance(a, torch.Tensor) else a
                for a in args])  # fmt: skip


def run_all(calls: int, seed: int, walks=WALKS, results_every: int = 50) -> Tally:
    """So many calls, shared out evenly among all of WALKS, of which `walks` are made."""
    tally = Tally()
    with compare.stable_tuning():
        for number_, walk in enumerate(WALKS):
            if walk in walks:
                share = calls // len(WALKS) + (number_ < calls % len(WALKS))
                run(walk, share, seed, tally, results_every)
                print(
                    f"  {walk.name}: {share} calls, {tally.hits_of[walk.name]} hits, {tally.seconds_of[walk.name]} s",
                    flush=True,
                )
    return tally


@contextlib.contextmanager
def walking(device: str, limit: int):
    """Functions are served there, and tensors made there."""
    global _device
    _device = device
    _BASES.clear()
    try:
        with place(device, limit):
            yield
    finally:
        _device = "cpu"


def _in_processes(given, walks: list) -> Tally:
    """Each process makes some of the walks."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for job in range(min(given.jobs, len(walks))):
            out = Path(folder) / f"{job}.json"
            line = [sys.executable, "-m", "tests.launch.walk", "--device", given.device, "--calls", str(given.calls),
                    "--seed", str(given.seed), "--limit", str(given.limit), "--results-every", str(given.results_every),
                    "--out", str(out)]  # fmt: skip
            for walk in walks[job :: given.jobs]:
                line += ["--only", walk.name]
            running.append((subprocess.Popen(line), out))
        codes = [process.wait() for process, _ in running]
        if any(codes):
            raise SystemExit(f"walks failed: exit statuses {codes}")
        for _, out in running:
            tally.add(Tally(**json.loads(out.read_text())))
    return tally


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--calls", type=int, default=20_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cpu: the simulated driver")
    options.add_argument(
        "--results-every", type=int, help="calls between two whose results are compared (50; 1 on a GPU)"
    )
    options.add_argument("--results", action="store_const", const=1, dest="results_every", help="the same as 1")
    options.add_argument("--limit", type=int, default=LIMIT, help="specializations of a function")
    options.add_argument("--only", action="append", help="the name of a walk (may be repeated)")
    options.add_argument("--jobs", type=int, default=1, help="processes among which the walks are shared out")
    options.add_argument("--out", type=Path, help="the tally, as JSON")
    given = options.parse_args()
    given.results_every = given.results_every or (1 if given.device == "cuda" else 50)
    walks = [walk for walk in WALKS if given.only is None or walk.name in given.only]
    warnings.filterwarnings("ignore", ".*keeps what it has and sends its other calls to plain Python")
    start = time.perf_counter()
    if given.jobs > 1:
        tally = _in_processes(given, walks)
    else:
        with walking(given.device, given.limit):
            tally = run_all(given.calls, given.seed, walks, given.results_every)
    print(f"{tally.calls} calls, {tally.hits} hits, none with a stale binary, {time.perf_counter() - start:.0f} s")
    print(f"{tally.results} results compared, {tally.kernels} compiled kernels, {tally.raised} calls raised both ways")
    if given.out is not None:
        given.out.write_text(json.dumps(dataclasses.asdict(tally), indent=1) + "\n")


if __name__ == "__main__":
    main()
