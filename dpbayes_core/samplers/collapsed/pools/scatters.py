"""A part's residual scatter of its numbers, W = n L_j L_j', L_j = L K: the matrix-F law around Psi = L L'.

The part's own covariance is inverse-Wishart around Psi with nu = nu' + k + 1 degrees, W is Wishart of it, and it is
integrated out. Each entry of L_j is standardised by its release and by that law.
"""

from math import exp, lgamma, log, log1p, sqrt

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled, inlined
from dpbayes_core.linear_algebra import invert_lower
from dpbayes_core.samplers.collapsed.arrays import BAR, COLUMNS, FACTOR, ROWS, Part
from dpbayes_core.samplers.collapsed.part_terms import digamma
from dpbayes_core.samplers.collapsed.pools.centres import Frame
from dpbayes_core.samplers.collapsed.pools.shared import (
    DEGREES,
    HAT,
    HEAVY,
    KNOWN,
    Standard,
    from_standard,
    row_start,
    standard_slopes,
)

LARGE = 30.0  # from here on Stirling's series, in which nothing cancels


@compiled
def stirling(x: float) -> float:
    """log Gamma(x) - (x - 1/2) log x + x - log(2 pi) / 2."""
    square = 1.0 / (x * x)
    return (1.0 / 12 - square * (1.0 / 360 - square * (1.0 / 1260 - square / 1680))) / x


@compiled
def stirling_slope(x: float) -> float:
    """The derivative of `stirling`."""
    square = 1.0 / (x * x)
    return -square * (1.0 / 12 - square * (1.0 / 120 - square * (1.0 / 252 - square / 240)))


@compiled
def gamma_ratio(x: float, a: float) -> float:
    """log Gamma(x + a) - log Gamma(x) - a log x."""
    if x < LARGE:
        return lgamma(x + a) - lgamma(x) - a * log(x)
    return (x + a - 0.5) * log1p(a / x) - a + stirling(x + a) - stirling(x)


@compiled
def digamma_ratio(x: float, a: float) -> float:
    """digamma(x + a) - digamma(x)."""
    if x < LARGE:
        return digamma(x + a) - digamma(x)
    return log1p(a / x) + 0.5 * a / (x * (x + a)) + stirling_slope(x + a) - stirling_slope(x)


@inlined
def columns_of(part: Part, work: Floats, frame: Frame) -> int:
    """The number of columns of K that are not empty: all, or the residual rows where these are fewer."""
    count = len(frame.ratio)
    return max(0, min(count, int(part.numbers[COLUMNS]) - work.shape[1] + 1 + count))


@inlined
def degrees_of(part: Part, frame: Frame) -> float:
    """Residual degrees of freedom: rows less the columns of (1, factors)."""
    return part.numbers[ROWS] - frame.shared.centre.shape[1]


@inlined
def scatter_standard(r: int, c: int, part: Part, work: Floats, frame: Frame) -> Standard:
    """The noisy value and the law that standardise entry (r, c) of L_j; on the diagonal, its logarithm."""
    shared, first = frame.shared, work.shape[1] - 1 - len(frame.ratio)
    hat, known = part.matrices[HAT, first + r, first + c], part.matrices[KNOWN, first + r, first + c]
    square = 1.0 / degrees_of(part, frame) + 1.0 / shared.numbers[HEAVY]
    if r == c:
        return Standard(hat, known, log(shared.root[r, r]), sqrt(0.5 * square))
    centre = 0.0
    for i in range(c, r):
        centre += shared.root[r, i] * frame.ratio[i, c]
    return Standard(hat, known, centre, shared.root[r, r] * sqrt(square))


@inlined
def mixture_root(part: Part, frame: Frame) -> float:
    """log|I + E|, E = K K' n / nu', without cancellation; fills the inverse of the Cholesky factor of I + E."""
    count, scale, value = len(frame.ratio), part.numbers[ROWS] / frame.shared.numbers[DEGREES], 0.0
    root = np.zeros((count, count))
    for i in range(count):
        for j in range(i + 1):
            total = 0.0
            for e in range(j + 1):
                total += frame.ratio[i, e] * frame.ratio[j, e]
            total *= scale
            for e in range(j):
                total -= root[i, e] * root[j, e]
            if i == j:
                value += log1p(total)
                root[i, i] = sqrt(1.0 + total)
            else:
                root[i, j] = total / root[j, j]
    invert_lower(root, frame.inverse, count)
    return value


