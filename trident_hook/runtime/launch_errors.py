"""Errors of the CUDA driver, as an exception whose text begins like stock Triton's and then says where it happened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn


class LaunchError(RuntimeError):
    """A driver call failed. Stock Triton raises a RuntimeError with the first part of this text; `except RuntimeError`
    and a test for "Triton Error [CUDA]" keep working."""

    def __init__(self, call: str, code: int, name: str, text: str, where: str) -> None:
        super().__init__(f"Triton Error [CUDA]: {text} ({call} returned {name}; {where})")
        self.call, self.code, self.name = call, code, name


def raise_launch_error(
    call: str, code: int, name: str, text: str, kernel: str, grid: Sequence[int], device: int
) -> NoReturn:
    """Called by the native launch. `grid` is in blocks, clusters included."""
    raise LaunchError(call, code, name, text, f"kernel {kernel}, grid {tuple(grid)}, device {device}")


def raise_load_error(call: str, code: int, name: str, text: str, kernel: str, device: int) -> NoReturn:
    raise LaunchError(call, code, name, text, f"loading kernel {kernel}, device {device}")
