"""The layout of the source, read from its text: who may include or import whom, and where version differences live."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("ext", "trident_hook", "tests", "benchmarks", "scripts")
C_ENDINGS = (".c", ".h", ".cpp", ".hpp")
SOURCE_ENDINGS = (*C_ENDINGS, ".py", ".pyx", ".pxd", ".pxi", ".sh")
MOST_LINES = 600


def sources(*folders: str, endings=SOURCE_ENDINGS) -> list[Path]:
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*")) if path.suffix in endings]
    generated = ("golden", "build", "results", "__pycache__")
    return [path for path in found if not set(generated) & set(path.relative_to(ROOT).parts[1:-1])]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def includes(path: Path) -> list[str]:
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', without_comments(path.read_text()), re.MULTILINE)


def imports(path: Path) -> set[str]:
    """Absolute names of all that a module of trident_hook imports, wherever in its text."""
    package = path.relative_to(ROOT).with_suffix("").parts
    package = package[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            base = ".".join(filter(None, [base, node.module]))
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return found


def modules_imported(path: Path) -> set[str]:
    """Names of modules of trident_hook that a file imports or imports from."""
    package, found = path.relative_to(ROOT).parts[:-1], set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            found.add(".".join([*base, *filter(None, [node.module])]))
    return {name for name in found if name.split(".")[0] == "trident_hook"}


def test_the_rules_see_something():
    """A rule over no files always holds."""
    assert len(sources("ext", endings=C_ENDINGS)) > 40
    assert len(sources("trident_hook", endings=(".py",))) > 40
    assert "trident_hook.ir.source.Source" in imports(ROOT / "trident_hook" / "ir" / "condition.py")
    assert "tdh_scm.h" in includes(ROOT / "ext" / "abi" / "tdh_rt.h")


# -- Python ------------------------------------------------------------------------------------------------------------

DOORS = {f"trident_hook.{name}" for name in ("_core", "api", "functions", "_explain", "demo")}


@pytest.mark.parametrize("folder", ["capture", "ir", "codegen", "runtime", "verification", "dynamo"])
def test_capture_and_codegen_never_import_the_doors(folder):
    for path in sources(f"trident_hook/{folder}", endings=(".py",)):
        wrong = imports(path) & (DOORS | {"trident_hook", "trident_hook.__init__"})
        # `from .. import _rt` imports the package's name, not what is in its namespace
        wrong.discard("trident_hook")
        assert not wrong, f"{name_of(path)} imports {sorted(wrong)}"


#: From the bottom up: a room, or a file of the root, imports from what stands before it, never from what stands behind.
ROOMS = (
    "errors", "_compat", "_stand_in", "_built", "profiling", "_variables", "_config", "_logs",
    "ir", "misses", "runtime", "verification", "integrations", "dynamo", "capture", "codegen", "_scm", "functions",
    "api", "ffi", "_explain", "_report", "_autoselect", "__init__", "env_report", "pytest_plugin", "testing", "demo",
)  # fmt: skip
EXTENSIONS = ("_core", "_rt", "_ffi")


def python_graph(root: Path = ROOT) -> dict[str, set[str]]:
    """Module of trident_hook -> modules that it imports, wherever in its text; a package stands for its `__init__`."""
    files = {}
    for path in sorted((root / "trident_hook").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {name: imported_modules(path, root, files) - {name} for name, path in files.items()}


def imported_modules(path: Path, root: Path, files: dict[str, Path]) -> set[str]:
    package = path.relative_to(root).parts[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            base = ".".join(filter(None, [base, node.module]))
            for alias in node.names:
                named = f"{base}.{alias.name}"
                found.add(named if named in files or alias.name in EXTENSIONS else base)
    return found & set(files)


def room_of(name: str) -> str:
    """`ir` of `trident_hook.ir.guard`, `api` of `trident_hook.api`."""
    return [*name.split("."), "__init__"][1]


def python_arrows_up(graph: dict[str, set[str]]) -> list[str]:
    wrong = []
    for name, used in graph.items():
        for other in sorted(used):
            below = ROOMS.index(room_of(name)) >= ROOMS.index(room_of(other))
            wrong += [] if below else [f"{name} imports {other}"]
    return wrong


def test_imports_only_go_down():
    graph = python_graph()
    assert len(graph) > 100
    assert sum(map(len, graph.values())) > 300
    assert python_arrows_up(graph) == []


def test_there_is_no_circle_in_python():
    assert circles(python_graph()) == []


COMPILED = {"trident_hook._core", "trident_hook._rt", "trident_hook._ffi"}


def test_every_module_that_is_imported_exists():
    """Wherever in the text: an import in a function is seen at its first call only, which may be in nobody's test."""
    for path in sources("trident_hook", "tests", "benchmarks", endings=(".py",)):
        for name in modules_imported(path) - COMPILED:
            place = ROOT.joinpath(*name.split("."))
            assert place.with_suffix(".py").exists() or (place / "__init__.py").exists(), f"{name_of(path)}: {name}"


