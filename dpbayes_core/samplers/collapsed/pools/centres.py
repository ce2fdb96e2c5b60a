"""A part's regression of its numbers on (1, factors): normal around the common one, with spread and sampling error.

The columns of (1, factors) in the numbers' rows of C are F = B_j C_f; vec F ~ N(vec B C_f, V), V the sum of
C_f' diag(tau^2) C_f within a number and Psi / n_j within a column. Each entry is standardised by its release and by
the normal law given the entries before it.
"""

from math import log, sqrt
from typing import NamedTuple

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import inlined
from dpbayes_core.samplers.collapsed.arrays import BAR, FACTOR, ROWS, Part
from dpbayes_core.samplers.collapsed.pools.shared import (
    HAT,
    KNOWN,
    Shared,
    Standard,
    from_standard,
    row_start,
    standard_slopes,
)


class Frame(NamedTuple):
    """The shared parameters, derivatives in them, and scratch for one part at a time."""

    shared: Shared
    slopes: Shared
    root: Floats  # of V
    in_root: Floats
    deviation: Floats  # V's root times this is the part's F less the common one
    in_deviation: Floats
    ratio: Floats  # K: the part's residual scatter is n L K K' L'
    in_ratio: Floats
    inverse: Floats


@inlined
def spread_root(part: Part, work: Floats, frame: Frame) -> None:
    """The Cholesky factor of V."""
    (count, width), rows, root = frame.shared.centre.shape, part.numbers[ROWS], frame.root
    for a in range(count * width):
        r, c = a // width, a % width
        for b in range(a + 1):
            s, k = b // width, b % width
            total = frame.shared.scatter[r, s] / rows if c == k else 0.0
            if r == s:
                for i in range(c, width):
                    total += frame.shared.spread[r, i] ** 2 * work[FACTOR, i, c] * work[FACTOR, i, k]
            for e in range(b):
                total -= root[a, e] * root[b, e]
            root[a, b] = sqrt(total) if a == b else total / root[b, b]


@inlined
def centre_standard(a: int, part: Part, work: Floats, frame: Frame) -> Standard:
    """The noisy value and the normal law that standardise entry a."""
    width = frame.shared.centre.shape[1]
    r, c = a // width, a % width
    i, centre = work.shape[1] - 1 - len(frame.shared.centre) + r, 0.0
    for k in range(c, width):
        centre += frame.shared.centre[r, k] * work[FACTOR, k, c]
    for b in range(a):
        centre += frame.root[a, b] * frame.deviation[b]
    return Standard(part.matrices[HAT, i, c], part.matrices[KNOWN, i, c], centre, frame.root[a, a])


@inlined
def place_centres(position: Floats, part: Part, work: Floats, frame: Frame) -> float:
    """Fill F; returns the log of its law, with Jacobian."""
    (count, width), value = frame.shared.centre.shape, 0.0
    first = work.shape[1] - 1 - count
    spread_root(part, work, frame)
    for a in range(count * width):
        r, c = a // width, a % width
        on = centre_standard(a, part, work, frame)
        entry, slope = from_standard(on, float(position[row_start(r, part, width, first) + c]))
        work[FACTOR, first + r, c] = entry
        frame.deviation[a] = (entry - on.centre) / on.spread
        value += slope - 0.5 * frame.deviation[a] ** 2 - log(on.spread)
    return value


@inlined
def pull_spread_root(part: Part, work: Floats, frame: Frame) -> float:
    """Reverse of `spread_root`; returns the derivative in the rows."""
    (count, width), rows, in_rows = frame.shared.centre.shape, part.numbers[ROWS], 0.0
    root, bar, slopes = frame.root, frame.in_root, frame.slopes
    for a in range(count * width - 1, -1, -1):
        for b in range(a, -1, -1):
            pulled = bar[a, b] / root[b, b]
            if a == b:
                pulled *= 0.5
            else:
                bar[b, b] -= pulled * root[a, b]
            bar[a, b] = pulled
            for e in range(b):
                bar[a, e] -= pulled * root[b, e]
                bar[b, e] -= pulled * root[a, e]
    for a in range(count * width):
        r, c = a // width, a % width
        for b in range(a + 1):
            s, k, pulled = b // width, b % width, bar[a, b]
            if c == k:
                slopes.scatter[r, s] += pulled / rows
                in_rows -= pulled * frame.shared.scatter[r, s] / (rows * rows)
            if r == s:
                for i in range(c, width):
                    tau, one, other = frame.shared.spread[r, i], work[FACTOR, i, c], work[FACTOR, i, k]
                    slopes.spread[r, i] += 2.0 * pulled * tau * one * other
                    work[BAR, i, c] += pulled * tau * tau * other
                    work[BAR, i, k] += pulled * tau * tau * one
    return in_rows


@inlined
def pull_centres(position: Floats, part: Part, work: Floats, frame: Frame, gradient: Floats) -> float:
    """Reverse of `place_centres`, given derivatives in F (BAR); returns the derivative in the rows."""
    count, width = frame.shared.centre.shape
    first, slopes = work.shape[1] - 1 - count, frame.slopes
    for a in range(count * width):
        frame.in_deviation[a] = -frame.deviation[a]
        frame.in_root[a, : a + 1] = 0.0
    for a in range(count * width - 1, -1, -1):
        r, c = a // width, a % width
        at, on, inner = (
            row_start(r, part, width, first) + c,
            centre_standard(a, part, work, frame),
            frame.in_deviation[a],
        )
        bar = work[BAR, first + r, c] + inner / on.spread
        gradient[at], in_centre, in_log = standard_slopes(on, float(position[at]), bar)
        in_centre -= inner / on.spread
        frame.in_root[a, a] += (in_log - inner * frame.deviation[a] - 1.0) / on.spread
        for b in range(a):
            frame.in_root[a, b] += in_centre * frame.deviation[b]
            frame.in_deviation[b] += in_centre * frame.root[a, b]
        for k in range(c, width):
            slopes.centre[r, k] += in_centre * work[FACTOR, k, c]
            work[BAR, k, c] += in_centre * frame.shared.centre[r, k]
    return pull_spread_root(part, work, frame)
