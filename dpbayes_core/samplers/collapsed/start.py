"""Where the search for the mode starts: noisy statistics shrunk by their noise towards the parts' sum and the prior."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.samplers.collapsed.arrays import (
    AIM,
    ANCHOR,
    BALL,
    BASE,
    COLUMNS,
    EARLY,
    FAINT,
    LATENT,
    LEAST,
    LOW,
    MEAN_NOISY,
    MEAN_SD,
    NOISE,
    NOISY,
    ODDS,
    PRECISE,
    REFERENCE,
    RELATED,
    ROWS,
    SCALES,
    SIGMA,
    SQUARE,
    UNIT,
    WIDE,
    Target,
)
from dpbayes_core.samplers.collapsed.layout import Layout
from dpbayes_core.samplers.collapsed.rare import first_late, set_odds
from dpbayes_core.samplers.collapsed.relative_parts import relative_numbers
from dpbayes_core.samplers.collapsed.target import STANDARD_DEVIATION

TYPICAL = 0.75  # of the prior's mean variance
KNOWN_SHARE = 0.1  # the unit of a squared length is at least this share of it


@dataclass(frozen=True)
class Guess:
    """Moments divided by the rows: means and centred scatter."""

    mean: Floats
    scatter: Floats


@dataclass(frozen=True)
class PartStart:
    """C of one part, and the logits of the shares of its factors' levels."""

    root: Floats
    shares: list[Floats]


def start_of(target: Target, layout: Layout, prior: Prior, schema: RegressionSchema) -> tuple[Target, Floats]:
    """The target with the units of its coordinates set, and the start of the search."""
    weights, slopes = target.weights.copy(), _slopes(prior, schema)[layout.order[layout.continuous.start : -1] - 1]
    places, noises = part_starts(target, layout, prior, schema), noise_of(target) / target.parts[:, ROWS, None, None]
    for part, noise, place in zip(weights, noises, places, strict=True):
        part[UNIT] = np.diag(place.root)
        part[FAINT, layout.continuous.start : -1] = noise[-1, layout.continuous.start : -1] / slopes
        if isinstance(prior, IndependentPrior) and len(places) == 1:
            set_odds(part, noise, place.shares, layout)
        part[ANCHOR] = -1.0
        part[ANCHOR, -1] = np.sum(place.root[-1, :-1] ** 2)
    parts = target.parts.copy()
    target = target._replace(weights=weights, parts=parts)
    if isinstance(prior, IndependentPrior):
        if len(places) == 1:
            parts[0, EARLY] = first_late(noises[0], places[0].shares, layout)
        _widen(target, layout, places, prior, schema)
    return target, _coordinates(target, places, layout)


def _widen(target: Target, layout: Layout, places: list[PartStart], prior: Prior, schema: RegressionSchema) -> None:
    """Set the units of the coordinates of wide.py and responding.py."""
    means, sds, _ = prior.laws(schema)
    slopes = layout.order[1:-1] - 1 + int(schema.intercept)
    for part, matrices, weights, place in zip(target.parts, target.matrices, target.weights, places, strict=True):
        seen, hidden = matrices[MEAN_NOISY], matrices[MEAN_SD]
        part[BALL] = (max(seen[-1, -1] - seen[-1, 0] ** 2, 0.0) + 2 * hidden[-1, -1]) / 4
        lengths = np.sum(place.root[:, 1:] ** 2, axis=1)
        weights[SQUARE] = np.maximum(np.diag(hidden) * np.sqrt(1 + 4 * seen[0] ** 2), KNOWN_SHARE * lengths)
        weights[PRECISE, 1:-1], weights[AIM, 1:-1] = sds[slopes] ** -2, means[slopes] / sds[slopes] ** 2
        weights[LEAST] = 2 * min(part[BALL], prior.typical_variance) / part[ROWS] * weights[PRECISE]
        weights[ANCHOR] = -1.0 if part[WIDE] else weights[ANCHOR]


def unshrunk(target: Target, layout: Layout, prior: Prior, schema: RegressionSchema) -> Floats:
    """A second start, for a target whose units are set: noisy statistics not shrunk, made positive definite."""
    return _coordinates(target, part_starts(target, layout, prior, schema, shrinkage=0.0), layout)


