"""The law of a pool whose parts differ, written down from its formulas in plain numpy, to check the compiled density.

Everything is a function of the exact statistics R_j (second moments of (1, f, c, y): factors, numbers, response) and of
the common parameters; theta and sigma of the conjugate prior are integrated out, and put back by their own law.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from dpbayes_core.arrays import Floats


@dataclass(frozen=True)
class Common:
    """Parameters that the parts share."""

    centre: Floats  # B
    tau: Floats  # of each of B's entries
    scatter: Floats  # Psi
    t: float
    theta: Floats
    sigma: float


def multigammaln(a: float, k: int) -> float:
    """log of the multivariate gamma function, up to a constant."""
    return float(np.sum(gammaln(a - np.arange(k) / 2)))


def normal_law(away: Floats, spread: NDArray[Any]) -> float:
    """log N(away; 0, spread), up to a constant."""
    return float(-np.linalg.slogdet(spread)[1] / 2 - away @ np.linalg.solve(spread, away) / 2)


def part_law(moments: Floats, rows: float, heads: int, common: Common) -> float:
    """log p of one part's B_j and W_j, as a density in R's entries: the first `heads` columns are (1, factors)."""
    k = len(common.scatter)
    head, cross, own = moments[:heads, :heads], moments[heads:-1, :heads], moments[heads:-1, heads:-1]
    slopes = np.linalg.solve(head, cross.T).T if heads else cross
    residual = own - slopes @ cross.T
    inner, degrees = 1 / (2 * common.t**2), rows - heads
    nu = inner + k + 1
    value = multigammaln((degrees + nu) / 2, k) - multigammaln(nu / 2, k) - multigammaln(degrees / 2, k)
    value -= degrees / 2 * (k * np.log(inner) + np.linalg.slogdet(common.scatter)[1])
    value -= (degrees + nu) / 2 * np.linalg.slogdet(np.eye(k) + np.linalg.solve(common.scatter, residual) / inner)[1]
    value += (degrees - k - 1) / 2 * np.linalg.slogdet(residual)[1]
    if heads:
        spread = np.diag(common.tau.ravel() ** 2) + np.kron(common.scatter, np.linalg.inv(head))
        value += normal_law((slopes - common.centre).ravel(), spread)
        value -= k * np.linalg.slogdet(head)[1]
    return float(value)


def split_law(moments: Floats, rows: float, heads: int, common: Common) -> float:
    """The same of people who are dealt out: Psi / n about the one B, and a Wishart law of the residual scatter."""
    k = len(common.scatter)
    head, cross, own = moments[:heads, :heads], moments[heads:-1, :heads], moments[heads:-1, heads:-1]
    slopes = np.linalg.solve(head, cross.T).T
    residual, degrees = own - slopes @ cross.T, rows - heads
    value = (degrees - k - 1) / 2 * np.linalg.slogdet(residual)[1] - degrees / 2 * np.linalg.slogdet(common.scatter)[1]
    value -= np.trace(np.linalg.solve(common.scatter, residual)) / 2 + degrees * k / 2 * np.log(2)
    value -= multigammaln(degrees / 2, k) + k * np.linalg.slogdet(head)[1]
    spread = np.kron(common.scatter, np.linalg.inv(head))
    return float(value + normal_law((slopes - common.centre).ravel(), spread))


def responses_law(parts: list[Floats], rows: list[float], added: Floats, shape: float) -> float:
    """log p of every part's products with the response given its covariates, theta and sigma integrated out."""
    value = 0.0
    for moments, n in zip(parts, rows, strict=True):
        p = len(moments) - 1
        known = np.linalg.slogdet(moments[:-1, :-1])[1]
        value += (n - p - 2) / 2 * (np.linalg.slogdet(moments)[1] - known) - known / 2
        value -= gammaln((n - p) / 2) + n / 2 * np.log(2)
    whole = added + sum(parts)
    known, total = np.linalg.slogdet(whole[:-1, :-1])[1], shape + sum(rows) / 2
    return float(value + gammaln(total) - known / 2 - total * (np.linalg.slogdet(whole)[1] - known - np.log(2)))


def coefficients_law(parts: list[Floats], rows: list[float], added: Floats, shape: float, common: Common) -> float:
    """log p(theta, log sigma) given the statistics, under the conjugate prior."""
    whole, total = added + sum(parts), shape + sum(rows) / 2
    mean = np.linalg.solve(whole[:-1, :-1], whole[:-1, -1])
    rest = (whole[-1, -1] - whole[-1, :-1] @ mean) / 2
    away, variance = common.theta - mean, common.sigma**2
    value = np.linalg.slogdet(whole[:-1, :-1])[1] / 2 - len(mean) / 2 * np.log(2 * np.pi * variance)
    value -= away @ whole[:-1, :-1] @ away / (2 * variance)
    return float(value + total * np.log(rest) - gammaln(total) - total * np.log(variance) - rest / variance + np.log(2))


def common_prior(common: Common, prior: Any, taus: Floats) -> float:
    """log p of B, Psi (a density in its entries), tau and t, up to a constant."""
    k, variances = len(common.scatter), np.diag(common.scatter)
    value = -np.sum(common.centre**2) / (2 * prior.mean_sd**2) - np.sum(variances) / prior.variance
    value -= (k - 1) / 2 * np.sum(np.log(variances))  # from correlations to covariances
    correlation = common.scatter / np.sqrt(np.outer(variances, variances))
    value += (prior.correlation - 1) * np.linalg.slogdet(correlation)[1]
    return float(value - np.sum(taus**2) / (2 * 0.5**2) - common.t**2 / (2 * 0.5**2))


def noise_law(noisy: Floats, exact: Floats, scales: Floats, name: str) -> float:
    """log p of the noise, up to a constant."""
    away = (noisy - exact) / scales
    return float(-np.sum(np.abs(away)) if name == "laplace" else -np.sum(away**2) / 2)
