"""Releases and a prior as the flat arrays of the collapsed density, variables in the order of its coordinates."""

from collections.abc import Sequence
from math import lgamma, log, pi

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.mechanisms import noise_law
from dpbayes_core.privacy.mechanisms.noise_law import law_of
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.pool import Evidence, parts_of
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.samplers.collapsed.arrays import (
    ABSOLUTE,
    COLUMNS,
    CONSTANT,
    COUNTED,
    EARLY,
    FIXED_POWER,
    INSIDE,
    INTERCEPT,
    LAPLACE,
    LATENT,
    LOW,
    MEAN_NOISY,
    MEAN_PRECISION,
    MEAN_SD,
    NOISE,
    NOISY,
    OFFSET,
    PLAIN,
    POWER,
    RATE,
    RATIO,
    REFERENCE,
    RELATED,
    ROWS,
    SCALES,
    SHAPE,
    SIGMA,
    TRANSFORM,
    UNIT,
    UNIT_ROWS,
    UNKINKING,
    VARIANCE_RATE,
    WIDE,
    Target,
)
from dpbayes_core.samplers.collapsed.density import whole_constant
from dpbayes_core.samplers.collapsed.layout import Layout
from dpbayes_core.samplers.collapsed.part_terms import rows_constant

STANDARD_DEVIATION = {law.code: law.deviation for law in (noise_law.GAUSSIAN, noise_law.LAPLACE)}  # at scale 1


def build_target(evidence: Evidence, prior: Prior, layout: Layout) -> Target:
    """The density that the collapsed sampler draws from."""
    releases, schema = parts_of(evidence), evidence.schema
    size, unit_rows = schema.m + 1, sum(_rows(release, schema.m) for release in releases)
    numbers = np.zeros(13)
    numbers[[UNIT_ROWS, SHAPE, INSIDE]] = unit_rows, prior.noise_shape, layout.inside
    numbers[INTERCEPT] = float(schema.intercept)
    numbers[POWER] = 2 * (prior.correlation - 1)
    numbers[[MEAN_PRECISION, VARIANCE_RATE]] = prior.mean_sd**-2, 1 / prior.variance
    numbers[COUNTED] = float(any(release.rows is None for release in releases))
    parts = np.array([_part(release, layout) for release in releases])
    numbers[REFERENCE] = _relate(parts, releases, len(layout.order))
    if isinstance(prior, IndependentPrior):
        numbers[RATE] = 1 / prior.noise_scale
        _place_sigma(parts, int(numbers[REFERENCE]), len(layout.order))
    parts[1:, OFFSET] = np.cumsum([dimensions(part, layout) for part in parts[:-1]])
    matrices, weights = np.zeros((len(releases), 4, size, size)), np.zeros((len(releases), 11, size))
    for place, release in enumerate(releases):
        matrices[place, NOISY] = layout.arranged(release.matrix(), corner=release.count)
        matrices[place, SCALES][layout.places(release)] = release.mechanism.scales[: len(release.entries)]
        matrices[place, MEAN_NOISY] = matrices[place, NOISY] / parts[place, ROWS]
        spread = STANDARD_DEVIATION[int(parts[place, NOISE])] / parts[place, ROWS]
        matrices[place, MEAN_SD] = spread * np.maximum(matrices[place, SCALES], matrices[place, SCALES].T)
        weights[place] = _weights(parts[place], layout, single=len(releases) == 1, power=numbers[POWER])
    blocks = np.column_stack([layout.first, layout.size, layout.step, 1 + (layout.first - 1) / 2])
    response = layout.arranged(prior.response_matrix(schema)) / unit_rows
    target = Target(numbers, response, parts, matrices, weights, blocks.astype(np.float64))
    numbers[CONSTANT] = _constant(target, prior, layout) + prior.log_precision(schema) / 2
    numbers[CONSTANT] += sum(_noise_constant(release) for release in releases)
    return target


def dimensions(part: Floats, layout: Layout) -> int:
    """The number of one part's coordinates."""
    low, columns = int(part[LOW]), int(part[COLUMNS])
    rows = sum(1 - low + min(i, columns - 1) for i in layout.continuous)
    return int(part[LATENT]) + int(part[SIGMA] > 0) + int((layout.first * layout.size).sum()) + rows


def _rows(release: Release, m: int) -> float:
    """The number of rows; where it is not public, the noisy count, raised to a possible one."""
    return float(release.rows) if release.rows is not None else max(release.count, m + 2.0)


