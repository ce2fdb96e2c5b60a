"""What the parts of a pool have in common: its prior, and its coordinates.

Numbers of part j are regressed on (1, factors): coefficients B_j about B, with an sd tau for each number's intercept
and for its coefficients of each factor; residual scatters about Psi = L L', log sds apart by t. The response has one
theta and one sigma. B and L are told in standard units of what the parts say of them at these tau and t, so that
nothing narrows as tau and t vanish.
"""

from math import exp, log, sqrt

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.samplers.collapsed.arrays import APART, LEAST, MEAN_PRECISION, POWER, SQUARE, VARIANCE_RATE, Target
from dpbayes_core.samplers.collapsed.pools.coefficients import place_theta, pull_theta
from dpbayes_core.samplers.collapsed.pools.shared import (
    DEGREES,
    FEW,
    HEAVY,
    LOOSE,
    SAYS,
    Shared,
    group_of,
    groups_of,
    part_at,
)


@compiled
def agreed(target: Target, place: tuple[int, int], loose: float, prior: tuple[float, float]) -> tuple[float, float]:
    """Mean and precision of what the parts say, and the prior (its mean and precision)."""
    total, weighted = prior[1], prior[0] * prior[1]
    for j in range(len(target.parts)):
        weight = 1.0 / (loose + target.matrices[j, LOOSE, place[0], place[1]])
        total += weight
        weighted += weight * target.matrices[j, SAYS, place[0], place[1]]
    return weighted / total, total


@compiled
def agreed_slopes(target: Target, place: tuple[int, int], loose: float, mean: float) -> tuple[float, float]:
    """Derivatives of precision times what the parts say less `mean`, and of the precision, in `loose`."""
    in_mean, in_total = 0.0, 0.0
    for j in range(len(target.parts)):
        weight = 1.0 / (loose + target.matrices[j, LOOSE, place[0], place[1]])
        in_total -= weight * weight
        in_mean -= weight * weight * (target.matrices[j, SAYS, place[0], place[1]] - mean)
    return in_mean, in_total


@compiled
def looseness(i: int, k: int, first: int, target: Target, shared: Shared) -> float:
    """By how much parts differ in an entry of L, squared."""
    share = 1.0 / shared.numbers[HEAVY]
    return 0.5 * share if i == k else target.weights[0, SQUARE, i] * share


@compiled
def place_spreads(position: Floats, target: Target, shared: Shared) -> tuple[float, int]:
    """Fill tau and t; returns their prior with Jacobian, and how many coordinates they take."""
    part, (count, width) = part_at(target, 0), shared.centre.shape
    groups, value = groups_of(part), 0.0
    for at in range(count * groups + 1):
        value += position[at] - 0.5 * (exp(position[at]) / target.numbers[APART]) ** 2
    for r in range(count):
        for c in range(width):
            shared.spread[r, c] = exp(position[r * groups + group_of(c, part)])
    degrees = 0.5 * exp(-2.0 * position[count * groups])
    shared.numbers[DEGREES], shared.numbers[HEAVY] = degrees, degrees + count + 1.0
    return value, count * groups + 1


@compiled
def place_centre(position: Floats, target: Target, shared: Shared) -> float:
    """Fill B."""
    (count, width), precision, value = shared.centre.shape, target.numbers[MEAN_PRECISION], 0.0
    first = target.response.shape[0] - 1 - count
    for r in range(count):
        for c in range(width):
            mean, total = agreed(target, (first + r, c), shared.spread[r, c] ** 2, (0.0, precision))
            own = mean + position[r * width + c] / sqrt(total)
            shared.centre[r, c] = own
            value -= 0.5 * (log(total) + precision * own * own)
    return value


@compiled
def place_root(position: Floats, target: Target, shared: Shared) -> float:
    """Fill L and Psi."""
    numbers, count, at, value = target.numbers, len(shared.root), 0, 0.0
    first = target.response.shape[0] - 1 - count
    for r in range(count):
        square = 0.0
        for c in range(r + 1):
            i, k = first + r, first + c
            typical = target.weights[0, LEAST, i] if c == r else 0.0
            mean, total = agreed(target, (i, k), looseness(i, k, first, target, shared), (typical, FEW))
            own = mean + position[at] / sqrt(total)
            value -= 0.5 * log(total)
            shared.root[r, c] = exp(own) if c == r else own
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
    """Fill everything that parts have in common; returns the log of its prior, with Jacobian."""
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
            i, k, own = first + r, first + c, shared.root[r, c]
            bar = slopes.root[r, c] + 2.0 * in_square * own
            if c == r:
                bar = bar * own + count - r + 1.0 + numbers[POWER]
            typical = target.weights[0, LEAST, i] if c == r else 0.0
            loose = looseness(i, k, first, target, shared)
            mean, total = agreed(target, (i, k), loose, (typical, FEW))
            in_mean, in_total = agreed_slopes(target, (i, k), loose, mean)
            gradient[at] = bar / sqrt(total)
            in_loose = bar * in_mean / total - 0.5 * in_total / total * (bar * position[at] / sqrt(total) + 1.0)
            slopes.numbers[HEAVY] -= in_loose * loose / shared.numbers[HEAVY]
            at += 1


@compiled
def pull_centre(position: Floats, target: Target, shared: Shared, slopes: Shared, gradient: Floats) -> None:
    """Reverse of `place_centre`; the derivatives in tau are added to the slopes."""
    (count, width), precision = shared.centre.shape, target.numbers[MEAN_PRECISION]
    first = target.response.shape[0] - 1 - count
    for r in range(count):
        for c in range(width):
            place, loose = (first + r, c), shared.spread[r, c] ** 2
            mean, total = agreed(target, place, loose, (0.0, precision))
            in_mean, in_total = agreed_slopes(target, place, loose, mean)
            u, bar = position[r * width + c], slopes.centre[r, c] - precision * shared.centre[r, c]
            gradient[r * width + c] = bar / sqrt(total)
            in_loose = bar * in_mean / total - 0.5 * in_total / total * (bar * u / sqrt(total) + 1.0)
            slopes.spread[r, c] += 2.0 * in_loose * shared.spread[r, c]


@compiled
def pull_shared(position: Floats, target: Target, shared: Shared, slopes: Shared, gradient: Floats) -> None:
    """Reverse of `place_shared`: derivatives in its coordinates."""
    part, (count, width) = part_at(target, 0), shared.centre.shape
    groups = groups_of(part)
    at = count * groups + 1
    pull_centre(position[at:], target, shared, slopes, gradient[at:])
    at += count * width
    pull_root(position[at:], target, shared, slopes, gradient[at:])
    at += count * (count + 1) // 2
    pull_theta(position[at:], target, shared, slopes, gradient[at:])
    for place in range(count * groups + 1):
        gradient[place] = 1.0 - (exp(position[place]) / target.numbers[APART]) ** 2
    for r in range(count):
        for c in range(width):
            gradient[r * groups + group_of(c, part)] += slopes.spread[r, c] * shared.spread[r, c]
    in_degrees = slopes.numbers[DEGREES] + slopes.numbers[HEAVY]
    gradient[count * groups] -= 2.0 * shared.numbers[DEGREES] * in_degrees
