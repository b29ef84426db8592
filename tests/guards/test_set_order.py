"""Which uses of a set leave its order and the types of its members open. Whatever else is done with it, they count."""

from __future__ import annotations

import pytest

from trident_hook.capture.guards.set_order import only_asked


def member(x, s):
    return x + 1 if 2 in s else x


def no_member(x, s):
    return x + 1 if "a" not in s and None not in s else x


def length(x, s):
    return x + len(s)


def empty(x, s):
    if not s:
        return x
    return x * 2 if s else x


def unused(x, s):
    return x


def keyword_only(x, *, s):
    while 2 in s:
        x = x + len(s)
    return x


ASKED = [member, no_member, length, empty, unused, keyword_only]


def iterated(x, s):
    return [x + i for i in s]


def in_a_generator(x, s):
    return x + sum(i for i in (2, 3) if i in s)


def another_key(x, s):
    return x + 1 if x.ndim in s else x


def either_key(x, s):
    return x + 1 if (1 if x.ndim else x) in s else x


def returned(x, s):
    return x + 1 if 2 in s else x, s


def handed_on(x, s):
    return x + member(x, s)


def two_arguments(x, s):
    return x + max(len(s), *s)


def stored(x, s):
    t = s
    return x + len(t)


def assigned(x, s):
    n = len(s)
    s = [n]
    return x + s[0]


def updated(x, s):
    s |= {2}
    return x + len(s)


def method(x, s):
    return x + len(s.union((2,)))


def compared(x, s):
    return x + 1 if s == {1, 2} else x


def is_it(x, s):
    return x + 1 if s is None else x


def key_itself(x, s):
    return x + 1 if s in (frozenset((1, 2)), None) else x


def closed_over(x, s):
    def inner():
        return list(s)

    return x + len(inner())


def in_locals(x, s):
    return x + len(list(locals()["s"])) + len(s)


def formatted(x, s):
    return x + len(f"{s}")


def unpacked(x, s):
    a, b = s
    return x + a - b


def splatted(x, s):
    return member(*s)


def chosen(x, s):
    return x + len(s or (1,))


def other_len(x, s):
    return x + str(s).count("1")


def walrus(x, s):
    return x + len(t := s) + next(iter(t))


def deleted(x, s):
    del s
    return x


SEEN = [iterated, in_a_generator, another_key, either_key, returned, handed_on, two_arguments, stored, assigned, updated,
        method, compared, is_it, key_itself, closed_over, in_locals, formatted, unpacked, splatted, chosen, other_len, walrus,
        deleted]  # fmt: skip


@pytest.mark.parametrize("fn", ASKED, ids=lambda fn: fn.__name__)
def test_only_questions(fn):
    assert only_asked(fn.__code__, "s")


@pytest.mark.parametrize("fn", SEEN, ids=lambda fn: fn.__name__)
def test_more_than_questions(fn):
    assert not only_asked(fn.__code__, "s")


def test_no_argument_of_that_name():
    assert not only_asked(member.__code__, "t")
