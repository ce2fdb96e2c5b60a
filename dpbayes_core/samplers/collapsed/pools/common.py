"""The parameters that the parts of a pool share: their prior and their coordinates.

Numbers of part j are regressed on (1, factors): coefficients B_j around B, with an sd tau for the intercept of each
number and for its coefficients of each factor; residual scatters around Psi = L L', whose log sds differ by t. The
response has one theta and one sigma. B, L, theta and log sigma are standardised by their prior and the parts'
estimates at these tau and t, so that no coordinate narrows as tau and t vanish.
"""

from math import exp, log, sqrt

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.samplers.collapsed.arrays import (
    AIM,
    ANCHOR,
    BETWEEN,
    FAINT,
    LEAST,
    LOW,
    MEAN_PRECISION,
    POWER,
    PRECISE,
    RATE,
    SHAPE,
    SQUARE,
    UNIT_ROWS,
    VARIANCE_RATE,
    Target,
)
from dpbayes_core.samplers.collapsed.pools.shared import (
    DEGREES,
    ERROR,
    ESTIMATE,
    FEW,
    HEAVY,
    LOGGED,
    Shared,
    Standard,
    from_standard,
    group_of,
    groups_of,
    part_at,
    standard_slopes,
)


@compiled
def slope_standard(target: Target, i: int, logged: float) -> Standard:
    """The estimate from the parts and the prior at this sigma that standardise a coefficient."""
    weights = target.weights[0]
    scale = 1.0 if target.numbers[RATE] > 0.0 else exp(logged)
    return Standard(weights[AIM, i], weights[PRECISE, i], weights[ANCHOR, i], scale * weights[FAINT, i])


@compiled
def place_theta(position: Floats, target: Target, shared: Shared) -> float:
    """Fill theta and sigma, whose logarithm is the last coordinate; returns the log of their prior, with Jacobian."""
    low, size, numbers = int(target.parts[0, LOW]), len(shared.theta), target.numbers
    logged, value = position[size - low], 0.0
    shared.numbers[LOGGED] = logged
    for i in range(low, size):
        shared.theta[i], slope = from_standard(slope_standard(target, i, logged), position[i - low])
        value += slope
    square = target.response[size, size]
    for i in range(low, size):
        square -= 2.0 * target.response[size, i] * shared.theta[i]
        for k in range(low, size):
            square += target.response[max(i, k), min(i, k)] * shared.theta[i] * shared.theta[k]
    square *= 0.5 * numbers[UNIT_ROWS]
    if numbers[RATE] > 0.0:
        return value + numbers[SHAPE] * logged - numbers[RATE] * exp(logged) - square
    return value - (size - low + 2.0 * numbers[SHAPE]) * logged - square * exp(-2.0 * logged)


@compiled
def pull_theta(position: Floats, target: Target, shared: Shared, slopes: Shared, gradient: Floats) -> None:
    """Reverse of `place_theta`."""
    low, size, numbers = int(target.parts[0, LOW]), len(shared.theta), target.numbers
    logged = shared.numbers[LOGGED]
    wide, unit = numbers[RATE] > 0.0, numbers[UNIT_ROWS]
    scale, in_logged, square = 1.0 if wide else exp(-2.0 * logged), slopes.numbers[LOGGED], 0.0
    for i in range(low, size):
        half = -target.response[size, i]
        for k in range(low, size):
            half += target.response[max(i, k), min(i, k)] * shared.theta[k]
        square += (half - target.response[size, i]) * shared.theta[i]
        bar = slopes.theta[i] - unit * half * scale
        in_coordinate, _, in_spread = standard_slopes(slope_standard(target, i, logged), position[i - low], bar)
        gradient[i - low] = in_coordinate
        in_logged += 0.0 if wide else in_spread
    square += target.response[size, size]
    if wide:
        in_logged += numbers[SHAPE] - numbers[RATE] * exp(logged)
    else:
        in_logged += unit * square * scale - (size - low + 2.0 * numbers[SHAPE])
    gradient[size - low] = in_logged


