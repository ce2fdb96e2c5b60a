"""The samplers of Bernstein and Sheldon (2019) as in a textbook: inverses and loops."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.stats import invwishart

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release

Moment = Callable[..., float]


def product_moment(mean: Floats, covariance: Floats) -> Moment:
    """E of a product of up to four coordinates of (1, v), v normal, by expanding around the mean."""

    def centred(*places: int) -> float:
        if len(places) % 2:
            return 0.0
        if not places:
            return 1.0
        first, *rest = places
        return sum(covariance[first - 1, rest[k] - 1] * centred(*rest[:k], *rest[k + 1 :]) for k in range(len(rest)))

    def moment(*places: int) -> float:
        inner = [place for place in places if place]
        total = 0.0
        for mask in range(2 ** len(inner)):
            fixed = [place for bit, place in enumerate(inner) if mask >> bit & 1]
            free = [place for bit, place in enumerate(inner) if not mask >> bit & 1]
            total += float(np.prod([mean[place - 1] for place in fixed])) * centred(*free)
        return total

    return moment


@dataclass
class Textbook:
    """Plain Gibbs on the entries of a release of continuous columns; `law` redraws E of products of (1, x, y)."""

    release: Release
    prior: Prior
    seed: int

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.entries = self.release.schema.entries
        self.z = np.array(self.release.values)
        self.scales = self.release.mechanism.scales
        self.n = self.release.count
        self.d = self.release.schema.d

    def run(self, draws: int, law: Callable[["Textbook", Floats, Floats, float], Moment], burn: int = 300) -> Floats:
        """(draws, d + 2): theta and sigma."""
        statistic, found = self.z.copy(), []
        for _ in range(burn + draws):
            full = self.matrix(statistic)
            theta, sigma = self.regression(full)
            found.append([*theta, sigma])
            moment = law(self, full, theta, sigma)
            statistic = self.statistic(moment, self.variances(statistic))
        return np.array(found[burn:])

    def matrix(self, statistic: Floats) -> Floats:
        """Moments, repaired where their scatter has negative eigenvalues."""
        full = self.release.schema.complete(statistic, self.n)
        outer = np.outer(full[0], full[0]) / self.n
        values, vectors = np.linalg.eigh((full - outer)[1:, 1:])
        if values[0] < 0:
            full[1:, 1:] = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T + outer[1:, 1:]
        return full

    def regression(self, full: Floats) -> tuple[Floats, float]:
        """A draw of theta and sigma from their normal-inverse-gamma law."""
        added = self.prior.response_matrix(self.release.schema) + full
        inverse = np.linalg.inv(added[:-1, :-1])
        mean = inverse @ added[:-1, -1]
        scale = (added[-1, -1] - mean @ added[:-1, -1]) / 2
        variance = scale / self.random.gamma(self.prior.noise_shape + self.n / 2)
        return self.random.multivariate_normal(mean, variance * inverse), float(np.sqrt(variance))

    def variances(self, statistic: Floats) -> Floats:
        """A draw of the variances of Laplace noise, or those of normal noise."""
        if self.release.mechanism.name == "gaussian":
            return self.scales**2
        size = np.maximum(
            np.abs(self.z - statistic), 1e-12
        )  # the reciprocal of an inverse Gaussian is another plus a chi square
        return self.random.wald(self.scales * size, size**2) + self.scales**2 * self.random.chisquare(1, size.size)

    def statistic(self, moment: Moment, variances: Floats) -> Floats:
        """A draw of the statistics from the product of two normal densities, with inverses."""
        known = cache(moment)
        mean = np.array([known(*e) for e in self.entries])
        fourth = np.array([[known(*sorted((*e, *f))) for f in self.entries] for e in self.entries])
        precision = np.linalg.inv(self.n * (fourth - np.outer(mean, mean)))
        covariance = np.linalg.inv(precision + np.diag(1 / variances))
        centre = covariance @ (precision @ (self.n * mean) + self.z / variances)
        return self.random.multivariate_normal(centre, covariance)


def normal_rows(k0: float = 0.01, psi: float = 0.01, extra: float = 2.0) -> Any:
    """gibbs-ss-update: mean and covariance of x redrawn from their normal-inverse-Wishart law."""

    def law(book: Textbook, full: Floats, theta: Floats, sigma: float) -> Moment:
        d, n = book.d, book.n
        average = full[0, 1 : d + 1] / n
        scatter = full[1 : d + 1, 1 : d + 1] - n * np.outer(average, average)
        scale = psi * np.eye(d) + scatter + k0 * n / (k0 + n) * np.outer(average, average)
        covariance = np.atleast_2d(invwishart.rvs(d + extra + n, scale, random_state=book.random))
        mean = book.random.multivariate_normal(n * average / (k0 + n), covariance / (k0 + n))
        slopes = theta[1:]
        cross = covariance @ slopes
        joint = np.block([[covariance, cross[:, None]], [cross[None], np.array([[slopes @ cross + sigma**2]])]])
        return product_moment(np.append(mean, theta[0] + slopes @ mean), joint)

    return law


def fixed_rows(of_covariates: Moment) -> Any:
    """gibbs-ss-prior and -noisy: E of products of (1, x) is given; y = theta'(1, x) + e is expanded."""

    def law(book: Textbook, full: Floats, theta: Floats, sigma: float) -> Moment:
        last = book.d + 1

        def moment(*places: int) -> float:
            if last not in places:
                return of_covariates(*places)
            rest = list(places)
            rest.remove(last)
            total = sum(theta[j] * moment(j, *rest) for j in range(last))
            others = rest.count(last)  # Stein's identity: E e g(e) = sigma^2 E g'(e)
            if others:
                rest.remove(last)
                total += sigma**2 * others * moment(*rest)
            return total

        return moment

    return law
