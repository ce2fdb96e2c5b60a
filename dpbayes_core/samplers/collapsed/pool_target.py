"""The flat arrays of the density of a pool whose parts differ, and the start of the search for its mode."""

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.pool import Pool
from dpbayes_core.regression.prior import Prior
from dpbayes_core.samplers.collapsed.arrays import (
    AIM,
    ANCHOR,
    BETWEEN,
    COLUMNS,
    DIFFERING,
    FAINT,
    INTERCEPT,
    LATENT,
    LEAST,
    LOW,
    NOISY,
    OFFSET,
    PLAIN,
    PRECISE,
    REFERENCE,
    RELATED,
    ROWS,
    SIGMA,
    SQUARE,
    TRANSFORM,
    UNIT_ROWS,
    WIDE,
    Target,
)
from dpbayes_core.samplers.collapsed.layout import Layout
from dpbayes_core.samplers.collapsed.pools.shared import ERROR, ESTIMATE, HAT, KNOWN
from dpbayes_core.samplers.collapsed.start import PartStart, levels_of, noise_of, part_starts
from dpbayes_core.samplers.collapsed.target import build_target

SPREAD = 0.5  # scale of the half-normal priors of every tau and of t, on the standardised scale
SLIGHT = 0.1  # variance between parts where the search starts, as a share of that within
LIKELY = 0.3  # a large spread between parts, on the standardised scale
FARTHEST = 3.0  # largest distance of a logarithm's estimate from the search's position


def pool_target(pool: Pool, prior: Prior, layout: Layout) -> tuple[Target, Floats]:
    """The target, standardised where the search for its mode starts, and that start."""
    target = build_target(pool, prior, layout)
    parts, matrices, weights = target.parts.copy(), target.matrices, target.weights.copy()
    parts[:, [RELATED, SIGMA, WIDE, TRANSFORM]] = 0.0, 0.0, 0.0, PLAIN
    own = [part_coordinates(part, layout) for part in parts]
    parts[:, OFFSET] = np.cumsum(own) - own
    numbers = target.numbers.copy()
    numbers[REFERENCE], numbers[DIFFERING], numbers[BETWEEN] = len(parts), sum(own), SPREAD
    _standardise_by_prior(weights[0], numbers, target.response)
    matrices = np.concatenate([matrices, np.zeros((len(parts), 2, *matrices.shape[2:]))], axis=1)
    target = Target(numbers, target.response, parts, matrices, weights, target.blocks)
    places = part_starts(target, layout, prior, pool.schema, between=SLIGHT)
    roots = np.array([place.root for place in places])
    standardise(target, roots, layout)
    return target, np.concatenate([*_starts(target, places, layout), _shared_start(target, roots, layout)])


def part_coordinates(part: Floats, layout: Layout) -> int:
    """The number of one part's coordinates."""
    low, most = int(part[LOW]), int(part[COLUMNS]) - 1
    numbers = sum(1 - low + min(i, most) for i in layout.continuous)
    return int(part[LATENT]) + int((layout.first * layout.size).sum()) + numbers


def shared_coordinates(target: Target, layout: Layout) -> int:
    """The number of coordinates that the parts share."""
    low, count, first = int(target.parts[0, LOW]), len(layout.continuous) - 1, layout.continuous.start
    groups = 0 if low else 1 + len(layout.first)
    return count * groups + 1 + count * (first - low) + count * (count + 1) // 2 + len(layout.order) - low


def _standardise_by_prior(weights: Floats, numbers: Floats, response: Floats) -> None:
    """Set each coefficient's prior mean and sd; the sd is in residual sds where the prior depends on sigma."""
    low = 1 - int(numbers[INTERCEPT])
    precision = numbers[UNIT_ROWS] * response[low:-1, low:-1]
    weights[ANCHOR, low:-1] = np.linalg.solve(precision, numbers[UNIT_ROWS] * response[-1, low:-1])
    weights[FAINT, low:-1] = np.diag(precision) ** -0.5


def standardise(target: Target, roots: Floats, layout: Layout) -> None:
    """Set the estimates that standardise coordinates, at these C: the density is exact for any, best is the mode."""
    first, low, noise = layout.continuous.start, int(target.parts[0, LOW]), noise_of(target)
    for part, own, root, sd in zip(target.parts, target.matrices, roots, noise, strict=True):
        left = own[NOISY] / part[ROWS] - root @ root.T
        error = sd / part[ROWS]
        own[[HAT, KNOWN]] = 0.0
        for i in range(first, len(root)):
            for k in range(low, min(i + 1, int(part[COLUMNS]))):
                slope = 2 * root[i, i] ** 2 if i == k else root[k, k]
                at = np.log(root[i, i]) if i == k else root[i, k]
                move = left[i, k] / slope
                own[HAT, i, k] = at + (np.clip(move, -FARTHEST, FARTHEST) if i == k else move)
                own[KNOWN, i, k] = (slope / error[i, k]) ** 2 if error[i, k] > 0 else 0.0
    _standardise_shared(target, roots, layout)


