"""The simulated driver answers right and wrong calls as a real one did."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HERE = Path(__file__).parent
ASKED = """
import ctypes, sys
sys.argv = ["questionnaire.py", *sys.argv[1:]]
ctypes.CDLL(sys.argv[1]).sim_strict_pointers(1)
import runpy
runpy.run_path(sys.argv.pop(), run_name="__main__")
"""


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


def compile_images(folder: Path) -> None:
    signature = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}
    for name, arch, num_ctas in (("add_80", 80, 1), ("add_90", 90, 1), ("add_90_2", 90, 2)):
        target = GPUTarget("cuda", arch, 32)
        source = ASTSource(add, signature, {"BLOCK": 256})
        compiled = triton.compile(source, target=target, options={"num_ctas": num_ctas})
        (folder / f"{name}.cubin").write_bytes(compiled.asm["cubin"])


def test_same_answers_as_a_real_driver(sim, tmp_path):
    compile_images(tmp_path)
    library = Path(sim.library_path()) / "libcuda.so.1"
    command = [sys.executable, "-c", ASKED, str(library), str(tmp_path), str(HERE / "questionnaire.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == (HERE / "answers_h200.txt").read_text().splitlines()
