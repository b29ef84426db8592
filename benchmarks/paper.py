"""The statistics of the paper that this project answers to, beside our own medians.

Of 30 invocations in a row the first is discarded, values outside 1.5 interquartile ranges are removed, the rest is
averaged; an operator's figure is the arithmetic mean of its per-shape ratios."""

from __future__ import annotations

import math
import statistics

INVOCATIONS = 30


def filtered(values: list[float]) -> list[float]:
    """Without what lies further than 1.5 interquartile ranges from the quartiles."""
    if len(values) < 4:
        return list(values)
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    reach = 1.5 * (high - low)
    return [v for v in values if low - reach <= v <= high + reach]


def warm_mean(runs: list[list[float]]) -> float:
    """`runs`: invocations in a row, each run's first is discarded."""
    return statistics.fmean(filtered([value for run in runs for value in run[1:]]))


def warm_median(runs: list[list[float]]) -> float:
    return statistics.median(value for run in runs for value in run[1:])


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))
