"""gibbs-ss-update in vectorised numpy: unique entries, perturb and solve, chains along the first axis."""

from dataclasses import dataclass

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release

MEAN_WEIGHT, SCATTER, EXTRA_DEGREES = 0.01, 0.01, 2.0


@dataclass
class Batch:
    """Chains that run in step."""

    release: Release
    chains: int
    seed: int

    def __post_init__(self) -> None:
        self.random, self.n = np.random.default_rng(self.seed), self.release.count
        self.prior = Prior().response_matrix(self.release.schema)
        self.shape = Prior().noise_shape + self.n / 2
        self.rows, self.columns = np.array(self.release.entries).T
        self.z = np.array(self.release.values)
        self.scale = np.asarray(self.release.mechanism.scales)
        self.statistic = np.tile(self.z, (self.chains, 1))

    def run(self, draws: int) -> Floats:
        """(draws, chains, d + 1): theta."""
        found = np.empty((draws, self.chains, len(self.prior) - 1))
        for draw in range(draws):
            full, scatter = self.moments()
            found[draw], variance = self.regression(full)
            self.statistic = self.sufficient(*self.rows_of(full, scatter, found[draw], variance))
        return found

    def moments(self) -> tuple[Floats, Floats]:
        """Full moments and scatter of the statistics, repaired where Cholesky fails."""
        full = np.zeros((self.chains, *self.prior.shape))
        full[:, self.rows, self.columns] = full[:, self.columns, self.rows] = self.statistic
        full[:, 0, 0] = self.n
        outer = full[:, 0, 1:, None] * full[:, 0, None, 1:] / self.n
        scatter = full[:, 1:, 1:] - outer
        try:
            np.linalg.cholesky(scatter)
        except np.linalg.LinAlgError:
            values, vectors = np.linalg.eigh(scatter)
            scatter = (vectors * np.maximum(values, 0)[:, None]) @ vectors.transpose(0, 2, 1)
            full[:, 1:, 1:] = scatter + outer
        return full, scatter

    def regression(self, full: Floats) -> tuple[Floats, Floats]:
        """A draw of theta and sigma^2."""
        root = np.linalg.cholesky((self.prior + full) / self.n)
        variance = self.n * root[:, -1, -1] ** 2 / 2 / self.random.standard_gamma(self.shape, self.chains)
        noise = np.sqrt(variance / self.n)[:, None] * self.random.standard_normal(root[:, -1, :-1].shape)
        triangle = root[:, :-1, :-1].transpose(0, 2, 1)
        return np.linalg.solve(triangle, (root[:, -1, :-1] + noise)[..., None])[..., 0], variance

    def rows_of(self, full: Floats, scatter: Floats, theta: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """A draw of the mean of (1, x, y), and of a root of the covariance of (x, y)."""
        d, weight = full.shape[1] - 2, MEAN_WEIGHT + self.n
        sums = full[:, 0, 1:-1]
        scale = scatter[:, :d, :d] + SCATTER * np.eye(d)
        scale = scale + MEAN_WEIGHT / (self.n * weight) * sums[:, :, None] * sums[:, None]
        chances = np.tril(self.random.standard_normal(scale.shape), -1)
        degrees = d + EXTRA_DEGREES + self.n - np.arange(d - 1, -1, -1)
        chances[:, range(d), range(d)] = np.sqrt(self.random.chisquare(degrees, (self.chains, d)))
        root = np.linalg.cholesky(scale) @ np.linalg.inv(chances)
        noise = (root @ self.random.standard_normal((self.chains, d, 1)))[..., 0]
        mean = np.ones((self.chains, d + 2))
        mean[:, 1:-1] = sums / weight + noise / np.sqrt(weight)
        mean[:, -1] = np.einsum("ci,ci->c", theta, mean[:, :-1])
        whole = np.zeros((self.chains, d + 1, d + 1))
        whole[:, :d, :d] = root
        whole[:, d, :d] = np.einsum("ci,cij->cj", theta[:, 1:], root)
        whole[:, d, d] = np.sqrt(variance)
        return mean, whole

    def sufficient(self, mean: Floats, root: Floats) -> Floats:
        """A draw of the statistics: one without regard to the release, corrected by one solve."""
        second = mean[:, :, None] * mean[:, None]
        second[:, 1:, 1:] += root @ root.transpose(0, 2, 1)
        i, j = self.rows, self.columns
        k, l = i[:, None], j[:, None]  # noqa: E741
        means = mean[:, i] * mean[:, j]
        covariance = second[:, k, i] * second[:, l, j] + second[:, k, j] * second[:, l, i]
        covariance = self.n * (covariance - 2 * means[:, :, None] * means[:, None])
        change = self.random.standard_normal(root.shape)
        change = np.tril(change, -1) + np.tril(change, -1).transpose(0, 2, 1)
        size = root.shape[1]
        change[:, range(size), range(size)] = np.sqrt(2) * self.random.standard_normal((self.chains, size))
        around = root @ change @ root.transpose(0, 2, 1)
        along = np.zeros_like(mean)
        along[:, 1:] = (root @ self.random.standard_normal((self.chains, size, 1)))[..., 0]
        whole = mean[:, :, None] * along[:, None] + along[:, :, None] * mean[:, None]
        whole[:, 1:, 1:] += around
        start = self.n * second[:, i, j] + np.sqrt(self.n) * whole[:, i, j]
        noise = self.variances()
        residual = self.z - start - np.sqrt(noise) * self.random.standard_normal(noise.shape)
        total = covariance + noise[:, :, None] * np.eye(len(self.z))
        return start + residual - noise * np.linalg.solve(total, residual[..., None])[..., 0]

    def variances(self) -> Floats:
        """A draw of the variances of Laplace noise, or those of normal noise."""
        if self.release.mechanism.name == "gaussian":
            return np.tile(self.scale**2, (self.chains, 1))
        size = np.maximum(np.abs(self.z - self.statistic), 1e-12)
        return self.random.wald(self.scale * size, size**2) + self.scale**2 * self.random.chisquare(1, size.shape)