@inlined
def pull_mixture(scale: float, factor: float, frame: Frame) -> float:
    """in_ratio = 2 factor scale (I + E)^-1 K; returns the trace of (I + E)^-1 E."""
    count, trace = len(frame.ratio), 0.0
    half = np.zeros((count, count))
    for i in range(count):
        for j in range(i + 1):
            for k in range(j, i + 1):
                half[i, j] += frame.inverse[i, k] * frame.ratio[k, j]
    for i in range(count):
        for j in range(i + 1):
            total = 0.0
            for k in range(i, count):
                total += frame.inverse[k, i] * half[k, j]
            trace += scale * total * frame.ratio[i, j]
            frame.in_ratio[i, j] = 2.0 * factor * scale * total
    return trace


@inlined
def scatter_law(part: Part, work: Floats, frame: Frame) -> tuple[float, float, float]:
    """The matrix-F law in K with log pivots, its derivatives in K (in_ratio), and in nu' and the rows."""
    count, rows, nu = len(frame.ratio), part.numbers[ROWS], frame.shared.numbers[HEAVY]
    half, degrees = 0.5 * degrees_of(part, frame), frame.shared.numbers[DEGREES]
    volume, power = mixture_root(part, frame), half + 0.5 * nu
    value, in_degrees, in_rows = -power * volume, -0.5 * volume, -0.5 * volume
    trace = pull_mixture(rows / degrees, -power, frame)
    for i in range(count):
        x = 0.5 * (nu - i)
        value += gamma_ratio(x, half) + half * log1p((count + 1.0 - i) / degrees)
        in_degrees += 0.5 * digamma_ratio(x, half) - half / degrees
    for i in range(columns_of(part, work, frame)):
        x, pivot, level = 0.5 * (nu - i), log(frame.ratio[i, i]), log(0.5 * rows)
        value += half * level + log(2.0) + (2.0 * half - i) * pivot - lgamma(half - 0.5 * i)
        in_rows += (
            0.5 * (digamma(x + half) - log(0.5 * degrees) - digamma(half - 0.5 * i) + level) + half / rows + pivot
        )
        frame.in_ratio[i, i] += (2.0 * half - i) / frame.ratio[i, i]
    return value, in_degrees + power * trace / degrees, in_rows - power * trace / rows


@inlined
def place_scatter(position: Floats, part: Part, work: Floats, frame: Frame) -> float:
    """Fill L_j and K; returns the log Jacobian of K with log pivots."""
    (count, width), value = frame.shared.centre.shape, 0.0
    first, root, columns = work.shape[1] - 1 - count, frame.shared.root, columns_of(part, work, frame)
    frame.ratio[:] = 0.0
    for r in range(count):
        at = row_start(r, part, width, first) + width
        for c in range(min(r + 1, columns)):
            on = scatter_standard(r, c, part, work, frame)
            entry, slope = from_standard(on, float(position[at + c]))
            value += slope
            if c == r:
                work[FACTOR, first + r, first + r] = exp(entry)
                frame.ratio[r, r] = exp(entry - on.centre)
            else:
                work[FACTOR, first + r, first + c] = entry
                frame.ratio[r, c] = (entry - on.centre) / root[r, r]
                value -= log(root[r, r])
    return value


@inlined
def pull_scatter(position: Floats, part: Part, work: Floats, frame: Frame, gradient: Floats) -> float:
    """Reverse of `place_scatter`, given derivatives in L_j (BAR) and in K; returns the derivative in the rows."""
    (count, width), in_square = frame.shared.centre.shape, 0.0
    first, root, slopes = work.shape[1] - 1 - count, frame.shared.root, frame.slopes
    columns = columns_of(part, work, frame)
    for r in range(count - 1, -1, -1):
        at = row_start(r, part, width, first) + width
        for c in range(min(r + 1, columns)):
            on, inner = scatter_standard(r, c, part, work, frame), frame.in_ratio[r, c]
            bar = work[BAR, first + r, first + c]
            if c == r:
                inner *= frame.ratio[r, r]
                bar = bar * work[FACTOR, first + r, first + r] + inner
                gradient[at + c], in_centre, in_log = standard_slopes(on, float(position[at + c]), bar)
                slopes.root[r, r] += (in_centre - inner) / root[r, r]
            else:
                inner /= root[r, r]
                gradient[at + c], in_centre, in_log = standard_slopes(on, float(position[at + c]), bar + inner)
                in_centre -= inner
                slopes.root[r, r] += (in_log - inner * frame.ratio[r, c] * root[r, r] - 1.0) / root[r, r]
                for i in range(c, r):
                    slopes.root[r, i] += in_centre * frame.ratio[i, c]
                    frame.in_ratio[i, c] += in_centre * root[r, i]
            in_square += 0.5 * in_log
    degrees, nu = degrees_of(part, frame), frame.shared.numbers[HEAVY]
    in_square /= 1.0 / degrees + 1.0 / nu
    slopes.numbers[HEAVY] -= in_square / (nu * nu)
    return -in_square / (degrees * degrees)
