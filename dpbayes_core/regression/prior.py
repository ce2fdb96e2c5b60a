"""The prior of a regression, on the standardised scale, where every column is in [-1, 1]."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.bounds import Bounds
from dpbayes_core.errors import Refusal
from dpbayes_core.regression.schema import INTERCEPT, SIGMA, RegressionSchema

LEAST, MOST = 1e-6, 1e6  # of every standard deviation and shape, on the standardised scale; squared, of every variance
_USER_KEYS = {"intercept": ("sd",), "coefficients": ("sd",), "noise": ("shape", "scale", "sd")}
_OLD_COVARIATES = ("mean_weight", "scatter", "extra_degrees")


class PriorRefusal(Refusal):
    """A stated prior that cannot be used; `field` is the prior's own field, or `named`."""

    def __str__(self) -> str:
        return f"cannot use the prior: {super().__str__()}"


@dataclass(frozen=True, kw_only=True)
class Prior:
    """theta | sigma2 ~ N(mu0, sigma2 Lam0^-1), sigma2 ~ InvGamma, and laws of the covariates' sample moments."""

    squares: ClassVar[tuple[str, ...]] = ("noise_scale", "variance")
    """Fields in squared units."""
    unit: ClassVar[str] = "the residual sd that noise expects"
    """The unit of the coefficients' sds."""

    intercept_sd: float = 10.0  # in units of the residual sd, as the next one
    coefficient_sd: float = 1.5
    noise_shape: float = 1.0
    noise_scale: float = 0.1
    mean_sd: float = 0.5  # the sample mean of each continuous covariate ~ N(0, mean_sd^2)
    variance: float = 0.2  # its sample variance ~ exponential with this mean
    correlation: float = 1.0  # LKJ shape of the sample correlations; 1: uniform
    named: tuple[tuple[str, float, float], ...] = ()  # (coefficient, mean, sd in residual sds), instead of the above

    def __post_init__(self) -> None:
        object.__setattr__(self, "named", tuple((str(name), float(at), float(sd)) for name, at, sd in self.named))
        for name, value in asdict(self).items():
            if name != "named" and not (math.isfinite(value) and value > 0):
                raise PriorRefusal(name, f"{name} must be a positive number", "Give one")
        for name, mean, sd in self.named:
            if not (math.isfinite(mean) and math.isfinite(sd) and sd > 0):
                raise PriorRefusal("named", f"{name} needs a number as its mean and a positive sd", "Give them")
        if len({name for name, *_ in self.named}) < len(self.named):
            raise PriorRefusal("named", "it names a coefficient twice", "Name each one once")

    @classmethod
    def from_user(cls, choices: Mapping[str, Mapping[str, Any]], schema: RegressionSchema) -> Self:
        """A study's `{intercept: {sd}, coefficients: {sd}, named: {age: {mean, sd}}, noise: {shape, scale or sd}}`.

        Named laws and the sd of the noise are in the table's units; other values are in the fields' units.
        """
        given = _general(choices)
        half, noise = half_width(schema), choices.get("noise", {})
        if "sd" in noise:
            if "scale" in noise:
                raise PriorRefusal("noise_scale", "noise.sd and noise.scale state one thing", "Keep one of them")
            given["noise_scale"] = cls.scale_for(float(noise["sd"]) / half, given.get("noise_shape", cls.noise_shape))
        prior = cls(**given)
        laws = choices.get("named", {})
        prior._known(laws, schema)
        units = [_standardised(name, laws[name], schema, prior.reference) for name in laws]
        prior = replace(prior, named=tuple(units))
        prior._check_limits()
        return prior

    def _check_limits(self) -> None:
        """Refuse numbers that overflow arithmetic; only in a stated prior, since archived ones must remain readable."""
        for name, value in asdict(self).items():
            power = 2 if name in self.squares else 1
            if name != "named" and not LEAST**power <= value <= MOST**power:
                limits = f"from {LEAST**power:g} to {MOST**power:g}"
                raise PriorRefusal(name, f"{name} must be {limits}", "Give such a number")
        for name, mean, sd in self.named:
            if not (abs(mean) <= MOST and LEAST <= sd <= MOST):
                what = (
                    f"with columns mapped to [-1, 1], {name} needs a mean of at most {MOST:g} "
                    f"and an sd from {LEAST:g} to {MOST:g} of {self.unit}"
                )
                raise PriorRefusal("named", what, "Give such numbers")

    def in_units(self, schema: RegressionSchema) -> dict[str, tuple[float, float]]:
        """Mean and sd in the table's units of each named coefficient, at the residual sd `reference`."""
        found: dict[str, tuple[float, float]] = {}
        for name, mean, sd in self.named:
            start, unit = _units(name, schema)
            found[name] = (start + unit * mean, unit * sd * self.reference)
        return found

    def draws(self, schema: RegressionSchema, count: int, generator: np.random.Generator) -> dict[str, Floats]:
        """Independent draws (1, count) of coefficients and sigma before any release, in the table's units."""
        means, sds, basis = self.laws(schema)
        sigma = self.noise_draws(count, generator)
        combinations = means + self.spreads(sds, sigma) * generator.standard_normal((count, len(sds)))
        theta, sigma = schema.to_user_units(combinations @ np.linalg.inv(basis), sigma)
        return {**{name: theta[None, :, place] for place, name in enumerate(schema.coefficients)}, SIGMA: sigma[None]}

    @property
    def reference(self) -> float:
        """The residual sd, in half widths of the response's bounds, by which sds in the table's units are converted.

        It is the one at the prior mean of 1 / sigma2, so that a named coefficient's marginal law is Student's t with
        2 noise_shape degrees of freedom around its mean, and the stated sd as scale.
        """
        return math.sqrt(self.noise_scale / self.noise_shape)

    @staticmethod
    def scale_for(sd: float, shape: float) -> float:
        """The `noise_scale` that, with this shape, makes `reference` equal to `sd`."""
        return shape * sd**2

    def noise_draws(self, count: int, generator: np.random.Generator) -> Floats:
        """Draws of sigma, on the standardised scale."""
        return np.sqrt(self.noise_scale / generator.standard_gamma(self.noise_shape, count))

    def spreads(self, sds: Floats, sigma: Floats) -> Floats:
        """(draws, coefficients): standard deviations given sigma, where `laws` has these sds."""
        return sigma[:, None] * sds

    def scaling(self, sigma2: Floats) -> Floats:
        """The factor of coefficients' prior variances, given sigma2."""
        return sigma2

    def log_noise(self, log_sigma2: Floats) -> Floats:
        """Log density of log sigma2, up to a constant."""
        return -self.noise_shape * log_sigma2 - self.noise_scale * np.exp(-log_sigma2)

    def noise_tails(self, sigma: Floats) -> tuple[Floats, Floats]:
        """Probabilities of a smaller and of a larger sigma."""
        from scipy import special  # slow to import

        ratio = self.noise_scale / sigma**2
        return special.gammaincc(self.noise_shape, ratio), special.gammainc(self.noise_shape, ratio)

    @property
    def least_square(self) -> float:
        """2 b0, which the prior adds to the residual sum of squares."""
        return 2 * self.noise_scale

    @property
    def typical_variance(self) -> float:
        """A likely sigma2, on the standardised scale: its mode."""
        return self.noise_scale / (self.noise_shape + 1)

    @property
    def conjugate(self) -> "Prior":
        """The normal-inverse-gamma prior for samplers that take only such a prior: itself."""
        return self

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return asdict(self) | {"named": [list(entry) for entry in self.named]}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of `to_record`; of an old record, the normal-inverse-Wishart law of the covariates is dropped."""
        return cls(**{name: value for name, value in record.items() if name not in _OLD_COVARIATES})

    def response_matrix(self, schema: RegressionSchema) -> Floats:
        """M0, which the prior adds to the second moments of (1, x, y); its leading block is Lam0."""
        means, sds, basis = self.laws(schema)
        precision = (basis / sds**2) @ basis.T  # the columns of basis are independent under the prior
        linear = basis @ (means / sds**2)
        square = float(np.sum((means / sds) ** 2)) + self.least_square
        return np.block([[precision, linear[:, None]], [linear[None, :], np.array([[square]])]])

    def log_precision(self, schema: RegressionSchema) -> float:
        """log |Lam0|."""
        _, sds, _ = self.laws(schema)
        return -2 * float(np.sum(np.log(sds)))

    def laws(self, schema: RegressionSchema) -> tuple[Floats, Floats, Floats]:
        """Means and sds of independent combinations of theta, one for each coefficient, and these as matrix columns.

        A named intercept is the response where covariates are 0 or at their reference; otherwise the combination is
        the response at the middles of the covariates.
        """
        names = schema.coefficients
        named = {name: (mean, sd) for name, mean, sd in self.named}
        self._known(named, schema)
        rest = {INTERCEPT: (0.0, self.intercept_sd)}
        laws = [named.get(name, rest.get(name, (0.0, self.coefficient_sd))) for name in names]
        means, sds = np.array(laws, dtype=np.float64).reshape(-1, 2).T
        basis = np.eye(len(names))
        if INTERCEPT in named:
            basis[:, 0] = user_coefficients(schema)[:, 0]
        return means, sds, basis

    @staticmethod
    def _known(names: Iterable[str], schema: RegressionSchema) -> None:
        if unknown := sorted(set(names) - set(schema.coefficients)):
            remedy = f"Choose from {', '.join(schema.coefficients)}"
            raise PriorRefusal("named", f"{unknown[0]} is no coefficient of the regression", remedy)


def _general(choices: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The fields that a study sets for all coefficients at once."""
    given: dict[str, Any] = {}
    for part, values in choices.items():
        for key, value in values.items():
            if part == "named":
                continue
            if key not in _USER_KEYS.get(part, ()):
                known = ", ".join(f"{name}.{key}" for name, keys in _USER_KEYS.items() for key in keys)
                raise PriorRefusal(part, f"{part}.{key} is not part of it", f"Choose from {known}")
            given[f"{part.removesuffix('s')}_{key}"] = float(value)
    given.pop("noise_sd", None)
    return given


