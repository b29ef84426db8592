"""What the hook tests share besides fixtures."""

import gc
import sys

HAS_CALL_DOOR = sys.version_info >= (3, 12)  # CPython 3.11 ignores a function's own vectorcall


class Record:
    """Answers misses: ``callback`` is what before_miss returns (or raises), the calls are noted."""

    def __init__(self, callback=None, after=None):
        self.callback, self.after, self.before_calls, self.after_calls = callback, after, [], 0
        self.trials = []

    def before_miss(self, door, spec, guard):
        self.before_calls.append((door, spec, guard))
        if isinstance(self.callback, BaseException):
            raise self.callback
        return self.callback

    def after_miss(self, raised=False):
        self.after_calls += 1
        if self.after is not None:
            raise self.after

    def after_trial(self, kind, raised):
        self.trials.append((kind, raised))


def rss():
    try:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096
    except OSError:
        return 0


def assert_settles(work, rounds=5, blocks=50, size=1 << 20):
    """Run ``work`` until a round leaves (almost) no block and no page behind. A leak grows in every round; caches of
    the interpreter and of pytest grow in some."""
    for _ in range(rounds):
        gc.collect()
        blocks_before, size_before = sys.getallocatedblocks(), rss()
        work()
        gc.collect()
        more_blocks, more_size = sys.getallocatedblocks() - blocks_before, rss() - size_before
        if more_blocks < blocks and more_size < size:
            return
    raise AssertionError(f"every round left something: the last one {more_blocks} blocks, {more_size} bytes")
