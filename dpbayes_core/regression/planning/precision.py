"""How precise a regression's posterior will be, before any row is read: an approximation in closed form.

Covariates are treated one by one (precision_per_column.py) and share sigma2, which is integrated by quadrature, for
simulated releases of the expected moments. The result is the conjugate posterior where noise vanishes, and the prior
where noise dominates. Figures and limits: docs/planning.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.planning.expected_moments import Expectation
from dpbayes_core.regression.planning.precision_per_column import (
    Column,
    Given,
    Moments,
    PriorLaw,
    SimulatedMoments,
    columns_of,
    moments,
)
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.schema import SIGMA

NODES = 32  # of sigma2
SIMULATIONS = 24  # releases, with a fixed seed
SEED = 20_261_118
REFINEMENTS = 8
DEPTH = 12.0  # nodes are remaining out whose log density is this far below the maximum
TAIL = 0.025  # of probability on either side of a 95% interval
FINER = 64  # steps between two nodes in the search for a quantile of sigma
HALVINGS = 32  # of the range in the search for a quantile
REACH = 3.0  # half width of a coefficient's prior, in its sds
SCATTER = 1.25  # ratio of the 80% to the 20% quantile of simulated releases above which a prediction is rough


@dataclass(frozen=True)
class Prediction:
    """One coefficient's posterior standard deviation and half the width of its 95% interval, in the user's units."""

    coefficient: str
    sd: float
    half_width: float
    rough: bool  # it varies by a quarter or more with the noise that will be drawn, or the prior is impossible


def precision_of(expectation: Expectation, prior: Prior) -> tuple[Prediction, ...]:
    """The median over simulated releases for every coefficient, the intercept first and sigma last."""
    if contradicting := impossible(expectation, prior):  # no sigma2 is compatible with their means
        prior = replace(prior, named=tuple((name, 0.0, sd) for name, _, sd in prior.named))
    deviations, half_widths = _SimulatedReleases(expectation, prior).widths()
    low, middle, high = np.quantile(deviations, (0.2, 0.5, 0.8), axis=1)
    names = (*expectation.schema.coefficients, SIGMA)
    rough = (high > SCATTER * low) | bool(contradicting)
    columns = middle.tolist(), np.median(half_widths, axis=1).tolist(), rough.tolist()
    return tuple(Prediction(*one) for one in zip(names, *columns, strict=True))


def impossible(expectation: Expectation, prior: Prior) -> tuple[str, ...]:
    """The slopes whose priors, even at the ends nearest 0, imply more variance than the response has."""
    schema = expectation.schema
    means, sds, _ = prior.laws(schema)
    slopes = slice(int(schema.intercept), None)
    nearest = np.sign(means) * np.maximum(np.abs(means) - REACH * prior.reference * sds, 0)
    if nearest[slopes] @ expectation.covariance @ nearest[slopes] <= expectation.variance:
        return ()
    return tuple(name for name, at in zip(schema.coefficients[slopes], nearest[slopes], strict=True) if at)


@dataclass(frozen=True, eq=False)
class _SimulatedReleases:
    expectation: Expectation
    prior: Prior

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return columns_of(self.expectation, self.law)

    @cached_property
    def law(self) -> PriorLaw:
        return PriorLaw(self.prior)

    @cached_property
    def residual(self) -> float:
        """The expected sigma2."""
        return (1 - self.expectation.explained) * self.expectation.variance

    @cached_property
    def noise_of_square(self) -> float:
        """The variance of the noise on the response's variance."""
        response, constant = self.expectation.centred[-1], self.expectation.constant
        noise = self.expectation.noise_of
        return noise(response, response) + 2 * noise(response, constant) ** 2

    @cached_property
    def simulated(self) -> tuple[list[SimulatedMoments], Floats]:
        """Simulated releases of each column's moments, and of the response's variance."""
        generator = np.random.Generator(np.random.Philox(SEED))
        response = generator.standard_normal((SIMULATIONS, 1))
        normals = generator.standard_normal((len(self.columns), 3, SIMULATIONS, 1))
        sampled = self.residual / self.expectation.rows
        columns = [SimulatedMoments.of(self.columns, place, sampled, own) for place, own in enumerate(normals)]
        explained = sum(len(one.members) * one.v * one.slope**2 for one in self.columns)
        return columns, self.residual + explained + np.sqrt(self.noise_of_square) * response

    def widths(self) -> tuple[Floats, Floats]:
        """Standard deviations and half widths of 95% intervals, in the user's units.

        Each is (coefficients and sigma, simulated releases).
        """
        grid = self._grid()
        weights, found = self._posterior(grid)
        sigma2, schema = np.exp(grid), self.expectation.schema
        members = np.zeros(self.expectation.d, dtype=np.int64)
        for place, column in enumerate(self.columns):
            members[list(column.members)] = place
        means, variances = (np.stack([getattr(one, part) for one in found]) for part in ("mean", "variance"))
        slopes, ranges = _spread(weights, means, variances), _half_range(weights, means, variances)
        level = self._level(sigma2, found)
        height = schema.standardised(schema.response).width / 2
        own = self._user_units(np.sqrt((weights * level).sum(axis=1)), slopes[members])
        sigma = height * _spread(weights, np.sqrt(sigma2), np.zeros_like(sigma2))
        wide = self._user_units(np.zeros(SIMULATIONS), ranges[members])
        if schema.intercept:
            within = self._intercept(np.sqrt(level), np.sqrt(variances)[members]) ** 2
            zero = np.zeros_like(within)
            if (alone := self.law.intercept(schema, sigma2)) is not None:
                within = 1 / (1 / within + 1 / alone)
                own[0] = _spread(weights, zero, within)
            wide[0] = own[0] * _half_range(weights, zero, within) / _spread(weights, zero, within)
        return np.vstack([own, sigma]), np.vstack([wide, height * _half_range_of_root(weights, grid)])

    def _grid(self) -> Floats:
        """Nodes of log sigma2 where its posterior has its mass, for each simulated release."""
        low = np.full((SIMULATIONS, 1), np.log(self.residual) - 14)
        most = self.expectation.variance + self.law.widest + 8 * np.sqrt(self.noise_of_square)
        high = np.full((SIMULATIONS, 1), np.log(most))
        rows, steps = np.arange(SIMULATIONS), np.linspace(0, 1, NODES)
        for _ in range(REFINEMENTS):
            grid = low + (high - low) * steps
            weights, _ = self._posterior(grid)
            inside = weights > np.exp(-DEPTH) * weights.max(axis=1, keepdims=True)
            if inside.sum(axis=1).min() >= NODES / 3:
                return grid
            first, last = inside.argmax(axis=1), NODES - 1 - inside[:, ::-1].argmax(axis=1)
            low = grid[rows, np.maximum(first - 1, 0)][:, None]
            high = grid[rows, np.minimum(last + 1, NODES - 1)][:, None]
        return low + (high - low) * steps

    def _posterior(self, grid: Floats) -> tuple[Floats, list[Moments]]:
        """Weights of the nodes, and every column's moments there."""
        sigma2 = np.exp(grid)
        squares = [1 / (1 / self.law.variance(one.tau, sigma2) + 1 / one.slope**2) for one in self.columns]
        alone = self._moments(sigma2, squares, None)
        found = self._moments(sigma2, [one.square for one in alone], alone)
        log = self.law.log_noise(grid)
        sizes = np.array([len(column.members) for column in self.columns])
        log += np.tensordot(sizes, np.stack([one.log for one in found]), axes=1)
        log += np.tensordot(sizes / sizes.sum(), np.stack([one.tilt for one in found]), axes=1)
        weights = np.exp(log - log.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True), found

    def _moments(self, sigma2: Floats, squares: Sequence[Floats], alone: Sequence[Moments] | None) -> list[Moments]:
        """The moments of every column, given mean squares of the other coefficients.

        `alone`, if given, has all columns' moments without regard to the response's variance, which it then limits.
        """
        rows, remaining, spread = self.expectation.rows, None, None
        if alone is not None:
            sizes = np.array([len(column.members) for column in self.columns])
            explained = np.tensordot(sizes, np.stack([one.explained for one in alone]), axes=1)
            varying = np.tensordot(sizes, np.stack([one.explained_variance for one in alone]), axes=1)
            remaining = self.simulated[1] - sigma2 - explained
            spread = self.noise_of_square + 2 * sigma2**2 / rows + varying
        found: list[Moments] = []
        for place, (column, made) in enumerate(zip(self.columns, self.simulated[0], strict=True)):
            noise = column.noise_c + np.tensordot(column.others, np.stack(squares), axes=1)
            own = None if alone is None else alone[place]
            given = Given(
                sigma2=sigma2,
                rows=rows,
                prior_variance=self.law.variance(column.tau, sigma2),
                noise=noise,
                remaining=None if remaining is None or own is None else remaining + own.explained,
                spread=None if spread is None or own is None else spread - own.explained_variance,
            )
            found.append(moments(column, made, given, self.prior.variance))
        return found

    def _level(self, sigma2: Floats, found: Sequence[Moments]) -> Floats:
        """The posterior variance of the response's level at the covariates' means."""
        known = self.expectation
        noise = known.noise_of(known.constant, known.centred[-1]) + np.zeros_like(sigma2)
        for column, one in zip(self.columns, found, strict=True):
            noise += len(column.members) * column.on_mean * one.square
        return 1 / (1 / (sigma2 / known.rows + noise) + self.law.level_precision(sigma2))

    def _user_units(self, level: Floats, slopes: Floats) -> Floats:
        """Standard deviations of the intercept, if any, and of the slopes: (coefficients, simulated releases)."""
        first = int(self.expectation.schema.intercept)
        found = np.abs(np.diag(self._linear)[first:, None]) * slopes
        return np.vstack([self._intercept(level, slopes), found]) if first else found

    def _intercept(self, level: Floats, slopes: Floats) -> Floats:
        """The intercept's standard deviation from those of the level, (...), and of the slopes, (d, ...)."""
        linear = self._linear[0]
        scaled = ((linear[1:] - linear[0] * self.expectation.means) * slopes.T).T
        correlated = np.tensordot(self._correlation, scaled, axes=1)
        return np.sqrt((linear[0] * level) ** 2 + (scaled * correlated).sum(axis=0))

    @cached_property
    def _linear(self) -> Floats:
        """The matrix from standardised coefficients to the user's, up to an offset."""
        schema, size = self.expectation.schema, len(self.expectation.schema.coefficients)
        unit, _ = schema.to_user_units(np.eye(size), np.zeros(size))
        zero, _ = schema.to_user_units(np.zeros((1, size)), np.zeros(1))
        return (unit - zero).T

    @cached_property
    def _correlation(self) -> Floats:
        """The correlations of the slopes' posterior, in the linear approximation."""
        known = self.expectation
        forms = np.stack([known.forms(row, known.centred[-1]) for row in known.centred[:-1]])
        around = self.residual * known.covariance / known.rows + (forms * known.noise) @ forms.T
        precision = known.covariance @ np.linalg.solve(around, known.covariance)
        precision += np.eye(known.d) / self.law.variance(self.prior.coefficient_sd, np.array(self.residual))
        covariance = np.linalg.inv(precision)
        root = np.sqrt(np.diag(covariance))
        return covariance / np.outer(root, root)