def test_no_public_name_is_that_of_a_file():
    """`trident_hook.explain` would be the function or the module, whichever was imported last."""
    import trident_hook

    files = {path.stem for path in (ROOT / "trident_hook").iterdir()}
    assert {"api", "_explain", "_scm", "ir"} <= files
    assert files & set(trident_hook.__all__) == set()


def test_every_room_has_its_place():
    assert {room_of(name) for name in python_graph()} == set(ROOMS)


def test_an_arrow_up_and_a_circle_are_found_in_python(tmp_path):
    """Of the rules themselves: by name and relatively, at the head of a file and inside a function."""
    for name, text in {
        "__init__.py": "from .api import enable",
        "errors.py": "",
        "api.py": "from .runtime import low, other\nfrom . import _rt",
        "ir/__init__.py": "",
        "ir/plain.py": "import trident_hook.errors",
        "runtime/__init__.py": "",
        "runtime/low.py": "from ..ir import plain\ndef lazy():\n    from trident_hook.testing import tool",
        "runtime/other.py": "def lazy():\n    from .third import it",
        "runtime/third.py": "from . import other\nfrom trident_hook import enable",
        "testing/__init__.py": "",
        "testing/tool.py": "from trident_hook.runtime import low",
    }.items():
        path = tmp_path / "trident_hook" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    graph = python_graph(tmp_path)
    assert python_arrows_up(graph) == [
        "trident_hook.runtime.low imports trident_hook.testing.tool",
        "trident_hook.runtime.third imports trident_hook",
    ]
    assert {"trident_hook.runtime.low", "trident_hook.testing.tool"} <= set(circles(graph))
    (tmp_path / "trident_hook/runtime/low.py").write_text("from ..ir import plain")
    (tmp_path / "trident_hook/runtime/third.py").write_text("from . import other")
    graph = python_graph(tmp_path)
    assert python_arrows_up(graph) == []
    assert circles(graph) == ["trident_hook.runtime.other", "trident_hook.runtime.third"]


def test_the_ir_is_plain_data():
    """Nothing at import time but the standard library."""
    for path in sources("trident_hook/ir", endings=(".py",)):
        outside = {n.split(".")[0] for n in imports(path)} & {"torch", "triton", "Cython", "cuda", "numpy"}
        assert not outside, f"{name_of(path)} imports {sorted(outside)}"


DYNAMOS = re.compile(r"torch\._dynamo|torch\._inductor|torch\.fx\.experimental")


def test_one_room_knows_dynamo():
    """Its name stands in no file outside the room, be it in a comment."""
    everything = sources("trident_hook", "ext")
    knowing = {name_of(path) for path in everything if DYNAMOS.search(path.read_text())}
    assert {name for name in knowing if not name.startswith("trident_hook/dynamo/")} == set()
    assert knowing, "the rule sees nothing"


LOOKS_UP = re.compile(r"^\s*(?:from|import) torch\._dynamo\b", re.MULTILINE)
#: It takes a folder's text, or helpers by what generated code calls them.
READ_DYNAMOS_FILES = {"trident_hook/dynamo/audit.py", "trident_hook/dynamo/generated_names.py"}


def test_names_of_dynamo_are_looked_up_in_one_table():
    """`from .names import X`: a new name is a row of it."""
    looking = {
        name_of(path) for path in sources("trident_hook/dynamo", endings=(".py",)) if LOOKS_UP.search(path.read_text())
    }
    assert looking - READ_DYNAMOS_FILES == set()
    assert looking, "the rule sees nothing"


