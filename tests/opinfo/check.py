"""One operator of `op_db`: its samples through `trident_hook.jit`, compared with eager call by call.

Every sample is called until a specialization has been built from it, then once more; both answers, the arguments
afterwards and (where asked) the gradients must be eager's, bit for bit. All samples of an operator share one function,
and its module is built once, when every sample has been captured."""

from __future__ import annotations

import copy
import itertools
import warnings
from dataclasses import dataclass, field

import torch
from support.routes import same
from torch.utils import _pytree as pytree

import trident_hook
from trident_hook import _core

#: Refusals that may be Dynamo's: `torch.compile(fullgraph=True)` is asked whether it captures such a case at all.
PERHAPS_DYNAMOS = ("graph-break", "dynamo-error", "no-graph")
#: Operators whose results hold whatever the memory held.
UNINITIALISED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
_numbers = itertools.count()
OUTCOMES = ("skipped", "not captured", "served", "refused", "wrong")


@dataclass
class Case:
    """One call. `fresh()` makes (input, args, kwargs) anew, the same every time."""

    name: str
    op: object
    sample: object
    grad: bool = False
    out: bool = False
    unset: bool = False  # the result holds whatever the memory held

    def fresh(self) -> tuple:
        memo: dict = {}
        values = (self.sample.input, tuple(self.sample.args), dict(self.sample.kwargs))
        return pytree.tree_map(lambda v: _copied(v, memo) if isinstance(v, torch.Tensor) else v, values)


@dataclass
class Verdict:
    """What became of one operator: `cases` says it case by case, as (outcome, reason).

    wrong         a case gives another answer than eager
    refused       a case that Dynamo captures without a graph break is not served
    served        every case that Dynamo captures is served, and there is one
    not captured  Dynamo captures none of them
    skipped       eager runs none of them here"""

    name: str
    cases: dict = field(default_factory=dict)

    def add(self, case: str, outcome: str, reason: str = "") -> None:
        self.cases[case] = (outcome, reason)

    @property
    def outcome(self) -> str:
        return max((outcome for outcome, _ in self.cases.values()), key=OUTCOMES.index, default="skipped")

    @property
    def reason(self) -> str:
        """Of the first case with the outcome of the whole."""
        return next((reason for outcome, reason in self.cases.values() if outcome == self.outcome), "no sample")


def _copied(tensor: torch.Tensor, memo: dict) -> torch.Tensor:
    """Storage, strides, offset and aliasing kept; a leaf."""
    if id(tensor) not in memo:
        memo[id(tensor)] = copy.deepcopy(tensor.detach(), memo).requires_grad_(tensor.requires_grad)
    return memo[id(tensor)]


def cases(op, samples: int = 2, device: str = "cpu") -> list[Case]:
    """float32 and int64 where supported, gradients, the in-place and the out variant."""
    found, function = [], _function(op)
    dtypes = op.supported_dtypes(device)
    for dtype in (torch.float32, torch.int64):
        if dtype in dtypes:
            count = samples if dtype is torch.float32 or torch.float32 not in dtypes else 1
            for number, sample in enumerate(_samples(op, dtype, False, count, device)):
                found.append(Case(f"{str(dtype)[6:]}[{number}]", function, sample))
    dtype = torch.float32 if torch.float32 in dtypes else next(iter(sorted(dtypes, key=str)), torch.float32)
    if dtype not in (torch.float32, torch.int64) and not found:
        found += [Case(f"{str(dtype)[6:]}[0]", function, s) for s in _samples(op, dtype, False, 1, device)]
    if op.supports_autograd and torch.float32 in dtypes:
        found += [Case("grad", function, s, grad=True) for s in _samples(op, torch.float32, True, 1, device)]
    inplace = op.inplace_variant
    if inplace is not None:
        plain = [s for s in _samples(op, dtype, False, 4, device) if not s.broadcasts_input]
        found += [Case("in-place", inplace, s) for s in plain[:1] if isinstance(s.input, torch.Tensor)]
    if op.supports_out:
        found += [Case("out", function, s, out=True) for s in _samples(op, dtype, False, 1, device)]
    for case in found:
        case.unset = op.name in UNINITIALISED
    return found


def _function(op):
    """The operator. Those that draw random numbers are wrapped for PyTorch's tests, in a way that Dynamo does not trace:
    `lambda ...: wrapper_set_seed(torch.nn.functional.dropout, ...)`."""
    names = getattr(getattr(op.op, "__code__", None), "co_names", ())
    if "wrapper_set_seed" not in names:
        return op.op
    inner = torch
    for name in names[names.index("wrapper_set_seed") + 2 :]:
        inner = getattr(inner, name, None)
    return inner if callable(inner) else op.op


