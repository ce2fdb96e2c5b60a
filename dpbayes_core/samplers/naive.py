"""The conjugate posterior of the repaired noisy statistic, as if it were exact: for comparison only."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.pool import Evidence, parts_of
from dpbayes_core.regression.prior import Prior
from dpbayes_core.samplers.labels import regression_draws
from dpbayes_core.sampling.independent import IndependentDraws


@dataclass(frozen=True)
class NaiveProblem:
    """The sufficient statistics of the posterior."""

    moments: Floats  # (M0 + R) / n with R repaired
    rows: float
    shape: float


@dataclass(frozen=True)
class Naive(IndependentDraws):
    """Independent draws from the normal-inverse-gamma posterior of the repaired noisy statistic."""

    name: str = "naive"
    takes: tuple[str, ...] = ("regression",)
    compared_with: str | None = None
    target: str = "conjugate posterior, as if the noisy statistic were exact"
    calibrated: bool = False
    cost: str = "a draw takes O(d^2), whatever the number of rows"
    caveat: str = (
        "Takes the noisy statistics for exact: the intervals leave out the privacy noise and are too narrow, "
        "and the coefficients can be biased."
    )

    def refusal(self, evidence: Evidence) -> str | None:
        """It takes any release of at least one row."""
        return None if evidence.count >= 1 else "it needs at least 1 row, and the noisy count says less"

    def prepare(self, evidence: Evidence, prior: Prior) -> NaiveProblem:
        """Add up the noisy statistics, repair them and add the prior."""
        n, schema = evidence.count, evidence.schema
        noisy = np.sum([release.matrix() for release in parts_of(evidence)], axis=0)
        moments = (prior.conjugate.response_matrix(schema) + repaired(noisy, centred=schema.intercept)) / n
        return NaiveProblem(moments, n, prior.conjugate.noise_shape + n / 2)

    def draw(self, problem: NaiveProblem, generator: np.random.Generator, count: int) -> Floats:
        """Coefficients and the variance."""
        from dpbayes_core.samplers.conjugate import draw_many  # numba

        draws = np.zeros((count, len(problem.moments)))
        draw_many(generator, problem.moments, problem.rows, problem.shape, draws)
        return draws

    def draws(self, evidence: Evidence, parameters: Floats) -> Mapping[str, Floats]:
        """Coefficients and sigma."""
        return regression_draws(evidence, parameters)


def repaired(noisy: Floats, *, centred: bool = True) -> Floats:
    """The noisy second moments with their (centred) scatter positive semidefinite; untouched where it already is."""
    first = int(centred)
    known = np.outer(noisy[0], noisy[0]) / noisy[0, 0] if centred else np.zeros_like(noisy)
    scatter = (noisy - known)[first:, first:]
    try:
        np.linalg.cholesky(scatter)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(scatter)
        whole = known.copy()
        whole[first:, first:] += (vectors * np.maximum(values, 0.0)) @ vectors.T
        return whole
    return noisy
