"""What else a graph can hold: numbers that only the data decides, constants, operators that go away, and results that
Dynamo rebuilds. Routes are proven by counts."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from support.routes import twin

import trident_hook
from trident_hook import _core
from trident_hook._config import config
from trident_hook.testing import simdriver


@pytest.fixture(scope="module", autouse=True)
def settings(tmp_path_factory):
    before = dict(vars(config))
    config.build, config.cache_dir = "sync", tmp_path_factory.mktemp("modules")
    yield
    assert trident_hook.settle(120)
    for name, value in before.items():
        setattr(config, name, value)


@pytest.fixture
def simulated():
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU: the simulated driver cannot be loaded beside the real one")
    simdriver.install()


@pytest.fixture
def captures_data():
    """Dynamo's own switches: without them it breaks the graph where the data decides."""
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        yield


def route(fn, *args):
    """(answer or error, what the call added to the counts)."""
    before = trident_hook.counts(fn)
    try:
        answer = fn(*args)
    except RuntimeError as error:
        answer = str(error)
    return answer, {name: n - before[name] for name, n in trident_hook.counts(fn).items() if n != before[name]}


def served(fn, *args):
    fn = trident_hook.jit(twin(fn))
    fn(*args)
    assert trident_hook.explain(fn).specializations, trident_hook.explain(fn)
    return fn


def refused(fn, *args) -> str:
    """Why: every call still has eager's answer."""
    plain, fn = fn, trident_hook.jit(twin(fn))
    for _ in range(3):
        mine, theirs = [a.clone() for a in args], [a.clone() for a in args]
        assert_same(fn(*mine), plain(*theirs))
        assert_same(mine, theirs)
    assert trident_hook.counts(fn)["hits"] == 0
    return str(trident_hook.explain(fn).refused)


def assert_same(a, b):
    if isinstance(a, torch.Tensor):
        assert torch.equal(a, b)
        assert (a.dtype, a.stride()) == (b.dtype, b.stride())
    elif isinstance(a, (tuple, list)):
        assert type(a) is type(b)
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    else:
        assert (a, type(a)) == (b, type(b))


# -- numbers that the data decides ---------------------------------------------------------------------------------------


def scaled_by_its_sum(x):
    return x * x.sum().item()


def numbers(x):
    return x.sum().item(), (x > 0).all().item()


def listed(x):
    return x.tolist(), x[0].item()


def more_than_the_sum(x):
    return x.sum().item() * 2**40 + x.shape[0]


def positive(x):
    y = x[x > 0]
    return y * 2, y.shape[0], y.shape[0] * 2 + x.shape[0]


def positive_after_a_write(x):
    x.add_(1)
    return x[x > 0]


def positive_noise(x):
    return x[torch.rand(x.shape) < x]


def sum_after_a_write(x):
    x.add_(1)
    return x.sum().item()


def read_twice(x):
    y = x.sum()
    first = y.item()
    return x * y.item(), first, y.item()


def scalars(x, y):
    return x * y.item(), y.item(), y.item() + x.shape[0]


def read_around_a_write(x):
    y = x.sum()
    first = y.item()
    y.add_(1)
    return first, y.item()


@triton.jit
def _add_one(x):
    tl.store(x, tl.load(x) + 1)


def read_around_a_kernel(x):
    y = x.sum()
    first = y.item()
    _add_one[(1,)](y)
    return first, y.item()


def launched_as_often(x, y):
    _add_one[(x.sum().item(),)](y)
    return y


def found_twice(x):
    return torch.nonzero(x), torch.nonzero(x)


def as_many_zeros(x):
    return torch.zeros(x.sum().item(), 2)


def must_be_positive(x):
    total = x.sum().item()
    torch._check(total > 0)
    return x * total


def branches(x):
    return x + 1 if x.sum().item() > 0 else x - 1


