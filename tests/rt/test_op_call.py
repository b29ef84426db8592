"""Operator calls through prepared sites are eager's calls: results, identity, autograd, errors, warnings."""

from __future__ import annotations

import sys
import threading
import warnings

import pytest
import torch

from trident_hook import _rt


class Slots:
    """Turns positional arguments into a template and its placeholders: tensors, and ints and floats that are wrapped in
    I, D or B, become slots; everything else is a constant."""

    def __init__(self, args):
        self.tensors, self.ints, self.doubles = [], [], []
        self.template = tuple(self.entry(arg) for arg in args)

    def tensor(self, value):
        self.tensors.append(value)
        return len(self.tensors) - 1

    def int(self, value):
        self.ints.append(int(value))
        return len(self.ints) - 1

    def entry(self, arg):
        if isinstance(arg, torch.Tensor):
            return ("t", self.tensor(arg))
        if isinstance(arg, I):
            return ("i", self.int(arg.value))
        if isinstance(arg, B):
            return ("b", self.int(arg.value))
        if isinstance(arg, D):
            self.doubles.append(arg.value)
            return ("d", len(self.doubles) - 1)
        if isinstance(arg, (list, tuple)) and any(isinstance(a, torch.Tensor) for a in arg):
            return ("tl", [None if a is None else self.tensor(a) for a in arg])
        if isinstance(arg, (list, tuple)) and any(isinstance(a, I) for a in arg):
            return ("il", [("i", self.int(a.value)) if isinstance(a, I) else ("c", a) for a in arg])
        return ("c", arg)


class Number:
    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return f"{type(self).__name__}({self.value})"


class I(Number):  # noqa: E742
    pass


class D(Number):
    pass


class B(Number):
    pass


def plain(arg):
    if isinstance(arg, Number):
        return arg.value
    if isinstance(arg, (list, tuple)):
        return [plain(a) for a in arg]
    return arg


def operator(name):
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def all_arguments(name, args, kwargs):
    """Every argument of the schema, in order, defaults filled in."""
    schema = operator(name)._schema
    values = list(args)
    for declared in schema.arguments[len(args) :]:
        values.append(kwargs.get(declared.name, declared.default_value))
    return values


def ours(name, *args, outs=1, **kwargs):
    slots = Slots(all_arguments(name, args, kwargs))
    packet, _, overload = name.partition(".")
    site = _rt.op_site("aten::" + packet, overload, slots.template, outs)
    return _rt.op_call(site, tuple(slots.tensors), slots.ints, slots.doubles)


def eager(name, *args, **kwargs):
    return operator(name)(*[plain(a) for a in args], **{k: plain(v) for k, v in kwargs.items()})


def flatten(result):
    tensors, ints, doubles = [], [], []
    for value in result if isinstance(result, (tuple, list)) else [result]:
        if value is None or isinstance(value, torch.Tensor):
            tensors.append(value)
        elif isinstance(value, (list, tuple)):
            tensors += value
        elif isinstance(value, float):
            doubles.append(value)
        else:
            ints.append(int(value))
    return tuple(tensors), tuple(ints), tuple(doubles)


def same(a, b):
    if a is None or b is None:
        return a is b
    return (
        (a.shape, a.dtype, a.stride(), a.storage_offset()) == (b.shape, b.dtype, b.stride(), b.storage_offset())
        and (a.requires_grad, a.is_conj()) == (b.requires_grad, b.is_conj())
        and torch.equal(a.detach(), b.detach())
    )


torch.manual_seed(0)
x = torch.randn(4, 6)
y = torch.randn(4, 6)
v = torch.randn(6)
index = torch.tensor([2, 0])
long = torch.arange(12).reshape(3, 4)
z = torch.randn(3, dtype=torch.complex64)
image = torch.randn(1, 3, 8, 8)

