"""What the hook tests share besides fixtures."""

import sys

HAS_CALL_DOOR = sys.version_info >= (3, 12)  # CPython 3.11 ignores a function's own vectorcall


class Record:
    """Answers misses: ``callback`` is what before_miss returns (or raises), the calls are noted."""

    def __init__(self, callback=None, after=None):
        self.callback, self.after, self.before_calls, self.after_calls = callback, after, [], 0

    def before_miss(self, door, spec, guard):
        self.before_calls.append((door, spec, guard))
        if isinstance(self.callback, BaseException):
            raise self.callback
        return self.callback

    def after_miss(self):
        self.after_calls += 1
        if self.after is not None:
            raise self.after
