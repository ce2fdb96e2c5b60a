"""Whether the prior dominates the posterior, and whether prior and release conflict, from posterior draws alone.

Every parameter is transformed to a normal score of its prior: a priori the scores are independent standard normals. If
the posterior is normal with mean m and covariance V, the likelihood's mean is (I - V)^-1 m: the scores without the
prior, from which other parameters follow by regression. A priori m has covariance I - E(V), so that m'(I - V)^-1 m is
about chi-square with a degree of freedom for each score. A posterior that is not normal may be wider than its prior
along some axis; that counts as information, too. Scores are considered jointly, since of two nearly collinear
covariates each may seem known where the prior dominates both.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.prior import Prior, half_width, user_coefficients
from dpbayes_core.regression.schema import INTERCEPT, SIGMA, RegressionSchema

UNLIKELY = 0.01  # the p-value below which prior and release conflict
DECISIVE = 1.0  # posterior sds: the prior decides a parameter that it moves this far
LARGER = 0.5  # share of a combination's prior variance above which the prior has more weight than the release
LEAST_REDUCTION = 0.05  # least share by which the release is assumed to reduce any prior variance


@dataclass(frozen=True)
class ParameterConflict:
    """One parameter: how unlikely its posterior is under the prior, and the prior's influence on it."""

    name: str
    probability: float  # of its score alone: under the prior, of a posterior mean at least this far from the prior's
    left: float  # posterior variance of its score; the prior's is 1
    pull: float  # how far it would move without the prior, in posterior sds, all scores taken together


@dataclass(frozen=True)
class Surprise:
    """The distance of the scores' posterior mean from the prior's, relative to its prior distribution."""

    statistic: float  # m'(I - V)^-1 m
    degrees: int  # of its approximate chi-square distribution a priori


@dataclass(frozen=True)
class Weakest:
    """The combination of scores, of unit length, that the release informs least."""

    left: float  # its posterior variance; the prior's is 1
    combination: tuple[tuple[str, float], ...]  # parameter and weight; the largest weight is positive


@dataclass(frozen=True)
class PriorConflict:
    """The result for all parameters jointly, and for each one."""

    probability: float  # of a surprise at least this large
    surprise: Surprise
    weakest: Weakest
    parameters: tuple[ParameterConflict, ...]

    @property
    def conflict(self) -> bool:
        """Whether prior and release disagree."""
        return self.probability < UNLIKELY

    @property
    def decides(self) -> bool:
        """Whether the prior moves some parameter by DECISIVE sds, or outweighs the release in some direction."""
        return self.weakest.left > LARGER or any(one.pull >= DECISIVE for one in self.parameters)

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        combination = [list(each) for each in self.weakest.combination]
        return {
            "probability": self.probability,
            "surprise": asdict(self.surprise),
            "conflict": self.conflict,
            "decides": self.decides,
            "parameters": [dict(vars(one)) for one in self.parameters],
            "weakest": {"left": self.weakest.left, "combination": combination},
        }


def prior_conflict(prior: Prior, schema: RegressionSchema, draws: Mapping[str, Floats]) -> PriorConflict:
    """A prior's influence on a posterior, and how unlikely the posterior is under it; `draws` are in user units."""
    from scipy import special  # scipy.stats, which calls these, is slow to import

    names = (*schema.coefficients, SIGMA)
    scores = normal_scores(prior, schema, draws)
    mean, left = scores.mean(axis=1), np.cov(scores)
    shares, axes = np.linalg.eigh(left)
    projected, reduction = axes.T @ mean, np.maximum(np.abs(1 - shares), LEAST_REDUCTION)
    surprise = Surprise(float(np.sum(projected**2 / reduction)), len(names))
    drawn = np.stack([np.ravel(draws[name]) for name in names])
    pulls = _moved(drawn, scores, axes @ (projected / reduction))
    own = np.diag(left)
    tails = 2 * special.ndtr(-np.abs(mean) / np.sqrt(np.maximum(1 - own, LEAST_REDUCTION)))
    table = zip(names, tails.tolist(), own.tolist(), pulls.tolist(), strict=True)
    return PriorConflict(
        probability=float(special.chdtrc(surprise.degrees, surprise.statistic)),
        surprise=surprise,
        weakest=_weakest(names, float(shares[-1]), axes[:, -1]),
        parameters=tuple(ParameterConflict(*line) for line in table),
    )


def _moved(drawn: Floats, scores: Floats, push: Floats) -> Floats:
    """How far each parameter moves, in its posterior sds, if the mean of the scores moves by V times `push`."""
    about = drawn - drawn.mean(axis=1, keepdims=True)
    shift = about @ (scores - scores.mean(axis=1, keepdims=True)).T @ push / (drawn.shape[1] - 1)
    spread = about.std(axis=1, ddof=1)
    return np.divide(np.abs(shift), spread, out=np.zeros_like(spread), where=spread > 0)


def _weakest(names: tuple[str, ...], left: float, axis: Floats) -> Weakest:
    """An eigenvector by name, signed by its largest weight."""
    signed = axis * np.sign(axis[np.argmax(np.abs(axis))])
    return Weakest(left, tuple(zip(names, signed.tolist(), strict=True)))


def normal_scores(prior: Prior, schema: RegressionSchema, draws: Mapping[str, Floats]) -> Floats:
    """(parameters, draws): independent standard normals under the prior; coefficients in order, sigma last."""
    half = half_width(schema)
    user = np.stack([np.ravel(draws[name]) for name in schema.coefficients])
    sigma = np.ravel(draws[SIGMA]) / half
    if INTERCEPT in schema.coefficients:
        user[0] -= schema.response.bounds.middle
    theta = np.linalg.solve(half * user_coefficients(schema).T, user)
    means, sds, basis = prior.laws(schema)
    scores = (basis.T @ theta - means[:, None]) / prior.spreads(sds, sigma).T
    return np.vstack([scores, _noise_score(prior, sigma)])


def _noise_score(prior: Prior, sigma: Floats) -> Floats:
    """The normal score of sigma, each tail computed from its own end."""
    from scipy import special

    below, above = prior.noise_tails(sigma)
    least = math.ulp(0.0)  # limits the score to 38 where a tail underflows
    score = special.ndtri(np.maximum(np.minimum(below, above), least))
    return np.where(below < above, score, -score)
