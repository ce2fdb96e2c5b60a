"""A test of whether several releases that are analysed as one have the same residual variance, by released numbers.

The sampler takes one residual standard deviation for all parts. Where it is not the same, noise has to explain the
difference, and coefficients of the pool may be far from those of every part. With a fit to what is within the parts,
u_j = (-constant of part j, -slopes, 1) and Z_j the part's released moments, v_j = u_j' Z_j u_j / n_j is its residual
variance, and u_j' Z_j u_j has the noise of a weighted sum of released numbers. A squared residual of at most R^2 varies
by at most R^2 v, and by at most (k - 1) v^2 where residuals have a kurtosis of at most k. So the v_j are compared like
the means of `parts_alike.py`, by chi-square.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.parts_alike import UNLIKELY, counted_parts, heavier
from dpbayes_core.regression.release import Release

LARGEST = 2.0  # R, in half widths of the response's bounds: from one end of them to the other
KURTOSIS = 9.0  # that residuals may have: Student's t with five degrees of freedom has it
DISCERNIBLE = 3.0  # times the noise: above it the error of the fit is less than the noise on a residual variance


@dataclass(frozen=True)
class SpreadCheck:
    """How unlikely such different residual variances are where they are the same, and the least and the largest."""

    probability: float
    statistic: float
    degrees: int
    least: float  # residual sd, in the response's units; 0 where noise leaves none
    most: float
    kurtosis: float | None  # that residuals may have; None of a version that knew their bounds only

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
    """The test by the released numbers; None where noise hides the covariates, or the rows of all but one part."""
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
    """Of the response on the covariates within the parts; None where noise is about as large as their scatter."""
    whole = np.sum([_scatter(one) for one in parts], axis=0)
    noise = math.sqrt(sum(float(one.mechanism.deviations.max()) ** 2 for one in parts))
    values, vectors = np.linalg.eigh(whole[:-1, :-1])
    if values.min(initial=np.inf) < DISCERNIBLE * noise:
        return None
    return vectors @ ((vectors.T @ whole[:-1, -1]) / values)


def _scatter(part: Release) -> Floats:
    """Around the part's own means, where there is an intercept."""
    matrix = part.matrix()
    if not part.schema.intercept:
        return matrix
    return matrix[1:, 1:] - np.outer(matrix[0, 1:], matrix[0, 1:]) / part.count


def _variance(part: Release, slopes: Floats, rare: float) -> tuple[float, float]:
    """Of a part's residuals, and the standard deviation of its noise."""
    along, matrix = np.append(-slopes, 1.0), part.matrix()
    if part.schema.intercept:
        along = np.append(-(along @ matrix[0, 1:]) / part.count, along)
    value, hidden = float(along @ matrix @ along) / part.count, part.rows is None
    size = len(part.values) - int(hidden)
    forms = np.array([along @ part.schema.complete(unit, 0.0) @ along for unit in np.eye(size)])
    if hidden:  # the first number is the count: of the sum of squares, and of what that is divided by
        constant = along @ part.schema.complete(np.zeros(size), 1.0) @ along
        forms = np.append(constant - value, forms)
    noise = math.sqrt(float(((forms * part.mechanism.deviations) ** 2).sum()))
    return value, heavier(part, rare) * noise / part.count