def noise_of(target: Target) -> Floats:
    """Standard deviations of every part's entries."""
    scales, kinds = target.matrices[:, SCALES], target.parts[:, NOISE]
    unit = np.array([STANDARD_DEVIATION[int(kind)] for kind in kinds])
    return np.maximum(scales, scales.transpose(0, 2, 1)) * unit[:, None, None]


def part_starts(
    target: Target,
    layout: Layout,
    prior: Prior,
    schema: RegressionSchema,
    *,
    shrinkage: float = 1.0,
    between: float | None = None,
) -> list[PartStart]:
    """The start of every part, its statistics shrunk as for noise `shrinkage` times as large.

    `between` is the variance between parts as a share of that within; the default is 1 / rows, as under random
    assignment of people.
    """
    rows, noise, noisy = target.parts[:, ROWS], noise_of(target), target.matrices[:, NOISY]
    whole = noisy.sum(axis=0) / rows.sum(), np.sqrt((noise**2).sum(axis=0)) / rows.sum()
    shared, _ = _guess(*whole, _typical(layout, prior, schema), layout, shrinkage=shrinkage)
    likely = 1 / rows if len(rows) > 1 else np.ones(1)
    if between is not None:
        likely = np.full(len(rows), between)
    found: list[PartStart] = []
    for place, count in enumerate(rows):
        own = noisy[place] / count, noise[place] / count
        guess, shares = _guess(*own, shared, layout, shrinkage=shrinkage, likely=likely[place])
        root = np.eye(len(guess.mean))
        root[1:, 0] = guess.mean[1:]
        root[1:, 1:] = np.linalg.cholesky(guess.scatter[1:, 1:])
        found.append(PartStart(root, shares))
    return found


def _coordinates(target: Target, places: list[PartStart], layout: Layout) -> Floats:
    """The coordinates of every part's start."""
    starts: list[Floats] = []
    reference = int(target.numbers[REFERENCE])
    for part, weights, place in zip(target.parts, target.weights, places, strict=True):
        if part[LATENT]:
            starts.append(np.log([part[ROWS] - len(place.root)]))
        if part[SIGMA]:
            starts.append(np.zeros(1) if part[WIDE] else np.log(np.diag(place.root)[-1:]))
        starts += levels_of(place.root[1:, 1:], place.shares, layout, weights)
        if part[WIDE]:
            starts += _wide_numbers(part, weights, place.root, layout)
        elif not part[RELATED]:
            starts += _numbers(part, place.root, layout, weights[FAINT])
        else:
            starts += relative_numbers(place.root, places[reference].root, part, layout.continuous)
    return np.concatenate(starts)


def _slopes(prior: Prior, schema: RegressionSchema) -> Floats:
    """Prior standard deviations of the slopes, at a typical sigma."""
    variances = np.diag(np.linalg.inv(prior.response_matrix(schema)[:-1, :-1]))[int(schema.intercept) :]
    if isinstance(prior, IndependentPrior):
        return np.sqrt(variances)
    return np.sqrt(variances * prior.noise_scale / (prior.noise_shape + 1))


def _typical(layout: Layout, prior: Prior, schema: RegressionSchema) -> Guess:
    """The moments that the prior expects, with equal shares of levels."""
    scatter = np.full(len(layout.order), TYPICAL * prior.variance)
    for first, width, step in zip(layout.first, layout.size, layout.step, strict=True):
        scatter[first : first + width] = step**2 * width / (width + 1) ** 2
    explained = TYPICAL * prior.variance * np.sum(_slopes(prior, schema) ** 2)
    scatter[-1] = prior.typical_variance + explained
    return Guess(np.zeros(len(scatter)), np.diag(scatter))