SETS = re.compile(r"\bsetattr\(|\bdelattr\(")


def test_torch_is_changed_in_the_registry_only():
    """Attributes of torch and Triton are set nowhere but there. The simulation has its own, and takes them back."""
    setting = {
        name_of(path)
        for path in sources("trident_hook", endings=(".py",))
        if SETS.search(path.read_text()) or assigned_of_torch(path)
    }
    own = {name for name in setting if not name.startswith("trident_hook/testing/")} - SET_OTHER_THINGS
    assert own == {"trident_hook/dynamo/patches/registry.py"}


#: Settings of ours; Dynamo's lock, which nobody holds any more in the child of a fork; what a verified call has changed.
SET_OTHER_THINGS = {
    "trident_hook/_scm/builder_main.py",
    "trident_hook/dynamo/capturing.py",
    "trident_hook/verification/restore.py",
}


def assigned_of_torch(path: Path) -> list[str]:
    """Attributes of what the file has imported from torch or Triton that it assigns to."""
    tree = ast.parse(path.read_text())
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = getattr(node, "module", None) or ""
            for alias in node.names:
                root = (module or alias.name).split(".")[0]
                imported[(alias.asname or alias.name).split(".")[0]] = root if not getattr(node, "level", 0) else ""
    targets = [t for node in ast.walk(tree) if isinstance(node, ast.Assign) for t in node.targets]
    found = []
    for target in targets:
        for one in target.elts if isinstance(target, ast.Tuple) else [target]:
            base = one
            while isinstance(base, ast.Attribute):
                base = base.value
            if base is not one and isinstance(base, ast.Name) and imported.get(base.id) in ("torch", "triton"):
                found.append(ast.unparse(one))
    return found


def test_every_patch_is_in_the_catalogue():
    from trident_hook.dynamo.patches import catalogue

    folder = ROOT / "trident_hook" / "dynamo" / "patches"
    wrote = sum(len(re.findall(r"^@patch\(", path.read_text(), re.MULTILINE)) for path in folder.glob("*.py"))
    assert wrote == len(catalogue.PATCHES) == len(set(catalogue.PATCHES)) > 10
    for one in catalogue.PATCHES:
        assert all((one.why, one.about, one.gone_when)), one
        assert one.changes(), (one.about, one.missing)


# -- kinds: what guards, steps and sources are is said by trident_hook/ir/kinds.py, never by a string --------------------


@functools.cache
def names_of_kinds() -> set[str]:
    """Values of the enums of ir/kinds.py, read from its text."""
    tree = ast.parse((ROOT / "trident_hook" / "ir" / "kinds.py").read_text())
    enums = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name in ("GuardKind", "StepKind", "RootKind")]
    return {n.value.value for one in enums for n in one.body if isinstance(n, ast.Assign)}


