"""The prior of a regression, on the standardised scale, where every column lies in [-1, 1]."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.errors import StudyInvalid

Floats = NDArray[np.float64]

_USER_KEYS = {"intercept": ("sd",), "coefficients": ("sd",), "noise": ("shape", "scale")}


@dataclass(frozen=True, kw_only=True)
class Prior:
    """theta | sigma2 ~ N(0, sigma2 diag(sd^2)), sigma2 ~ InvGamma; covariates have a normal-inverse-Wishart law."""

    intercept_sd: float = 10.0  # in units of the residual sd, as the next one
    coefficient_sd: float = 2.5
    noise_shape: float = 2.0
    noise_scale: float = 0.1
    mean_weight: float = 0.01  # k0: the covariates' mean ~ N(0, Sigma / k0)
    scatter: float = 0.01  # Sigma ~ InvWishart(d + extra_degrees, scatter I)
    extra_degrees: float = 2.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not (math.isfinite(value) and value > 0):
                raise StudyInvalid(f"cannot use the prior: {name} must be a positive number. Give one.")

    @classmethod
    def from_user(cls, choices: Mapping[str, Mapping[str, float]]) -> "Prior":
        """The study's `{intercept: {sd}, coefficients: {sd}, noise: {shape, scale}}`; the rest by default."""
        given: dict[str, float] = {}
        for part, values in choices.items():
            for key, value in values.items():
                if key not in _USER_KEYS.get(part, ()):
                    known = ", ".join(f"{name}.{key}" for name, keys in _USER_KEYS.items() for key in keys)
                    raise StudyInvalid(f"cannot use the prior: {part}.{key} is not part of it. Choose from {known}.")
                given[f"{part.removesuffix('s')}_{key}"] = float(value)
        return cls(**given)

    def to_record(self) -> dict[str, float]:
        """Plain data for canonical JSON."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Prior":
        """The inverse of `to_record`."""
        return cls(**record)

    def degrees(self, d: int) -> float:
        """nu0 for d covariates."""
        return d + self.extra_degrees

    def normal_matrix(self, d: int) -> Floats:
        """K0: what the prior adds to the second moments of (1, x) in the marginal law of the covariates."""
        return np.diag([self.mean_weight, *[self.scatter] * d])

    def response_matrix(self, d: int) -> Floats:
        """M0: what the prior adds to the second moments of (1, x, y) in the regression; its leading block is Lam0."""
        return np.diag([self.intercept_sd**-2, *[self.coefficient_sd**-2] * d, 2 * self.noise_scale])
