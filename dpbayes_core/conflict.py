"""Whether a posterior and the prior it came from believe each other, judged from the posterior alone.

Every parameter is written as a normal score of its prior: standard normal and independent before the release. With m
and v the posterior mean and variance of a score, Var(m) = 1 - E(v) before the release, so that m / sqrt(1 - v) is about
standard normal where v hardly depends on the release; exactly so for a normal posterior. Tail probabilities are put
together by Simes' rule, which is exact for independent ones. Where the release tells little, 1 - v is taken for more
than it is: such a parameter conflicts only if its mean moved all the same.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.priors import Prior, half_width, user_coefficients
from dpbayes_core.schema import INTERCEPT, SIGMA, RegressionSchema

Floats = NDArray[np.float64]

UNLIKELY = 0.01  # a probability below it is called a conflict
LEAST_TOLD = 0.05  # of the prior's variance: the least that a release is taken to have told


@dataclass(frozen=True)
class ParameterConflict:
    """One parameter: how unlikely its posterior is under the prior, and what the prior does to it."""

    name: str
    probability: float  # under the prior, of a posterior mean at least this far from the prior's
    left: float  # posterior variance as a share of the prior's, in normal scores
    pull: float  # how far the prior moved the posterior mean, in posterior sds


@dataclass(frozen=True)
class PriorConflict:
    """All parameters together, and each by itself."""

    probability: float
    parameters: tuple[ParameterConflict, ...]

    @property
    def conflict(self) -> bool:
        """Whether prior and release disagree."""
        return self.probability < UNLIKELY

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {**asdict(self), "conflict": self.conflict, "parameters": [asdict(one) for one in self.parameters]}


def prior_conflict(prior: Prior, schema: RegressionSchema, draws: Mapping[str, Floats]) -> PriorConflict:
    """The tail probability of the posterior of `draws`, which are in the user's units, under its prior."""
    from scipy import stats  # slow to import

    scores = normal_scores(prior, schema, draws)
    mean, left = scores.mean(axis=1), scores.var(axis=1, ddof=1)
    told = np.maximum(1 - left, LEAST_TOLD)
    tails = 2 * stats.norm.sf(np.abs(mean) / np.sqrt(told))
    pulls = np.abs(mean) * np.sqrt(left) / told
    names = (*schema.coefficients, SIGMA)
    table = zip(names, tails.tolist(), left.tolist(), pulls.tolist(), strict=True)
    return PriorConflict(_simes(tails), tuple(ParameterConflict(*line) for line in table))


def _simes(tails: Floats) -> float:
    """Simes' combined probability: the least of K p_(k) / k."""
    ordered = np.sort(tails)
    return float(np.min(ordered * len(ordered) / np.arange(1, len(ordered) + 1), initial=1.0))


def normal_scores(prior: Prior, schema: RegressionSchema, draws: Mapping[str, Floats]) -> Floats:
    """(parameters, draws): independent standard normals under the prior; coefficients in order, sigma last."""
    half = half_width(schema)
    user = np.stack([np.ravel(draws[name]) for name in schema.coefficients])
    sigma = np.ravel(draws[SIGMA]) / half
    if INTERCEPT in schema.coefficients:
        user[0] -= schema.response.bounds.middle
    theta = np.linalg.solve(half * user_coefficients(schema).T, user)
    means, sds, basis = prior.laws(schema)
    scores = (basis.T @ theta - means[:, None]) / (sds[:, None] * sigma)
    return np.vstack([scores, _noise_score(prior, sigma)])


def _noise_score(prior: Prior, sigma: Floats) -> Floats:
    """The normal score of sigma, its tails each from its own side."""
    from scipy import special

    ratio = prior.noise_scale / sigma**2
    below, above = special.gammaincc(prior.noise_shape, ratio), special.gammainc(prior.noise_shape, ratio)
    least = math.ulp(0.0)  # the score stops at 38 where a tail underflows
    low, high = special.ndtri(np.maximum(below, least)), -special.ndtri(np.maximum(above, least))
    return np.where(below < above, low, high)
