"""The prior that a study states as `law: independent`: coefficients and the residual sd are independent.

The default sds: from the middle to an end of a covariate's bounds the response changes by about half the width of its
own bounds, which is 1 on the standardised scale; sigma may be small.
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
    """theta ~ N(mu0, Lam0^-1), independent of sigma ~ Gamma(noise_shape, scale noise_scale)."""

    squares: ClassVar[tuple[str, ...]] = ("variance",)
    unit: ClassVar[str] = "half the width of the response's bounds"

    intercept_sd: float = 2.0  # in half widths of the response's bounds, as the next one and the sds that are named
    coefficient_sd: float = 1.0
    noise_shape: float = 2.0
    noise_scale: float = 0.15

    @property
    def reference(self) -> float:
        """1, the unit of the sds on the standardised scale: they do not depend on sigma."""
        return 1.0

    @staticmethod
    def scale_for(sd: float, shape: float) -> float:
        """The scale at which sigma's mean is `sd`."""
        return sd / shape

    def noise_draws(self, count: int, generator: np.random.Generator) -> Floats:
        """Draws of sigma, on the standardised scale."""
        return self.noise_scale * generator.standard_gamma(self.noise_shape, count)

    def spreads(self, sds: Floats, sigma: Floats) -> Floats:
        """(draws, coefficients): the sds, which do not depend on sigma."""
        return np.broadcast_to(sds, (len(sigma), len(sds)))

    def scaling(self, sigma2: Floats) -> Floats:
        """1 for every sigma2."""
        return np.ones_like(sigma2)

    def log_noise(self, log_sigma2: Floats) -> Floats:
        """Log density of log sigma2, up to a constant: that of log sigma, since the Jacobian is constant."""
        return self.noise_shape * log_sigma2 / 2 - np.exp(log_sigma2 / 2) / self.noise_scale

    def noise_tails(self, sigma: Floats) -> tuple[Floats, Floats]:
        """Probabilities of a smaller and of a larger sigma."""
        from scipy import special  # slow to import

        ratio = sigma / self.noise_scale
        return special.gammainc(self.noise_shape, ratio), special.gammaincc(self.noise_shape, ratio)

    @property
    def least_square(self) -> float:
        """0: the prior does not keep sigma away from 0."""
        return 0.0

    @property
    def typical_variance(self) -> float:
        """A likely sigma2, on the standardised scale: the square of sigma's mean."""
        return (self.noise_shape * self.noise_scale) ** 2

    @property
    def conjugate(self) -> Prior:
        """A normal-inverse-gamma law of about the same sds, for samplers that take only such a prior."""
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
        """Plain data for canonical JSON; a normal-inverse-gamma prior's record has no `law`."""
        return {"law": LAW, **super().to_record()}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of `to_record`."""
        return super().from_record({name: value for name, value in record.items() if name != "law"})


def prior_from_record(record: Mapping[str, Any]) -> Prior:
    """The prior that a record describes, of either law."""
    return (IndependentPrior if record.get("law") == LAW else Prior).from_record(record)
