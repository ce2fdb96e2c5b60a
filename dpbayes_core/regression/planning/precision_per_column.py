"""The predicted posterior of one covariate's coefficient given sigma2, from two noisy moments.

v is the variance of the covariate that the others do not explain, c its moment with the response, both averages over
rows. Given v and sigma2 the coefficient b is normal: b ~ N(mu, tau^2 sigma2), and the release of c is N(v b, v
sigma2 / n + noise). v has its prior and its own noise, and is integrated out by quadrature.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.planning.expected_moments import Expectation
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.schema import INTERCEPT, RegressionSchema


@dataclass(frozen=True)
class PriorLaw:
    """A prior on the standardised scale, as functions of sigma2."""

    prior: Prior

    def slope(self, label: str) -> tuple[float, float]:
        """Mean and sd of a coefficient, as the prior states them."""
        named = {name: (mean, sd) for name, mean, sd in self.prior.named}
        return named.get(label, (0.0, self.prior.coefficient_sd))

    def variance(self, sd: float, sigma2: Floats) -> Floats:
        """The variance given sigma2 of a coefficient with this stated sd."""
        return sd**2 * self.prior.scaling(sigma2)

    def level_precision(self, sigma2: Floats) -> Floats:
        """The prior precision of the response's level at the covariates' middles: 0 where the intercept is named."""
        if any(name == INTERCEPT for name, *_ in self.prior.named):
            return np.zeros_like(sigma2)
        return 1 / self.variance(self.prior.intercept_sd, sigma2)

    def intercept(self, schema: RegressionSchema, sigma2: Floats) -> Floats | None:
        """The prior variance, in the table's units, of an intercept that is named; else None."""
        if (named := self.prior.in_units(schema).get(INTERCEPT)) is None:
            return None
        return named[1] ** 2 * self.variance(1.0, sigma2) / self.variance(1.0, np.array(self.prior.reference**2))

    def log_noise(self, log_sigma2: Floats) -> Floats:
        """Log density of log sigma2, up to a constant."""
        return self.prior.log_noise(log_sigma2)

    @property
    def widest(self) -> float:
        """A large sigma2 under the prior."""
        return self.prior.noise_scale


NODES = 24
STEPS = np.linspace(-4, 4, 11)  # of c, in standard deviations
HEIGHTS = -0.5 * STEPS**2 - np.log(np.exp(-0.5 * STEPS**2).sum())
NEGLIGIBLE = 1e-6  # noise relative to the moment
WIDEST_SPREAD: Mapping[str, float] = {"two-level": 1.0, "indicator": 0.5}
"""The largest standard deviation that a level's variable can have."""


@dataclass(frozen=True, eq=False)
class Column:
    """Coefficients with the same expected moments and prior, which are predicted once."""

    members: tuple[int, ...]  # variables
    kind: str
    v: float  # expected
    noise_v: float  # variance
    noise_c: float  # variance, other coefficients remaining out
    others: Floats  # (columns,): the addition to `noise_c` for each unit of another column's squared coefficient
    on_mean: float  # variance of the noise on the covariate's mean
    slope: float  # an expected size of the coefficient
    tau: float
    mu: float


@dataclass(frozen=True, eq=False)
class Moments:
    """Moments of a column's coefficient given sigma2, and the likelihood of sigma2: (simulated releases, sigma2)."""

    log: Floats  # log likelihood of sigma2 from the column's moments
    tilt: Floats  # log density of the response's released variance, given all columns' moments
    mean: Floats
    variance: Floats
    explained: Floats  # of the response's variance, by one coefficient
    explained_variance: Floats

    @property
    def square(self) -> Floats:
        """The posterior mean of the squared coefficient."""
        return self.variance + self.mean**2


@dataclass(frozen=True, eq=False)
class SimulatedMoments:
    """The released moments of one column in simulated releases: (simulated releases, 1)."""

    v: Floats
    c: Floats

    @classmethod
    def of(cls, columns: Sequence[Column], place: int, sampled: float, normals: Floats) -> "SimulatedMoments":
        """Simulate from standard normals (3, simulated releases, 1); the third gives only the coefficient's sign.

        `sampled` is the variance of the response's residual over the rows.
        """
        own = columns[place]
        variance = own.v * sampled + own.noise_c
        variance += sum(w * one.slope**2 for w, one in zip(own.others, columns, strict=True))
        expected = own.v * own.slope * np.sign(normals[2])
        return cls(own.v + np.sqrt(own.noise_v) * normals[0], expected + np.sqrt(variance) * normals[1])


def columns_of(expectation: Expectation, law: PriorLaw) -> tuple[Column, ...]:
    """The covariates' variables, grouped where their expected moments and priors are equal."""
    found: dict[tuple[object, ...], list[int]] = {}
    laws: list[tuple[float, float]] = []
    for place, variable in enumerate(expectation.schema.variables[:-1]):
        laws.append(law.slope(variable.label))
        row = np.delete(np.abs(expectation.covariance[place]), place)
        facts = (
            expectation.covariance[place, place],
            expectation.means[place],
            expectation.slopes[place],
            *sorted(row),
        )
        key = (variable.kind, laws[-1], *(round(float(fact), 12) for fact in facts))
        found.setdefault(key, []).append(place)
    members = [tuple(them) for them in found.values()]
    return tuple(_column(expectation, members, place, laws[them[0]]) for place, them in enumerate(members))