@compiled
def combined(target: Target, place: tuple[int, int], between: float, prior: tuple[float, float]) -> tuple[float, float]:
    """Combine the parts' estimates with a prior's mean and precision: the weighted mean, and its precision."""
    total, weighted = prior[1], prior[0] * prior[1]
    for j in range(len(target.parts)):
        weight = 1.0 / (between + target.matrices[j, ERROR, place[0], place[1]])
        total += weight
        weighted += weight * target.matrices[j, ESTIMATE, place[0], place[1]]
    return weighted / total, total


@compiled
def combined_slopes(target: Target, place: tuple[int, int], between: float, mean: float) -> tuple[float, float]:
    """Derivatives in `between` of the weighted sum of the parts' estimates less `mean`, and of the precision."""
    in_mean, in_total = 0.0, 0.0
    for j in range(len(target.parts)):
        weight = 1.0 / (between + target.matrices[j, ERROR, place[0], place[1]])
        in_total -= weight * weight
        in_mean -= weight * weight * (target.matrices[j, ESTIMATE, place[0], place[1]] - mean)
    return in_mean, in_total


@compiled
def variance_between(i: int, k: int, first: int, target: Target, shared: Shared) -> float:
    """The variance between parts of an entry of L."""
    share = 1.0 / shared.numbers[HEAVY]
    return 0.5 * share if i == k else target.weights[0, SQUARE, i] * share


@compiled
def place_spreads(position: Floats, target: Target, shared: Shared) -> tuple[float, int]:
    """Fill tau and t; returns the log of their prior with Jacobian, and their number."""
    part, (count, width) = part_at(target, 0), shared.centre.shape
    groups, value = groups_of(part), 0.0
    for at in range(count * groups + 1):
        value += position[at] - 0.5 * (exp(position[at]) / target.numbers[BETWEEN]) ** 2
    for r in range(count):
        for c in range(width):
            shared.spread[r, c] = exp(position[r * groups + group_of(c, part)])
    degrees = 0.5 * exp(-2.0 * position[count * groups])
    shared.numbers[DEGREES], shared.numbers[HEAVY] = degrees, degrees + count + 1.0
    return value, count * groups + 1


@compiled
def place_centre(position: Floats, target: Target, shared: Shared) -> float:
    """Fill B; returns the log of its prior, with Jacobian."""
    (count, width), precision, value = shared.centre.shape, target.numbers[MEAN_PRECISION], 0.0
    first = target.response.shape[0] - 1 - count
    for r in range(count):
        for c in range(width):
            mean, total = combined(target, (first + r, c), shared.spread[r, c] ** 2, (0.0, precision))
            entry = mean + position[r * width + c] / sqrt(total)
            shared.centre[r, c] = entry
            value -= 0.5 * (log(total) + precision * entry * entry)
    return value


@compiled
def place_root(position: Floats, target: Target, shared: Shared) -> float:
    """Fill L and Psi; returns the log of their prior, with Jacobian."""
    numbers, count, at, value = target.numbers, len(shared.root), 0, 0.0
    first = target.response.shape[0] - 1 - count
    for r in range(count):
        square = 0.0
        for c in range(r + 1):
            i, k = first + r, first + c
            typical = target.weights[0, LEAST, i] if c == r else 0.0
            mean, total = combined(target, (i, k), variance_between(i, k, first, target, shared), (typical, FEW))
            entry = mean + position[at] / sqrt(total)
            value -= 0.5 * log(total)
            shared.root[r, c] = exp(entry) if c == r else entry
            square += shared.root[r, c] ** 2
            at += 1
        value += (count - r + 1.0 + numbers[POWER]) * log(shared.root[r, r])
        value -= 0.5 * (count - 1.0 + numbers[POWER]) * log(square) + numbers[VARIANCE_RATE] * square
        for s in range(r + 1):
            shared.scatter[r, s] = 0.0
            for c in range(s + 1):
                shared.scatter[r, s] += shared.root[r, c] * shared.root[s, c]
    return value