def strings_for_kinds(text: str) -> list[str]:
    """`Guard("id", ...)`, `source.then("attr", ...)`, `Source(("local", ...))`, `guard.kind == "id"`, `step in ("attr", ...)`."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and node.args:
            called = ast.unparse(node.func)
            first = node.args[0].elts[0] if isinstance(node.args[0], ast.Tuple) and node.args[0].elts else node.args[0]
            if re.search(r"(^|\.)(Guard|Source|Fact|note)$|\.then$", called) and is_name(first):
                found.append(ast.unparse(node))
        elif isinstance(node, ast.Compare):
            left = ast.unparse(node.left)
            if re.search(r"(^|\b)(guard|g|fact|about)\.kind$|^step$|\.root\[0\]$", left):
                found += [ast.unparse(node) for one in ast.walk(node.comparators[0]) if is_name(one)]
    return found


def is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value in names_of_kinds()


def test_no_kind_is_named_by_a_string():
    for path in sorted((ROOT / "trident_hook").rglob("*.py")):
        assert strings_for_kinds(path.read_text()) == [], path.relative_to(ROOT)


@pytest.mark.parametrize("text", [
    "Guard('id', source)", "source.then('attr', 'x')", "Source(('local', 'x'))", "guard.kind == 'id'", "step in ('attr', 'call')",
    "source.root[0] != 'local'", "[g for g in guards if g.kind == 'tensor']",
])  # fmt: skip
def test_a_string_for_a_kind_is_found(text):
    assert strings_for_kinds(text)


# -- C -----------------------------------------------------------------------------------------------------------------

CONTRACT = ("tdh_rt.h", "tdh_num.h", "tdh_scm.h", "tdh_interrupt.h")


@pytest.mark.parametrize("header", CONTRACT)
def test_headers_of_generated_modules_are_plain_c(header):
    text = (ROOT / "ext" / "abi" / header).read_text()
    for name in includes(ROOT / "ext" / "abi" / header):
        assert name in (*CONTRACT, "Python.h", "stdint.h", "string.h", "unistd.h", "sys/syscall.h"), name
    code = without_comments(text)
    assert not re.search(r"\b(at|c10|torch|std)::|\b(class|template|namespace|typename)\b", code)


def test_generated_modules_see_nothing_but_the_contract():
    text = (ROOT / "ext" / "abi" / "tdh.pxd").read_text()
    named = set(re.findall(r'cdef extern from "([^"]+)"', text))
    assert named <= {*CONTRACT, "Python.h"}, named
    assert re.findall(r"^\s*(?:from (\S+) c?import|c?import (\S+))", text, re.MULTILINE)
    for module in re.findall(r"^from (\S+) cimport", text, re.MULTILINE):
        assert module.startswith(("libc.", "cpython.")), module


def test_the_core_is_built_without_pytorch():
    """_core is tested on interpreters that have none."""
    for folder in ("ext/hook", "ext/table", "ext/door"):
        for path in sources(folder, endings=C_ENDINGS):
            assert not [i for i in includes(path) if i.startswith(("torch/", "ATen/", "c10/"))], name_of(path)


#: From the bottom up: a folder includes from folders before it, never from one behind it. `abi` and `simcuda` are shipped as
#: they are, so theirs are named without a folder by their own files.
C_FOLDERS = (
    "abi", "compat", "common", "simcuda", "table", "door", "hook", "scm", "aten", "guard", "launch", "ffi", "modules"
)  # fmt: skip
SHIPPED = ("abi", "simcuda")


def unit(name: str) -> str:
    """`table/entry` of `table/entry.c` and of `table/entry.h`: what is said in one is done in the other."""
    return name.rsplit(".", 1)[0]


def own_includes(root: Path = ROOT) -> dict[str, set[str]]:
    """Unit of ext -> units that it includes. A name that is not found from ext/ is one of the file's own folder."""
    ext, found = root / "ext", {}
    for path in sorted(p for p in ext.rglob("*") if p.suffix in C_ENDINGS):
        name = path.relative_to(ext).as_posix()
        for text in re.findall(r'^\s*#\s*include\s*"([^"]+)"', without_comments(path.read_text()), re.MULTILINE):
            full = text if (ext / text).exists() else f"{path.parent.name}/{text}"
            found.setdefault(unit(name), set()).add(unit(full) if (ext / full).exists() else text)
        found.setdefault(unit(name), set()).discard(unit(name))
    return found


def c_arrows_up(graph: dict[str, set[str]]) -> list[str]:
    wrong = []
    for name, used in graph.items():
        for other in used:
            below = C_FOLDERS.index(name.split("/")[0]) >= C_FOLDERS.index(other.split("/")[0])
            wrong += [] if below else [f"{name} includes {other}"]
    return wrong


