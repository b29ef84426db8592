"""Takes pictures of PyTorch, Triton and the process before and after all that trident_hook does in it; prints, for each stage,
what differs from before. Run by test_footprint.py in a process of its own."""

from __future__ import annotations

import atexit
import gc
import json
import logging
import os
import signal
import sys
import threading
import warnings

warnings.simplefilter("ignore", FutureWarning)  # of attributes that only a picture reads

import torch  # noqa: E402
import torch._dynamo  # noqa: E402
import torch.fx.experimental.proxy_tensor  # noqa: E402
import triton.language  # noqa: E402, F401

ROOTS = ("torch", "triton")
kept = []  # objects of pictures: an id stays its own


def of_modules() -> dict:
    """Every attribute of modules of PyTorch and Triton, and of the classes that they define, by identity."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in ROOTS or type(module) is not type(sys):
            continue
        for attribute, value in list(vars(module).items()):
            if isinstance(value, type(sys)) or attribute in ("__warningregistry__", "__builtins__"):
                continue
            found[f"{name}.{attribute}"] = value
            if isinstance(value, type) and value.__module__ == name:
                found.update((f"{name}.{attribute}.{n}", v) for n, v in list(vars(value).items()) if n != "__dict__")
    kept.append(found)
    return {name: (id(value), type(value).__name__) for name, value in found.items()}


def of_the_process() -> dict:
    """State that a library could leave behind."""
    from torch._dynamo.variables.builder import VariableBuilder

    loggers = {n: log for n, log in logging.root.manager.loggerDict.items() if isinstance(log, logging.Logger)}
    types = VariableBuilder._type_dispatch()
    return {
        **{f"signal {number}": str(signal.getsignal(number)) for number in signal.valid_signals()},
        "warnings.filters": [str(one) for one in warnings.filters],
        "warnings.showwarning": str(warnings.showwarning),
        "gc.callbacks": [str(one) for one in gc.callbacks],
        "gc thresholds": [gc.get_threshold(), gc.isenabled(), gc.get_freeze_count()],
        "atexit handlers": atexit._ncallbacks(),
        "sys.meta_path": [str(one) for one in sys.meta_path],
        "sys.path_hooks": [str(one) for one in sys.path_hooks],
        "sys.path": list(sys.path),
        "environment": dict(os.environ),
        "sys.excepthook": str(sys.excepthook),
        "sys.unraisablehook": str(sys.unraisablehook),
        "threading.excepthook": str(threading.excepthook),
        "trace and profile functions": [str(sys.gettrace()), str(sys.getprofile())],
        "recursion limit": sys.getrecursionlimit(),
        "switch interval": sys.getswitchinterval(),
        "working directory": os.getcwd(),
        "threads": sorted(t.name for t in threading.enumerate()),
        **{f"logger {n}": [str(log.filters), str(log.handlers), log.level, log.propagate, log.disabled]
           for n, log in loggers.items() if n.split(".")[0] in ROOTS},
        "root logger": [str(logging.root.filters), str(logging.root.handlers), logging.root.level],
        "torch's state": [torch.get_num_threads(), str(torch.get_default_dtype()), torch.is_grad_enabled(),
                          torch.are_deterministic_algorithms_enabled(), torch.random.initial_seed()],
        "Dynamo's configuration": {n: repr(v) for n, v in torch._dynamo.config.get_config_copy().items()},
        "Dynamo's table of types": sorted(f"{kind.__module__}.{kind.__qualname__}" for kind in types),
        "Dynamo's table of objects": sorted(map(str, VariableBuilder._id_dispatch())),
    }  # fmt: skip


def picture() -> tuple[dict, dict]:
    gc.collect()
    return of_modules(), of_the_process()


def differences(before, after) -> list[str]:
    """Names whose value is another, or that are new where there was a module or class already."""
    names = []
    for old, new in zip(before, after, strict=True):
        places = {name.rpartition(".")[0] for name in old}
        for name in sorted(old.keys() | new.keys()):
            if name not in old and name.rpartition(".")[0] not in places:
                continue  # of a module that was imported meanwhile
            if name not in old and name.startswith("logger "):
                continue
            if old.get(name) != new.get(name) and (name not in EVERYBODYS or old is not before[0]):
                names.append(name)
    return names


def step(x, d, scale):
    return x * d["k"] + scale if "absent" not in d else x


def other_step(x, d, scale):
    return x / d["k"] - scale


def careful(x, d, scale):
    try:
        x = x * d["absent"]
    except KeyError:
        x = x + scale
    with torch.no_grad():
        torch._dynamo.graph_break()
        return x * 2


EVERYBODYS: set[str] = set()
ARGUMENTS = (torch.arange(8.0), {"k": 2.0}, 0.5)

for compiled in (step, other_step, careful, step):  # what any compile changes: counters, caches, what is imported late
    before = picture()
    torch.compile(compiled, backend="eager")(*ARGUMENTS)
    torch._dynamo.reset_code(compiled.__code__)
    EVERYBODYS |= set(differences(before, picture()))

stages = {}
first = picture()
import trident_hook  # noqa: E402

stages["import"] = differences(first, picture())
trident_hook.config.build = "sync"
served = trident_hook.jit(step)
trident_hook.enable(include=[other_step])
stages["enable"] = differences(first, picture())
for call in range(3):
    assert torch.equal(served(*ARGUMENTS), step(*ARGUMENTS))
    other_step(*ARGUMENTS)
    other_step(torch.arange(9.0 + call), *ARGUMENTS[1:])
assert trident_hook.counts(step)["hits"] >= 2, trident_hook.explain(step)
stages["calls"] = differences(first, picture())
trident_hook.config.build = "background"
served(torch.arange(4), {"k": 3.0}, 1.5)
trident_hook.settle(60)
trident_hook.disable()
stages["disable"] = differences(first, picture())
print(json.dumps({"everybody's": sorted(EVERYBODYS), "attributes": len(first[0]), "stages": stages}))
