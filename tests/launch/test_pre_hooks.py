"""The `pre_hook` of a tuner's configs: it runs before every launch with its config, as often as in the plain function,
whoever makes the launch; and what would change it is a miss.

Kernels add to memory, so that a hook that ran once too often, or not at all, shows in the numbers."""

from __future__ import annotations

import inspect
import random
import threading

import pytest
import torch
import triton
import triton.language as tl
from support.routes import counted, routed, twin

import trident_hook
from trident_hook._scm import worker
from trident_hook.testing import simdriver

X = torch.arange(1.0, 401.0)


@pytest.fixture(autouse=True)
def interpreted(clean_slate, monkeypatch):
    """A tuner chooses the config with the smallest `cost(arguments, config)`; plainly the first."""
    simdriver.install(n_devices=2, interpret=True)

    def measure(call, quantiles=None, **_):
        inside = inspect.getclosurevars(call).nonlocals
        cost = inside["config"].kwargs.get("COST", 0)
        if "n" in inside["full_nargs"]:
            cost = abs(cost - inside["full_nargs"]["n"])
        return [float(cost)] * len(quantiles) if quantiles is not None else float(cost)

    monkeypatch.setattr(simdriver, "_benchmark", measure)


def config(pre_hook=None, block=32, cost=0, **options):
    return triton.Config({"BLOCK": block, "COST": cost}, pre_hook=pre_hook, **options)


def adding(*configs, key=(), decorate=lambda kernel: kernel):
    """A tuned kernel: y += x + BLOCK, for the first n numbers. `count` is there for hooks."""

    @triton.jit
    def add(x, y, count, n, BLOCK: tl.constexpr, COST: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(y + i, mask=i < n) + tl.load(x + i, mask=i < n) + BLOCK, mask=i < n)

    return triton.autotune(list(configs), key=list(key))(decorate(add))


def launching(kernel):
    """A function that launches the kernel, under jit."""

    def launch(x, y, count, n):
        kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, count, n)
        return y * 2

    return trident_hook.jit(twin(launch))


class Pair:
    """A served function and its plain twin, each with memory of its own, which is compared after every call."""

    def __init__(self, served) -> None:
        self.served, self.plain = served, twin(served)
        self.ours, self.theirs = ([torch.full((400,), 7.0), torch.zeros(3)] for _ in range(2))

    def call(self, n: int, x=X, via="scm", launches=None) -> None:
        __tracebackhide__ = True
        expected = self.plain(x, *self.theirs, n)
        with counted(self.served) as added:
            got = self.served(x, *self.ours, n)
        explained = trident_hook.explain(self.served)
        assert torch.equal(got, expected)
        for ours, theirs in zip(self.ours, self.theirs, strict=True):
            assert torch.equal(ours, theirs), f"{ours} instead of {theirs}"
        route = {"scm": (1, 0), "dynamo": (0, 1), "alone": (0, 0)}
        assert via is None or (added["hits"], added["misses"]) == route[via], f"{added}; {explained}"
        if via == "scm":
            assert (added["rt_launch"], added["rt_launch_python"]) == (launches or (1, 0))


def zeroes(nargs) -> None:
    nargs["y"].zero_()


def fills(nargs) -> None:
    nargs["y"].fill_(nargs["BLOCK"] / 2)


def counts_up(nargs) -> None:
    nargs["count"].add_(1)


