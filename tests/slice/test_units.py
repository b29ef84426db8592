"""Builds compile what is new, and link the rest: the same answers, whatever is found in the cache and however it was cut."""

from __future__ import annotations

import re
import shutil

import pytest
import torch
import triton
import triton.language as tl
from support import programs
from support.routes import routed
from test_variants import Held, add_kernel

import trident_hook
from trident_hook._scm import cache, compiler, native_module
from trident_hook.errors import BuildError

SCALE, OFFSET = 2.0, 1.0
X = torch.arange(32, dtype=torch.float32)
CALLS = [(X, "a"), (X, "b"), (X, "c"), (X, "d")]


def work(x, mode):
    """Three CUBINs: "a" and "b" have one of their own, "c" and "d" launch what was launched before, each with a global."""
    y = torch.empty_like(x)
    if mode == "a":
        programs.shift_kernel[(1,)](x, y, 3, 32, BLOCK=64)
    elif mode == "b":
        programs.stretch_kernel[(1,)](x, y, 3, 32, BLOCK=64)
        return y * SCALE
    elif mode == "c":
        programs.stretch_kernel[(1,)](x, y, 3, 32, BLOCK=64)
        programs.shift_kernel[(1,)](y, y, 3, 32, BLOCK=64)
        return y * SCALE
    else:
        add_kernel[(triton.cdiv(x.numel(), 64),)](x, x, y, 32, BLOCK=64)
        return y + OFFSET
    return y


@pytest.fixture
def folder(tmp_path):
    """An empty cache."""
    trident_hook.config.cache_dir = tmp_path / "cache"
    return trident_hook.config.cache_dir


@pytest.fixture
def units(monkeypatch):
    """Per compilation the specializations that it compiled, the CUBINs that it embedded, and how many objects it linked."""
    made = []

    def build(pyx, linked, target):
        text = pyx.read_text()
        own = [int(number) for number in re.findall(r"^cdef public int _spec_(\d+)\(", text, re.MULTILINE)]
        made.append((own, text.count("TDH_EMBED"), len(linked)))
        return plain(pyx, linked, target)

    plain = native_module.build
    monkeypatch.setattr(native_module, "build", build)
    return made


def learn(fn, calls=CALLS):
    for call in calls:
        routed(fn, *call, via="dynamo")


def all_hit(fn, calls=CALLS):
    for _ in range(2):
        for call in (*calls, *reversed(calls)):
            routed(fn, *call, via="scm", launches=2 if call[1] == "c" else 1)


def test_a_build_compiles_what_is_new(served, folder, units):
    fn = served(work)
    for count in range(1, len(CALLS) + 1):
        learn(fn, CALLS[count - 1 : count])
        all_hit(fn, CALLS[:count])
    assert units == [([0], 1, 0), ([1], 1, 1), ([2], 0, 2), ([3], 1, 3)]


def test_what_comes_at_once_is_one_unit(served, folder, units):
    fn = served(work)
    learn(fn, CALLS[:1])
    trident_hook.config.build = "background"
    with Held():
        learn(fn, CALLS[1:3])
    trident_hook.config.build = "sync"
    learn(fn, CALLS[3:])
    all_hit(fn)
    assert [unit for unit in units if unit[0] != [1, 2]] == [([0], 1, 0), ([3], 1, 2)]  # the other in another process


def test_another_program_goes_on_from_the_cache(served, folder, units):
    learn(served(work), CALLS[:3])
    del units[:]
    fn = served(work)
    learn(fn)
    all_hit(fn)
    assert units == [([3], 1, 3)]


def test_a_unit_of_other_cuts_is_as_good(served, folder, units):
    """One program built three at once, this one builds one by one."""
    trident_hook.config.build = "background"
    with Held():
        learn(served(work), CALLS[:3])
    trident_hook.config.build = "sync"
    fn = served(work)
    learn(fn)
    all_hit(fn)
    assert units == [([0], 1, 0), ([1], 1, 1), ([3], 1, 1)]  # the module of three was there


