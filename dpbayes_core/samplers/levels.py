"""Level shares of a factor: from logits to shares, and the scatter within the factor that they fix.

A factor of k levels has k - 1 variables. A two-level column (+-1) is the indicator of its second level, doubled.
"""

from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.samplers.compiled import compiled
from dpbayes_core.samplers.flat import REST, SHARES, SLOPES, WITHIN, WITHIN_BAR

Floats = NDArray[np.float64]


@compiled
def level_shares(position: Floats, first: int, size: int, work: Floats) -> float:
    """Softmax of the logits (the head of `position`) and 0 into the slots; returns the sum of all log shares."""
    top, total_logits = 0.0, 0.0
    for j in range(size):
        top = max(top, position[j])
        total_logits += position[j]
    total = exp(-top)
    for j in range(size):
        work[SHARES, 0, first + j] = exp(position[j] - top)
        total += work[SHARES, 0, first + j]
    for j in range(size):
        work[SHARES, 0, first + j] /= total
    work[REST, 0, first] = exp(-top) / total
    return total_logits - (size + 1) * (top + log(total))


@compiled
def within_factor(first: int, size: int, step: float, work: Floats) -> None:
    """Cholesky factor of step^2 (diag(p) - p p') in closed form: no cancellation for rare levels."""
    after = work[REST, 0, first]
    for i in range(first + size - 1, first - 1, -1):
        share = work[SHARES, 0, i]
        before = after + share
        work[WITHIN, i, i] = step * sqrt(share * after / before)
        slope = step * sqrt(share / (after * before))
        for k in range(i + 1, first + size):
            work[WITHIN, k, i] = -slope * work[SHARES, 0, k]
        after = before


@compiled
def within_factor_reverse(first: int, size: int, work: Floats) -> float:
    """Add to SLOPES the derivatives in the log shares, given those in WITHIN; returns the reference level's."""
    rest = work[REST, 0, first]
    after, rest_slope = rest, 0.0
    for i in range(first + size - 1, first - 1, -1):
        before = after + work[SHARES, 0, i]
        pivot = work[WITHIN_BAR, i, i] * work[WITHIN, i, i]
        below = 0.0
        for k in range(i + 1, first + size):
            weighted = work[WITHIN_BAR, k, i] * work[WITHIN, k, i]
            work[SLOPES, 0, k] += weighted
            below += weighted
        in_before = -0.5 * (pivot + below) / before  # `before` and `after` are sums of the later shares
        in_both = in_before + 0.5 * (pivot - below) / after
        for k in range(i + 1, first + size):
            work[SLOPES, 0, k] += in_both * work[SHARES, 0, k]
        rest_slope += in_both * rest
        work[SLOPES, 0, i] += 0.5 * (pivot + below) + in_before * work[SHARES, 0, i]
        after = before
    return rest_slope