def _part(release: Release, layout: Layout) -> list[float]:
    rows, size = _rows(release, release.schema.m), len(layout.order)
    noise, lost = law_of(release.mechanism).code, int(release.schema.intercept)
    columns = size if release.rows is None else int(min(size, rows + 1 - lost))
    bent = noise == LAPLACE and release.rows is not None and columns == size
    part = np.zeros(12)
    part[[ROWS, NOISE, COLUMNS, EARLY]] = rows, noise, columns, layout.continuous.start
    part[[LOW, TRANSFORM, LATENT]] = 1 - lost, UNKINKING if bent else PLAIN, release.rows is None
    return part.tolist()


def _relate(parts: Floats, releases: Sequence[Release], size: int) -> int:
    """Set and return the reference, the part with most information of those with enough rows; -1 without one."""
    hidden = [
        STANDARD_DEVIATION[int(part[NOISE])] * float(np.median(release.mechanism.scales)) / part[ROWS]
        for part, release in zip(parts, releases, strict=True)
    ]
    full = [place for place, part in enumerate(parts) if part[COLUMNS] == size]
    if len(parts) == 1 or not full:
        return -1
    reference = min(full, key=lambda place: hidden[place])
    parts[:, RELATED] = np.array(hidden) >= hidden[reference]
    parts[reference, RELATED] = 0.0
    return reference


def _place_sigma(parts: Floats, reference: int, size: int) -> None:
    """Give sigma a coordinate in the only part or in the reference."""
    holder = parts[max(reference, 0)]
    whole = holder[COLUMNS] == size
    holder[[SIGMA, WIDE]] = RATIO if whole else ABSOLUTE, whole


def _weights(part: Floats, layout: Layout, *, single: bool, power: float) -> Floats:
    """The powers of C_kk in density and Jacobian; for a single part with the terms of the whole."""
    weights, size, lost = np.zeros((11, len(layout.order))), len(layout.order), 1 - part[LOW]
    for first, width in zip(layout.first, layout.size, strict=True):
        weights[FIXED_POWER, 1:first] += width
    for i in layout.continuous:
        if i < part[COLUMNS]:
            weights[:2, i] = -lost - i, 1
            if single and i < size - 1:
                weights[:2, i] = size - 1 - i + power, 0
    weights[UNIT] = 1.0
    return weights


def _constant(target: Target, prior: Prior, layout: Layout) -> float:
    """The log normalising constant of means and scatters; with levels or few rows, up to a constant."""
    numbers, m = target.numbers, len(layout.order) - 1
    d, inside, lost, unit = m - 1, layout.inside, numbers[INTERCEPT], numbers[UNIT_ROWS]
    value = (lost * d / 2 + d * (d - 1) / 4) * log(pi)
    value -= len(target.parts) * (lost * m / 2 + m * (m - 1) / 4) * log(pi)
    value += len(target.parts) * (m - inside) * log(2)
    if numbers[RATE] > 0:
        value += prior.noise_shape * log(numbers[RATE]) - lgamma(prior.noise_shape) - (d + lost) / 2 * log(unit)
    else:
        value += prior.noise_shape * (log(prior.noise_scale) + log(2)) - lgamma(prior.noise_shape)
        value -= (prior.noise_shape + (d + lost) / 2) * log(unit)
    value += (d - inside) * (lost * (-log(2 * pi) / 2 - log(prior.mean_sd)) - log(prior.variance))
    value -= _correlations(d, prior.correlation)
    for part in target.parts:
        if not part[LATENT] and part[COLUMNS] == m + 1:
            value += rows_constant(part[ROWS], inside, m, lost)[0]
    return value if numbers[COUNTED] else value + whole_constant(unit, numbers, d)[0]


def _correlations(d: int, shape: float) -> float:
    """log of the integral of |correlations|^(shape - 1) (Lewandowski, Kurowicka & Joe 2009)."""
    value = 0.0
    for k in range(1, d):
        own = shape + (d - k - 1) / 2
        value += (d - k) * ((2 * shape - 2 + d - k) * log(2) + 2 * lgamma(own) - lgamma(2 * own))
    return value


def _noise_constant(release: Release) -> float:
    scales = release.mechanism.scales[: len(release.entries)]
    return float(-np.sum(np.log(scales) - law_of(release.mechanism).log_peak))