@compiled
def place_shared(position: Floats, target: Target, shared: Shared) -> float:
    """Fill all shared parameters; returns the log of their prior, with Jacobian."""
    (count, width), (value, at) = shared.centre.shape, place_spreads(position, target, shared)
    value += place_centre(position[at:], target, shared)
    at += count * width
    value += place_root(position[at:], target, shared)
    return value + place_theta(position[at + count * (count + 1) // 2 :], target, shared)


@compiled
def pull_root(position: Floats, target: Target, shared: Shared, slopes: Shared, gradient: Floats) -> None:
    """Reverse of `place_root`; the derivative in nu is added to the slopes."""
    numbers, count, at = target.numbers, len(shared.root), 0
    first = target.response.shape[0] - 1 - count
    for r in range(count):
        for s in range(r + 1):
            for c in range(s + 1):
                slopes.root[r, c] += slopes.scatter[r, s] * shared.root[s, c]
                slopes.root[s, c] += slopes.scatter[r, s] * shared.root[r, c]
    for r in range(count):
        square = shared.scatter[r, r]
        in_square = -0.5 * (count - 1.0 + numbers[POWER]) / square - numbers[VARIANCE_RATE]
        for c in range(r + 1):
            i, k, entry = first + r, first + c, shared.root[r, c]
            bar = slopes.root[r, c] + 2.0 * in_square * entry
            if c == r:
                bar = bar * entry + count - r + 1.0 + numbers[POWER]
            typical = target.weights[0, LEAST, i] if c == r else 0.0
            between = variance_between(i, k, first, target, shared)
            mean, total = combined(target, (i, k), between, (typical, FEW))
            in_mean, in_total = combined_slopes(target, (i, k), between, mean)
            gradient[at] = bar / sqrt(total)
            in_between = bar * in_mean / total - 0.5 * in_total / total * (bar * position[at] / sqrt(total) + 1.0)
            slopes.numbers[HEAVY] -= in_between * between / shared.numbers[HEAVY]
            at += 1


@compiled
def pull_centre(position: Floats, target: Target, shared: Shared, slopes: Shared, gradient: Floats) -> None:
    """Reverse of `place_centre`; the derivatives in tau are added to the slopes."""
    (count, width), precision = shared.centre.shape, target.numbers[MEAN_PRECISION]
    first = target.response.shape[0] - 1 - count
    for r in range(count):
        for c in range(width):
            place, between = (first + r, c), shared.spread[r, c] ** 2
            mean, total = combined(target, place, between, (0.0, precision))
            in_mean, in_total = combined_slopes(target, place, between, mean)
            u, bar = position[r * width + c], slopes.centre[r, c] - precision * shared.centre[r, c]
            gradient[r * width + c] = bar / sqrt(total)
            in_between = bar * in_mean / total - 0.5 * in_total / total * (bar * u / sqrt(total) + 1.0)
            slopes.spread[r, c] += 2.0 * in_between * shared.spread[r, c]


@compiled
def pull_shared(position: Floats, target: Target, shared: Shared, slopes: Shared, gradient: Floats) -> None:
    """Reverse of `place_shared`: derivatives in the shared coordinates."""
    part, (count, width) = part_at(target, 0), shared.centre.shape
    groups = groups_of(part)
    at = count * groups + 1
    pull_centre(position[at:], target, shared, slopes, gradient[at:])
    at += count * width
    pull_root(position[at:], target, shared, slopes, gradient[at:])
    at += count * (count + 1) // 2
    pull_theta(position[at:], target, shared, slopes, gradient[at:])
    for place in range(count * groups + 1):
        gradient[place] = 1.0 - (exp(position[place]) / target.numbers[BETWEEN]) ** 2
    for r in range(count):
        for c in range(width):
            gradient[r * groups + group_of(c, part)] += slopes.spread[r, c] * shared.spread[r, c]
    in_degrees = slopes.numbers[DEGREES] + slopes.numbers[HEAVY]
    gradient[count * groups] -= 2.0 * shared.numbers[DEGREES] * in_degrees
