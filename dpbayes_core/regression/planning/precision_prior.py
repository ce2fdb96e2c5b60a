"""What foreseeing a posterior takes of a prior, of either law."""

from dataclasses import dataclass

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.schema import INTERCEPT, RegressionSchema


@dataclass(frozen=True)
class PriorLaw:
    """A prior of coefficients given sigma2, and of sigma2, on the standardised scale."""

    prior: Prior

    def slope(self, label: str) -> tuple[float, float]:
        """Mean and sd of a coefficient, as the prior states them."""
        named = {name: (mean, sd) for name, mean, sd in self.prior.named}
        return named.get(label, (0.0, self.prior.coefficient_sd))

    def variance(self, sd: float, sigma2: Floats) -> Floats:
        """The variance of a coefficient of a stated sd."""
        return sd**2 * self.prior.scaling(sigma2)

    def level_precision(self, sigma2: Floats) -> Floats:
        """What it knows of the response's level at the covariates' middles: nothing where the intercept is named."""
        if any(name == INTERCEPT for name, *_ in self.prior.named):
            return np.zeros_like(sigma2)
        return 1 / self.variance(self.prior.intercept_sd, sigma2)

    def intercept(self, schema: RegressionSchema, sigma2: Floats) -> Floats | None:
        """The variance in the table's units of the response where covariates are 0, where that is named."""
        if (named := self.prior.in_units(schema).get(INTERCEPT)) is None:
            return None
        return named[1] ** 2 * self.variance(1.0, sigma2) / self.variance(1.0, np.array(self.prior.reference**2))

    def log_noise(self, log_sigma2: Floats) -> Floats:
        """Log density of log sigma2, up to a constant."""
        return self.prior.log_noise(log_sigma2)

    @property
    def widest(self) -> float:
        """What sigma2 may be by the prior alone, to be added to what the release lets it be."""
        return self.prior.noise_scale