def circles(graph: dict[str, set[str]]) -> list[str]:
    """Units that reach themselves."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        left = list(graph.get(start, ()))
        while left:
            at = left.pop()
            if at not in seen:
                seen.add(at)
                left += graph.get(at, ())
        return seen

    return [name for name in graph if name in reached(name)]


def test_c_includes_only_go_down():
    graph = own_includes()
    assert len(graph) > 40
    assert c_arrows_up(graph) == []


def test_there_is_no_circle_in_c():
    assert circles(own_includes()) == []


def test_c_headers_are_named_with_their_folder():
    for path in sources("ext", endings=C_ENDINGS):
        if path.parent.name in SHIPPED:
            continue
        for text in re.findall(r'^\s*#\s*include\s*"([^"]+)"', without_comments(path.read_text()), re.MULTILINE):
            assert (ROOT / "ext" / text).exists(), f'{name_of(path)} includes "{text}"'


def test_every_folder_of_ext_has_its_place():
    folders = {path.name for path in (ROOT / "ext").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(C_FOLDERS)


def test_an_arrow_up_and_a_circle_are_found(tmp_path):
    """Of the rules themselves: with a folder in the include, without one, by header and by source."""
    for name, text in {
        "abi/low.h": '#include "../hook/no.h"\n#include "table/t.h"',
        "table/t.h": '#  include "table/u.h"',
        "table/t.c": '#include "t.h"',
        "table/u.c": '// #include "hook/h.h"\n#include "t.h"',
        "table/u.h": "",
        "hook/h.h": '#include "table/t.h"',
    }.items():
        (tmp_path / "ext" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "ext" / name).write_text(text)
    graph = {name: {u for u in used if u.split("/")[0] in C_FOLDERS} for name, used in own_includes(tmp_path).items()}
    assert c_arrows_up(graph) == ["abi/low includes table/t"]
    assert circles(graph) == ["table/t", "table/u"]


def test_c_imports_no_module_of_ours_by_name():
    """C++ calls Python through callbacks that are registered when the package loads."""
    for path in sources("ext", endings=C_ENDINGS):
        assert not re.search(r'Import\w*\(\s*"trident_hook', without_comments(path.read_text())), name_of(path)


STUBS = {"_core": "ext/modules/core.c", "_rt": "ext/modules/rt.cpp"}


@pytest.mark.parametrize("module", STUBS)
def test_a_stub_has_the_functions_of_its_extension_module(module):
    """That the modules, once built, have no other names is asked in rt/test_stubs.py."""
    table = (ROOT / STUBS[module]).read_text().split("PyMethodDef methods[] = {", 1)[1].split("};", 1)[0]
    stub = ast.parse((ROOT / "trident_hook" / f"{module}.pyi").read_text())
    assert {n.name for n in stub.body if isinstance(n, ast.FunctionDef)} == set(
        re.findall(r'^ *\{"(\w+)"', table, re.MULTILINE)
    )


# -- versions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "macro", ["PY_VERSION_HEX", "PY_MINOR_VERSION", "TORCH_VERSION", "CUDA_VERSION", "Py_BUILD_CORE"]
)
def test_versions_are_asked_in_compat_only(macro):
    for path in sources("ext", "benchmarks", endings=(*C_ENDINGS, ".pyx", ".pxd")):
        if path.parent != ROOT / "ext" / "compat":
            assert macro not in path.read_text(), name_of(path)


def test_pythons_version_is_asked_in_one_file():
    for path in sources("trident_hook", "benchmarks", endings=(".py",)):
        if name_of(path) != "trident_hook/_compat.py":
            assert not re.search(r"sys\.(version_info|hexversion)", path.read_text()), name_of(path)


def test_versions_are_not_compared_as_text():
    compare = re.compile(
        r"""__version__\s*[<>=!]=\s*["']|__version__\s*[<>]\s*["']|["']\s*[<>]=?\s*\w+\.__version__|__version__\.startswith"""
    )
    for path in sources("trident_hook", endings=(".py",)):
        assert not compare.search(path.read_text()), name_of(path)


# -- files -------------------------------------------------------------------------------------------------------------


def test_no_file_is_too_long():
    """At 600 lines, ask which second idea crept in."""
    lengths = {name_of(path): path.read_text().count("\n") for path in sources(*FOLDERS)}
    assert {name: n for name, n in lengths.items() if n > MOST_LINES} == {}


def test_every_module_says_what_it_is():
    tests = [path for path in sources("tests", endings=(".py",)) if path.name.startswith("test_")]
    for path in [*sources("trident_hook", "benchmarks", endings=(".py",)), *tests]:
        text = path.read_text()
        assert not text or ast.get_docstring(ast.parse(text)), f"{name_of(path)} has no docstring"
    for path in sources("ext", endings=C_ENDINGS):
        assert re.match(r"\s*(/\*|//)", path.read_text()), f"{name_of(path)} does not begin with a comment"


def test_no_file_names_a_machine():
    """No path of a home, no absolute path of this checkout."""
    pattern = re.compile(r"/(home|Users)/\w|/root/|" + re.escape(str(ROOT)) + r"\b")
    for path in [*sources(*FOLDERS), *ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "Makefile"]:
        if path != Path(__file__).resolve():
            assert not pattern.search(path.read_text()), name_of(path)
