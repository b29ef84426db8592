"""A text as a module that `trident_hook._scm` compiles."""

from __future__ import annotations

from trident_hook.codegen.unit import GeneratedModule, Part


def of_text(text: str) -> GeneratedModule:
    module = GeneratedModule(
        name="text", generator=0, parts=[Part("", "", text, None, 0)], dispatch="", objects=[], sites=[], kernels=[],
        environments=[], n_versions=0, guard_texts=[], checks=[],
    )  # fmt: skip
    module.unit = lambda begin: text
    return module