def _standardised(
    name: str, law: Mapping[str, float], schema: RegressionSchema, reference: float
) -> tuple[str, float, float]:
    """A law stated in the table's units as an element of `named`."""
    if unknown := sorted(set(law) - {"mean", "sd"}):
        raise PriorRefusal("named", f"named.{name}.{unknown[0]} is not part of it", "Write mean and sd")
    if "sd" not in law:
        raise PriorRefusal("named", f"{name} needs an sd", "Write one in the table's units")
    start, unit = _units(name, schema)
    return name, (float(law.get("mean", 0.0)) - start) / unit, float(law["sd"]) / unit / reference


def _units(name: str, schema: RegressionSchema) -> tuple[float, float]:
    """The offset and the factor from a standardised coefficient to the table's units."""
    place = schema.coefficients.index(name)
    slope = float(user_coefficients(schema)[place, place])
    return schema.response.bounds.middle if name == INTERCEPT else 0.0, slope * half_width(schema)


def half_width(schema: RegressionSchema) -> float:
    """Half the width of the response's bounds: 1 on the standardised scale, in the response's units."""
    return schema.standardised(schema.response).width / 2


def user_coefficients(schema: RegressionSchema) -> Floats:
    """The matrix from theta to coefficients in the covariates' own units, for a response in [-1, 1]."""
    unit = replace(schema, response=replace(schema.response, bounds=Bounds(-1.0, 1.0)))
    size = len(schema.coefficients)
    return unit.to_user_units(np.eye(size), np.zeros(size))[0]
