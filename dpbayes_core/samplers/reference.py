"""Where the search for the mode starts: noisy statistics drawn towards all parts' sum and the prior, by their noise."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.priors import Prior
from dpbayes_core.samplers.flat import (
    ANCHOR,
    COLUMNS,
    FAINT,
    LATENT,
    LOW,
    NOISE,
    NOISY,
    REFERENCE,
    RELATED,
    ROWS,
    SCALES,
    UNIT,
    Target,
)
from dpbayes_core.samplers.layout import Layout
from dpbayes_core.samplers.relative import relative_numbers
from dpbayes_core.samplers.target import STANDARD_DEVIATION
from dpbayes_core.schema import RegressionSchema

Floats = NDArray[np.float64]


TYPICAL = 0.75  # of the prior's mean variance


@dataclass(frozen=True)
class Guess:
    """Moments a row: means and centred scatter."""

    mean: Floats
    scatter: Floats


def referred(target: Target, layout: Layout, prior: Prior, schema: RegressionSchema) -> tuple[Target, Floats]:
    """The target with the units of its rows set, and where to start."""
    matrices, weights = target.matrices, target.weights.copy()
    rows = target.parts[:, ROWS]
    unit = np.array([STANDARD_DEVIATION[int(kind)] for kind in target.parts[:, NOISE]])
    noise = np.maximum(matrices[:, SCALES], matrices[:, SCALES].transpose(0, 2, 1)) * unit[:, None, None]
    whole = matrices[:, NOISY].sum(axis=0) / rows.sum(), np.sqrt((noise**2).sum(axis=0)) / rows.sum()
    slopes = _slopes(prior, schema)[layout.order[layout.continuous.start : -1] - 1]
    shared, _ = _guess(*whole, _typical(layout, prior, schema), layout)
    starts: list[Floats] = []
    roots: list[Floats] = []
    logits: list[list[Floats]] = []
    for place in range(len(rows)):
        own = matrices[place, NOISY] / rows[place], noise[place] / rows[place]
        likely = 1 / rows[place] if len(rows) > 1 else 1.0  # parts of one population differ by so much of its variance
        guess, shares = _guess(*own, shared, layout, likely)
        root = np.eye(len(guess.mean))
        root[1:, 0] = guess.mean[1:]
        root[1:, 1:] = np.linalg.cholesky(guess.scatter[1:, 1:])
        weights[place, UNIT] = np.diag(root)
        faint = own[1][-1, layout.continuous.start : -1] / slopes
        weights[place, FAINT, layout.continuous.start : -1] = faint
        weights[place, ANCHOR] = -1.0
        weights[place, ANCHOR, -1] = np.sum(root[-1, :-1] ** 2)
        roots.append(root)
        logits.append(shares)
    first = int(target.numbers[REFERENCE])
    for place, (part, root) in enumerate(zip(target.parts, roots, strict=True)):
        if part[LATENT]:
            starts.append(np.log([part[ROWS] - len(root)]))
        starts += _levels(root[1:, 1:], logits[place], layout)
        if not part[RELATED]:
            starts += _numbers(part, root, layout, weights[place, FAINT])
        else:
            starts += relative_numbers(root, roots[first], part, layout.continuous)
    return target._replace(weights=weights), np.concatenate(starts)


def _slopes(prior: Prior, schema: RegressionSchema) -> Floats:
    """About how large the prior takes the coefficients to be, the intercept left out."""
    variances = np.diag(np.linalg.inv(prior.response_matrix(schema)[:-1, :-1]))[int(schema.intercept) :]
    return np.sqrt(variances * prior.noise_scale / (prior.noise_shape + 1))


def _typical(layout: Layout, prior: Prior, schema: RegressionSchema) -> Guess:
    """What the prior expects; of factors, that their levels are alike."""
    scatter = np.full(len(layout.order), TYPICAL * prior.variance)
    for first, width, step in zip(layout.first, layout.size, layout.step, strict=True):
        scatter[first : first + width] = step**2 * width / (width + 1) ** 2
    explained = TYPICAL * prior.variance * np.sum(_slopes(prior, schema) ** 2)
    scatter[-1] = prior.noise_scale / (prior.noise_shape + 1) + explained
    return Guess(np.zeros(len(scatter)), np.diag(scatter))


def _guess(
    moments: Floats, noise: Floats, towards: Guess, layout: Layout, likely: float = 1.0
) -> tuple[Guess, list[Floats]]:
    """Noisy moments drawn towards a guess, each entry by its noise against what is likely; logits of shares."""
    spread = likely * (np.diag(towards.scatter) + 0.25)
    drawn = towards.mean + (moments[0] - towards.mean) * spread / (spread + noise[0] ** 2)
    drawn[: 1 + layout.inside] = moments[0, : 1 + layout.inside]
    typical = np.median(noise[noise > 0])
    mean, logits = _shares(drawn, layout, max(1e-9, float(typical)))
    cross = moments[0][:, None] * mean
    scatter = moments - cross - cross.T + mean[:, None] * mean
    width = likely * np.diag(towards.scatter)[:, None] * np.diag(towards.scatter)
    share: Floats = width / np.where(noise > 0, width + noise**2, np.where(width > 0, width, 1.0))
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


def _levels(root: Floats, logits: list[Floats], layout: Layout) -> list[Floats]:
    """Coordinates of the factors: their shares and cross products."""
    parts: list[NDArray[Any]] = []
    for first, width, shares in zip(layout.first, layout.size, logits, strict=True):
        rows, earlier = slice(first - 1, first - 1 + width), slice(0, first - 1)
        parts += [shares, np.linalg.solve(root[rows, rows], root[rows, earlier]).ravel()]
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
