"""The two judges. (a) Dynamo: a hit is wrong where none of Dynamo's own guard managers, kept from the captures, accepts
the same frame locals. (b) The plain function: a hit is wrong when its answer, effects or exception are not those of a
twin that no door knows, called on a second copy of the same state.

A *court* holds one function with one specialization (or a few) and sends it states; see `run.py`."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import inspect
import random
import struct
import types
import warnings

import numpy
import torch
from support.routes import twin

import trident_hook
from trident_hook import api
from trident_hook.capture import recorder
from trident_hook.testing import simdriver

from .places import Subject

_NOTHING = contextlib.nullcontext()


class CannotBe(Exception):
    """Two changes that do not go together: a view of what is no tensor."""


@dataclasses.dataclass
class Tally:
    states: int = 0
    hits: int = 0
    errors: int = 0
    misses: int = 0
    bypasses: int = 0
    agreed: int = 0  # misses where Dynamo would miss as well
    #: Misses where Dynamo would hit, by the kind of ours that missed: its answer is right (a false miss), or wrong.
    stricter: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    saved: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    #: False misses that are counted apart. The specification asks for them (another binary of Triton's, an int beyond 64
    #: bits), or the function is a decoy (see places.Subject).
    apart: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    where: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # false misses by function
    examples: dict = dataclasses.field(default_factory=dict)
    violations: list = dataclasses.field(default_factory=list)
    refused: dict = dataclasses.field(default_factory=dict)
    judged: set = dataclasses.field(default_factory=set)  # names of courts that had something to judge
    kinds: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # ours, in the captures
    methods: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # GuardBuilder's, in them
    courts: int = 0

    def add(self, other: Tally) -> None:
        for name in ("states", "hits", "errors", "misses", "bypasses", "agreed", "courts"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.stricter += other.stricter
        self.saved += other.saved
        self.apart += other.apart
        self.where += other.where
        self.kinds += other.kinds
        self.methods += other.methods
        self.violations += other.violations
        self.refused.update(other.refused)
        self.judged |= other.judged
        for key, text in other.examples.items():
            self.examples.setdefault(key, text)


@dataclasses.dataclass
class Call:
    """One of the two calls of a state: its arguments, and what came of it."""

    args: tuple
    kwargs: dict
    value: object = None
    error: BaseException | None = None
    effects: object = None
    launches: list = dataclasses.field(default_factory=list)


class Court:
    """One instance of a subject: its own code, its own record, `limit` specializations captured from `seeds`."""

    def __init__(self, subject: Subject, number: int, limit: int, rng: random.Random) -> None:
        self.subject, self.rng, self.limit = subject, rng, limit
        self.name = f"{subject.name}#{number}"
        self.fn = twin(subject.fn)
        self.served = trident_hook.jit(self.fn)
        self.record = api.find_record(self.served)
        self.managers: list = []  # (root guard manager, Dynamo's code, what keeps them valid)
        self.tally = Tally(courts=1)
        self.signature = inspect.signature(self.fn)
        self.captured: list = []

    # -- capture ---------------------------------------------------------------------------------------------------
    def learn(self, choices: list[dict]) -> bool:
        """Captures from these states, one after the other. False when there is nothing to judge."""
        before, recorder.observer = recorder.observer, self._observe
        create, torch._guards.Guard.create = torch._guards.Guard.create, self._noting(torch._guards.Guard.create)
        limit = trident_hook.config.limit
        trident_hook.config.limit = self.limit
        try:
            for choice in choices:
                if len(self.record.specializations) < self.limit and not self.record.refused:
                    with torch._dynamo.config.patch(assume_static_by_default=not self.subject.dynamic):
                        self._attempt(choice)
        finally:
            recorder.observer, torch._guards.Guard.create = before, create
            trident_hook.config.limit = limit
        if not self.record.specializations:
            self.tally.refused[self.name] = (
                self.record.refused or "; ".join(map(str, self.record.refusals.counted)) or "nothing captured"
            )
            return False
        self.tally.judged.add(self.name)
        self.record.budget.use_up("the judges have what they want")
        self.record.budget.keep_quiet()
        for spec in self.record.specializations:
            self.tally.kinds.update({g.kind for g in spec.guards})
        return True

    def _attempt(self, choice: dict) -> None:
        known = len(self.record.specializations)
        self._made = collections.Counter()
        try:
            call, undo = self._prepare(choice, self.fn, 1.0)
        except CannotBe:
            return
        try:
            self._run(self.served, call, interpret=True)
        finally:
            undo()
        if len(self.record.specializations) > known:
            self.captured.append(choice)

    def _noting(self, create):
        """Counts which GuardBuilder methods make the guards of a capture."""

        def noted(guard, builder):
            self._made[guard.create_fn_name()] += 1
            return create(guard, builder)

        return noted

    def _observe(self, capture, guarded_code) -> None:
        if capture.record is self.record:
            manager = guarded_code.guard_manager
            # The code keeps the globals that Dynamo installed for its guards.
            self.managers.append((manager.root, guarded_code.code, manager))
            self.tally.methods += self._made

    # -- one state -------------------------------------------------------------------------------------------------
    def random_choice(self) -> dict:
        """Slot name -> index. Mostly the captured state with one to three changes, or none."""
        base = dict(self.rng.choice(self.captured)) if self.captured else {}
        for _ in range(self.rng.choice((0, 1, 1, 1, 2, 2, 3))):
            slot = self.rng.choice(self.subject.slots)
            base[slot.name] = self.rng.randrange(len(slot.values))
        return base

    def judge(self, choice: dict) -> None:
        tally = self.tally
        interpret = not self.subject.launches or self.rng.random() < 0.1
        seed, by_position = self.rng.getrandbits(30), self.rng.choice((0.0, 0.5, 1.0))
        stats = self.record.counts()
        try:
            call, undo = self._prepare(choice, self.fn, by_position)
        except CannotBe:
            return
        # Ours first: nothing of what the plain call does can then have helped.
        try:
            accepted = self._dynamo_accepts(call)
            self._run(self.served, call, interpret, seed)
        finally:
            undo()
        after = self.record.counts()
        tally.states += 1
        outcome = next((n for n in ("hits", "errors", "misses", "bypasses") if after[n] > stats[n]), None)
        if outcome is None:
            return  # the arguments do not even bind
        setattr(tally, outcome, getattr(tally, outcome) + 1)
        if outcome in ("misses", "bypasses"):
            if any(accepted):
                kind = "bypass" if outcome == "bypasses" else self._missed_kind()
                text = f"{self.name} {self._describe(choice)}: {self.record.last_miss.explain()}"
                right = self._dynamo_is_right(choice, accepted.index(True), by_position, interpret, seed)
                why = self._apart(call) if right else None
                (tally.saved if not right else tally.apart if why else tally.stricter)[why or kind] += 1
                if right and not why:
                    tally.where[f"{kind}: {self.subject.name} {sorted(n for n, i in choice.items() if i)}"] += 1
                tally.examples.setdefault((why or kind, right), text)
            else:
                tally.agreed += 1
            return
        if not any(accepted):
            self._violation("dynamo", choice, "hit where Dynamo's guards do not hold")
        expected = self._again(twin(self.fn), choice, by_position, interpret, seed)
        problem = difference(call, expected, values=interpret)
        if problem:
            self._violation("eager", choice, problem)

    def _again(self, fn, choice: dict, by_position: float, interpret: bool, seed: int) -> Call:
        """The same state for another function."""
        call, undo = self._prepare(choice, fn, by_position)
        try:
            self._run(fn, call, interpret, seed)
        finally:
            undo()
        return call

    def _dynamo_is_right(self, choice: dict, which: int, *how) -> bool:
        """Whether the code that Dynamo would run in this state answers as the plain function does. Its graph calls methods
        of PyTorch's classes by name, and is run as it is here, so it follows when one is replaced; what a backend makes of
        it does not. There the plain function with the methods of the capture has to answer the same as well."""
        plain = twin(self.fn)
        replaced = [slot.name for slot in self.subject.slots if choice.get(slot.name) and _is_of_torch(slot.place)]
        if replaced:
            captured = {**choice, **dict.fromkeys(replaced, 0)}
            if difference(self._again(plain, captured, *how), self._again(plain, choice, *how), values=how[1]):
                return False
        _, code, _ = self.managers[which]
        compiled = types.FunctionType(code, plain.__globals__, plain.__name__, plain.__defaults__, plain.__closure__)
        compiled.__kwdefaults__ = plain.__kwdefaults__
        got, expected = self._again(compiled, choice, *how), self._again(plain, choice, *how)
        return difference(got, expected, values=how[1]) is None

    def _apart(self, call: Call) -> str | None:
        """Why this miss, which Dynamo would do without, is counted apart."""
        spec, guard = self.record.last_miss.asked or (0, -1)
        checks = self.record.last_miss.inspector._checks[spec]
        about = checks[guard] if 0 <= guard < len(checks) else None
        if isinstance(about, tuple) and about[0] in ("pointer", "int"):
            return "another binary of Triton's"
        # What is calculated from large numbers may go beyond 64 bits as well; nothing else fails where symbols are bound.
        least = {"symbols": 2**31, "shape": 2**63}.get(about[0] if isinstance(about, tuple) else about and about.kind)
        numbers = [value for value in (*call.args, *call.kwargs.values()) if type(value) is int]
        if least is not None and any(number >= least or number < -least for number in numbers):
            return "an int beyond 64 bits"
        return "a function made to look like another" if self.subject.decoy else None

    def _prepare(self, choice: dict, fn, by_position: float):
        """Makes the values of a state and puts them in place: the call, and what undoes it. `by_position`: which part
        of the arguments is not given by name."""
        bound, made, undos = {}, {}, []

        def undo():
            while undos:
                undos.pop()()
            if self.subject.reset:
                self.subject.reset()

        try:
            for slot in self.subject.slots:
                value = made[slot.name] = self._make(slot, choice, made)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    back = slot.place.apply(fn, value, bound)
                if back is not None:
                    undos.append(back)
        except BaseException:
            undo()
            raise
        rest, named = bound.pop("*", ()), bound.pop("**", {})
        names = list(bound)
        if rest:
            return Call((*bound.values(), *rest), named), undo
        cut = round(len(names) * by_position)
        kinds = [self.signature.parameters[n].kind for n in names]
        cut = min([cut, *(i for i, k in enumerate(kinds) if k is inspect.Parameter.KEYWORD_ONLY)])
        positional = list(self.signature.parameters)[:cut]
        cut = cut if names[:cut] == positional else 0
        args = tuple(bound[n] for n in names[:cut])
        return Call(args, {**{n: bound[n] for n in names[cut:]}, **named}), undo

    @staticmethod
    def _make(slot, choice: dict, made: dict):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return slot.make(choice.get(slot.name, 0), made)
            except Exception as error:
                raise CannotBe from error

    def _dynamo_accepts(self, call: Call) -> list[bool]:
        try:
            bound = inspect.signature(self.fn).bind(*call.args, **call.kwargs)
        except TypeError:
            return [False]
        bound.apply_defaults()
        scope = dict(bound.arguments)
        for name, cell in zip(self.fn.__code__.co_freevars, self.fn.__closure__ or ()):
            with contextlib.suppress(ValueError):
                scope[name] = cell.cell_contents
        return [_holds(root, scope) for root, *_ in self.managers]

    def _run(self, fn, call: Call, interpret: bool, seed: int = 0) -> None:
        torch.default_generator.manual_seed(seed)  # torch.manual_seed reads the stack's source: builtins may be changed
        random.seed(seed)
        numpy.random.seed(seed)  # noqa: NPY002  the state that numpy.random's functions share
        simdriver.launches.clear()
        with warnings.catch_warnings(), _NOTHING if interpret else simdriver.no_interpret():
            warnings.simplefilter("ignore")
            try:
                call.value = fn(*call.args, **call.kwargs)
            except Exception as error:
                call.error = error
        simdriver.errors.clear()
        if self.subject.effects:
            call.effects = self.subject.effects()
        call.launches = [_launch_facts(launch) for launch in simdriver.launches]

    # -- words -------------------------------------------------------------------------------------------------------
    def _missed_kind(self) -> str:
        if self.record.last_miss.asked is None:
            return "?"
        spec, guard = self.record.last_miss.asked
        texts = self.record.last_miss.guard_texts[spec]
        text = texts[guard] if 0 <= guard < len(texts) else "?"
        for g in self.record.specializations[spec].guards:
            if text == f"[{g.class_}] {g}":
                return g.kind
        return text.split(":")[0].split("(")[0]

    def _describe(self, choice: dict) -> str:
        changed = {n: i for n, i in choice.items() if i}
        base = [{n: i for n, i in c.items() if i} for c in self.captured]
        return f"state {changed} against {base}"

    def _violation(self, judge: str, choice: dict, problem: str) -> None:
        self.tally.violations.append((judge, self.name, dict(choice), list(self.captured), problem))


def _holds(root, scope: dict) -> bool:
    try:
        return bool(root.check(scope))
    except Exception:  # a leaf that is not made for this value; the check then leaves torch functions switched off
        torch._C._set_torch_function_state(torch._C._TorchFunctionState.ENABLED)
        return False


def _is_of_torch(place) -> bool:
    """An attribute of one of PyTorch's own classes."""
    owner = getattr(place, "owner", None)
    return isinstance(owner, type) and owner.__module__.split(".")[0] == "torch"


