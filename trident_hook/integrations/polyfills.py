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


def cdiv(x, y):
    """triton.cdiv, without its way around compile-time values."""
    return (x + y - 1) // y


def next_power_of_2(n):
    """triton.next_power_of_2 by comparisons. Its own shifts give an expression of a thousand terms where `n` is a symbol;
    these give the number itself, for all sizes between two powers."""
    if n <= 0:
        return 0
    power = 1
    while power < n:
        power *= 2
    return power


def tile_sizes(max_tile_size, *sizes):
    """FlagGems' heuristics_for_tile_size. Which power of two a size has does not matter where the tile is the largest."""
    tiles = []
    for size in reversed(sizes):
        if size > max_tile_size // 2 and max_tile_size & (max_tile_size - 1) == 0:
            tile = max_tile_size
        else:
            tile = min(max_tile_size, next_power_of_2(size))
        tiles.insert(0, tile)
        max_tile_size = max(1, max_tile_size // tile)
    return tuple(tiles)
