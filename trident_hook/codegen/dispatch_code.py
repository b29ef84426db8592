"""Which specialization is asked: a tree of questions over the facts that tell them apart, written as nested tests.

The tree ends in a group: the specializations that no question separates any more, nearly always one. They are asked in
the order of their last hits. When none of a group holds all others are asked as well, so that the tree decides about
time only: a call that some specialization holds for is a hit, and a miss knows the failing guard of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir.objects import ObjectKey
from ..ir.source import Source
from ..ir.specialization import HOOKS_WORD, Specialization
from .facts import ABOUT_TENSORS, COST, STEP_COST, TENSOR_COST, Fact, FactKind, facts_of
from .values import StoredReader
from .writer import Lines, Tables, literal, plain_text

#: Nanoseconds for asking one specialization that does not hold: what a question has to save.
_TRY = 25
#: Misses in a row that ask every specialization; then one of so many does. A function at its limit may miss in every call.
_PATIENCE = 64
#: Levels of indentation; two for each question under another.
_DEEPEST = 40


class Dispatcher:
    """Writes `_choose`, which returns the number of a group, or -1 where nothing can hold."""

    def __init__(self, specializations: list[Specialization], tables: Tables) -> None:
        self.tables = tables
        self.facts = [facts_of(spec) for spec in specializations]
        self.groups: dict[tuple[int, ...], int] = {}
        self.out = Lines(1)
        first = specializations[0]
        self.reader = StoredReader(self.out, tables, first.argument_names, first.free_names, lambda: "break")
        self.declared: list[str] = []
        self.values: dict[str, str] = {}  # expression -> C variable that holds it
        self.left = 4 * len(specializations)  # questions that may still be asked: a bound on the text

    def write(self) -> str:
        everything = {key: fact for known in self.facts for key, (fact, _) in known.items()}
        self._node(tuple(range(len(self.facts))), list(everything.values()))
        out = Lines()
        out()
        out()
        out("cdef int _choose(tdh_call* c, const tdh_state* st) noexcept:")
        out.indent = 1
        for declaration in (*self.reader.declared, *self.declared):
            out(f"cdef {declaration}")
        return out.text() + "\n" + self.out.text() + "\n"

    # -- the tree ------------------------------------------------------------------------------------------------------
    def _node(self, members: tuple[int, ...], facts: list[Fact], test: str = "", note: str = "") -> None:
        """Statements that return the number of a group out of `members`; behind `test`, if one is given."""
        best, useful = self._best(members, facts)
        if best is None:
            self.out(f"{test} return {self._group(members)}{note}".lstrip())
        elif test:
            with self.out.block(test + note):
                self._ask(best, members, useful)
        else:
            self._ask(best, members, useful)

    def _ask(self, fact: Fact, members: tuple[int, ...], facts: list[Fact]) -> None:
        self.left -= 1
        branches, rest = self._split(members, fact)
        with self.out.block("while True:"), self.reader.scope():
            self.out.comment(str(fact))
            before = dict(self.values)
            value = self._read(fact)
            for number, (answer, some) in enumerate(branches.items()):
                test = f"{'elif' if number else 'if'} {value} == {self._answer(fact, answer)}:"
                note = f"  # {plain_text(answer)}" if isinstance(answer, ObjectKey) else ""
                self._node(tuple(sorted((*some, *rest))), facts, test, note)
            self.out("break")
            self.values = before
        if rest:
            self._node(rest, facts)
        else:
            self.out("return -1")

    def _best(self, members: tuple[int, ...], facts: list[Fact]) -> tuple[Fact | None, list[Fact]]:
        """The question that makes the search shortest, and all that could be asked below it. What counts is what asking
        costs, and how many specializations then stand together."""
        best, lowest, useful = None, float(_TRY * (len(members) - 1)), []
        if self.left <= 0 or len(members) < 2 or self.out.indent > _DEEPEST:
            return None, []
        read = self.reader.tensors
        for fact in facts:
            branches, rest = self._split(members, fact)
            if len(branches) + bool(rest) < 2:
                continue  # the same answer for all: here, and for whatever part of them
            useful.append(fact)
            if fact.kind is FactKind.ALIGNED and rest:
                continue  # reading a pointer makes a lazy copy real: only where every member would
            largest = max(map(len, branches.values()), default=0)
            met = sum(len(b) * (len(b) + len(rest)) for b in branches.values()) + len(rest) * (largest + len(rest))
            cost: float = COST[fact.kind] + self._reading(fact.source)
            if fact.kind in ABOUT_TENSORS and fact.source.key not in read:
                cost += TENSOR_COST
            elif fact.kind in (FactKind.IS, FactKind.CLASS):
                cost += len(branches) / 2  # compared one after the other
            total = cost + _TRY * (met / len(members) - 1)
            if total < lowest - 1e-9:
                best, lowest = fact, total
        return best, useful

    def _reading(self, source: Source | None) -> int:
        """What the steps to its value cost that are not made yet."""
        cost = 0
        while source is not None and source.steps and source.key not in self.reader.known:
            cost += STEP_COST[source.steps[-1][0]] or 1
            source = Source(source.root, source.steps[:-1])
        return cost

    def _split(self, members: tuple[int, ...], fact: Fact) -> tuple[dict[Any, Any], tuple[int, ...]]:
        """Members by the answer that they need, and those that any answer suits."""
        branches: dict[Any, Any] = {}
        rest = []
        for member in members:
            known = self.facts[member].get(fact.key)
            if known is None:
                rest.append(member)
            else:
                branches.setdefault(known[1], []).append(member)
        return branches, tuple(rest)

    def _group(self, members: tuple[int, ...]) -> int:
        return self.groups.setdefault(members, len(self.groups))

    # -- questions and answers -----------------------------------------------------------------------------------------
    def _answer(self, fact: Fact, answer: Any) -> str:
        if fact.kind in (FactKind.IS, FactKind.CLASS):
            singletons = {None: "Py_None", True: "Py_True", False: "Py_False"}
            value = answer.value
            if value is None or value is True or value is False:
                return singletons[value]
            return self.tables.object(answer)
        return f"{answer:#x}ULL" if fact.kind in (FactKind.STATE, FactKind.FLOAT, FactKind.KEYS) else literal(answer)

    def _read(self, fact: Fact) -> str:
        """C variable or expression of the answer; leaves the node by `break` where there is none."""
        return READERS[fact.kind](self, fact)

    def _variable(self, type_: str, expression: str) -> str:
        """A switch needs a plain name."""
        known = self.values.get(expression)
        if known is None:
            known = self.values[expression] = f"f_{len(self.declared)}"
            self.declared.append(f"{type_} {known}")
            self.out(f"{known} = {expression}")
        return known

    def _read_state(self, fact: Fact) -> str:
        return self._variable("uint64_t", f"st.word[{fact.detail}]")

    def _read_is(self, fact: Fact) -> str:
        return self.reader.object(fact.source)

    def _read_class(self, fact: Fact) -> str:
        return self._variable("PyObject*", f"<PyObject*>Py_TYPE({self.reader.object(fact.source)})")

    def _read_same(self, fact: Fact) -> str:
        return self._variable("int", f"{self.reader.object(fact.source)} == {self.reader.object(fact.detail)}")

    def _read_contains(self, fact: Fact) -> str:
        value = self.reader.object(fact.source)
        self.out(f"if not PyDict_Check({value}): break")
        found = self._variable("int", f"PyDict_Contains({value}, {self.tables.object(fact.detail)})")
        self.out(f"if {found} < 0: PyErr_Clear()")
        return found

    def _read_int(self, fact: Fact) -> str:
        return self.reader.int(fact.source)

    def _read_float(self, fact: Fact) -> str:
        value = self.reader.object(fact.source)
        self.out(f"if not PyFloat_CheckExact({value}): break")
        return self._variable("uint64_t", f"tdh_float_bits({value})")

    def _read_length(self, fact: Fact) -> str:
        return self._variable("Py_ssize_t", f"tdh_length({self.reader.object(fact.source)})")

    def _read_text_length(self, fact: Fact) -> str:
        return self._variable("Py_ssize_t", f"tdh_text_length({self.reader.object(fact.source)})")

    def _read_character(self, fact: Fact) -> str:
        return self._variable("int64_t", f"tdh_text_at({self.reader.object(fact.source)}, {fact.detail})")

    def _read_number(self, fact: Fact) -> str:
        return self._variable("int64_t", f"{self.reader.tensor(fact.source)}.{fact.detail}")

    def _read_keys(self, fact: Fact) -> str:
        return self._variable("uint64_t", f"rt.keys_apply({self.reader.tensor(fact.source)}.keys, st)")

    def _read_size(self, fact: Fact) -> str:
        tensor = self.reader.tensor(fact.source)
        self.out(f"if {tensor}.ndim <= {fact.detail}: break")
        return self._variable("int64_t", f"{tensor}.{fact.kind}s[{fact.detail}]")

    def _read_aligned(self, fact: Fact) -> str:
        pointer = self._variable("void*", f"rt.data_ptr({self.reader.tensor(fact.source)}.impl)")
        self.out(f"if {pointer} == NULL: PyErr_Clear()")
        return self._variable("int64_t", f"(<uintptr_t>{pointer}) & 15 == 0")


#: How each kind is asked.
READERS: dict[FactKind, Callable[[Dispatcher, Fact], str]] = {
    FactKind.STATE: Dispatcher._read_state,
    FactKind.IS: Dispatcher._read_is,
    FactKind.CLASS: Dispatcher._read_class,
    FactKind.INT: Dispatcher._read_int,
    FactKind.FLOAT: Dispatcher._read_float,
    FactKind.LENGTH: Dispatcher._read_length,
    FactKind.TEXT_LENGTH: Dispatcher._read_text_length,
    FactKind.CHARACTER: Dispatcher._read_character,
    FactKind.NUMBER: Dispatcher._read_number,
    FactKind.KEYS: Dispatcher._read_keys,
    FactKind.SIZE: Dispatcher._read_size,
    FactKind.STRIDE: Dispatcher._read_size,
    FactKind.ALIGNED: Dispatcher._read_aligned,
    FactKind.SAME: Dispatcher._read_same,
    FactKind.CONTAINS: Dispatcher._read_contains,
}


def write_entry(specializations: list[Specialization], tables: Tables) -> str:
    """`_entry` of a module, and what it needs to find the specialization to ask."""
    if len(specializations) == 1:
        return _filled(_SINGLE_ENTRY, 1)
    dispatcher = Dispatcher(specializations, tables)
    choose = dispatcher.write()
    groups = list(dispatcher.groups)
    members = [member for group in groups for member in group]
    begins = [sum(map(len, groups[:number])) for number in range(len(groups) + 1)]
    out = Lines()
    out()
    out()
    with out.block("cdef extern from *:"):
        out('"""')
        out(f"static const int first[] = {{{', '.join(map(str, begins))}}};  /* of each group in `members` */")
        out(f"static int members[] = {{{', '.join(map(str, members))}}};  /* of a group, the last hit in front */")
        out("static uint32_t in_vain[1];  /* misses in a row for which all were asked, or would have been */")
        out('"""')
        out("const int first[1]")
        out("int members[1]")
        out("uint32_t in_vain[1]")
    return choose + out.text() + "\n" + _filled(_ENTRY, len(specializations))