def _launch_facts(launch) -> tuple:
    """What is the same wherever the memory lies: the kernel and the grid."""
    return (launch.name, tuple(launch.grid))


# -- comparing two calls -----------------------------------------------------------------------------------------------


def difference(got: Call, expected: Call, values: bool = True) -> str | None:
    """What tells two calls of one state apart, or None."""
    if (got.error is None) != (expected.error is None):
        return f"only one raised: {got.error!r} against {expected.error!r}"
    if got.error is not None and _words(got.error) != _words(expected.error):
        return f"{got.error!r} against {expected.error!r}"
    if got.launches != expected.launches:
        return f"launches {got.launches} against {expected.launches}"
    a, b = (flat([call.value, call.args, list(call.kwargs.items()), call.effects]) for call in (got, expected))
    if not values:
        a, b = ([leaf[:-1] if leaf[0] == "tensor" else leaf for leaf in leaves] for leaves in (a, b))
    if a != b:
        at = next((i for i, (one, two) in enumerate(zip(a, b)) if one != two), min(len(a), len(b)))
        return f"{a[at : at + 1]} against {b[at : at + 1]}"
    return None


def _words(error: BaseException) -> tuple:
    return type(error), (str(error).splitlines() or [""])[0]


def flat(value) -> list:
    """Everything that can be told of a value, as leaves: types, numbers by their bits, tensors by layout, autograd
    state and bits, which objects are the same, and which share memory."""
    leaves, objects, storages = [], {}, {}

    def visit(v) -> None:
        if isinstance(v, (int, bool, str, bytes, type(None), torch.dtype, torch.device, type)) and type(v) in _PLAIN:
            leaves.append((type(v).__name__, str(v)))
            return
        if type(v) is float:
            leaves.append(("float", struct.pack("d", v) if v == v else "nan"))
            return
        if type(v) is complex:
            return visit([v.real, v.imag])
        seen = objects.get(id(v))
        if seen is not None:
            leaves.append(("the same as", seen))
            return
        objects[id(v)] = len(objects)
        keep.append(v)
        if isinstance(v, torch.Tensor):
            return visit_tensor(v)
        leaves.append((type(v).__name__, _size(v)))
        if isinstance(v, dict):
            for key, item in v.items():
                visit(key)
                visit(item)
        elif isinstance(v, (list, tuple)):
            for item in v:
                visit(item)
        elif (
            isinstance(v, (set, frozenset, range, slice))
            or not hasattr(v, "__dict__")
            or (callable(v) and not isinstance(v, torch.nn.Module))
        ):
            leaves.append(repr(v) if " at 0x" not in repr(v) else "")
        else:
            for key in sorted(vars(v), key=str):
                if key not in _PRIVATE:
                    visit(key)
                    visit(vars(v)[key])

    def visit_tensor(t) -> None:
        facts = [
            "tensor",
            type(t).__name__,
            str(t.dtype),
            str(t.device),
            str(t.layout),
            tuple(t.shape),
            t.requires_grad,
            t.is_leaf,
            type(t.grad_fn).__name__,
            t.is_inference(),
            t.is_conj(),
            t.is_neg(),
        ]
        if t.layout is torch.strided:
            with contextlib.suppress(RuntimeError, NotImplementedError):
                facts += [
                    t.stride(),
                    t.storage_offset(),
                    storages.setdefault(t.untyped_storage()._cdata, len(storages)),
                ]
        facts.append(_bits(t))
        leaves.append(tuple(facts))

    keep: list = []
    visit(value)
    return leaves


_PLAIN = {int, bool, str, bytes, type(None), torch.dtype, torch.device, type}
_PRIVATE = ("_backward_hooks", "_forward_hooks", "_forward_pre_hooks")


def _size(v):
    if isinstance(v, type):
        return repr(v)
    return len(v) if hasattr(v, "__len__") else 0


def _bits(t) -> bytes:
    if t.device.type == "meta":
        return b""
    with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
        t = t.detach()
        if t.layout is not torch.strided:
            t = t.to_dense()
        t = t.resolve_conj().resolve_neg().contiguous()
        if t.dtype.is_floating_point or t.dtype.is_complex:
            t = torch.where(torch.isnan(t), torch.full_like(t, float("nan")), t)
        return t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""
