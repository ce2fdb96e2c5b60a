"""The published Gibbs sampler as its authors' program has it, in plain numpy: duplicated entries, loops over moments.

A rival for speed and mixing, not for use: it counts evidence twice and its covariances are singular. `fixed` keeps the
covariates' moments of the first iteration, as the paper's other variants do.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import invwishart

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release

MEAN_WEIGHT, SCATTER, EXTRA_DEGREES = 0.01, 0.01, 2.0


@dataclass
class Published:
    """One chain; q counts the constant and the covariates."""

    release: Release
    seed: int
    fixed: bool = False

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.prior, self.n = Prior(), self.release.count
        full = self.release.matrix()
        self.q = q = len(full) - 1
        scale = np.zeros_like(full)
        for (i, j), each in zip(self.release.entries, self.release.mechanism.scales, strict=True):
            scale[i, j] = scale[j, i] = each
        scale[0, 0] = 1e-6  # the count is known; its noise must not be exactly 0 here
        self.z, self.scale = self.vector(full), self.vector(scale)
        self.statistic = self.z.copy()
        self.variance = self.random.exponential(2 * self.scale**2)
        self.second, self.between = np.zeros((q, q)), np.zeros((q, q, q, q))
        self.law = False

    def vector(self, full: Floats) -> Floats:
        """XX, Xy, yy of full moments, every off-diagonal of XX twice."""
        return np.concatenate([full[: self.q, : self.q].ravel(), full[: self.q, -1], full[-1:, -1]])

    def run(self, draws: int) -> Floats:
        """(draws, q): theta, the intercept first."""
        found = np.empty((draws, self.q))
        for draw in range(draws):
            full = self.projected()
            theta, variance = self.regression(full)
            if not (self.fixed and self.law):
                self.covariates(full)
                self.law = True
            self.noise()
            self.sufficient(theta, variance)
            found[draw] = theta
        return found

    def projected(self) -> Floats:
        """The moments as one matrix, its negative eigenvalues set to 0."""
        q = self.q
        full = np.zeros((q + 1, q + 1))
        full[:q, :q] = self.statistic[: q * q].reshape(q, q)
        full[:q, q] = full[q, :q] = self.statistic[q * q : -1]
        full[q, q] = self.statistic[-1]
        return nearest((full + full.T) / 2)

    def regression(self, full: Floats) -> tuple[Floats, float]:
        """A draw of theta and sigma^2 from their normal-inverse-gamma law, by an inverse."""
        added = self.prior.response_matrix(self.release.schema) + full
        inverse = np.linalg.inv(added[:-1, :-1])
        mean = inverse @ added[:-1, -1]
        scale = max((added[-1, -1] - mean @ added[:-1, -1]) / 2, 1e-3)
        variance = scale / self.random.gamma(self.prior.noise_shape + self.n / 2)
        return self.random.multivariate_normal(mean, variance * inverse), float(variance)

    def covariates(self, full: Floats) -> None:
        """Draw mean and covariance of x from their normal-inverse-Wishart law, and set its moments one by one."""
        d, n, q = self.q - 1, self.n, self.q
        average = full[0, 1:q] / n
        outer = np.outer(average, average)
        scale = SCATTER * np.eye(d) + full[1:q, 1:q] - n * outer + MEAN_WEIGHT * n / (MEAN_WEIGHT + n) * outer
        scale = nearest(scale) + 1e-9 * np.eye(d)
        covariance = np.atleast_2d(invwishart.rvs(d + EXTRA_DEGREES + n, scale, random_state=self.random))
        weight = MEAN_WEIGHT + n
        mean = np.append(1.0, self.random.multivariate_normal(n * average / weight, covariance / weight))
        spread = np.zeros((q, q))
        spread[1:, 1:] = covariance
        self.second = spread + np.outer(mean, mean)
        second = self.second
        for i in range(q):
            for j in range(q):
                for k in range(q):
                    for l in range(q):  # noqa: E741
                        fourth = second[i, j] * second[k, l] + second[i, k] * second[j, l] + second[i, l] * second[j, k]
                        fourth -= 2 * mean[i] * mean[j] * mean[k] * mean[l]
                        self.between[i, j, k, l] = fourth - second[i, j] * second[k, l]
        self.between = nearest(self.between.reshape(q * q, q * q)).reshape(q, q, q, q)

    def noise(self) -> None:
        """Draw the variances of Laplace noise, or set those of normal noise."""
        if self.release.mechanism.name == "gaussian":
            self.variance = self.scale**2
            return
        size = np.maximum(np.abs(self.z - self.statistic), 1e-9)
        self.variance = self.random.wald(self.scale * size, size**2) + self.scale**2 * self.random.chisquare(
            1, size.size
        )

    def sufficient(self, theta: Floats, variance: float) -> None:
        """Draw the statistics from the product of two normal densities."""
        mean, covariance = self.limit_law(theta, variance)
        noise = np.diag(self.variance)
        inverse = np.linalg.inv(covariance + noise)
        centre = noise @ inverse @ mean + covariance @ inverse @ self.z
        both = covariance @ inverse @ noise
        self.statistic = self.random.multivariate_normal(centre, nearest((both + both.T) / 2), check_valid="ignore")

    def limit_law(self, theta: Floats, variance: float) -> tuple[Floats, Floats]:
        """Mean and covariance of XX, Xy, yy, the components of equations 2 and 3 one by one."""
        q, second, between = self.q, self.second, self.between
        xx_xy, xx_yy, xy_xy = np.zeros((q, q, q)), np.zeros((q, q)), np.zeros((q, q))
        xy_yy, yy_yy = np.zeros(q), 2 * variance**2
        for i in range(q):
            for j in range(q):
                xy_xy[i, j] += variance * second[i, j]
                xy_yy[i] += 2 * variance * theta[j] * second[i, j]
                yy_yy += 4 * variance * theta[i] * theta[j] * second[i, j]
                for k in range(q):
                    for l in range(q):  # noqa: E741
                        moment = between[i, j, k, l]
                        xx_xy[i, j, k] += theta[l] * moment
                        xx_yy[i, j] += theta[k] * theta[l] * moment
                        xy_xy[i, j] += theta[k] * theta[l] * between[i, k, j, l]
                        xy_yy[i] += theta[j] * theta[k] * theta[l] * moment
                        yy_yy += theta[i] * theta[j] * theta[k] * theta[l] * moment
        cross = xx_xy.reshape(q * q, q)
        squares = xx_yy.reshape(q * q, 1)
        covariance = self.n * np.block(
            [
                [between.reshape(q * q, q * q), cross, squares],
                [cross.T, xy_xy, xy_yy[:, None]],
                [squares.T, xy_yy[None], np.array([[yy_yy]])],
            ]
        )
        last = second @ theta
        mean = self.n * np.concatenate([second.ravel(), last, [theta @ last + variance]])
        return mean, covariance


def nearest(matrix: Floats) -> Floats:
    """The matrix, with negative eigenvalues set to 0 unless it is positive definite."""
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        return vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
    return matrix


def run(release: Release, draws: int, seed: int) -> Floats:
    """Theta draws in standardised units, (draws, d + 1), the intercept first; the update variant from its start."""
    return Published(release, seed).run(draws)