def _filled(template: str, count: int) -> str:
    numbers = {"@COUNT@": count, "@PATIENCE@": _PATIENCE, "@HOOKS@": HOOKS_WORD}
    for name, number in numbers.items():
        template = template.replace(name, str(number))
    return template


_SINGLE_ENTRY = """

cdef public int _entry_@COUNT@(tdh_call* c, PyObject** result) noexcept:
    cdef tdh_state st
    cdef int status
    if not rt.state_read(&st): return TDH_BYPASS
    if _ambient(c) >= 0: return TDH_BYPASS
    status = _spec_0(c, &st, result)
    if status != TDH_MISS: c.spec = 0
    elif st.word[@HOOKS@] != 0: return TDH_BYPASS  # nothing is learned under saved-tensor hooks
    return status
"""

_ENTRY = """

cdef void _to_front(int group, int spec) noexcept:
    cdef int place = first[group]
    while members[place] != spec: place += 1  # other threads may have moved it meanwhile
    members[place] = members[first[group]]
    members[first[group]] = spec


cdef int _others(tdh_call* c, const tdh_state* st, PyObject** result) noexcept:
    # Nothing that was chosen holds. Everything is asked, so that a miss is one for sure; after many in vain now and then.
    cdef int k, status
    if in_vain[0] >= @PATIENCE@ and in_vain[0] % @PATIENCE@ != 0:
        in_vain[0] += 1
        c.spec = -1
        return TDH_MISS
    for k in range(@COUNT@):
        status = specs[k](c, st, result)
        if status != TDH_MISS:
            c.spec = k
            in_vain[0] = 0
            return status
    in_vain[0] += 1
    return TDH_MISS


cdef public int _entry_@COUNT@(tdh_call* c, PyObject** result) noexcept:
    cdef tdh_state st
    cdef int group, place, end, k, status
    if not rt.state_read(&st): return TDH_BYPASS
    if _ambient(c) >= 0: return TDH_BYPASS
    group = _choose(c, &st)
    if group >= 0:
        place = first[group]
        end = first[group + 1]
        while place < end:
            k = members[place]
            status = specs[k](c, &st, result)
            if status != TDH_MISS:
                c.spec = k
                if members[first[group]] != k: _to_front(group, k)
                return status
            place += 1
    status = _others(c, &st, result)
    if status == TDH_MISS and st.word[@HOOKS@] != 0: return TDH_BYPASS  # nothing is learned under saved-tensor hooks
    return status
"""
