"""Calls that raise teach nothing, and a capture of one costs as much as any other. A function that has raised a few times
is *wary*: a call that misses runs as plain Python first, and what it is like is noted if it returns. The next call like it
is captured."""

from __future__ import annotations

import functools
from typing import Any

_TRIES = 3  # calls that raise before the function is wary
_KINDS = 256  # that are remembered at most
_FIRST_CREDIT, _MOST_CREDIT = 8, 4096
_VALUES = (int, bool, float, complex, type(None))
_TEXTS = (str, bytes)


class RaisingCalls:
    """What is known of the missed calls of one function that raised. Guarded by the GIL: a count that is one off costs a
    capture more or less."""

    def __init__(self) -> None:
        self.raised = 0
        self._kinds: dict[tuple[Any, ...], list[int]] = {}  # kind -> [calls that returned, how many are asked for]
        self._captured: dict[int, tuple[Any, ...]] = {}  # thread -> kind of the call that is captured now
        self._credit, self._asked = 0, _FIRST_CREDIT

    @property
    def wary(self) -> bool:
        return self.raised >= _TRIES

    def kind_on_trial(self, missed: Any, thread: int) -> tuple[Any, ...] | None:
        """The kind of a missed call that is to run as plain Python, or None for one that is to be captured: calls like it
        have returned, or so many others have that it is worth an attempt. Where an attempt raises after all, the next one
        asks for twice as many."""
        if not self.wary or missed is None:
            return None
        kind = kind_of(missed[1])
        returned, asked = self._kinds.get(kind, (0, 1))
        if returned >= asked:
            self._kinds[kind][0] = 0
        elif self._credit >= self._asked:
            self._credit = 0
        else:
            return kind
        self._captured[thread] = kind
        return None

    def tried(self, kind: tuple[Any, ...], raised: bool) -> None:
        """A call on trial is over."""
        if raised:
            return
        self._credit += 1
        if kind not in self._kinds:
            if len(self._kinds) >= _KINDS:
                self._kinds.clear()
            self._kinds[kind] = [0, 1]
        self._kinds[kind][0] += 1

    def captured(self, raised: bool, thread: int) -> None:
        """A call that Dynamo had is over."""
        kind = self._captured.pop(thread, None)
        if not raised:
            self._asked = max(_FIRST_CREDIT, self._asked // 2)
            return
        self.raised += 1
        if kind is not None:
            self._asked = min(_MOST_CREDIT, 2 * self._asked)
            known = self._kinds.setdefault(kind, [0, 1])
            known[1] = min(_MOST_CREDIT, 2 * known[1])


def kind_of(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a call is like: the values of its plain arguments, the metadata of its tensors, the classes of all others. Keeps
    none of them alive and runs none of the program's code."""
    return tuple(map(_kind, values))


@functools.cache
def _reading() -> tuple[Any, ...]:
    """Classes of tensors that are read, and what reads them: here, since it brings PyTorch in."""
    import torch

    from .. import _rt

    return (torch.Tensor, torch.nn.Parameter), _rt.tensor_read


def _kind(value: Any) -> tuple[Any, ...]:
    class_ = type(value)
    if class_ in _VALUES:
        return class_, value
    if class_ in _TEXTS:
        return class_, len(value), hash(value)
    tensors, read = _reading()
    if class_ in tensors:
        facts = read(value)
        if facts is not None:
            return class_, facts["dtype"], facts["sizes"], facts["strides"], facts["keys"], facts["requires_grad"]
    if class_ in (tuple, list):
        return (
            class_,
            len(value),
            *(_kind(item) if type(item) in tensors else (id(type(item)),) for item in value[:4]),
        )
    return (id(class_),)
