"""The functions whose generated modules are kept as golden files. As a program: prints their sources as JSON.

What a machine decides is normalised: the digest and size of a CUBIN (ptxas of the installed Triton) and the bits of the
torch state, which hold the number of threads."""

from __future__ import annotations

import json
import re

import torch
from support import programs
from support.routes import twin

import trident_hook
from trident_hook.testing import workloads

THREADS = 4  # part of the torch state


def _normal(*shape):
    return torch.ones(shape)


#: name -> (function, arguments of the calls that lead to the module)
CASES = {
    "rms_norm_static": (workloads.rms_norm, [(_normal(4, 64), _normal(64), 1e-5)]),
    "rms_norm_dynamic": (
        workloads.rms_norm,
        [(_normal(4, 64), _normal(64), 1e-5), (_normal(6, 64), _normal(64), 1e-5)],
    ),
    "silu": (workloads.silu, [(_normal(256),)]),
    "masked_fill": (workloads.masked_fill, [(_normal(16, 64), _normal(64) > 0, -1.0)]),
    "dispatch": (
        programs.chosen,
        [
            (_normal(4), "scale", 2),
            (_normal(4), "shift", 2),
            (_normal(4), "shift", 2.5),
            (_normal(4, 4), "shift", 2.5),
        ],
    ),
    "aten_only": (programs.aten_only, [(_normal(4, 8), _normal(8, 4))]),
}


def raw_source(name: str) -> str:
    """The module that a fresh function has after the calls of its case."""
    function, calls = CASES[name]
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    torch._dynamo.reset()
    try:
        fn = trident_hook.jit(twin(function))
        for args in calls:
            fn(*args)
        explanation = trident_hook.explain(fn)
        assert len(explanation.specializations) == len(calls), str(explanation)
        return explanation.source
    finally:
        torch.set_num_threads(threads)


def normalised(source: str) -> str:
    for number, digest in enumerate(dict.fromkeys(re.findall(r"\b([0-9a-f]{24,64})\.cubin", source))):
        source = source.replace(digest, f"<cubin {number}>")
    source = re.sub(r"(# .*CUBIN <cubin \d+>), \d+ bytes", r"\1, <size> bytes", source)
    return re.sub(r"(\.cubin_size = )\d+", r"\1<size>", source)


def main() -> None:
    import tempfile

    from support import slate

    with tempfile.TemporaryDirectory() as folder, slate.clean(folder):
        print(json.dumps({name: normalised(raw_source(name)) for name in CASES}))


if __name__ == "__main__":
    main()
