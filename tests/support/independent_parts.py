"""A wrong law that tests must reject: the parts' covariate moments have independent vague priors.

For one number, Gaussian noise and parts of hundreds of rows, in plain numpy. Given theta and sigma the parts are
independent, and a part's noisy sums of (x, x^2, y, xy, y^2) are normal given mean m and variance v of its covariate:
their means are linear in v, which is integrated out in closed form; m on a grid around the part's own mean.
The variance of y's sums given m and v is negligible relative to the noise, and is taken at the mean of v given m and
the sum of x^2.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.schema import RegressionSchema
from tests.support.regressions import covariate_moments, regressed, regression_draws

NODES, REACH = 64, 6.0  # of a part's grid of m, and to how many sds from its middle it goes
CHAINS, WARMUP, THIN = 20, 60, 20  # generations of all chains


def drawn_apart(
    prior: Prior, schema: RegressionSchema, rows: Sequence[int], generator: np.random.Generator
) -> tuple[Floats, list[Floats]]:
    """Exact draws from the wrong law: theta and sigma, and moments of every part."""
    theta, sigma = regression_draws(prior, schema, 1, generator)
    count, sizes = len(rows), np.array(rows, dtype=np.float64)
    known = sizes[:, None, None] * covariate_moments(prior, np.ones((count, 1, 1)), schema, generator)
    full = regressed(known, np.repeat(theta, count, axis=0), np.repeat(sigma, count), sizes, generator)
    return np.append(theta[0], sigma[0]), list(full)


@dataclass(frozen=True)
class Parts:
    """Released sums per row, variances of their noise and a grid, one row per part; and the regression's prior."""

    prior: Prior
    sds: Floats  # of theta, in the prior's units
    rows: Floats
    noisy: Floats  # of x, y, x^2, xy, y^2, as a schema of one number has its entries
    noise: Floats
    m: Floats
    v: Floats  # its mean given m and the noisy sum of x^2
    law: Floats  # log weight of m in the integral: its prior and the noise of the sum of x inside

    def log_density(self, point: Floats) -> float:
        """log p(theta, log sigma, noisy sums), up to a constant."""
        (first, slope), variance, m = point[:2], float(np.exp(2 * point[2])), self.m
        y, xy, square = first + slope * m, first * m + slope * m**2, first**2 + 2 * first * slope * m + (slope * m) ** 2
        away = [self.noisy[:, [place]] - mean for place, mean in ((2, m**2), (1, y), (3, xy), (4, square + variance))]
        by_v = [np.ones(1), np.zeros(1), np.full(1, slope), np.full(1, slope**2)]  # what v adds to these means
        unit, at = variance / self.rows, xy + slope * self.v  # below, the root of their covariances
        known, first_noise, cross_noise, last_noise = (self.noise[:, [place]] for place in (2, 1, 3, 4))
        d1 = unit + first_noise
        a, b = unit * m / d1, 2 * unit * y / d1
        d2 = unit * (m**2 + self.v) + cross_noise - a**2 * d1
        c = (2 * unit * at - a * b * d1) / d2
        d3 = 4 * unit * (square + slope**2 * self.v) + 2 * unit * variance + last_noise - b**2 * d1 - c**2 * d2
        for left in (away, by_v):
            left[2] = left[2] - a * left[1]
            left[3] = left[3] - b * left[1] - c * left[2]
        scales = (known, d1, d2, d3)
        precision = sum(own**2 / d for own, d in zip(by_v, scales, strict=True))
        pull = sum(own * rest / d for own, rest, d in zip(by_v, away, scales, strict=True)) - 1 / self.prior.variance
        squares = sum(rest**2 / d for rest, d in zip(away, scales, strict=True))
        value = self.law - (squares + np.log(d1 * d2 * d3 * precision) - pull**2 / precision) / 2
        value += log_ndtr(pull / np.sqrt(precision))  # v is positive
        top = value.max(axis=1)
        parts = float(np.sum(top + np.log(np.exp(value - top[:, None]).sum(axis=1))))
        log_variance = 2 * point[2:]
        scaling = float(np.mean(self.prior.scaling(np.exp(log_variance))))
        spread = float(np.sum((point[:2] / self.sds) ** 2)) / (2 * scaling) + np.log(scaling)
        return parts - spread + float(self.prior.log_noise(log_variance)[0])

    def guesses(self, generator: np.random.Generator) -> Floats:
        """Scattered starts around a fit to the pooled sums."""
        x, y, xx, xy, yy = np.average(self.noisy, axis=0, weights=self.rows[:, 0])
        fit = np.linalg.solve([[1.02, x], [x, max(xx, x**2 + 0.05) + 0.02]], [y, xy])
        left = max(yy - fit @ [y, xy], 0.01)
        return np.append(fit, np.log(left) / 2) + generator.standard_normal((CHAINS, 3)) * [0.1, 0.2, 0.3]

    def draws(self, kept: int, generator: np.random.Generator) -> Floats:
        """Nearly independent draws of (theta, sigma); each chain moves by the difference of two others."""
        now = self.guesses(generator)
        values, found = np.array([self.log_density(point) for point in now]), list[Floats]()
        for turn in range(1, WARMUP + kept // CHAINS * THIN + 1):
            for chain in range(CHAINS):
                others = (chain + 1 + generator.choice(CHAINS - 1, 2, replace=False)) % CHAINS
                length = 1.0 if turn % 10 == 0 else 2.38 / np.sqrt(2 * 3)
                there = now[chain] + length * (now[others[0]] - now[others[1]]) + 1e-3 * generator.standard_normal(3)
                value = self.log_density(there)
                if np.log(generator.random()) < value - values[chain]:
                    now[chain], values[chain] = there, value
            if turn in (WARMUP // 4, WARMUP // 2):  # chains of low density restart at others
                order = np.argsort(values)
                worse, better = order[: CHAINS // 2], order[CHAINS // 2 :]
                now[worse], values[worse] = now[better], values[better]
            if turn > WARMUP and (turn - WARMUP) % THIN == 0:
                found.append(now.copy())
        drawn = np.concatenate(found)
        return np.column_stack([drawn[:, :2], np.exp(drawn[:, 2])])


def parts_apart(parts: Sequence[Release], prior: Prior) -> Parts:
    """The posterior of releases by the wrong law."""
    rows = np.array([[part.rows] for part in parts], dtype=np.float64)
    noisy = np.array([part.values for part in parts]) / rows
    noise = (np.array([part.mechanism.scales for part in parts]) / rows) ** 2
    precision = 1 / noise[:, [0]] + 1 / prior.mean_sd**2
    at, weight = np.polynomial.legendre.leggauss(NODES)
    away = REACH / np.sqrt(precision) * at
    m = noisy[:, [0]] / noise[:, [0]] / precision + away
    law = np.log(weight / np.sqrt(precision)) - away**2 * precision / 2
    sd = np.sqrt(noise[:, [2]])
    free = noisy[:, [2]] - m**2 - noise[:, [2]] / prior.variance  # v's mean were it not positive
    v = free + sd * np.exp(-((free / sd) ** 2) / 2 - log_ndtr(free / sd)) / np.sqrt(2 * np.pi)
    return Parts(prior, prior.laws(parts[0].schema)[1], rows, noisy, noise, m, v, law)