CASES = [
    ("add.Tensor", (x, y), {"alpha": I(2)}, 1),
    ("add.Tensor", (x, y), {"alpha": D(0.5)}, 1),
    ("add.Scalar", (x, D(1.5)), {}, 1),
    ("add.Scalar", (long, I(3)), {}, 1),
    ("add.Scalar", (long, D(2.0)), {}, 1),
    ("mul.Scalar", (x, B(True)), {}, 1),
    ("mul.Tensor", (x, v), {}, 1),
    ("pow.Tensor_Scalar", (x, I(2)), {}, 1),
    ("pow.Scalar", (2, x), {}, 1),
    ("mul.Scalar", (z, 1j), {}, 1),
    ("view", (x, [I(6), 4]), {}, 1),
    ("view.dtype", (x, torch.int32), {}, 1),
    ("reshape", (x, [I(2), -1]), {}, 1),
    ("t", (x,), {}, 1),
    ("transpose.int", (x, I(0), I(1)), {}, 1),
    ("permute", (image, [0, 2, 3, 1]), {}, 1),
    ("expand", (v, [I(3), 6]), {}, 1),
    ("as_strided", (x, [I(2), I(3)], [I(1), 6], I(1)), {}, 1),
    ("slice.Tensor", (x, 1, I(1), I(5), I(2)), {}, 1),
    ("slice.Tensor", (x, 0, None, None), {}, 1),
    ("select.int", (x, 0, I(-1)), {}, 1),
    ("unsqueeze", (x, I(1)), {}, 1),
    ("squeeze.dims", (image, [0]), {}, 1),
    ("alias", (x,), {}, 1),
    ("conj", (z,), {}, 1),
    ("clone", (image,), {"memory_format": torch.channels_last}, 1),
    ("_to_copy", (x,), {"dtype": torch.float16}, 1),
    ("_to_copy", (x,), {"dtype": torch.float64, "device": torch.device("cpu"), "layout": torch.strided}, 1),
    ("to.dtype", (x, torch.float64), {}, 1),
    ("sum", (x,), {}, 1),
    ("sum.dim_IntList", (x, [I(1)], B(True)), {"dtype": torch.float64}, 1),
    ("mean.dim", (x, None), {}, 1),
    ("softmax.int", (x, I(-1)), {}, 1),
    ("max.dim", (x, 1), {}, 2),
    ("topk", (x, I(2)), {}, 2),
    ("sort", (x,), {}, 2),
    ("native_layer_norm", (x, [6], v, None, D(1e-5)), {}, 3),
    ("native_layer_norm", (x, [I(6)], v, v, 1e-5), {}, 3),
    ("split.Tensor", (x, I(3), 1), {}, 2),
    ("unbind.int", (x,), {}, 4),
    ("cat", ([x, y, x], I(1)), {}, 1),
    ("stack", ((x, y),), {}, 1),
    ("index.Tensor", (x, [None, index]), {}, 1),
    ("index.Tensor", (x, [index]), {}, 1),
    ("gather", (x, 1, long[:, :2] % 4), {}, 1),
    ("where.self", (x > 0, x, y), {}, 1),
    ("clamp", (x, D(-0.5), None), {}, 1),
    ("clamp.Tensor", (x, None, y), {}, 1),
    ("arange.start_step", (I(1), I(9), 2), {"dtype": torch.int32, "device": "cpu"}, 1),
    ("full", ([I(2), 3], D(2.5)), {"dtype": None}, 1),
    ("zeros", ([I(2), I(2)],), {"dtype": torch.bfloat16}, 1),
    ("empty_like", (torch.empty(0, 3),), {}, 1),
    ("convolution", (image, torch.ones(2, 3, 3, 3), None, [1, 1], [I(1), 1], [1, 1], False, [0, 0], I(1)), {}, 1),
    ("upsample_nearest2d.vec", (image, None, [2.0, 2.0]), {}, 1),
    ("gelu", (x,), {"approximate": "tanh"}, 1),
    ("equal", (x, x), {}, 0),
    ("sym_size.int", (x, I(1)), {}, 0),
    ("sym_numel", (x,), {}, 0),
    ("is_same_size", (x, v), {}, 0),
    ("q_scale", (torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),), {}, 0),
]


@pytest.mark.parametrize(("name", "args", "kwargs", "outs"), CASES, ids=lambda value: None)
def test_same_as_torch(name, args, kwargs, outs):
    got = ours(name, *args, outs=outs, **kwargs)
    want = flatten(eager(name, *args, **kwargs))
    assert len(got[0]) == len(want[0])
    assert all(map(same, got[0], want[0]))
    assert got[1:] == want[1:]