def test_without_a_cache_every_build_compiles_all(served, units):
    trident_hook.config.cache = False
    fn = served(work)
    learn(fn)
    all_hit(fn)
    assert units == [([*range(n)], k, 0) for n, k in ((1, 1), (2, 2), (3, 2), (4, 3))]


# -- what a linked specialization still depends on -----------------------------------------------------------------------


@pytest.mark.parametrize("changed", ["SCALE", "OFFSET"])
def test_globals_are_guarded_across_units(served, folder, monkeypatch, changed):
    """SCALE is checked for a linked specialization, by that unit's table and by one that was compiled later; OFFSET by the
    newest."""
    fn = served(work)
    learn(fn)
    affected = {"SCALE": ("b", "c"), "OFFSET": ("d",)}[changed]
    monkeypatch.setitem(globals(), changed, 5.0)
    for x, mode in CALLS:
        routed(fn, x, mode, via="dynamo" if mode in affected else "scm", reason=changed if mode in affected else None)
    all_hit(fn)


def test_a_miss_names_the_guard_of_a_linked_one(served, folder):
    fn = served(work)
    learn(fn, CALLS[:2])
    routed(fn, X.double(), "a", via="dynamo", reason="torch.float32")


def test_a_linked_one_looks_at_the_state(served, folder):
    fn = served(work)
    learn(fn)
    with torch.no_grad():
        for call in CALLS:
            routed(fn, *call, via="dynamo", reason="torch state")


@triton.jit
def unsigned_kernel(x, y, n: tl.uint32, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at) + n)


def unsigned(x, n, mode):
    y = torch.empty_like(x)
    unsigned_kernel[(1,)](x, y, n, BLOCK=32)
    return y * SCALE if mode else y


def test_constants_of_more_than_32_bits(served, folder, units):
    """Cython would make Python objects of them, which only the module that it wrote them for has."""
    fn = served(unsigned)
    for n in (3, 5):
        routed(fn, X, n, False, via="dynamo")
    routed(fn, X, 5, True, via="dynamo")
    for n in (7, 2**31 + 5, 2**32 - 1):
        routed(fn, X, n, False, via="scm", launches=1)
        routed(fn, X, n, True, via="scm", launches=1)
    assert [own for own, _, _ in units] == [[0], [1], [2]]


@pytest.mark.parametrize("body", ["0 <= v <= 4294967295", "len(<object>result[0])", "v // 0", "v == <object>result[0]"])
def test_python_objects_of_cythons_are_refused(tmp_path, body):
    """What a function would need of Cython's module is left out, so it must not need any."""
    source = tmp_path / "tdh_unit_1.pyx"
    source.write_text(
        "# cython: language_level=3\nfrom libc.stdint cimport int64_t\nfrom tdh cimport *\n"
        "cdef public int _spec_0(tdh_call* c, const tdh_state* st, PyObject** result) noexcept:\n"
        f"    cdef int64_t v = c.spec\n    return {body}\n"
    )
    with pytest.raises(BuildError, match=r"Cython made Python objects of it: .*__"):
        compiler.cythonize(source)


def test_what_cython_adds_is_left_out(tmp_path):
    source = tmp_path / "tdh_unit_1.pyx"
    source.write_text(
        "# cython: language_level=3\nfrom libc.stdint cimport int64_t\nfrom tdh cimport *\n"
        "cdef public int _spec_0(tdh_call* c, const tdh_state* st, PyObject** result) noexcept:\n"
        "    cdef int64_t v = c.spec\n    return 0 <= v <= <int64_t>4294967295\n"
    )
    text = compiler.cythonize(source).read_text()
    assert "int _spec_0(" in text
    assert "PyModuleDef" not in text[text.index("/* #### Code section: module_code ### */") :]
    native_module.compile_c(source.with_suffix(".c"), tmp_path / "unit.o")


def test_another_layout_of_cythons_is_an_error_that_says_so():
    with pytest.raises(BuildError, match="without the marks of its sections"):
        compiler.functions_of("int main() {}\n")