def writes_a_part(nargs) -> None:
    nargs["y"][: nargs["n"] // 2] = nargs["num_warps"]
    nargs["count"][1] += nargs["x"][: nargs["n"]].sum()


def looks_at_everything(nargs) -> None:
    nargs.update(more=len(nargs))
    count = nargs.get("count") if nargs["warmup"] is False and "grid" in nargs else None
    if isinstance(count, torch.Tensor) and nargs["num_stages"] == 3 and "maxnreg" not in nargs:
        count[0] += nargs.pop("more")
        count[2] = 5


def counts_outside(nargs) -> None:
    OUTSIDE.mul_(torch.tensor([1.0, 2.0])).add_(1)
    nargs["count"][:2] = OUTSIDE


OUTSIDE = torch.zeros(2)
HOOKS = (zeroes, fills, counts_up, writes_a_part, looks_at_everything, lambda nargs: nargs["count"].sub_(nargs["y"][0]))


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
def test_effects_on_tensors(hook):
    pair = Pair(launching(adding(config(hook))))
    pair.call(96, via="dynamo")
    for _ in range(19):
        pair.call(96)
    (spec,) = trident_hook.explain(pair.served).specializations
    assert "launch add" in str(spec)


def test_sizes_are_symbols():
    pair = Pair(launching(adding(config(writes_a_part))))
    for n in (96, 33, 47):
        pair.call(n, via=None)
    for n in (35, 99, 51):
        pair.call(n)
    assert len(trident_hook.explain(pair.served).specializations) == 2


def test_two_keys_of_which_one_has_a_hook():
    """Every key is tuned on its first call, by the tuner's own run, which calls the hook of its choice."""
    pair = Pair(launching(adding(config(counts_up, cost=40), config(block=64, cost=80), key=["n"])))
    for n in (40, 80):
        pair.call(n, via="dynamo")
        pair.call(n, via=None)
    for n in (40, 80) * 10:
        pair.call(n)
    assert pair.ours[1][0] == 12
    assert len(trident_hook.explain(pair.served).specializations) == 2


def test_keys_of_one_function_and_hooks_that_differ():
    """A new key runs the graph that is known; what its config's hook does is found in the same capture."""
    configs = [config(counts_up, cost=40), config(zeroes, cost=80), config(fills, cost=120)]
    pair = Pair(launching(adding(*configs, key=["n"])))
    for n in (41, 42):
        pair.call(n, via="dynamo")  # the number becomes a symbol
    pair.call(42)
    for n in (43, 82, 81, 119, 121, 45):
        pair.call(n, via="dynamo")
        pair.call(n)
    for n in (41, 42, 43, 82, 81, 119, 121, 45):
        pair.call(n)
    # one for each hook, behind the one whose number is a constant
    assert len(trident_hook.explain(pair.served).specializations) == 4


def test_configs_that_differ_in_the_hook_alone():
    """One binary, one set of preconditions: the key alone tells them apart."""
    first, second = config(counts_up), config(zeroes)
    kernel = adding(first, second, key=["n"])
    pair = Pair(launching(kernel))
    for n in (41, 43, 42):
        pair.call(n, via="dynamo")
    dtypes = tuple(str(t.dtype) for t in (X, *pair.ours))
    kernel.cache[(82, *dtypes)] = second
    pair.call(82, via="dynamo")
    for n in (82, 41, 82, 42, 82):
        pair.call(n)


def test_before_the_module_is_in_place():
    """Dynamo's own code answers meanwhile."""
    trident_hook.config.build = "background"
    go = threading.Event()
    worker.submit(lambda: go.wait(120))
    pair = Pair(launching(adding(config(counts_up, cost=40), config(zeroes, cost=80), key=["n"])))
    try:
        for n in (40, 40, 80, 80, 40):
            pair.call(n, via="dynamo")
    finally:
        go.set()
    assert trident_hook.settle(120)
    for n in (40, 80, 40):
        pair.call(n)


def test_a_launch_that_triton_makes_inside_a_hit():
    """An intermediate result is aligned in another way than the recorded one; what the hook does is done already."""
    kernel = adding(config(counts_up), config(counts_up, block=64, cost=1000), key=["n"])

    def launch(x, y, count, n):
        h = torch.empty(420)
        part = h[n : n + 96]
        part.copy_(x[:96])
        kernel[(3,)](part, y, count, 96)
        return y * 2

    pair = Pair(trident_hook.jit(twin(launch)))
    for n in (4, 8, 12):
        pair.call(n, via=None)
    pair.call(16)
    pair.call(17, launches=(0, 1))
    pair.call(18, launches=(0, 1))


def test_heuristics_around_the_tuner():
    above = triton.heuristics({"COST": lambda args: args["n"] % 7})
    below = triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})

    def notes(nargs) -> None:
        nargs["count"][0] += nargs["COST"] + 10 * ("EVEN" in nargs)

    @triton.jit
    def add(x, y, count, n, BLOCK: tl.constexpr, COST: tl.constexpr, EVEN: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(y + i, mask=i < n) + tl.load(x + i, mask=i < n) + COST + EVEN, mask=i < n)

    tuned = triton.autotune([triton.Config({"BLOCK": 32}, pre_hook=notes)], key=[])
    pair = Pair(launching(above(tuned(below(add)))))
    for n in (96, 97):
        pair.call(n, via="dynamo")
        pair.call(n)