def test_views_share_storage():
    (view,) = ours("view", x, [24])[0]
    assert view.data_ptr() == x.data_ptr()
    assert view._is_view()
    assert view._base is x


def test_scalar_results_take_a_place_in_both_arrays():
    assert ours("_local_scalar_dense", torch.tensor(7), outs=0) == ((), (7,), (7.0,))
    assert ours("_local_scalar_dense", torch.tensor(2.5), outs=0) == ((), (0,), (2.5,))
    assert ours("_local_scalar_dense", torch.tensor(True), outs=0) == ((), (1,), (1.0,))
    with pytest.raises(RuntimeError, match="aten::_local_scalar_dense returned something else"):
        ours("_local_scalar_dense", torch.tensor(1j), outs=0)


@pytest.mark.parametrize(
    ("name", "rest"), [("add_.Tensor", (y,)), ("mul_.Scalar", (D(2.0),)), ("fill_.Scalar", (D(1.0),)), ("zero_", ())]
)
def test_in_place_gives_the_same_object(name, rest):
    target, twin = x.clone(), x.clone()
    version = target._version
    (result,) = ours(name, target, *rest)[0]
    eager(name, twin, *rest)
    assert result is target
    assert torch.equal(target, twin)
    assert target._version == version + 1


def test_out_variant():
    out = torch.empty(4, 6)
    (result,) = ours("add.out", x, y, out=out)[0]
    assert result is out
    assert torch.equal(out, x + y)


def test_identity_of_a_returned_input():
    assert ours("to.dtype", x, torch.float32)[0][0] is x
    assert ours("contiguous", x)[0][0] is x


def test_same_tensor_twice():
    assert torch.equal(ours("add.Tensor", x, x)[0][0], x + x)


@pytest.mark.parametrize("autocast", [False, True])
def test_gradients(autocast):
    def run(call):
        a, b = (
            x.clone().requires_grad_(),
            torch.randn(6, 5, generator=torch.Generator().manual_seed(1)).requires_grad_(),
        )
        with torch.autocast("cpu", enabled=autocast):
            out = call("mm", a, b)
            out = call("mul.Scalar", out, D(3.0))
            out = call("sum", out)
        out.backward()
        return out.detach(), a.grad, b.grad, out.grad_fn.name()

    got = run(lambda name, *args: ours(name, *args)[0][0])
    want = run(lambda name, *args: eager(name, *args))
    assert all(torch.equal(a, b) for a, b in zip(got[:3], want[:3], strict=True))
    assert got[3] == want[3]


def test_autograd_states():
    grad = x.clone().requires_grad_()
    with torch.no_grad():
        assert not ours("mul.Scalar", grad, D(2.0))[0][0].requires_grad
    with torch.inference_mode():
        assert ours("mul.Scalar", x, D(2.0))[0][0].is_inference()


def error_of(call):
    with pytest.raises(Exception) as caught:
        call()
    return type(caught.value), str(caught.value)


ERRORS = [
    ("add.Tensor", (x, torch.zeros(5)), {}),
    ("view", (x, [5]), {}),
    ("select.int", (x, 0, 9), {}),
    ("mm", (x, x), {}),
    ("cat", ([x, v],), {}),
    ("index.Tensor", (x, [torch.tensor([99])]), {}),
    ("linalg_inv_ex", (x,), {"check_errors": True}),
    ("linalg_cholesky", (-torch.eye(3),), {}),
    ("add_.Tensor", (torch.zeros(2, requires_grad=True), torch.zeros(2)), {}),
    ("to_sparse_csc", (v,), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), ERRORS, ids=lambda value: None)
def test_same_error(name, args, kwargs):
    outs = len(operator(name)._schema.returns)
    assert error_of(lambda: ours(name, *args, outs=outs, **kwargs)) == error_of(lambda: eager(name, *args, **kwargs))


def test_out_of_memory_is_the_same_error():
    size = [1 << 50]
    assert error_of(lambda: ours("zeros", size)) == error_of(lambda: eager("zeros", size))


