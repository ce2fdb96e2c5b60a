"""A public first fit from noisy second moments, precise enough to weigh rows by their residuals."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.mechanisms import Mechanism
from dpbayes_core.regression.schema import RegressionSchema

REACH = 5.0  # residual sds at which a residual is cut off
LEAST, MOST = 2.0**-10, 2.0  # limits of that cut-off, in half widths of the response's bounds
AGREES = 1e-6  # differences of linear algebra between machines change a fit by less


@dataclass(frozen=True)
class PublicFit:
    """Standardised coefficients, the constant first, and the residual sd; computed from released numbers alone."""

    coefficients: tuple[float, ...]
    sigma: float
    limit: float  # where residuals are cut off, on the response's standardised scale

    def agrees(self, other: "PublicFit") -> bool:
        """Whether both are equal up to rounding of linear algebra."""
        own, others = ((*one.coefficients, one.sigma, one.limit) for one in (self, other))
        return len(own) == len(others) and bool(np.allclose(own, others, rtol=AGREES, atol=AGREES))

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {"coefficients": list(self.coefficients), "limit": self.limit, "sigma": self.sigma}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "PublicFit":
        """The inverse of `to_record`."""
        return cls(tuple(record["coefficients"]), record["sigma"], record["limit"])


def public_fit(schema: RegressionSchema, mechanism: Mechanism, noisy: Floats, count: float) -> PublicFit:
    """Ridge regression on moments of (1, x, y) with the mechanism's noise.

    The penalty is the size of the noise on the covariates' scatter; residual squares are at least their noise.
    """
    rows, deviation = max(count, 1.0), float(mechanism.deviations.max())
    means = np.clip(noisy[0, 1:] / rows, -1.0, 1.0)
    scatter = noisy[1:, 1:] - rows * np.outer(means, means)
    values, vectors = np.linalg.eigh(scatter[:-1, :-1])
    penalty = deviation * sqrt(len(noisy))
    slopes = vectors @ ((vectors.T @ scatter[:-1, -1]) / (np.maximum(values, 0.0) + penalty))
    along = np.append(-slopes, 1.0)
    unexplained = max(float(along @ scatter @ along), deviation * float(along @ along))
    constant = float(means[-1] - means[:-1] @ slopes)
    return fit_of((constant, *slopes.tolist()), sqrt(unexplained / rows))


def fit_of(coefficients: tuple[float, ...], sigma: float) -> PublicFit:
    """The fit with residuals cut off at REACH sds, within limits."""
    return PublicFit(coefficients, sigma, min(max(REACH * sigma, LEAST), MOST))
