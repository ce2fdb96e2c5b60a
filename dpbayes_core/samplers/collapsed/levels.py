"""Level shares of a factor: from coordinates to shares, and the scatter within the factor, a function of these.

A level's coordinate is its logit. Where noise may hide its count, the coordinate is x with odds = o log(1 + e^x), o the
noise in odds: linear where the count is known and logarithmic where it is not.

A factor of k levels has k - 1 variables. A two-level column (+-1) is the indicator of its second level, doubled.
"""

from math import exp, log, sqrt

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.samplers.collapsed.arrays import (
    BASE,
    FIRST,
    ODDS,
    REST,
    SHARES,
    SIZE,
    SLOPES,
    WITHIN,
    WITHIN_BAR,
    Part,
)
from dpbayes_core.samplers.collapsed.softening import soft


@compiled
def level_shares(position: Floats, first: int, size: int, weights: Floats, work: Floats) -> tuple[float, float]:
    """Shares from the start of `position`; returns the sum of their logs, and the log Jacobian of the logits.

    The shares are the softmax of the logits and of 0 for the base.
    """
    top, total_logits, jacobian = 0.0, 0.0, 0.0
    for j in range(size):
        logit, odds = position[j], weights[ODDS, first + j]
        if odds > 0.0:
            value = soft(position[j])
            logit = log(odds * value)
            jacobian -= soft(-position[j]) + log(value)
        work[SHARES, 0, first + j] = logit
        top = max(top, logit)
        total_logits += logit
    total = exp(-top)
    for j in range(size):
        work[SHARES, 0, first + j] = exp(work[SHARES, 0, first + j] - top)
        total += work[SHARES, 0, first + j]
    for j in range(size):
        work[SHARES, 0, first + j] /= total
    rest, base = exp(-top) / total, first + int(weights[BASE, first]) - 1
    if base >= first:
        rest, work[SHARES, 0, base] = work[SHARES, 0, base], rest
    work[REST, 0, first] = rest
    return total_logits - (size + 1) * (top + log(total)), jacobian


@compiled
def level_slopes(position: Floats, part: Part, block: int, work: Floats, gradient: Floats) -> None:
    """Derivatives in the coordinates, given those in the log shares: SLOPES, the reference's in its first slot."""
    first, size, weights = int(part.blocks[block, FIRST]), int(part.blocks[block, SIZE]), part.weights
    base, rest = first + int(weights[BASE, first]) - 1, work[SLOPES, 0, 0]
    total = rest
    for i in range(first, first + size):
        total += work[SLOPES, 0, i]
    for i in range(first, first + size):
        slope = work[SLOPES, 0, i] - work[SHARES, 0, i] * total
        if i == base:
            slope = rest - work[REST, 0, first] * total
        odds, x = weights[ODDS, i], position[i - first]
        if odds > 0.0:
            value, share = soft(x), exp(-soft(-x))
            slope = (slope - 1.0) * share / value + 1.0 - share
        gradient[i - first] = slope


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