def test_warnings_are_python_warnings():
    def caught(call):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            call()
        return [(w.category, str(w.message).split("(Triggered")[0]) for w in seen]

    wrong_size = torch.empty(3)
    torch.set_warn_always(True)
    try:
        got = caught(lambda: ours("add.out", x, y, out=wrong_size.clone()))
        assert got
        assert got == caught(lambda: torch.add(x, y, out=wrong_size.clone()))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match="resized"):
                ours("add.out", x, y, out=wrong_size.clone())
    finally:
        torch.set_warn_always(False)


def test_generator():
    def draw(call):
        return call("normal.float_float", D(0.0), D(1.0), [I(4)], generator=torch.Generator().manual_seed(3))

    assert torch.equal(draw(ours)[0][0], draw(eager))
    torch.manual_seed(5)
    got = ours("rand", [3])[0][0]
    torch.manual_seed(5)
    assert torch.equal(got, torch.rand(3))


# ---- making a site ----

BAD_SITES = [
    ("aten::no_such", "", (), 0, RuntimeError, "no operator aten::no_such"),
    ("aten::add", "nope", (), 0, RuntimeError, "no operator aten::add.nope"),
    ("aten::add", "Tensor", (("t", 0),), 1, ValueError, "takes 3 arguments, the template has 1"),
    ("aten::add", "Tensor", (("t", 0), ("t", 1), ("c", 1)), 2, ValueError, "returns 1 tensors, not 2"),
    ("aten::view", "", (("t", 0), ("i", 1)), 1, TypeError, "'size' .* takes no number"),
    ("aten::add", "Tensor", (("t", 0), ("t?", None), ("c", 1)), 1, TypeError, "'other' .* must not be None"),
    ("aten::add", "Tensor", (("t", 0), ("t", 1), ("c", "x")), 1, TypeError, "'alpha' .* cannot take the constant"),
    ("aten::add", "Tensor", (("t", 0), ("t", 1), ("t", 1)), 1, TypeError, "'alpha' .* takes no tensor"),
    ("aten::add", "Tensor", (("t", 0), ("t", -1), ("c", 1)), 1, TypeError, "slot is out of range"),
    ("aten::add", "Tensor", (("t", 0), ("q", 1), ("c", 1)), 1, TypeError, "no such template kind: 'q'"),
    ("aten::add", "Tensor", (("t", 0), 7, ("c", 1)), 1, TypeError, "is a pair"),
    ("aten::view", "", (("t", 0), ("tl", [0])), 1, TypeError, "no list of tensors"),
    ("aten::view", "", (("t", 0), ("il", [("d", 0)])), 1, TypeError, "elements"),
    ("aten::cat", "", (("tl", [0, None]), ("c", 0)), 1, TypeError, "no None"),
    ("aten::sum", "dim_IntList", (("t", 0), ("il", []), ("d", 0), ("c", None)), 1, TypeError, "'keepdim'"),
]


@pytest.mark.parametrize(("name", "overload", "template", "outs", "error", "text"), BAD_SITES, ids=lambda value: None)
def test_site_is_refused(name, overload, template, outs, error, text):
    with pytest.raises(error, match=text):
        _rt.op_site(name, overload, template, outs)


def test_unsupported_results_are_refused():
    library = torch.library.Library("tdh_list", "DEF")
    library.define("f(Tensor x) -> int[]")
    with pytest.raises(NotImplementedError, match=r"tdh_list::f returns int\[\]"):
        _rt.op_site("tdh_list::f", "", (("t", 0),), 0)
    library._destroy()


def test_wrong_number_of_listed_results():
    before = _rt.live_handles()
    with pytest.raises(RuntimeError, match=r"aten::unbind\.int returned 4 tensors, 3 were expected"):
        ours("unbind.int", x, outs=3)
    assert _rt.live_handles() == before


# ---- operators of torch.library ----


def call_double(site):
    return _rt.op_call(site, (x,), (), ())[0][0]


