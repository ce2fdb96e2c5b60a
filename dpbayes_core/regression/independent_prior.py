"""The prior that a study states as `law: independent`: coefficients and the residual sd are independent.

On the standardised scale 1 is half the width of the response's bounds: from the middle to an end of a column's bounds
the response changes by about one half width, and sigma may be small.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.prior import Prior

LAW = "independent"
RESIDUAL = 0.5  # shape of the conjugate law of sigma2 that approximates this one: one degree of freedom


@dataclass(frozen=True, kw_only=True)
class IndependentPrior(Prior):
    """theta ~ N(mu0, Lam0^-1) whatever sigma is, sigma ~ Gamma(noise_shape, scale noise_scale); all independent."""

    squares: ClassVar[tuple[str, ...]] = ("variance",)
    unit: ClassVar[str] = "half the width of the response's bounds"

    intercept_sd: float = 2.0  # in half widths of the response's bounds, as the next one and the sds that are named
    coefficient_sd: float = 1.0
    noise_shape: float = 2.0
    noise_scale: float = 0.15

    @property
    def reference(self) -> float:
        """The unit of the sds, on the standardised scale: they do not depend on sigma."""
        return 1.0

    @staticmethod
    def scale_for(sd: float, shape: float) -> float:
        """The scale at which sigma's mean is `sd`."""
        return sd / shape

    def noise_draws(self, count: int, generator: np.random.Generator) -> Floats:
        """Draws of sigma, on the standardised scale."""
        return self.noise_scale * generator.standard_gamma(self.noise_shape, count)

    def spreads(self, sds: Floats, sigma: Floats) -> Floats:
        """(draws, coefficients): the sds, whatever sigma is."""
        return np.broadcast_to(sds, (len(sigma), len(sds)))

    def scaling(self, sigma2: Floats) -> Floats:
        """One, whatever sigma2 is."""
        return np.ones_like(sigma2)

    def log_noise(self, log_sigma2: Floats) -> Floats:
        """Log density of log sigma2, up to a constant: of log sigma, whose Jacobian is a constant."""
        return self.noise_shape * log_sigma2 / 2 - np.exp(log_sigma2 / 2) / self.noise_scale

    def noise_tails(self, sigma: Floats) -> tuple[Floats, Floats]:
        """Probabilities of a smaller and of a larger sigma."""
        from scipy import special  # slow to import

        ratio = sigma / self.noise_scale
        return special.gammainc(self.noise_shape, ratio), special.gammaincc(self.noise_shape, ratio)

    @property
    def least_square(self) -> float:
        """Zero: its law lets sigma be small. It adds sigma2 times `response_matrix` to second moments."""
        return 0.0

    @property
    def typical_variance(self) -> float:
        """A likely sigma2, on the standardised scale: the square of sigma's mean."""
        return (self.noise_shape * self.noise_scale) ** 2

    @property
    def conjugate(self) -> Prior:
        """A normal-inverse-gamma law of about the same sds, for samplers that take no other."""
        sd = self.typical_variance**0.5
        return Prior(
            intercept_sd=self.intercept_sd / sd,
            coefficient_sd=self.coefficient_sd / sd,
            noise_shape=RESIDUAL,
            noise_scale=Prior.scale_for(sd, RESIDUAL),
            mean_sd=self.mean_sd,
            variance=self.variance,
            correlation=self.correlation,
            named=tuple((name, mean, own / sd) for name, mean, own in self.named),
        )

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON: `law` distinguishes it from a normal-inverse-gamma prior's, which has none."""
        return {"law": LAW, **super().to_record()}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of `to_record`."""
        return super().from_record({name: value for name, value in record.items() if name != "law"})


def prior_from_record(record: Mapping[str, Any]) -> Prior:
    """The prior that a record describes, of either law."""
    return (IndependentPrior if record.get("law") == LAW else Prior).from_record(record)
