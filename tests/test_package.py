"""What is shipped, and what an import says: names, settings that mean nothing, a checkout that is not built."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
from support import processes

import trident_hook

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Path:
    """What is needed to build, without what was built. Tests are there, so that it shows whether they are packed."""
    folder = tmp_path_factory.mktemp("sources")
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    for name in ("ext", "trident_hook"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    (folder / "tests").mkdir()
    for path in ROOT.glob("tests/*.py"):
        shutil.copy(path, folder / "tests")
    return folder


def set_up(folder: Path, *command: str) -> None:
    done = subprocess.run([sys.executable, "setup.py", "-q", *command], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_dir_shows_the_public_names():
    shown = dir(trident_hook)
    assert set(trident_hook.__all__) < set(shown)
    assert {"errors", "ffi", "__version__"} < set(shown)
    assert [name for name in shown if name.startswith("_")] == ["__version__"]
    assert not {"os", "torch", "api", "functions", "annotations"} & set(shown)
    for name in shown:
        assert getattr(trident_hook, name) is not None


def test_the_version_is_written_once(sources):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" not in project
    set_up(sources, "egg_info")
    info = (sources / "trident_hook.egg-info" / "PKG-INFO").read_text()
    assert re.search(r"^Version: (.+)$", info, re.MULTILINE).group(1) == trident_hook.__version__


def test_the_source_distribution_has_no_tests(sources, tmp_path):
    set_up(sources, "sdist", "--formats=tar", "-d", str(tmp_path))
    (packed,) = tmp_path.glob("*.tar")
    with tarfile.open(packed) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert [name for name in names if name.startswith("tests")] == []
    for needed in (
        "setup.py",
        "ext/modules/core.c",
        "ext/abi/tdh.pxd",
        "ext/simcuda/simcuda.h",
        "trident_hook/py.typed",
    ):
        assert needed in names


def test_the_wheel_has_its_types_and_headers(sources, tmp_path):
    """All but the extension modules, which take minutes."""
    set_up(sources, "build_py", "--build-lib", str(tmp_path))
    for needed in ("py.typed", "_scm/compiler.py", "_include/tdh_rt.h", "_include/tdh.pxd", "_simcuda/simcuda.h"):
        assert (tmp_path / "trident_hook" / needed).exists(), needed


def test_a_checkout_that_is_not_built_says_how_to(sources):
    import_it = [sys.executable, "-c", "import trident_hook"]
    environment = processes.environment() | {"PYTHONPATH": str(sources)}
    done = subprocess.run(import_it, cwd=sources, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith("ImportError: trident_hook in ")
    for part in (
        "is not built for CPython",
        "_core and _rt missing",
        "make setup",
        "python setup.py build_ext --inplace",
    ):
        assert part in said
    assert "circular" not in done.stderr


def test_modules_of_another_build_are_named_as_such(tmp_path, sources):
    import importlib.machinery

    shutil.copytree(sources / "trident_hook", tmp_path / "trident_hook")
    for name in ("_core", "_rt"):
        (tmp_path / "trident_hook" / f"{name}{importlib.machinery.EXTENSION_SUFFIXES[0]}").write_bytes(
            b"of another machine"
        )
    environment = processes.environment() | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", "import trident_hook"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    said = done.stderr.strip().splitlines()[-1]
    assert "was built for another PyTorch or Python" in said
    assert "build or install it again" in said


IMPORT_TWICE = "import trident_hook, importlib; importlib.import_module('trident_hook'); print(trident_hook.status())"
WRONG = {"TRIDENT_HOOK_BILD": "sync", "TRIDENT_HOOK_LIMIT": "many", "TRIDENT_HOOK_DISABLE": "maybe"}


@pytest.mark.parametrize("warnings", ["default", "error"])
def test_settings_that_mean_nothing_are_named_once_at_import(warnings):
    out, err = processes.run("-W", f"{warnings}::UserWarning", "-c", IMPORT_TWICE, **WRONG)
    for part in ("TRIDENT_HOOK_BILD", "did you mean TRIDENT_HOOK_BUILD?", "TRIDENT_HOOK_LIMIT='many'", "'maybe'"):
        assert err.count(part) == 1, err
    assert "off because TRIDENT_HOOK_DISABLE is set" in out
    assert "builds: background" in out


def test_nothing_is_said_where_all_is_well():
    assert processes.run("-W", "error", "-c", "import trident_hook", TRIDENT_HOOK_LIMIT="8")[1] == ""