def test_what_the_launch_returns_is_handed_on():
    """Runs of such a graph are made in another way (see capture/runner.py). Two keys, one of them with a hook."""
    kernel = adding(config(counts_up, cost=40), config(cost=80), key=["n"])

    def launch(x, y, count, n):
        return kernel[(3,)](x, y, count, n)

    ours, theirs = Pair(trident_hook.jit(twin(launch))), Pair(launching(kernel))
    for n in (40, 80, 40, 80, 40, 80):
        theirs.plain(X, *theirs.theirs, n)
        assert type(ours.served(X, *ours.ours, n)).__name__ == "CompiledKernel"
        assert all(map(torch.equal, ours.ours, theirs.theirs))
    assert trident_hook.counts(ours.served)["hits"] >= 3


def test_in_a_loop_of_launches():
    kernel = adding(config(counts_up), config(zeroes, cost=1000), key=["n"])

    def launch(x, y, count, n):
        for part in (x, x[16:], x):
            kernel[(3,)](part, y, count, n)
        return y * 2

    pair = Pair(trident_hook.jit(twin(launch)))
    pair.call(96, via="dynamo")
    for _ in range(3):
        pair.call(96, launches=(3, 0))


# -- what must be a miss -------------------------------------------------------------------------------------------------

STEP = 1


def by_a_global(nargs) -> None:
    nargs["count"].add_(STEP)


def by_a_default(nargs, step=2) -> None:
    nargs["count"].add_(step)


def by_a_cell(step: int):
    def hook(nargs) -> None:
        nargs["count"].add_(step)

    def change(value: int) -> None:
        nonlocal step
        step = value

    return hook, change


def test_a_hook_that_is_replaced(monkeypatch):
    kernel = adding(config(counts_up))
    pair = Pair(launching(kernel))
    for hook in (zeroes, by_a_cell(3)[0], by_a_cell(4)[0], None, counts_up):  # two have the same code
        for via in ("dynamo", "scm", "scm"):
            pair.call(96, via=via)
        kernel.configs[0].pre_hook = hook
    pair.call(96)  # the first again


def test_a_hook_that_is_added():
    """Whether some config of the tuner had one or none."""
    for others in ([], [config(zeroes, cost=1000)]):
        kernel = adding(config(), *others, key=["n"])
        pair = Pair(launching(kernel))
        for hook in (None, counts_up):
            kernel.configs[0].pre_hook = hook
            pair.call(41, via="dynamo")
            pair.call(41, via="scm")


def test_a_hook_that_is_added_to_a_config_that_nobody_has_chosen_yet():
    """A new key is no reason to trace again; another hook is."""
    second = config(cost=80)
    pair = Pair(launching(adding(config(counts_up, cost=40), second, key=["n"])))
    for n in (41, 42, 43, 45):
        pair.call(n, via="dynamo")
        pair.call(n, via=None)
    second.pre_hook = zeroes
    pair.call(82, via="dynamo")
    for n in (82, 82, 41, 45, 82):
        pair.call(n, via=None)
    for n in (82, 41, 45):
        pair.call(n)


def test_a_config_in_the_place_of_the_only_one():
    kernel = adding(config(counts_up))
    pair = Pair(launching(kernel))
    for other in (config(counts_up, block=64), config(block=16)):
        for via in ("dynamo", "scm"):
            pair.call(96, via=via)
        kernel.configs[0] = other
    pair.call(96, via="dynamo")
    pair.call(96)


def test_configs_that_are_added():
    """One config is taken, several are measured."""
    kernel = adding(config(counts_up, cost=90), key=["n"])
    pair = Pair(launching(kernel))
    for _ in range(2):
        for via in ("dynamo", "scm"):
            pair.call(41, via=via)
        kernel.configs.append(config(zeroes, cost=41))


