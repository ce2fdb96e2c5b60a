"""A test of whether releases that are analysed as one have the same residual variance, from released numbers alone.

The sampler assumes one residual standard deviation for all parts. Where it differs, the sampler attributes the
difference to noise, and coefficients of the pool may be far from those of every part. With slopes fitted within parts,
u_j = (-constant of part j, -slopes, 1) and Z_j the part's released moments, v_j = u_j' Z_j u_j / n_j is its residual
variance, and u_j' Z_j u_j has the noise of a weighted sum of released numbers. The variance of a squared residual of at
most R^2 is at most R^2 v, and at most (k - 1) v^2 where residuals have a kurtosis of at most k. So the v_j are compared
by chi-square, as the means are in `parts_alike.py`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.parts_alike import UNLIKELY, counted_parts, tail_factor
from dpbayes_core.regression.release import Release

LARGEST = 2.0  # R, in half widths of the response's bounds: the bounds' whole width
KURTOSIS = 9.0  # the largest assumed kurtosis of residuals: that of Student's t with five degrees of freedom
DISCERNIBLE = 3.0  # least scatter over noise; above it, fitting errors are less than the noise on a residual variance


@dataclass(frozen=True)
class SpreadCheck:
    """The result of the test: its p-value, and the least and the largest residual sd."""

    probability: float
    statistic: float
    degrees: int
    least: float  # residual sd, in the response's units; 0 where noise leaves none
    most: float
    kurtosis: float | None  # largest assumed; None in records of a version that used bounds alone

    @property
    def alarm(self) -> bool:
        """Whether they differ by more than chance and noise allow."""
        return self.probability < UNLIKELY

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        record: dict[str, Any] = {
            "alarm": self.alarm,
            "degrees": self.degrees,
            "least": self.least,
            "most": self.most,
            "probability": self.probability,
            "statistic": self.statistic,
        }
        return record if self.kurtosis is None else {**record, "kurtosis": self.kurtosis}


def spread_check(releases: Sequence[Release], kurtosis: float | None = KURTOSIS) -> SpreadCheck | None:
    """The test; None where noise hides the covariates, or the number of rows of all parts but one."""
    from scipy import stats  # slow to import

    parts = counted_parts(releases)
    if len(parts) < 2 or (slopes := _slopes(parts)) is None:
        return None
    rare = UNLIKELY / len(parts)
    found = np.array([_variance(one, slopes, rare) for one in parts])
    values, noise, counts = found[:, 0], found[:, 1], np.array([one.count for one in parts])
    about = max(float((values * counts).sum() / counts.sum()), 0.0)
    unsure = 2 * math.sqrt(float(((noise * counts) ** 2).sum())) / float(counts.sum())
    rows = max(one.max_rows_per_unit for one in parts)
    square = min(about + unsure, LARGEST**2)
    varies = LARGEST**2 * square if kurtosis is None else min(LARGEST**2, (kurtosis - 1) * square) * square
    variances = noise**2 + rows * varies / counts
    centre = float((values / variances).sum() / (1 / variances).sum())
    statistic, degrees = float(((values - centre) ** 2 / variances).sum()), len(parts) - 1
    schema = parts[0].schema
    sds = np.sqrt(np.maximum(values, 0.0)) * schema.standardised(schema.response).width / 2
    return SpreadCheck(
        probability=float(stats.chi2.sf(statistic, degrees)),
        statistic=statistic,
        degrees=degrees,
        least=float(sds.min()),
        most=float(sds.max()),
        kurtosis=kurtosis,
    )


def _slopes(parts: Sequence[Release]) -> Floats | None:
    """Slopes of the response on the covariates within parts; None where noise is about as large as their scatter."""
    whole = np.sum([_scatter(one) for one in parts], axis=0)
    noise = math.sqrt(sum(float(one.mechanism.deviations.max()) ** 2 for one in parts))
    values, vectors = np.linalg.eigh(whole[:-1, :-1])
    if values.min(initial=np.inf) < DISCERNIBLE * noise:
        return None
    return vectors @ ((vectors.T @ whole[:-1, -1]) / values)


def _scatter(part: Release) -> Floats:
    """The noisy scatter around the part's means; around 0 without an intercept."""
    matrix = part.matrix()
    if not part.schema.intercept:
        return matrix
    return matrix[1:, 1:] - np.outer(matrix[0, 1:], matrix[0, 1:]) / part.count


def _variance(part: Release, slopes: Floats, rare: float) -> tuple[float, float]:
    """The variance of a part's residuals, and the standard deviation of its noise."""
    along, matrix = np.append(-slopes, 1.0), part.matrix()
    if part.schema.intercept:
        along = np.append(-(along @ matrix[0, 1:]) / part.count, along)
    value, hidden = float(along @ matrix @ along) / part.count, part.rows is None
    size = len(part.values) - int(hidden)
    forms = np.array([along @ part.schema.complete(unit, 0.0) @ along for unit in np.eye(size)])
    if hidden:  # the first value is the noisy count, which enters the sum of squares and its divisor
        constant = along @ part.schema.complete(np.zeros(size), 1.0) @ along
        forms = np.append(constant - value, forms)
    noise = math.sqrt(float(((forms * part.mechanism.deviations) ** 2).sum()))
    return value, tail_factor(part, rare) * noise / part.count
