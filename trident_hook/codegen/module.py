"""The whole module: one function per specialization, one check per distinct set of environment guards, and the dispatcher.

How it is cut into what is compiled at once: see unit.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import Unsupported
from ..ir import recipe as r
from ..ir.condition import Condition
from ..ir.guard import Guard
from ..ir.kinds import CheckKind, ConditionKind, GuardKind, Matter
from ..ir.source import Source
from ..ir.specialization import HOOKS_WORD, Specialization
from . import numbers as torch_numbers
from .dispatch_code import write_entry
from .guard_code import GuardWriter
from .host_code import HostWriter
from .return_code import ReturnWriter
from .step_code import StepWriter, default_device_source
from .unit import GeneratedModule, Part, environment_check, kernel_definition
from .values import Reader
from .writer import Lines, Tables

GENERATOR = 12  # raised whenever the text that is generated for the same input changes


def generate(
    specializations: list[Specialization], ambient: list[Condition], pause: Any = lambda: None
) -> GeneratedModule:
    """`ambient`: what must hold for any call, or it takes its previous path. `pause()` is called after each specialization
    (half a millisecond): a moment for others to run."""
    tables = Tables()
    environments: dict[tuple[Any, ...], int] = {}  # set of guards -> number of its plan
    plans: list[list[Any]] = []
    parts, guard_texts, checks = [], [], []
    for index, spec in enumerate(specializations):
        first_kernel = len(tables.kernels)
        text, noted, environment = _specialization(spec, index, tables, environments)
        kernels = [kernel_definition(i, k) for i, k in enumerate(tables.kernels[first_kernel:], first_kernel)]
        check = ""
        if environment == len(plans):  # it is the first with these guards. Written now: no part depends on later ones
            check = _environment(environment, spec, tables)
            plans.append(_wanted(spec))
        parts.append(Part("".join(kernels), check, text, environment, len(tables.kernels)))
        guard_texts.append([words for words, _ in noted])
        checks.append([about for _, about in noted])
        pause()
    plans.append(_wanted_ambient(ambient))
    ambient_part = _ambient(ambient, tables, len(plans) - 1)
    entry = write_entry(specializations, tables)
    pause()
    return GeneratedModule(
        name=specializations[0].name, generator=GENERATOR, parts=parts, dispatch=ambient_part + entry,
        objects=tables.objects, sites=tables.sites, kernels=tables.kernels, environments=plans,
        n_versions=len(tables.versions), guard_texts=guard_texts, checks=checks,
    )  # fmt: skip


# -- one specialization ------------------------------------------------------------------------------------------------


def _specialization(
    spec: Specialization, index: int, tables: Tables, environments: dict[Any, Any]
) -> tuple[str, list[Any], int | None]:
    """Its function, what its guard numbers mean, and the plan of its environment guards."""
    body = Lines(1)
    noted: list[tuple[str, object]] = []  # (text, what it is about), by the guard's number

    def fail() -> str:
        return f"return _miss(c, {index}, {len(noted) - 1})"

    def note(text: str, about: Any = None) -> None:
        noted.append((text, about))

    reader = Reader(body, tables, spec.argument_names, spec.free_names, fail)
    guards = GuardWriter(reader, torch_numbers)
    note("torch state: grad mode, autocast, default dtype, determinism, ...", (CheckKind.STATE,))
    if not spec.saves_nothing:
        body(f"if st.word[{HOOKS_WORD}] != 0: return TDH_BYPASS  # saved-tensor hooks are active")
    words = " and ".join(f"st.word[{i}] == {w:#x}ULL" for i, w in enumerate(spec.state) if i != HOOKS_WORD)
    body(f"if not ({words}): {fail()}")
    note("globals of the function", (CheckKind.GLOBALS,))
    body(f"if PyFunction_GET_GLOBALS(c.func) != {tables.object(spec.globals_)}: {fail()}")
    for guard in sorted((g for g in spec.guards if not g.is_watched and g.kind is not GuardKind.NOT_OF_ENV), key=_cost):
        note(f"[{guard.class_}] {guard}", guard)
        guards.write(guard)
    host = HostWriter(reader, spec.program, torch_numbers)
    body.comment("graph inputs and symbols")
    note("graph inputs and symbols", (CheckKind.SYMBOLS,))
    host.bind_inputs()
    host.bind_symbols()
    if host.uses_launch:
        note(f"launches go to {spec.launch_device_type} device {spec.launch_device}", (CheckKind.DEVICE,))
        body("if rt.launch_env(&env) != 0: PyErr_Clear(); return TDH_BYPASS")
        assert spec.launch_device_type is not None, "a specialization that launches knows where"
        device_type = torch_numbers.device_type(spec.launch_device_type)
        body(f"if env.device != {spec.launch_device} or env.device_type != {device_type}: {fail()}")
    host.preconditions(note)
    environment, number = [g for g in spec.guards if g.is_watched], None
    if environment:
        number = _environment_number(environment, environments)
        first = len(noted)
        noted.extend((f"[env] {g}", g) for g in environment)
        body(f"k = _env_{number}(c)")
        body(f"if k >= 0: return _miss(c, {index}, {first} + k)")
    for guard in (g for g in spec.guards if g.kind is GuardKind.NOT_OF_ENV):
        note(f"[{guard.class_}] {guard}", guard)
        guards.write_not_of_env(guard, number)  # the objects of the environment are known once they are as they were
    for expr in r.walk(*spec.recipe.effects, spec.recipe.result):
        if isinstance(expr, r.Arg):
            note(f"the argument {expr.name}", (CheckKind.ARGUMENT, expr.name))
            reader.value(expr)

    def late_fail() -> str:
        raise Unsupported("codegen", "a value would first be read after the first effect")

    reader.fail = late_fail
    body("if result == NULL: return TDH_HIT  # only asked whether it holds")
    with body.block("while True:"):
        host.write()
        body.comment(f"return {spec.recipe.result}")
        returns = ReturnWriter(reader, host)
        returns.write(spec.recipe)
        body("break")
    for handle in host.owned:
        body(f"rt.release({handle})")
    for slot in range(returns.slots):
        body(f"Py_XDECREF(r[{slot}])")
    body("return status")
    return _function(spec, index, reader, host, returns, body), noted, number


def _function(spec: Specialization, index: int, reader: Reader, host: HostWriter, returns: Any, body: Lines) -> str:
    """The declarations in front of a body, and the wrapper that drops held references."""
    out = Lines()
    out()
    out()
    inner = f"_spec_{index}_body" if reader.held else f"_spec_{index}"
    holds = ", PyObject** hold" if reader.held else ""
    out(
        f"cdef{'' if reader.held else ' public'} int {inner}(tdh_call* c, const tdh_state* st, PyObject** result{holds}) noexcept:"
    )
    out.indent = 1
    out.comment(f"specialization {spec.index} of {spec.name}")
    for declaration in reader.declared:
        out(f"cdef {declaration}")
    for declaration in host.declared:
        initial = " = NULL" if declaration.split()[-1] in host.owned else ""
        out(f"cdef {declaration}{initial}")
    out("cdef int status = TDH_ERROR")
    out("cdef int ovf = 0")
    out("cdef int k")
    out("cdef tdh_launch_env env")
    out(f"cdef int64_t n[{max(1, host.max_ints)}]")
    out(f"cdef void* a[{max(1, host.max_tensors)}]")
    out(f"cdef void* outs[{max(1, host.max_outs)}]")
    out(f"cdef void* params[{max(1, host.max_params)}]")
    out(f"cdef PyObject* r[{max(1, returns.slots)}]")
    for slot in range(returns.slots):
        out(f"r[{slot}] = NULL")
    text = out.text() + "\n" + body.text() + "\n"
    if reader.held:
        text += _holding(f"_spec_{index}", inner, reader.held)
    return text


def _holding(name: str, inner: str, held: int) -> str:
    out = Lines()
    out()
    out()
    with out.block(f"cdef public int {name}(tdh_call* c, const tdh_state* st, PyObject** result) noexcept:"):
        out(f"cdef PyObject* hold[{held}]")
        out("cdef int i, answer")
        with out.block(f"for i in range({held}):"):
            out("hold[i] = NULL")
        out(f"answer = {inner}(c, st, result, hold)")
        with out.block(f"for i in range({held}):"):
            out("Py_XDECREF(hold[i])")
        out("return answer")
    return out.text() + "\n"


#: In which order guards are asked: first those that are cheap and tell much. Those of one value, behind the depth of their source, ...
_ORDER = (
    GuardKind.TENSOR, GuardKind.NONE, GuardKind.TRUE, GuardKind.FALSE, GuardKind.EQUALS, GuardKind.TYPE, GuardKind.ID,
    GuardKind.LENGTH, GuardKind.SAME,
)  # fmt: skip
_LAST = len(_ORDER)
#: ... and those that have a place of their own, whatever they are about; None: by their source.
PLACES: dict[GuardKind, tuple[int | None, int]] = {
    **{kind: (None, number) for number, kind in enumerate(_ORDER)},
    **dict.fromkeys(
        (GuardKind.MEMBERS, GuardKind.NOT_NONE, GuardKind.FINITE, GuardKind.NAN, GuardKind.DICT_LENGTH,
         GuardKind.DICT_CONTAINS, GuardKind.ENV_DISTINCT, GuardKind.NOT_OF_ENV, GuardKind.DEFAULT_DEVICE),
        (None, _LAST),
    ),
    GuardKind.PLAIN_CONTEXT: (-1, 0),
    GuardKind.NO_ATTR: (50, 0),
    GuardKind.DISTINCT: (55, 0),
    GuardKind.SHAPE: (60, 0),
    GuardKind.RESIDUAL: (80, 0),
    GuardKind.CLASS_FACTS: (90, 0),
}  # fmt: skip


def _cost(guard: Guard) -> int:
    place, order = PLACES[guard.kind]
    return len(guard.source.steps) * 12 + order if place is None else place


# -- environment, ambient ----------------------------------------------------------------------------------------------


def _environment_number(guards: list[Guard], environments: dict[Any, Any]) -> int:
    found: int = environments.setdefault(tuple((g.kind, g.source.key, g.arg) for g in guards), len(environments))
    return found


def _environment(number: int, spec: Specialization, tables: Tables) -> str:
    """Guards on the Python environment: -1, or which of them failed. Evaluated only while their plan is not valid."""
    steps = StepWriter(tables)
    for at, guard in enumerate(g for g in spec.guards if g.is_watched):
        steps.guard(at, guard)
    return environment_check(f"_env_{number}", number, steps, "environment guards", "TDH_HIDDEN")


Wanted = list[tuple[Source, Any]]  # (source, a Matter or (Matter.CONTAINS, key)), as runtime/watching.py takes them


def _wanted(spec: Specialization) -> Wanted:
    """What the plan of a specialization's environment guards has to protect."""
    return [pair for guard in spec.guards if guard.is_watched for pair in PROTECTED[guard.kind](guard)]


