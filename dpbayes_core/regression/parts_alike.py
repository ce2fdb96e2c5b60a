"""A test of whether people were assigned to several releases at random, from the released numbers alone.

Under random assignment, every covariate and every product of two has one mean in all parts, up to chance and noise.
With r_j the released mean in part j, s_j its noise, n_j its rows and u the variance of one row's value,

    V_j = s_j^2 / n_j^2 + u / n_j        Q = sum_j (r_j - r)^2 / V_j        r the mean weighted by 1 / V_j

is about chi-square with parts - 1 degrees of freedom. Standardised values are in [-1, 1], so that u is at most
min(E x_k^2, E x_l^2) - (E x_k x_l)^2 for a product x_k x_l, for every law of the covariates. All means are tested, so
the smallest p-value is multiplied by their number.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.mechanisms.noise_law import GAUSSIAN, law_of
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.schema import RegressionSchema

UNLIKELY = 0.01  # the p-value below which a random split is rejected
LEAST_ROWS = 4.0  # a noisy count must exceed this many of its noise sds


@dataclass(frozen=True)
class PartsCheck:
    """The result of the test: the p-value over all means, and the mean that differs most."""

    probability: float
    means: int  # the number of means tested
    columns: tuple[str, ...]  # of the mean that differs most: a covariate, or the two of a product
    statistic: float  # its Q
    degrees: int

    @property
    def alarm(self) -> bool:
        """Whether the parts differ by more than chance and noise allow."""
        return self.probability < UNLIKELY

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {
            "alarm": self.alarm,
            "columns": list(self.columns),
            "degrees": self.degrees,
            "means": self.means,
            "probability": self.probability,
            "statistic": self.statistic,
        }


def parts_check(releases: Sequence[Release]) -> PartsCheck | None:
    """The test of a random split; None where fewer than two parts have a count above its noise."""
    from scipy import stats  # slow to import

    parts = counted_parts(releases)
    places = _covariates(releases[0].schema)
    if len(parts) < 2 or not places:
        return None
    rare = UNLIKELY / (len(places) * len(parts))
    counts = np.array([one.count for one in parts])[:, None]
    noise = np.stack([_noise(one, places, rare) for one in parts])
    means = np.stack([_at(one.matrix(), places, one.schema) for one in parts]) / counts
    about = (means * counts).sum(axis=0) / counts.sum()
    hidden = np.array([count_noise(one) * tail_factor(one, rare) for one in parts])[:, None] * about
    variances = (noise**2 + hidden**2) / counts**2 + _spread(parts, places, noise) / counts
    centre = (means / variances).sum(axis=0) / (1 / variances).sum(axis=0)
    found = ((means - centre) ** 2 / variances).sum(axis=0)
    worst, degrees = int(np.argmax(found)), len(parts) - 1
    alone = float(stats.chi2.sf(found[worst], degrees))
    return PartsCheck(
        probability=min(1.0, len(places) * alone),
        means=len(places),
        columns=_named(releases[0].schema, places[worst]),
        statistic=float(found[worst]),
        degrees=degrees,
    )


def counted_parts(releases: Sequence[Release]) -> list[Release]:
    """The parts whose number of rows is clearly above its noise."""
    return [one for one in releases if one.count >= max(1.0, LEAST_ROWS * count_noise(one))]


def _covariates(schema: RegressionSchema) -> list[tuple[int, int]]:
    """The entries that are means or products of covariates, without the response."""
    return [place for place in schema.entries if place[1] < schema.m]


def _at(matrix: Floats, places: Sequence[tuple[int, int]], schema: RegressionSchema) -> Floats:
    rows, columns = np.array(places).T - int(not schema.intercept)
    return matrix[rows, columns]


def _spread(parts: Sequence[Release], places: Sequence[tuple[int, int]], noise: Floats) -> Floats:
    """An upper bound on the variance of a row's value, from the means of all parts, times the most rows of a person.

    Twice the standard deviation of the noise is added.
    """
    schema, rows = parts[0].schema, sum(one.count for one in parts)
    moments = np.sum([one.matrix() for one in parts], axis=0) / rows
    means = _at(moments, places, schema)
    squares = np.clip(np.diag(moments), 0.0, 1.0)
    first, second = np.array(places).T - int(not schema.intercept)
    largest = np.minimum(squares[first], squares[second]) - np.minimum(np.abs(means), 1.0) ** 2
    unsure = 2 * np.sqrt((noise**2).sum(axis=0)) / rows
    most = max(one.max_rows_per_unit for one in parts)
    return most * np.minimum(np.maximum(largest, 0.0) + unsure, 1.0)


def _noise(release: Release, places: Sequence[tuple[int, int]], rare: float) -> Floats:
    scales = dict(zip(release.entries, release.mechanism.scales.tolist(), strict=False))
    return tail_factor(release, rare) * law_of(release.mechanism).deviation * np.array([scales[p] for p in places])


def count_noise(release: Release) -> float:
    """The standard deviation of the noise on the number of rows; 0 where that is public."""
    if release.rows is not None:
        return 0.0
    return float(release.mechanism.deviations[0])


def tail_factor(release: Release, rare: float) -> float:
    """The factor by which normal noise of the same sd must be widened to have tails at least as heavy.

    Laplace noise exceeds t with probability exp(-t / scale); a normal law that exceeds some t equally often exceeds
    every smaller bound more often. That t is where both probabilities are `rare`.
    """
    law = law_of(release.mechanism)
    return law.exceeded(rare) / (law.deviation * GAUSSIAN.exceeded(rare))


def _named(schema: RegressionSchema, place: tuple[int, int]) -> tuple[str, ...]:
    labels = [variable.label for variable in schema.variables]
    return tuple(labels[each - 1] for each in place if each > 0)