def _standardise_shared(target: Target, roots: Floats, layout: Layout) -> None:
    """Set estimates of B and L from each part, with squared errors, and of theta from all parts."""
    first, low, rows = layout.continuous.start, int(target.parts[0, LOW]), target.parts[:, ROWS]
    error = 1 / np.maximum(target.matrices[:, KNOWN], 1e-12)
    squares = np.diag(np.einsum("j,jik->ik", rows, np.square(roots)) / rows.sum()).copy()
    scales = target.weights[0, SQUARE]
    squares = np.where(squares > 0, squares, scales)  # parts of single rows have no scatter of their own
    scales[first:-1], target.weights[0, LEAST, first:-1] = squares[first:-1], 0.5 * np.log(squares[first:-1])
    for part, own, variances, root in zip(rows, target.matrices, error, roots, strict=True):
        inverse = np.linalg.inv(root[low:first, low:first]) if first > low else np.zeros((0, 0))
        for i in range(first, len(root) - 1):
            sampling = squares[i] / part
            own[ESTIMATE, i, low:first] = own[HAT, i, low:first] @ inverse
            own[ERROR, i, low:first] = (variances[i, low:first] + sampling) @ inverse**2
            for k in range(first, i):
                own[ESTIMATE, i, k] = own[HAT, i, k] * np.sqrt(squares[k]) / (root[k, k] or 1.0)
                own[ERROR, i, k] = variances[i, k] + sampling
            own[ESTIMATE, i, i], own[ERROR, i, i] = own[HAT, i, i], variances[i, i] + 0.5 / part
    _standardise_theta(target, roots, low)


def _standardise_theta(target: Target, roots: Floats, low: int) -> None:
    """Estimates of the coefficients, and their precision."""
    rows, noise = target.parts[:, ROWS], noise_of(target)
    whole = np.einsum("j,jik,jlk->il", rows, roots, roots) / rows.sum()
    moments = whole[low:-1, low:-1]
    posterior = moments + target.response[low:-1, low:-1] * target.numbers[UNIT_ROWS] / rows.sum()
    linear = whole[-1, low:-1] + target.response[-1, low:-1] * target.numbers[UNIT_ROWS] / rows.sum()
    theta = np.linalg.solve(posterior, linear)
    left = max(float(whole[-1, -1] - theta @ (2 * whole[-1, low:-1] - moments @ theta)), 0.05 * float(whole[-1, -1]))
    error = np.sum(noise[:, -1, low:-1] ** 2, axis=0) / rows.sum() ** 2
    seen = np.diag(error) + left * moments / rows.sum()
    target.weights[0, AIM, low:-1] = theta
    target.weights[0, PRECISE, low:-1] = np.diag(moments @ np.linalg.solve(seen, moments))


def _starts(target: Target, places: list[PartStart], layout: Layout) -> list[Floats]:
    """Coordinates of every part: factors at their released values, numbers at the means of their coordinates."""
    found: list[Floats] = []
    for part, weights, place in zip(target.parts, target.weights, places, strict=True):
        head = [np.log([part[ROWS] - len(place.root)])] if part[LATENT] else []
        own = np.concatenate([*head, *levels_of(place.root[1:, 1:], place.shares, layout, weights), np.zeros(0)])
        found.append(np.append(own, np.zeros(part_coordinates(part, layout) - own.size)))
    return found


def _shared_start(target: Target, roots: Floats, layout: Layout) -> Floats:
    """The shared coordinates of the start."""
    start, spreads = np.zeros(shared_coordinates(target, layout)), likely_spreads(target, layout)
    start[: len(spreads)] = spreads
    start[-1] = np.log(np.mean(roots[:, -1, -1]))
    return start


def likely_spreads(target: Target, layout: Layout) -> Floats:
    """Likely logs of tau and t: from the parts' differences beyond their errors."""
    first, last = layout.continuous.start, len(layout.order) - 1
    ends = [] if int(target.parts[0, LOW]) else [1, *(layout.first + layout.size)]
    values, errors = target.matrices[:, ESTIMATE], target.matrices[:, ERROR]
    found = [
        _log_spread([(values[:, i, k], errors[:, i, k]) for k in range(begin, end)])
        for i in range(first, last)
        for begin, end in zip([0, *ends], ends, strict=False)
    ]
    return np.array([*found, _log_spread([(values[:, i, i], errors[:, i, i]) for i in range(first, last)])])


def _log_spread(estimates: list[tuple[Floats, Floats]]) -> float:
    """The log of a likely spread between parts, from their estimates and squared errors, and from its prior."""
    squares: list[float] = []
    for values, errors in estimates:
        weight = 1 / (errors + 1e-12)
        mean = np.sum(weight * values) / weight.sum()
        over = np.sum(weight * (values - mean) ** 2) - (len(values) - 1)
        square = max(float(over / weight.sum()), 0.0) + float(0.5 / weight.sum())
        squares.append(1 / (1 / square + 1 / LIKELY**2))
    return float(max(0.5 * np.log(np.mean(squares)), np.log(1e-4)))