HITS = [
    (scaled_by_its_sum, torch.tensor([1.0, 2.5]), torch.tensor([-3.0, 0.25])),
    (scaled_by_its_sum, torch.tensor([1, 2]), torch.tensor([-3, 3])),
    (numbers, torch.tensor([1.0, 2.5]), torch.tensor([-3.0, 0.1])),
    (numbers, torch.tensor([True, True]), torch.tensor([True, False])),
    (listed, torch.tensor([1, 2]), torch.tensor([-3, 2**62])),
    (more_than_the_sum, torch.tensor([1, 2]), torch.tensor([-5, 0])),
    (sum_after_a_write, torch.tensor([1, 2]), torch.tensor([5, 6])),
    (read_twice, torch.tensor([1, 2]), torch.tensor([5, 6])),
    (read_around_a_write, torch.tensor([1, 2]), torch.tensor([5, 6])),
    (found_twice, torch.tensor([1, 2, 0]), torch.tensor([5, 6, 7])),
    (positive, torch.tensor([1.0, -2.0, 3.0]), torch.tensor([1.0, 2.0, 3.0])),
    (as_many_zeros, torch.tensor([1, 2]), torch.tensor([4, 2])),
    (must_be_positive, torch.tensor([1, 2]), torch.tensor([4, 2])),
]


@pytest.mark.parametrize(("fn", "first", "second"), HITS, ids=lambda v: getattr(v, "__name__", ""))
def test_numbers_of_the_data(captures_data, fn, first, second):
    jitted = served(fn, first.clone())
    for x in (second, first, second):
        mine, theirs = x.clone(), x.clone()
        answer, added = route(jitted, mine)
        assert added == {"hits": 1}, trident_hook.explain(jitted)
        assert_same(answer, fn(theirs))
        assert_same(mine, theirs)


LEAVES = [
    (positive, torch.tensor([1.0, -2.0, 3.0]), torch.tensor([1.0, -2.0, -3.0])),  # 1
    (positive, torch.tensor([1.0, -2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])),  # 0
    (as_many_zeros, torch.tensor([1, 2]), torch.tensor([1, 0])),
    (more_than_the_sum, torch.tensor([1, 2]), torch.tensor([2**23, 0])),  # past 64 bits
]


@pytest.mark.parametrize(("fn", "first", "second"), LEAVES, ids=lambda v: getattr(v, "__name__", ""))
def test_what_tracing_left_aside_is_the_plain_functions(captures_data, fn, first, second):
    jitted = served(fn, first)
    for _ in range(2):
        answer, added = route(jitted, second)
        assert added == {"bypasses": 1}
        assert_same(answer, fn(second))
    assert route(jitted, first)[1] == {"hits": 1}
    assert trident_hook.explain(jitted).builds == 1


@pytest.mark.parametrize("fn", [as_many_zeros, must_be_positive])
def test_a_failing_assertion_is_eagers_error(captures_data, fn):
    jitted = served(fn, torch.tensor([1, 2]))
    answer, added = route(jitted, torch.tensor([-1, -2]))
    assert added == {"bypasses": 1}
    with pytest.raises(RuntimeError) as expected:
        fn(torch.tensor([-1, -2]))
    assert answer == str(expected.value)


def test_gradients_through_a_size_of_the_data(captures_data):
    jitted = served(positive, torch.tensor([1.0, -2.0, 3.0], requires_grad=True))
    x = torch.tensor([4.0, 5.0, -6.0], requires_grad=True)
    (y, *_), added = route(jitted, x)
    assert added == {"hits": 1}
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert grad.tolist() == [2.0, 2.0, 0.0]


def test_a_size_that_is_known_only_after_an_effect(captures_data):
    x = torch.tensor([1.0, -2.0, 3.0])
    assert "after add_, which cannot be undone" in refused(positive_after_a_write, x)
    jitted = trident_hook.jit(twin(positive_noise))
    for _ in range(3):
        torch.manual_seed(3)
        mine = jitted(x.abs() / 4)
        torch.manual_seed(3)
        assert_same(mine, positive_noise(x.abs() / 4))
    assert "after rand, which cannot be undone" in trident_hook.explain(jitted).refused


@pytest.mark.parametrize("numbers", [(7, 9, -3), (1, 0, 5), (2.5, 0.5)], ids=str)
def test_numbers_of_scalars_that_are_passed_in(captures_data, numbers):
    x, fn = torch.ones(2), trident_hook.jit(twin(scalars))
    for number in (*numbers, *numbers):
        assert_same(fn(x, torch.tensor(number)), scalars(x, torch.tensor(number)))


def test_a_scalar_that_is_passed_in_is_read_in_every_call(captures_data):
    jitted = served(scalars, torch.ones(2), torch.tensor(7))
    for number in (9, -3, 2**40):
        answer, added = route(jitted, torch.ones(2), torch.tensor(number))
        assert added == {"hits": 1}
        assert_same(answer, scalars(torch.ones(2), torch.tensor(number)))


