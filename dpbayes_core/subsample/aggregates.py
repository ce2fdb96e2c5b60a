"""The law of p = P(coefficient <= threshold) given a noisy mean over subsets.

zeta = Phi^-1(p) is standard normal a priori. Given zeta, the subsets' zeta_j are about N(zeta / sqrt(M), 1), and their
mean is fixed by that of all rows, so the mean of h(zeta_j) is nearly normal with mean E h and variance
(Var h - Cov(h, zeta_j)^2) / M; Laplace noise of rate lambda is added to it.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.subsample.probability import ProbabilityRelease

FURTHEST = 8.5  # largest zeta of the grid: the prior probability of larger ones is below 1e-16
PLACES = 2001
INTEGRALS = 171
CUTS = 4001  # of the integrals over one subset's zeta
NEGLIGIBLE = 1e-6  # an interval whose end is this near to 0 or 1 contains it
REFERENCES = 10_000  # draws of the reference distribution of Fisher's method


@dataclass(frozen=True, eq=False)
class ZetaLaw:
    """A law of zeta on a grid."""

    zeta: Floats
    cumulative: Floats  # from 0 to 1
    likelihood: Floats  # log, up to a constant: also the posterior log density of p, whose prior is uniform

    def quantile(self, probability: float | Floats) -> Floats:
        """Quantiles of p = Phi(zeta)."""
        from scipy.special import ndtr

        return ndtr(np.interp(probability, self.cumulative, self.zeta))

    def mean(self) -> float:
        """The posterior mean of p."""
        from scipy.special import ndtr

        inner = (ndtr(self.zeta[1:]) + ndtr(self.zeta[:-1])) / 2
        return float(np.diff(self.cumulative) @ inner)

    def interval(self, level: float) -> tuple[float, float]:
        """The shortest interval of p of this probability, with 0 or 1 as an end where the density is largest there."""
        from scipy.special import ndtr

        masses = np.diff(self.cumulative)
        order = np.argsort(-(self.likelihood[1:] + self.likelihood[:-1]), kind="stable")
        taken = order[: int(np.searchsorted(np.cumsum(masses[order]), level)) + 1]
        low, above = ndtr(self.zeta[taken.min()]), ndtr(-self.zeta[taken.max() + 1])
        return 0.0 if low < NEGLIGIBLE else float(low), 1.0 if above < NEGLIGIBLE else float(1 - above)


def zeta_law(observed: float, noise_scale: float, subsets: int, *, least: float | None = None) -> ZetaLaw:
    """The posterior of zeta given a noisy mean; `least` is p* of Fisher's method, where logarithms were averaged.

    A noise scale of 0 takes the mean as exact.
    """
    from scipy.special import log_ndtr

    zeta = np.linspace(-FURTHEST, FURTHEST, PLACES)
    centre, spread = _moments(zeta, subsets) if least is None else _fisher_moments(zeta, subsets, least)
    gap = (observed - centre) / spread
    if noise_scale > 0:
        rate = spread / noise_scale
        sides = np.stack([-rate * gap + log_ndtr(gap - rate), rate * gap + log_ndtr(-gap - rate)])
        likelihood = np.logaddexp(*sides) + rate**2 / 2
    else:
        likelihood = -(gap**2) / 2 - np.log(spread)
    density = likelihood - zeta**2 / 2
    weights = np.exp(density - density.max())
    cumulative = np.concatenate([[0.0], np.cumsum((weights[1:] + weights[:-1]) / 2)])
    return ZetaLaw(zeta, cumulative / cumulative[-1], likelihood)


def laws(release: ProbabilityRelease, *, plain: bool = False) -> list[ZetaLaw]:
    """The law of each released query's zeta."""
    terms = release.terms
    least = terms.least if terms.method == "fisher" else None
    pairs = zip(release.means.tolist(), release.noise_scales.tolist(), strict=True)
    return [zeta_law(mean, 0.0 if plain else scale, terms.subsets, least=least) for mean, scale in pairs]


def _moments(zeta: Floats, subsets: int) -> tuple[Floats, Floats]:
    """Mean and variance of the mean of Phi(zeta_j): Phi(zeta / sqrt(2 M)) and (1/12 - 1/(4 pi)) / M."""
    from scipy.special import ndtr

    spread = math.sqrt((1 / 12 - 1 / (4 * math.pi)) / subsets)
    return ndtr(zeta / math.sqrt(2 * subsets)), np.full_like(zeta, spread)


def _fisher_moments(zeta: Floats, subsets: int, least: float) -> tuple[Floats, Floats]:
    """Mean and variance of the mean of log max(Phi(zeta_j), p*) / log p*, interpolated between integrals."""
    places, mean, spread = _fisher_integrals(subsets, least)
    return np.interp(zeta, places, mean), np.interp(zeta, places, spread)


@lru_cache(maxsize=16)
def _fisher_integrals(subsets: int, least: float) -> tuple[Floats, Floats, Floats]:
    from scipy.special import log_ndtr

    places = np.linspace(-FURTHEST, FURTHEST, INTEGRALS)
    shift = places / math.sqrt(subsets)
    cuts = np.linspace(shift[0] - FURTHEST, shift[-1] + FURTHEST, CUTS)
    answers = np.minimum(log_ndtr(cuts) / math.log(least), 1.0)
    weights = np.exp(-((cuts - shift[:, None]) ** 2) / 2)
    weights /= weights.sum(axis=1, keepdims=True)
    mean = weights @ answers
    square = weights @ answers**2 - mean**2
    covariance = weights @ (answers * cuts) - mean * shift
    return places, mean, np.sqrt(np.maximum(square - covariance**2, 1e-12) / subsets)


def rescaled_normal(means: Floats, subsets: int, *, factor: float = 2.0) -> Floats:
    """The point estimate Phi(sqrt(2 M) Phi^-1(mean)) of clipped means; a factor of 1 is the published form."""
    from scipy.special import ndtr, ndtri

    return ndtr(math.sqrt(factor * subsets) * ndtri(np.clip(means, 0.0, 1.0)))


def fisher_references(subsets: int, *, least: float, noise_scale: float, seed: int, count: int = REFERENCES) -> Floats:
    """Sorted reference draws: noisy means of M independent uniform answers, whose logarithms are cut at p*."""
    generator = np.random.Generator(np.random.Philox(seed))
    rows = max(1, 10**6 // subsets)
    sums: list[Floats] = []
    for start in range(0, count, rows):
        uniform = generator.random((min(rows, count - start), subsets))
        sums.append(np.log(np.maximum(uniform, least)).sum(axis=1) / (math.log(least) * subsets))
    return np.sort(np.concatenate(sums) + generator.laplace(0.0, noise_scale, count))


def fisher_points(means: Floats, references: Floats) -> Floats:
    """The share of reference draws above each released statistic."""
    return 1 - np.searchsorted(references, means, side="right") / len(references)
