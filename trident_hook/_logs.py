"""Log channels: TRIDENT_HOOK_LOGS=hook,capture,guards,codegen,build,launch. Off, a call costs one set look-up."""

from __future__ import annotations

import sys

from .config import config


def log(channel: str, message: str, *args) -> None:
    if channel in config.logs:
        print(f"[trident_hook:{channel}] {message % args if args else message}", file=sys.stderr, flush=True)