def scalar_around_a_kernel(y):
    first = y.item()
    _add_one[(1,)](y)
    return first, y.item()


def scalar_around_a_write(y):
    first = y.item()
    y.add_(1)
    return first, y.item()


@pytest.mark.parametrize("fn", [scalar_around_a_kernel, scalar_around_a_write])
@pytest.mark.parametrize("number", [7, 2.5])
def test_a_scalar_that_is_passed_in_and_written(captures_data, simulated, fn, number):
    jitted = trident_hook.jit(twin(fn))
    for value in (number, number + 1, number + 2):
        mine, theirs = torch.tensor(value), torch.tensor(value)
        assert_same(jitted(mine), fn(theirs))
        assert_same(mine, theirs)


def launched_with(x, y):
    n = x.max().item()
    _fill[(n,)](y, n, y.numel(), BLOCK=64)
    return y, n


@triton.jit
def _fill(y, value, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, value, at < n)


def launched_after_an_effect(x, y):
    n = x.max().item()
    y.add_(1)
    _fill[(2,)](y, n, y.numel(), BLOCK=64)
    return y


@pytest.mark.parametrize("launch", [launched_as_often, launched_with, launched_after_an_effect])
def test_a_launch_with_a_number_of_the_data(simulated, launch):
    """Each class of the number (1, a multiple of 16, 64 bits) has a binary of its own: the number chooses it in the call."""
    jitted = trident_hook.jit(twin(launch))
    for _ in range(2):
        for number in (3, 5, 1, 32, 7, 16, 2**33 if launch is launched_after_an_effect else 4):
            mine, theirs = torch.zeros(128, dtype=torch.int64), torch.zeros(128, dtype=torch.int64)
            assert_same(jitted(torch.tensor([1, number - 1 if launch is launched_as_often else number]), mine),
                        launch(torch.tensor([1, number - 1 if launch is launched_as_often else number]), theirs))  # fmt: skip
            assert_same(mine, theirs)
    counts = trident_hook.counts(jitted)
    assert counts["hits"] >= 7, counts


def test_numbers_around_a_launch(captures_data, simulated):
    """Tracing does not see the kernel write: it would take the second number for the first."""
    jitted = served(read_around_a_kernel, torch.tensor([1, 2]))
    for x in (torch.tensor([1, 2]), torch.tensor([5, 2])):
        answer, added = route(jitted, x)
        assert added == {"hits": 1}
        assert_same(answer, read_around_a_kernel(x))


def test_a_branch_on_the_data_is_refused(captures_data):
    assert "graph-break" in refused(branches, torch.tensor([1.0, 2.0]))


@pytest.mark.parametrize("fn", [scaled_by_its_sum, positive])
def test_dynamos_switches_are_on_in_a_capture(fn):
    assert not torch._dynamo.config.capture_scalar_outputs
    jitted = served(fn, torch.tensor([1.0, 2.0, -3.0]))
    answer, added = route(jitted, torch.tensor([1.0, 2.0, -4.0]))
    assert added == {"hits": 1}
    assert_same(answer, fn(torch.tensor([1.0, 2.0, -4.0])))


# -- operators -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def library():
    made = []

    def make(factor: int, schema: str = "scale(Tensor x) -> Tensor"):
        library = torch.library.Library("tdh_served", "DEF")
        made.append(library)
        library.define(schema)
        library.impl("scale", lambda x, n=0: x * factor, "CompositeExplicitAutograd")
        return library

    yield make
    for library in made:
        library._destroy()


SCALE = None


def call_scale(x):
    return SCALE(x) + 1


@pytest.fixture
def known_to_write_nothing(monkeypatch):
    """Of an operator that was registered in Python by `Library.impl` nothing is known, and it is refused otherwise."""
    monkeypatch.setattr("trident_hook.dynamo.python_operators._may_change_something", lambda op: False)


def test_an_operator_whose_python_is_not_known_is_refused(library, monkeypatch):
    library(2)
    monkeypatch.setitem(globals(), "SCALE", torch.ops.tdh_served.scale.default)
    assert "python-operator" in refused(call_scale, torch.ones(2))


