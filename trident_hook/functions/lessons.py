"""Which of the things that Dynamo is taught are proven in this installation. Proving takes a second once, so the outcome is kept in
the cache folder, for these versions of PyTorch, Triton and CPython and for our own files."""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from pathlib import Path

from .. import _core, _rt
from .._logs import log
from .._scm import cache

_OURS = ("dynamo", "ir")  # folders whose text the outcome depends on


@functools.cache
def unproven() -> tuple[str, ...]:
    """Lessons that Dynamo did not learn, in a user's words. Nothing is served where there is one."""
    key = _key()
    known = _recall(key)
    if known is None:
        from ..dynamo import prove

        known = tuple(prove.unproven())
        log("capture", "lessons that are not proven: %s", ", ".join(known) or "none")
        cache.write_note(key, json.dumps(known).encode())
    return known


def _recall(key: str) -> tuple[str, ...] | None:
    note = cache.read_note(key)
    if note is None:
        return None
    try:
        names = json.loads(note)
    except ValueError:
        return None
    return tuple(names) if isinstance(names, list) and all(isinstance(name, str) for name in names) else None


def _key() -> str:
    import torch
    import triton

    digest = hashlib.sha256()
    versions = (sys.version, torch.__version__, torch.version.git_version, triton.__version__, str(_core.abi_version))
    for part in versions:
        digest.update(part.encode() + b"\0")
    package = Path(__file__).resolve().parent.parent
    texts = [path for folder in _OURS for path in sorted((package / folder).rglob("*.py"))]
    for path in (*texts, Path(_core.__file__), Path(_rt.__file__)):
        digest.update(path.read_bytes() + b"\0")
    return "lessons" + digest.hexdigest()[:32]


def refused() -> tuple[str, ...]:
    """What is known of it so far: nothing before the first capture."""
    return unproven() if unproven.cache_info().currsize else ()
