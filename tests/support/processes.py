"""Programs in a process of their own, for what only a fresh process can show."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ROOT = TESTS.parent

#: What most programs begin with: the simulated driver, synchronous builds, programs of the tests.
PROLOGUE = """
import torch, trident_hook
from support import programs
from support.routes import routed, warm
from trident_hook.testing import simdriver, workloads
simdriver.install()
trident_hook.config.build = "sync"
"""


def environment(**settings: str) -> dict:
    """This process's environment without settings of ours, plus `settings`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRIDENT_HOOK_")}
    paths = [str(ROOT), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), **settings}


def start(*arguments: str, **settings: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, *arguments], env=environment(**settings), cwd=ROOT, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def start_program(program: str, **settings: str) -> subprocess.Popen:
    return start("-c", PROLOGUE + textwrap.dedent(program), **settings)


def finished(process: subprocess.Popen, timeout: float = 170) -> tuple[str, str]:
    """Standard output and error of a process that must end well."""
    __tracebackhide__ = True
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    assert process.returncode == 0, f"exit status {process.returncode}\n{out[-4000:]}\n{err[-8000:]}"
    return out, err


def run(*arguments: str, **settings: str) -> tuple[str, str]:
    """`python arguments` in a fresh process."""
    __tracebackhide__ = True
    return finished(start(*arguments, **settings))


def run_program(program: str, **settings: str) -> tuple[str, str]:
    """PROLOGUE and `program` in a fresh process."""
    __tracebackhide__ = True
    return finished(start_program(program, **settings))