# -- a cache that is not as it was ---------------------------------------------------------------------------------------

DAMAGES = {"missing": lambda path: path.unlink(), "cut short": lambda path: path.write_bytes(path.read_bytes()[:200])}


@pytest.mark.parametrize("damage", ["missing", "cut short"])
@pytest.mark.parametrize("which", range(3))
def test_a_unit_that_is_not_there_any_more(served, folder, units, damage, which):
    """A chain goes as far as its units do."""
    fn = served(work)
    learn(fn, CALLS[:3])
    DAMAGES[damage](unit_files(folder)[which])
    learn(fn, CALLS[3:])
    all_hit(fn)
    assert units[-1][0] == [*range(which, 4)]


@pytest.mark.parametrize("content", ["no object", "no such symbols"])
def test_a_unit_that_does_not_link(served, folder, units, content, monkeypatch, tmp_path):
    """Whole by its digest, and of no use: everything is compiled."""
    fn = served(work)
    learn(fn, CALLS[:3])
    file = unit_files(folder)[2]
    (tmp_path / "empty.c").write_text("int tdh_nothing;\n")
    native_module.compile_c(tmp_path / "empty.c", tmp_path / "empty.o")
    bad = b"not an object" if content == "no object" else (tmp_path / "empty.o").read_bytes()
    cache._publish_unit(file.stem, 2, bad)
    learn(fn, CALLS[3:])
    all_hit(fn)
    assert units[-2:] == [([3], 1, 3), ([0, 1, 2, 3], 3, 0)]


def test_an_error_of_the_compiler_is_told_once(served, folder, monkeypatch):
    """Not taken for a fault of what was linked, twice."""
    fn = served(work)
    learn(fn, CALLS[:2])

    def build(pyx, linked, target):
        raise BuildError("no space left", "a compiled module", "Make some.")

    monkeypatch.setattr(native_module, "build", build)
    routed(fn, *CALLS[2], via="dynamo")
    assert "no space left" in str(trident_hook.explain(fn))
    monkeypatch.undo()
    all_hit(fn, CALLS[:2])


def unit_files(folder) -> list:
    """In the order of their specializations."""
    return sorted(folder.rglob("*.o"), key=lambda path: path.stat().st_mtime_ns)


# -- the text ------------------------------------------------------------------------------------------------------------


def test_parts_depend_on_none_behind_them(served, folder, monkeypatch):
    """What is linked was generated without the later ones; what guards it was as well."""
    from trident_hook.functions import builds

    seen = []

    def generate(*arguments):
        seen.append(plain(*arguments))
        return seen[-1]

    plain = builds.generate
    monkeypatch.setattr(builds, "generate", generate)
    fn = served(work)
    learn(fn)
    whole = seen[-1]
    assert [len(module.parts) for module in seen] == [1, 2, 3, 4]
    for module in seen:
        assert module.parts == whole.parts[: len(module.parts)]
        assert cache.unit_keys(module) == cache.unit_keys(whole)[: len(module.parts)]
        assert module.sites == whole.sites[: len(module.sites)]
        assert module.kernels == whole.kernels[: len(module.kernels)]
        referred = {int(n) for part in module.parts for n in re.findall(r"\bobj\[(\d+)\]", part.text)}
        assert all(module.objects[n] is whole.objects[n] for n in referred)
    assert whole.source == whole.unit(0)
    assert len({part.plan for part in whole.parts}) >= 3


def test_the_whole_text_compiles_as_well(served, folder, tmp_path):
    """It is what `explain` shows and the key is made of."""
    fn = served(work)
    learn(fn)
    (module,) = (path for path in folder.rglob("*.so") if "4 spec" in path.with_suffix(".pyx").read_text())
    assert module.with_suffix(".pyx").read_text() == trident_hook.explain(fn).source
    shutil.rmtree(folder)
    fn = served(work)
    trident_hook.config.build = "background"
    with Held():
        learn(fn)
    all_hit(fn)
    assert len(unit_files(folder)) == 1