def test_operator_that_goes_away():
    library = torch.library.Library("tdh_gone", "DEF")
    library.define("double(Tensor x) -> Tensor")
    library.impl("double", lambda t: t * 2, "CPU")
    site = _rt.op_site("tdh_gone::double", "", (("t", 0),), 1)
    assert torch.equal(call_double(site), x * 2)
    library._destroy()
    with pytest.raises(RuntimeError, match="tdh_gone::double was deregistered"):
        call_double(site)

    library = torch.library.Library("tdh_gone", "DEF")
    library.define("double(Tensor x) -> Tensor")
    library.impl("double", lambda t: t * 3, "CPU")
    assert torch.equal(call_double(site), x * 3)
    library._destroy()

    library = torch.library.Library("tdh_gone", "DEF")
    library.define("double(Tensor x, int n) -> Tensor")
    with pytest.raises(RuntimeError, match="anew with another schema"):
        call_double(site)
    library._destroy()


def test_other_operators_may_go_away():
    site = _rt.op_site("aten::neg", "", (("t", 0),), 1)
    library = torch.library.Library("tdh_other", "DEF")
    library.define("f(Tensor x) -> Tensor")
    library._destroy()
    assert torch.equal(call_double(site), -x)


def test_exception_and_reentry_of_a_python_kernel():
    library = torch.library.Library("tdh_python", "DEF")
    library.define("f(Tensor x) -> Tensor")
    sites = []

    def kernel(t):
        if t.dim() == 0:
            raise LookupError("deep down")
        return _rt.op_call(sites[0], (t[0],), (), ())[0][0]

    library.impl("f", kernel, "CPU")
    sites.append(_rt.op_site("tdh_python::f", "", (("t", 0),), 1))
    with pytest.raises(LookupError, match="deep down"):
        call_double(sites[0])
    library._destroy()


def test_override_is_honoured(override):
    site = _rt.op_site("aten::neg", "", (("t", 0),), 1)
    with override("neg", lambda t: t + 100):
        assert torch.equal(call_double(site), x + 100)
    assert torch.equal(call_double(site), -x)


# ---- ownership and threads ----


def test_references_are_balanced():
    a, b = torch.zeros(2), torch.zeros(2)
    site = _rt.op_site("aten::add", "Tensor", (("t", 0), ("t", 1), ("c", 1)), 1)
    bad = _rt.op_site("aten::mm", "", (("t", 0), ("t", 1)), 1)
    before = [(sys.getrefcount(t), t._use_count()) for t in (a, b)]
    for _ in range(50):
        _rt.op_call(site, (a, b), (), ())
        with pytest.raises(RuntimeError):
            _rt.op_call(bad, (a, b), (), ())
    assert [(sys.getrefcount(t), t._use_count()) for t in (a, b)] == before


def test_constants_are_owned():
    constant = torch.zeros(3)
    count = constant._use_count()
    site = _rt.op_site("aten::add", "Tensor", (("t", 0), ("c", constant), ("c", 1)), 1)
    assert constant._use_count() > count
    del site
    assert constant._use_count() == count


def test_other_threads_run_meanwhile():
    """The GIL is given up for the call: the kernel waits for a thread that needs it."""
    library = torch.library.Library("tdh_wait", "DEF")
    library.define("f(Tensor x) -> Tensor")
    ready, go = threading.Event(), threading.Event()

    def kernel(t):
        ready.set()
        assert go.wait(30)
        return t + 1

    library.impl("f", kernel, "CPU")
    site = _rt.op_site("tdh_wait::f", "", (("t", 0),), 1)
    helper = threading.Thread(target=lambda: (ready.wait(30), go.set()))
    helper.start()
    assert torch.equal(call_double(site), x + 1)
    helper.join()
    library._destroy()


def test_many_threads():
    site = _rt.op_site("aten::mul", "Scalar", (("t", 0), ("d", 0)), 1)
    failures = []

    def work(k):
        t = torch.full((16,), float(k))
        for i in range(300):
            if not torch.equal(_rt.op_call(site, (t,), (), (float(i),))[0][0], t * i):
                failures.append((k, i))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_counted():
    _rt.counters_reset()
    ours("neg", x)
    assert _rt.counters()["op_call"] == 1