@dataclass(frozen=True, eq=False)
class Given:
    """The conditions for one column's moments, each (simulated releases, nodes of sigma2)."""

    sigma2: Floats
    rows: float
    prior_variance: Floats  # the coefficient's variance by its prior
    noise: Floats  # variance of the noise on c
    remaining: Floats | None = None  # the response's released variance, less sigma2 and that which others explain
    spread: Floats | None = None  # the variance of `remaining`


def moments(column: Column, released_moments: SimulatedMoments, given: Given, typical: float) -> Moments:
    """Integrate over v, and over the exact c, which differs from the released one by noise.

    A continuous column's v has an exponential prior of mean `typical`, a level's v a flat one within its range.
    c^2 / v, the explained variance, cannot exceed the response's variance: where `remaining` is given, it weights c.
    """
    v, log = (array[:, None, :] for array in _nodes(column, released_moments.v, typical))
    sigma2, noise, released = given.sigma2[..., None], given.noise[..., None], released_moments.c[..., None]
    prior_variance, prior_mean = given.prior_variance[..., None], column.mu
    exact_variance = v * sigma2 / given.rows + v**2 * prior_variance  # of the exact c around v prior_mean
    total = exact_variance + noise
    log = log - 0.5 * np.log(total) - 0.5 * (released - v * prior_mean) ** 2 / total
    weights, found = _normalised(log)
    first, variance = (released * exact_variance + v * prior_mean * noise) / total, exact_variance * noise / total
    tilted = np.zeros_like(found)
    if given.remaining is not None and given.spread is not None:
        c = first[..., None] + np.sqrt(variance)[..., None] * STEPS
        gap = given.remaining[..., None, None] - c**2 / v[..., None]
        tilt = HEIGHTS - 0.5 * gap**2 / given.spread[..., None, None]
        inner, log_tilt = _normalised(tilt)
        first = (inner * c).sum(axis=3)
        variance = (inner * c**2).sum(axis=3) - first**2
        weights, whole = _normalised(log + log_tilt)
        tilted = whole - found - 0.5 * np.log(given.spread)
    # given c, the coefficient has the conjugate posterior of the rows
    precision = v * given.rows / sigma2 + 1 / prior_variance
    mean = (first * given.rows / sigma2 + prior_mean / prior_variance) / precision
    square = mean**2 + 1 / precision + variance * (given.rows / sigma2 / precision) ** 2
    centre = (weights * mean).sum(axis=2)
    explained = (weights * (first**2 + variance) / v).sum(axis=2)
    fourth = (weights * (first**4 + 6 * first**2 * variance + 3 * variance**2) / v**2).sum(axis=2)
    return Moments(
        log=found,
        tilt=tilted,
        mean=centre,
        variance=np.maximum((weights * square).sum(axis=2) - centre**2, 0.0),
        explained=explained,
        explained_variance=np.maximum(fourth - explained**2, 0.0),
    )


def _normalised(log: Floats) -> tuple[Floats, Floats]:
    """Weights along the last axis, and the log of their sum."""
    top = log.max(axis=-1, keepdims=True)
    weights = np.exp(log - top)
    sums = weights.sum(axis=-1, keepdims=True)
    return weights / sums, (top + np.log(sums))[..., 0]


def _nodes(column: Column, released: Floats, typical: float) -> tuple[Floats, Floats]:
    """Nodes of v, (simulated releases, nodes), and the log of their weights: noise times prior, exponential or flat."""
    deviation = np.sqrt(column.noise_v)
    if deviation <= NEGLIGIBLE * column.v:
        return np.full_like(released, column.v), np.zeros_like(released)
    highest = 12 * typical if column.kind == "continuous" else WIDEST_SPREAD[column.kind] ** 2
    low = np.sqrt(np.clip(released - 6 * deviation, 0, 0.9 * highest))
    high = np.sqrt(np.clip(released + 6 * deviation, 1e-3 * highest, highest))
    root = low + (high - low) * (np.arange(NODES) + 0.5) / NODES
    log = np.log(root) - 0.5 * ((released - root**2) / deviation) ** 2
    if column.kind == "continuous":
        log -= root**2 / typical
    return root**2, log


def _column(ex: Expectation, members: Sequence[tuple[int, ...]], place: int, law: tuple[float, float]) -> Column:
    first = members[place][0]
    own, response, v = ex.partial[first], ex.centred[-1], float(ex.partial_variances[first])
    on_mean = ex.noise_of(ex.constant, ex.centred[first])
    others = np.zeros(len(members))
    for at, them in enumerate(members):
        rest = [other for other in them if other != first]
        if rest:
            noise = ex.noise_of(own, ex.centred[rest[0]]) + on_mean * ex.noise_of(ex.constant, ex.centred[rest[0]])
            likely = v * ex.covariance[rest[0], rest[0]] / (ex.d + 1)  # correlations have a prior, too
            others[at] = len(rest) * noise * likely / (noise + likely)
    return Column(
        members=members[place],
        kind=ex.schema.variables[first].kind,
        v=v,
        noise_v=ex.noise_of(own, own) + 2 * on_mean**2,
        noise_c=ex.noise_of(own, response) + on_mean * ex.noise_of(ex.constant, response),
        others=others,
        on_mean=on_mean,
        slope=float(ex.slopes[first]),
        tau=law[1],
        mu=law[0],
    )