def _guess(
    moments: Floats, noise: Floats, towards: Guess, layout: Layout, *, shrinkage: float, likely: float = 1.0
) -> tuple[Guess, list[Floats]]:
    """Noisy moments shrunk towards a guess, each entry by its noise relative to its likely spread; logits of shares."""
    spread, square = likely * (np.diag(towards.scatter) + 0.25), (shrinkage * noise) ** 2
    means = towards.mean + (moments[0] - towards.mean) * spread / (spread + square[0])
    means[: 1 + layout.inside] = moments[0, : 1 + layout.inside]
    typical = np.median(noise[noise > 0])
    mean, logits = _shares(means, layout, max(1e-9, float(typical)))
    cross = moments[0][:, None] * mean
    scatter = moments - cross - cross.T + mean[:, None] * mean
    width = likely * np.diag(towards.scatter)[:, None] * np.diag(towards.scatter)
    share: Floats = width / np.where(square > 0, width + square, np.where(width > 0, width, 1.0))
    scatter = share * scatter + (1 - share) * towards.scatter
    values, vectors = np.linalg.eigh(scatter[1:, 1:])
    least = max(min(float(typical), float(np.diag(towards.scatter)[1:].min())) / 2, 1e-12)
    scatter[1:, 1:] = (vectors * np.maximum(values, least)) @ vectors.T
    return Guess(mean, scatter), logits


def _shares(mean: Floats, layout: Layout, least: float) -> tuple[Floats, list[Floats]]:
    """Means with every level share at least `least` (or a quarter of an equal share), and the logits of the shares."""
    logits: list[Floats] = []
    for first, size, step in zip(layout.first, layout.size, layout.step, strict=True):
        block = slice(first, first + size)
        shares = (mean[block] + step - 1) / step
        shares = np.maximum(np.append(shares, 1 - shares.sum()), min(least, 0.25 / (size + 1)))
        shares /= shares.sum()
        mean[block] = step * shares[:-1] + 1 - step
        logits.append(np.log(shares[:-1] / shares[-1]))
    return mean, logits


def levels_of(root: Floats, logits: list[Floats], layout: Layout, weights: Floats) -> list[Floats]:
    """Coordinates of the factors: their shares and cross products."""
    parts: list[NDArray[Any]] = []
    for first, width, shares in zip(layout.first, layout.size, logits, strict=True):
        rows, earlier = slice(first - 1, first - 1 + width), slice(0, first - 1)
        base = int(weights[BASE, first]) - 1
        own = shares if base < 0 else np.where(np.arange(width) == base, 0.0, shares) - shares[base]
        odds = weights[ODDS, first : first + width]
        ratio = np.exp(own) / np.where(odds > 0, odds, 1.0)
        own = np.where(odds > 0, ratio + np.log(-np.expm1(-ratio)), own)
        parts += [own, np.linalg.solve(root[rows, rows], root[rows, earlier]).ravel()]
    return parts


def _numbers(part: Floats, root: Floats, layout: Layout, faint: Floats) -> list[Floats]:
    """Coordinates of the continuous rows."""
    parts: list[Floats] = []
    columns = int(part[COLUMNS])
    for i in layout.continuous:
        if not part[LOW]:
            parts.append(root[i, :1])
        row = root[i, 1 : min(i + 1, columns)].copy()
        if i == len(root) - 1 and i < columns:
            pivots = np.diag(root)[1:-1]
            row[:-1] *= np.sqrt(1 + faint[1:-1] / pivots**2)
        if i == len(root) - 1 and i < columns:
            row[-1] = np.log(row[-1])
        elif i < columns:
            lengths = np.sqrt(np.cumsum(row[::-1] ** 2)[::-1])
            row = np.append(np.arctanh(row[:-1] / lengths[:-1]), np.log(lengths[0]))
        parts.append(row)
    return parts


def _wide_numbers(part: Floats, weights: Floats, root: Floats, layout: Layout) -> list[Floats]:
    """The same in the coordinates of wide.py: the start's lengths, and correlations as released."""
    parts: list[Floats] = []
    for i in layout.continuous:
        if not part[LOW]:
            parts.append(root[i, :1])
        ratio = float(np.sum(root[i, 1:] ** 2)) / weights[SQUARE, i]
        parts += [np.zeros(i - 1), np.array([ratio + np.log(-np.expm1(-ratio))])]
    return parts