def test_an_operator_that_is_unregistered_later(library, monkeypatch, known_to_write_nothing):
    first = library(2)
    monkeypatch.setitem(globals(), "SCALE", torch.ops.tdh_served.scale.default)
    x = torch.ones(2)
    jitted = served(call_scale, x)
    assert route(jitted, x)[1] == {"hits": 1}
    first._destroy()
    answer, _ = route(jitted, x)
    assert "tdh_served::scale was deregistered" in answer
    library(3)
    answer, added = route(jitted, x)
    assert added == {"hits": 1}
    assert answer.tolist() == [4.0, 4.0]


def test_an_operator_that_is_gone_when_the_module_loads(library, monkeypatch, known_to_write_nothing):
    first = library(2)
    monkeypatch.setitem(globals(), "SCALE", torch.ops.tdh_served.scale.default)
    monkeypatch.setattr(config, "build", "background")
    jitted = trident_hook.jit(twin(call_scale))
    record = _core.entry_record(jitted.__wrapped__.__code__)
    record.builds.queued = True  # as if its build were on the way
    assert jitted(torch.ones(2)).tolist() == [3.0, 3.0]
    first._destroy()
    record.builds.run()
    assert "no operator tdh_served::scale" in trident_hook.explain(jitted).refused
    assert trident_hook.counts(jitted)["hits"] == 0


# -- constants -----------------------------------------------------------------------------------------------------------

FACTOR = torch.tensor([2.0, 3.0])


def times_a_global(x):
    return x * FACTOR


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([2.0, 3.0]))
        self.register_buffer("offset", torch.tensor([10.0, 20.0]))
        self.plain = torch.tensor([0.5, 0.25])

    def forward(self, x):
        return x * self.weight + self.offset + self.plain


def test_a_global_tensor_is_read_in_every_call(monkeypatch):
    x = torch.ones(2)
    jitted = served(times_a_global, x)
    with torch.no_grad():
        FACTOR.mul_(2)
    answer, added = route(jitted, x)
    assert added == {"hits": 1}
    assert answer.tolist() == [4.0, 6.0]
    FACTOR.div_(2)
    monkeypatch.setitem(globals(), "FACTOR", torch.tensor([7.0, 8.0]))
    for _ in range(2):
        assert route(jitted, x)[0].tolist() == [7.0, 8.0]


@pytest.mark.parametrize("name", ["weight", "offset", "plain"])
def test_tensors_of_a_module(name):
    module, x = Scaled(), torch.ones(2)

    def apply(x):
        return module(x)

    jitted = served(apply, x)
    with torch.no_grad():
        getattr(module, name).add_(1)
    answer, added = route(jitted, x)
    assert added == {"hits": 1}
    assert_same(answer.detach(), apply(x).detach())
    other = torch.tensor([5.0, 6.0])
    setattr(module, name, torch.nn.Parameter(other) if name == "weight" else other)
    for _ in range(2):
        assert_same(route(jitted, x)[0].detach(), apply(x).detach())


# -- results that Dynamo rebuilds ------------------------------------------------------------------------------------------


def lu_into(x, out):
    return torch.lu(x, get_infos=True, out=out)


def max_into(x, out):
    return torch.max(x, 0, out=out)


@pytest.mark.filterwarnings("ignore:torch.lu is deprecated")
def test_a_returned_out_container_is_the_very_one():
    x = torch.eye(3)
    out = torch.lu(x, get_infos=True)
    jitted = trident_hook.jit(twin(lu_into))
    for _ in range(2):
        assert jitted(x, out) is out
    assert "out-container" in trident_hook.explain(jitted).refused


def test_operators_of_c_make_a_new_container():
    x = torch.eye(3)
    out = tuple(torch.max(x, 0))
    jitted = served(max_into, x, out)
    answer, added = route(jitted, x, out)
    assert added == {"hits": 1}
    assert type(answer) is type(max_into(x, out)) is torch.return_types.max_out
    assert answer[0] is out[0]


def test_a_function_without_any_tensor():
    scope = {"full": torch.full}
    exec("def fives(n, m):\n    return full((n, m), 5.0)\n", scope)
    jitted = served(scope["fives"], 2, 3)
    answer, added = route(jitted, 2, 3)
    assert added == {"hits": 1}
    assert_same(answer, torch.full((2, 3), 5.0))