def test_what_a_hook_reads(monkeypatch):
    hook, change = by_a_cell(5)
    changes = {
        by_a_global: lambda: monkeypatch.setitem(globals(), "STEP", 9),
        by_a_default: lambda: monkeypatch.setattr(by_a_default, "__defaults__", (9,)),
        hook: lambda: change(9),
    }
    for hook, changed in changes.items():
        pair = Pair(launching(adding(config(hook))))
        pair.call(96, via="dynamo")
        pair.call(96)
        changed()
        pair.call(96, via="dynamo")
        pair.call(96)


def test_code_that_is_exchanged():
    def hook(nargs) -> None:
        nargs["count"].add_(1)

    pair = Pair(launching(adding(config(hook))))
    pair.call(96, via="dynamo")
    pair.call(96)
    hook.__code__ = zeroes.__code__
    pair.call(96, via="dynamo")
    pair.call(96)


def test_the_hook_of_a_config_that_was_not_chosen():
    """Its being another one makes another function of the tuner, which is looked at again."""
    kernel = adding(config(counts_up), config(zeroes, cost=1000), key=["n"])
    pair = Pair(launching(kernel))
    pair.call(41, via="dynamo")
    pair.call(41)
    kernel.configs[1].pre_hook = fills
    pair.call(41, via="dynamo")
    pair.call(41)


# -- what is refused -----------------------------------------------------------------------------------------------------

noted: list = []


@triton.jit
def write_one(count):
    tl.store(count, 1.0)


class Counter:
    calls = 0


def notes(nargs) -> None:
    noted.append(nargs["BLOCK"])


def counts_in_a_class(nargs) -> None:
    Counter.calls += 1


def stores_a_global(nargs) -> None:
    global STORED
    STORED = nargs["n"]


def keeps_a_tensor(nargs) -> None:
    nargs["y"].kept = 1


def prints(nargs) -> None:
    print(nargs["n"])


def asks_the_data(nargs) -> None:
    if nargs["y"][0] > 0:
        nargs["count"].add_(1)


def launches_itself(nargs) -> None:
    write_one[(1,)](nargs["count"])


def draws(nargs) -> None:
    nargs["count"].add_(random.randint(3, 3))


def turns(nargs) -> None:
    nargs["y"].unsqueeze_(0)


def raises(nargs) -> None:
    if nargs["n"] < 0:
        raise ValueError


def looks_at_the_grid(nargs) -> None:
    nargs["count"].add_(len(nargs["grid"]({"BLOCK": 32})))


def asserts(nargs) -> None:
    assert nargs["COST"] == 0, "no such config"


def test_a_tensor_that_the_kernel_is_not_given():
    """Both functions use the one that there is."""
    fn = launching(adding(config(counts_outside)))
    OUTSIDE.zero_()
    plain = Pair(fn)
    for _ in range(6):
        plain.plain(X, *plain.theirs, 96)
    expected = OUTSIDE.clone()
    OUTSIDE.zero_()
    for _ in range(6):
        fn(X, *plain.ours, 96)
    assert trident_hook.counts(fn)["hits"] == 5
    assert torch.equal(OUTSIDE, expected)
    assert torch.equal(plain.ours[1], plain.theirs[1])


@pytest.mark.parametrize("hook", [notes, counts_in_a_class, stores_a_global, keeps_a_tensor, prints, asks_the_data,
                                  draws, turns, launches_itself, looks_at_the_grid], ids=lambda hook: hook.__name__)  # fmt: skip
def test_what_a_graph_cannot_express(hook, capsys):
    """Such functions run as they always did: the hook once for each launch."""
    noted.clear()
    Counter.calls = 0
    fn = launching(adding(config(hook)))
    pair = Pair(fn)
    for _ in range(4):
        pair.call(96, via=None)
    assert trident_hook.counts(fn)["hits"] == 0
    assert len(noted) in (0, 8)
    assert Counter.calls in (0, 8)
    assert capsys.readouterr().out.count("96") in (0, 8)
    assert "pre_hook" in str(trident_hook.explain(fn).refusals), trident_hook.explain(fn).refusals