def _spread(weights: Floats, mean: Floats, variance: Floats) -> Floats:
    """The standard deviation of a mixture over the nodes, for each simulated release."""
    first = (weights * mean).sum(axis=-1)
    return np.sqrt(np.maximum((weights * (variance + mean**2)).sum(axis=-1) - first**2, 0.0))


def _half_range(weights: Floats, mean: Floats, variance: Floats) -> Floats:
    """Half of the distance from the 2.5% to the 97.5% quantile of a mixture of normals over the nodes."""
    from scipy.special import ndtr, ndtri

    deviation = np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny))
    ends: list[Floats] = []
    for share in (TAIL, 1 - TAIL):
        alone = mean + ndtri(share) * deviation
        low, high = alone.min(axis=-1), alone.max(axis=-1)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            below = (weights * ndtr((middle[..., None] - mean) / deviation)).sum(axis=-1) < share
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        ends.append((low + high) / 2)
    return (ends[1] - ends[0]) / 2


def _half_range_of_root(weights: Floats, grid: Floats) -> Floats:
    """The same for sigma; log sigma2 has these weights on even nodes, and a quadratic log density in between."""
    log = np.log(np.maximum(weights, np.finfo(np.float64).tiny))
    curvature = np.pad(np.diff(log, n=2, axis=1), ((0, 0), (1, 1)), mode="edge")
    curved, part = (curvature[:, :-1] + curvature[:, 1:]) / 2, (np.arange(FINER) + 0.5) / FINER
    between = log[:, :-1, None] + np.diff(log, axis=1)[..., None] * part - 0.5 * curved[..., None] * part * (1 - part)
    share = np.cumsum(np.exp(between).reshape(len(log), -1), axis=1)
    fine = np.linspace(0, 1, share.shape[1] + 1)[1:]
    ends = [
        np.interp((TAIL, 1 - TAIL), one / one[-1], at[0] + (at[-1] - at[0]) * fine)
        for one, at in zip(share, grid, strict=True)
    ]
    return np.diff(np.exp(np.stack(ends) / 2), axis=1)[:, 0] / 2


EXCLUDED = 1.96  # half width of a 95% interval, in posterior sds
IN_FOUR_OF_FIVE = 0.84  # the 80% quantile of a standard normal
LEAST = 0.1  # share of the prior's variance that the release must remove for an effect to be detectable


def detectable_effect(half_width: float, alone: float) -> float | None:
    """The least effect whose 95% interval excludes 0 in most releases; None where the prior decides.

    "Most" is four of five if all is normal, and about three of four with noise in the covariates' moments, as measured
    in `tests/laws/test_foresight_against_posteriors.py`.

    A prior of sd t around 0 and an estimate of standard error e make a posterior of variance v = 1 / (1/t^2 + 1/e^2)
    around k times the estimate, k = 1 - v / t^2. An effect b is detectable where k (b - .84 e) > 1.96 sqrt(v).
    """
    share = 1 - min(half_width / alone, 1.0) ** 2
    if share < LEAST:
        return None
    return half_width / share + IN_FOUR_OF_FIVE * half_width / EXCLUDED / math.sqrt(share)
