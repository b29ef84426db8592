"""Operators in Python, for captures: they answer from sizes and strides, so their answers become guards."""

from __future__ import annotations


def is_non_overlapping_and_dense(tensor) -> bool:
    """As c10's compute_non_overlapping_and_dense: the dimensions can be ordered so that each stride is the product of
    the sizes before it."""
    if tensor.is_contiguous():
        return True
    left = [(size, stride) for size, stride in zip(tensor.size(), tensor.stride(), strict=True) if size >= 2]
    expected = 1
    while left:
        rest, found = [], 0
        for size, stride in left:
            if found == 0 and stride == expected:
                found = size
            else:
                rest.append((size, stride))
        if found == 0:
            return False
        expected, left = expected * found, rest
    return True


def prod(iterable, /, *, start=1):
    """math.prod, also of a generator and of sizes that are symbols."""
    for factor in iterable:
        start = start * factor
    return start