ONE = torch.ones(1)


def reads_a_number(nargs) -> None:
    nargs["count"][2] = nargs["y"][0].item() + 1


def reads_a_number_outside(nargs) -> None:
    nargs["count"].add_(ONE.item())


@pytest.mark.parametrize("hook", [reads_a_number, reads_a_number_outside], ids=lambda hook: hook.__name__)
@torch._dynamo.config.patch(capture_scalar_outputs=True)
def test_numbers_that_are_captured(hook):
    fn = launching(adding(config(hook)))
    pair = Pair(fn)
    for _ in range(4):
        pair.call(96, via=None)
    assert trident_hook.counts(fn)["hits"] == 0


def test_a_count_in_a_cell():
    calls = 0

    def counts_in_a_cell(nargs) -> None:
        nonlocal calls
        calls += 1

    pair = Pair(launching(adding(config(counts_in_a_cell))))
    for _ in range(4):
        pair.call(96, via=None)
    assert calls == 8


def test_one_such_hook_is_enough():
    """Which config is chosen is only known when the tuner has run."""
    fn = launching(adding(config(counts_up), config(asserts, cost=1000), key=["n"]))
    pair = Pair(fn)
    for _ in range(4):
        pair.call(41, via=None)
    assert trident_hook.counts(fn)["hits"] == 0
    assert "pre_hook" in str(trident_hook.explain(fn).refusals)


def test_a_config_that_would_turn_a_tensor():
    """It is not chosen, but what is traced behind it would be for another shape."""
    kernel = adding(config(counts_up), config(turns, cost=1000), key=["n"])

    def launch(x, y, count, n):
        y = y + 0
        kernel[(3,)](x, y, count, n)
        return y * 2

    fn = trident_hook.jit(twin(launch))
    pair = Pair(fn)
    for _ in range(4):
        pair.call(41, via=None)
    assert trident_hook.counts(fn)["hits"] == 0
    assert "changes what a tensor is" in str(trident_hook.explain(fn).refusals)


def test_a_check_that_holds_is_nothing():
    pair = Pair(launching(adding(config(raises), config(lambda nargs: None, cost=1000), key=["n"])))
    pair.call(41, via="dynamo")
    pair.call(41)


adding_to_zeros = adding(config(zeroes))
adding_to_weights = adding(config(lambda nargs: nargs["y"].add_(nargs["x"])))


def watched(w, y, count):
    y = y * w
    adding_to_zeros[(3,)](X, y, count, 96)
    return y


def watched_from_then_on(w, y, count):
    y = y.clone()
    adding_to_weights[(3,)](w, y, count, 96)
    return y * 2


def test_tensors_that_autograd_watches():
    """As any operator does, a hook's is recorded by autograd where it writes to what is watched. One that makes autograd
    watch a tensor is refused."""
    for launch, vias in ((watched, ("dynamo", "scm", "scm")), (watched_from_then_on, (None, None, None))):
        fn, w = trident_hook.jit(twin(launch)), torch.ones(400, requires_grad=True)
        for via in vias:
            got = routed(fn, w, torch.ones(400), torch.zeros(3), via=via)
            expected = twin(fn)(w, torch.ones(400), torch.zeros(3))
            assert type(got.grad_fn) is type(expected.grad_fn) is not type(None)
            assert torch.equal(*(torch.autograd.grad(y.sum(), w)[0] for y in (got, expected)))
    assert "recorded by autograd" in str(trident_hook.explain(fn).refusals)
    fn = trident_hook.jit(twin(watched_from_then_on))
    with torch.no_grad():
        for via in ("dynamo", "scm"):
            routed(fn, w, torch.ones(400), torch.zeros(3), via=via, mutates=True)


def test_no_grad_inside_a_hook():
    def hook(nargs) -> None:
        with torch.no_grad():
            nargs["y"].zero_()

    for others in ([], [config(hook, cost=1000)]):
        pair = Pair(launching(adding(config(hook), *others, key=["n"])))
        pair.call(41, via="dynamo")
        for _ in range(3):
            pair.call(41)