def _identity(guard: Guard) -> Wanted:
    return [(source, Matter.IDENTITY) for source in guard.sources]


#: What each kind that is watched depends on.
PROTECTED: dict[GuardKind, Callable[[Guard], Wanted]] = {
    GuardKind.ID: _identity,
    GuardKind.EQUALS: _identity,
    GuardKind.NONE: _identity,
    GuardKind.NOT_NONE: _identity,
    GuardKind.TRUE: _identity,
    GuardKind.FALSE: _identity,
    GuardKind.NAN: _identity,
    GuardKind.SAME: _identity,
    GuardKind.ENV_DISTINCT: _identity,
    GuardKind.CLASS_FACTS: lambda guard: [(guard.source, Matter.ATTRIBUTES)],
    GuardKind.TYPE: lambda guard: [(guard.source, Matter.TYPE)],
    GuardKind.DICT_CONTAINS: lambda guard: [(guard.source, (Matter.CONTAINS, guard.arg[1]))],
    GuardKind.DICT_LENGTH: lambda guard: [(guard.source, Matter.KEYS)],
    GuardKind.DEFAULT_DEVICE: lambda guard: [(default_device_source(), Matter.IDENTITY)],
}
#: The same of what must hold for any call.
PROTECTED_CONDITIONS = {ConditionKind.EMPTY_LIST: Matter.EMPTY_LIST, ConditionKind.NOT_EAGER: Matter.IDENTITY}


def _wanted_ambient(ambient: list[Condition]) -> Wanted:
    return [(a.source, PROTECTED_CONDITIONS[a.kind]) for a in ambient]


def _ambient(ambient: list[Condition], tables: Tables, number: int) -> str:
    steps = StepWriter(tables)
    for at, condition in enumerate(ambient):
        steps.ambient(at, condition)
    return environment_check("_ambient", number, steps, "what must hold for any call", "static")
