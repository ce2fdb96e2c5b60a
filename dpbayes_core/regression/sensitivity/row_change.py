"""The largest change of the released sums by one row: without an intercept, and with a bounded norm.

These are theorems 5 and 6 of docs/sensitivity.md; box.py rounds the results up, and multiplies them for persons.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import floor, prod

import numpy as np

from dpbayes_core.regression.ball import Ball
from dpbayes_core.regression.fixed_point import BITS, UNIT
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.rounding import root_up


@dataclass(frozen=True)
class Moved:
    """The largest changes in L1 and in squared L2, where squares of continuous columns weigh 2**weight_bits in L2."""

    replaced: Fraction  # one row by another; the count cancels
    replaced_square: Fraction
    added: Fraction  # one row more; the count is among the entries
    added_square: Fraction
    weight_bits: int = 0


def moved_in_ball(ball: Ball, *, intercept: bool, box: Moved) -> Moved:
    """Squared L2 changes for rows in the ball, or the box's where these are smaller; L1 changes are the box's."""
    replaced, added = _replaced(ball, intercept=intercept), _added(ball, intercept=intercept)
    if box.weight_bits and replaced >= box.replaced_square:
        return box
    return Moved(box.replaced, min(replaced, box.replaced_square), box.added, min(added, box.added_square))


def _replaced(ball: Ball, *, intercept: bool) -> Fraction:
    x, y = Fraction(ball.covariates) ** 2, Fraction(ball.response) ** 2
    if intercept:
        return 2 * x**2 + 2 * x + 2 * x * y + 4 * y + _largest_gain(1 - y, x)
    return 2 * x**2 + max(2 * x * y + _largest_gain(y, x), x * y + y**2)


def _largest_gain(gain: Fraction, square: Fraction) -> Fraction:
    """The largest -2 c**2 + 2 c gain for |c| <= square."""
    return gain**2 / 2 if gain <= 2 * square else 2 * square * gain - 2 * square**2


def _added(ball: Ball, *, intercept: bool) -> Fraction:
    x, y = Fraction(ball.covariates) ** 2, Fraction(ball.response) ** 2
    return 1 + x**2 + x * y + y**2 + (x + y if intercept else 0)


MOST_CORNERS = 2**15
ROUNDING = Fraction(1, 10**9)  # far above the error of sums of doubles


def moved_without_intercept(lows: tuple[Fraction, ...], *, weighted: bool = True) -> Moved:
    """Changes for rows in a box: L1 is exact, L2 exact for most boxes and else at most a few percent too large."""
    bits = ((len(lows) + 1).bit_length() - 2) // 2 if weighted and set(lows) == {-1} else 0
    ones = Fraction(len(lows) * (len(lows) + 1), 2) + 1
    return Moved(
        replaced=ones - 1 - _least(lows),
        replaced_square=_largest_square(lows, bits),
        added=ones,
        added_square=ones + len(lows) * (4**bits - 1),
        weight_bits=bits,
    )


def lowest_of(schema: RegressionSchema) -> tuple[Fraction, ...]:
    """The lower end of each variable's bounds, with the sign chosen so that the upper end is 1."""
    lows: list[Fraction] = []
    for column in (*schema.covariates, schema.response):
        assert isinstance(column, Continuous)  # the schema takes no other without intercept
        low, high = schema.standardised(column).steps(BITS)
        lows.append(Fraction(low if high == UNIT else -high, UNIT))
    return tuple(lows)


def lowest_once_shrunk(schema: RegressionSchema) -> tuple[Fraction, ...]:
    """The same for rows shrunk into the ball, which may leave a box that excludes 0."""
    *covariates, response = lowest_of(schema)
    if schema.ball is None:
        return (*covariates, response)
    return (*(_shrunk(low, schema.ball, schema.d) for low in covariates), response)


def _shrunk(low: Fraction, ball: Ball, covariates: int) -> Fraction:
    """The lower end of a covariate after shrinking: that of the longest row with the covariate at its lower end."""
    if low <= 0:
        return low  # shrinking moves towards 0
    longest = root_up(low**2 + covariates - 1)
    steps = floor(Fraction(ball.covariates) * low / longest * UNIT) - 1  # one step for the rounding of doubles
    return min(low, Fraction(max(steps, 0), UNIT))


def _least(lows: tuple[Fraction, ...]) -> Fraction:
    """The least sum of y_i y_j over i <= j: some y are at their lower ends, the others share one value."""
    down, found = sorted(lows, reverse=True), list[Fraction]()
    for lower in range(len(down) + 1):
        shared = min(Fraction(1), -Fraction(sum(down[:lower])) / (len(down) - lower + 1))
        values = [max(low, shared) for low in down]
        found.append(Fraction(sum(values) ** 2 + sum(value**2 for value in values)) / 2)
    return min(found)


def _largest_square(lows: tuple[Fraction, ...], bits: int) -> Fraction:
    """Squared L2: of the symmetric box, of all entries' ranges together, or of corners, whichever is least."""
    m = len(lows)
    symmetric = m**2 - (m % 2 if 2 * 4**bits < m + 1 else 0)
    if set(lows) == {-1}:
        return Fraction(symmetric)
    ranges = sum((_span(low, low, square=True) ** 2 for low in lows), Fraction(0))
    ranges += sum((_span(lows[i], lows[j]) ** 2 for i in range(m) for j in range(i)), Fraction(0))
    if min(lows) >= 0:
        return ranges
    return min(Fraction(symmetric), ranges, max(_at_corners(lows), Fraction(m * (m + 1), 2) + 1))


def _at_corners(lows: tuple[Fraction, ...]) -> Fraction:
    """The maximum over y whose coordinates are lower ends or 1; an upper bound where many ends are merged."""
    low, count = (np.array(part) for part in zip(*_merged(lows), strict=True))
    down = np.stack(np.meshgrid(*(np.arange(n + 1.0) for n in count), indexing="ij"), axis=-1).reshape(-1, len(low))
    up = len(lows) - down.sum(axis=1)
    ranges = (1 - np.outer(low, low)) ** 2
    pairs = ((down @ ranges) * down).sum(axis=1) / 2 + down @ np.diag(ranges) / 2  # pairs of lower ends, with squares
    reached = float((pairs + up * (down @ (1 - low) ** 2)).max())
    return Fraction(reached) * (1 + ROUNDING)


def _merged(lows: tuple[Fraction, ...]) -> list[tuple[float, int]]:
    """Lower ends and their counts; the nearest are merged, at the lower one, until corners can be enumerated."""
    groups = [(float(low), lows.count(low)) for low in sorted(set(lows))]
    while prod(count + 1 for _, count in groups) > MOST_CORNERS:
        at = min(range(len(groups) - 1), key=lambda place: groups[place + 1][0] - groups[place][0])
        groups[at : at + 2] = [(groups[at][0], groups[at][1] + groups[at + 1][1])]
    return groups


def _span(low: Fraction, other: Fraction, *, square: bool = False) -> Fraction:
    """The range of the product of two variables in [low, 1] and [other, 1]: 1 less the least product."""
    if square:
        return 1 - max(low, Fraction(0)) ** 2
    return 1 - (low * other if min(low, other) >= 0 else min(low, other))