def _samples(op, dtype, grad: bool, count: int, device: str) -> list:
    """The first one, and others spread over the first twelve."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        many = list(itertools.islice(op.sample_inputs(device, dtype, requires_grad=grad), 12))
    return many[:1] if count == 1 else many[:: max(1, len(many) // count)][:count]


def check(op, samples: int = 2, device: str = "cpu") -> Verdict:
    verdict = Verdict(op.formatted_name)
    functions: dict = {}  # form of the call -> the function that serves its cases
    waiting = []
    for case in cases(op, samples, device):
        try:
            expected = answer(plain(case.op, case), case)
        except Exception as error:
            verdict.add(case.name, "skipped", f"eager raises {type(error).__name__}")
            continue
        key = (case.op, len(case.sample.args), *case.sample.kwargs, case.out)
        fn = functions.get(key)
        if fn is None or trident_hook.explain(fn).refused:
            fn = functions[key] = _served(case)
        compared, why = _compare(fn, case, expected)
        if not compared:
            verdict.add(case.name, "wrong", f"captured: {why}{_dynamos_own(case, expected)}")
        elif (reason := _refusal(fn)) is not None:
            verdict.add(case.name, *_whose(case, reason))
            functions.pop(key)
            _build(fn)
            waiting.append((fn, None, None))
        else:
            waiting.append((fn, case, expected))
    for fn in {id(f): f for f, _, _ in waiting}.values():
        _build(fn)
    for fn, case, expected in waiting:
        if case is not None:
            _second_call(verdict, fn, case, expected)
    return verdict


def _second_call(verdict: Verdict, fn, case: Case, expected) -> None:
    if (reason := _refusal(fn)) is not None:
        return verdict.add(case.name, *_whose(case, reason))
    before = trident_hook.counts(fn)
    compared, why = _compare(fn, case, expected)
    after = trident_hook.counts(fn)
    if not compared:
        verdict.add(case.name, "wrong", why)
    elif after["hits"] > before["hits"]:
        verdict.add(case.name, "served")
    elif after["bypasses"] > before["bypasses"]:
        verdict.add(case.name, "refused", "bypassed: a size that the data decides is 0 or 1, or an assertion fails")
    else:
        last = trident_hook.explain(fn).last_miss
        verdict.add(case.name, "refused", _refusal(fn) or f"missed: {last}")
    return None


# -- the function under test --------------------------------------------------------------------------------------------


def plain(op, case: Case):
    """A plain function that takes the sample's arguments one by one: `call(a0, a1, dim) -> op(a0, a1, dim=dim)`."""
    positional = [f"a{i}" for i in range(1 + len(case.sample.args))]
    named = [*case.sample.kwargs, *(["out"] if case.out else [])]
    parameters = ", ".join([*positional, *(f"k_{name}" for name in named)])
    passed = ", ".join([*positional, *(f"{name}=k_{name}" for name in named)])
    scope = {"op": op}
    # A file name of its own: Dynamo remembers by file and line which sizes have changed.
    source = compile(f"def call({parameters}):\n    return op({passed})\n", f"<sample {next(_numbers)}>", "exec")
    exec(source, scope)
    return scope["call"]


def _served(case: Case):
    fn = trident_hook.jit(plain(case.op, case))
    _record(fn).builds.queued = True  # as if its build were on the way: `_build` makes it
    return fn


def _record(fn):
    return _core.entry_record(fn.__wrapped__.__code__)


def _build(fn) -> None:
    record = _record(fn)
    if record.learning.fresh:
        record.builds.run()


def _dynamos_own(case: Case, expected: tuple) -> str:
    """A note for a wrong answer: whether `torch.compile` alone, with no compiler behind it, gives it too."""
    try:
        same_there = equal(answer(torch.compile(plain(case.op, case), backend="eager"), case), expected)
    except Exception as error:
        return f" (torch.compile raises {type(error).__name__})"
    return "" if same_there else " (torch.compile differs from eager as well)"


