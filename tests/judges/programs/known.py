"""What still finds a difference, with the reason: `run` does without it unless it is asked for all. A line goes when the
difference is mended."""

from __future__ import annotations

#: Name of a feature -> what is different today.
OFF: dict[str, str] = {
    "factorised": "handlers of what fails at run time do not run",
    "handled": "handlers of what fails at run time do not run",
}

#: Facts of tensors that are not compared (see trident_hook/verification/tensors.py).
FACTS: dict[str, str] = {}
