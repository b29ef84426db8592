"""What can go wrong, one class each. A user error says what was seen, what was expected and what to do about it.

`Unsupported` is not a user error: it is how capture says "not this one", and it never reaches the user's call."""

from __future__ import annotations


class TridentHookError(Exception):
    """Base of everything that is raised for the user to read."""


class _Explained(TridentHookError):
    """A message made of three parts, so that none of them can be forgotten."""

    def __init__(self, seen: str, expected: str, remedy: str) -> None:
        super().__init__(seen, expected, remedy)
        self.seen, self.expected, self.remedy = seen, expected, remedy

    def __str__(self) -> str:
        return f"{self.seen}; expected {self.expected}. {self.remedy}"


class ConfigError(_Explained):
    """A setting, from the environment or from Python, has a value that means nothing."""


class NotAFunctionError(_Explained, TypeError):
    """Something other than a plain Python function was handed in."""


class BuildError(_Explained):
    """A generated module could not be compiled."""


class UnsupportedEnvironmentError(_Explained):
    """This interpreter, PyTorch, driver or machine cannot be served."""


class Unsupported(Exception):
    """A path that is refused: it stays with Dynamo or Python. `slug` is short and stable (it is counted and
    documented), `detail` is for people."""

    def __init__(self, slug: str, detail: str = "") -> None:
        super().__init__(slug, detail)
        self.slug, self.detail = slug, detail

    def __str__(self) -> str:
        return f"{self.slug}: {self.detail}" if self.detail else self.slug


def interrupt_behind(error: BaseException, handled: BaseException | None) -> BaseException | None:
    """The interrupt (what is no Exception) in whose handling `error` was raised, if one is: a `finally` that asserts something
    puts its own error in the place of the interrupt. `handled`: what was being handled before, which is not looked behind."""
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and at is not handled and id(at) not in seen:
        if not isinstance(at, Exception):
            return at
        seen.add(id(at))
        at = at.__context__
    return None