def _whose(case: Case, reason: str) -> tuple[str, str]:
    """("refused", reason), or ("not captured", Dynamo's words) where Dynamo alone does not capture the case whole."""
    if reason.split(":")[0] not in PERHAPS_DYNAMOS:
        return "refused", reason
    graphs = []

    def count(graph_module, _):
        graphs.append(graph_module)
        return graph_module.forward

    try:
        answer(torch.compile(plain(case.op, case), backend=count, fullgraph=True), case)
    except Exception as error:
        words = str(error).strip().splitlines()
        return "not captured", f"{type(error).__name__}: {words[0] if words else ''}"
    return ("refused", reason) if graphs else ("not captured", "no operator in the graph")


def _refusal(fn) -> str | None:
    refusals = trident_hook.explain(fn).refusals
    return None if not refusals else str(next(reversed(refusals)))


# -- comparison ---------------------------------------------------------------------------------------------------------


def answer(fn, case: Case) -> tuple:
    """(result, arguments afterwards, gradients), or the error that was raised, after a fixed seed."""
    input, args, kwargs = case.fresh()
    extra = ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case.out:
            torch.manual_seed(0)
            result = case.op(input, *args, **kwargs)
            extra = (pytree.tree_map(lambda t: torch.full_like(t, 1).detach(), result),)
            input, args, kwargs = case.fresh()
        torch.manual_seed(0)
        result = fn(input, *args, *kwargs.values(), *extra)
    grads = None
    if case.grad:
        leaves = [t for t in _tensors((input, args, kwargs)) if t.requires_grad]
        roots = [t for t in _tensors(result) if t.grad_fn is not None]
        if roots and leaves:
            torch.manual_seed(1)
            seeds = [torch.randn_like(t) for t in roots]
            grads = torch.autograd.grad(roots, leaves, seeds, allow_unused=True)
    aliases = _aliasing(result, (input, args, kwargs, extra))
    return result, (input, args, kwargs), grads, aliases


def _compare(fn, case: Case, expected: tuple) -> tuple[bool, str]:
    try:
        got = answer(fn, case)
    except Exception as error:
        return False, f"raises {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    if equal(got, expected):
        return True, ""
    eagers = (answer(plain(case.op, case), case) for _ in range(3))
    if case.unset or not all(equal(again, expected) for again in eagers):  # at random, or in no fixed order
        return (True, "") if equal(_facts(got), _facts(expected)) else (False, "other metadata")
    for name, a, b in zip(("result", "arguments", "gradients", "aliasing"), got, expected, strict=True):
        if not equal(a, b):
            return False, f"{name} differ: {_brief(a)} for {_brief(b)}"
    return False, "differs"


def equal(a, b) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.layout is not torch.strided:
        if a.layout is not b.layout or a.dtype is not b.dtype or a.shape != b.shape:
            return False
        return torch.equal(a.detach().to_dense(), b.detach().to_dense())
    if type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[k], b[k]) for k in a)
    return same(a, b)


def _tensors(tree) -> list:
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


def _aliasing(result, given) -> list:
    """Which given tensor each tensor of the result is, or shares its storage with."""
    inputs = [t for t in _tensors(given) if t.layout is torch.strided]
    answer = []
    for tensor in _tensors(result):
        if tensor.layout is not torch.strided:
            continue
        shared = [i for i, t in enumerate(inputs) if t is tensor]
        storage = tensor.untyped_storage().data_ptr()
        shared += [
            "storage",
            *(i for i, t in enumerate(inputs) if storage and t.untyped_storage().data_ptr() == storage),
        ]
        answer.append(shared)
    return answer


def _facts(tree):
    return pytree.tree_map(
        lambda t: (
            (t.shape, t.dtype, t.layout, _stride(t), t.requires_grad, type(t.grad_fn).__name__)
            if isinstance(t, torch.Tensor)
            else type(t)
        ),
        tree[:2],
    )


def _stride(tensor: torch.Tensor) -> tuple | None:
    return tensor.stride() if tensor.layout is torch.strided else None


def _brief(value) -> str:
    leaves = pytree.tree_leaves(value)
    parts = []
    for leaf in leaves[:3]:
        if isinstance(leaf, torch.Tensor):
            grad = type(leaf.grad_fn).__name__ if leaf.requires_grad else ""
            numbers = (
                leaf.detach().flatten()[:3].tolist() if leaf.layout is torch.strided and not leaf.is_quantized else ""
            )
            parts.append(
                f"{leaf.dtype}{tuple(leaf.shape)}{tuple(leaf.stride()) if leaf.layout is torch.strided else ''}{grad} {numbers}"
            )
        else:
            parts.append(repr(leaf)[:60])
    return f"{type(value).__name__}[{'; '.join(parts)}]"
