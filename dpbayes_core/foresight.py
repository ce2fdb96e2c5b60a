"""How precise a regression's posterior will be, before any row is read: an approximation in closed form.

The posterior of one coefficient hangs on two noisy sums: what a covariate, less what the others tell of it, varies by
(v), and how it moves with the response (c). Given v and sigma2, c makes the coefficient normal; v and sigma2 are
integrated by quadrature, under the prior, for made-up noise. So the conjugate posterior comes out as noise vanishes,
and the prior as it drowns everything. Derivation and figures: docs/planning.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.expectation import EXPLAINED, Expectation
from dpbayes_core.priors import Prior
from dpbayes_core.schema import SIGMA

Floats = NDArray[np.float64]

MADE_UP = 32  # releases that are made up, by a fixed seed
SEED = 20_261_118
NODES = 40  # of each quadrature
REFINEMENTS = 8
DEPTH = 12.0  # log density below its top that is left out
WIDEST_SPREAD: Mapping[str, float] = {"two-level": 1.0, "indicator": 0.5}
"""The largest standard deviation that a level's variable can have."""


@dataclass(frozen=True)
class Prediction:
    """One coefficient's posterior standard deviation and half the width of its 95% interval, in the user's units."""

    coefficient: str
    sd: float
    half_width: float
    rough: bool  # the noise is so large that the approximation may be off by a factor of two


@dataclass(frozen=True, eq=False)
class _Group:
    """Coefficients alike in everything that matters here, told once."""

    members: tuple[int, ...]
    kind: str
    v: float  # expected partial variance
    share: float  # what its square adds to the explained variance
    noise_v: float
    noise_c: float  # of the moment with the response, other slopes left out
    others: Floats  # (groups,): noise of the moments with the other covariates, summed by group
    slope: float  # an expected size
    tau: float  # prior sd in residual sds
    mu: float  # prior mean in residual sds


@dataclass(frozen=True, eq=False)
class _Moments:
    """Of a group's coefficient given sigma2: (made-up releases, nodes of sigma2)."""

    log: Floats
    mean: Floats
    variance: Floats
    explained: Floats
    explained_variance: Floats

    @property
    def square(self) -> Floats:
        return self.variance + self.mean**2


def foresee(expectation: Expectation, prior: Prior) -> tuple[Prediction, ...]:
    """Every coefficient, the intercept first and sigma last: the median over made-up releases."""
    return _Foresight(expectation, prior).predictions()


@dataclass(frozen=True, eq=False)
class _Foresight:
    expectation: Expectation
    prior: Prior

    @cached_property
    def residual(self) -> float:
        return (1 - EXPLAINED) * self.expectation.variance

    @cached_property
    def groups(self) -> tuple[_Group, ...]:
        return tuple(_groups(self.expectation, self.prior))

    @cached_property
    def draws(self) -> tuple[Floats, Floats]:
        """Standard normals for each group's (v, c), and for the response's square."""
        generator = np.random.Generator(np.random.Philox(SEED))
        response = generator.standard_normal((MADE_UP, 1))
        return response, generator.standard_normal((len(self.groups), 3, MADE_UP, 1))

    def predictions(self) -> tuple[Prediction, ...]:
        grid = self._grid()
        weights, moments = self._posterior(grid)
        sigma2 = np.exp(grid)
        slopes = [_spread(weights, one.mean, one.variance) for one in moments]
        found = np.zeros((self.expectation.d, MADE_UP))
        for group, sd in zip(self.groups, slopes, strict=True):
            found[list(group.members)] = sd
        roots = np.sqrt(sigma2)
        sigma = _spread(weights, roots, np.zeros_like(roots))
        level = np.sqrt((weights * self._level(sigma2, moments)).sum(axis=1))
        correlation = _correlation(self.expectation, self.prior, self.residual)
        scaled = _user_units(self.expectation, correlation, level, found)
        schema = self.expectation.schema
        height = schema.standardised(schema.response).width / 2
        names = (*schema.coefficients, SIGMA)
        return tuple(
            Prediction(name, float(np.median(sd)), 1.96 * float(np.median(sd)), False)
            for name, sd in zip(names, [*scaled, height * sigma], strict=True)
        )

    def _grid(self) -> Floats:
        """Nodes of log sigma2 where its posterior has its mass, for each made-up release."""
        low = np.full((MADE_UP, 1), np.log(self.residual) - 14)
        high = np.full((MADE_UP, 1), np.log(max(self.residual, self.prior.noise_scale)) + 5)
        for _ in range(REFINEMENTS):
            grid = low + (high - low) * np.linspace(0, 1, NODES)
            weights, _ = self._posterior(grid)
            inside = weights > np.exp(-DEPTH) * weights.max(axis=1, keepdims=True)
            if inside.sum(axis=1).min() >= NODES / 3:
                return grid
            first, last = inside.argmax(axis=1), NODES - 1 - inside[:, ::-1].argmax(axis=1)
            rows = np.arange(MADE_UP)
            low = grid[rows, np.maximum(first - 1, 0)][:, None]
            high = grid[rows, np.minimum(last + 1, NODES - 1)][:, None]
        return low + (high - low) * np.linspace(0, 1, NODES)

    def _posterior(self, grid: Floats) -> tuple[Floats, list[_Moments]]:
        """Weights of the nodes, and every group's moments there."""
        sigma2 = np.exp(grid)
        squares = [1 / (1 / (one.tau**2 * sigma2) + 1 / one.slope**2) for one in self.groups]
        places = range(len(self.groups))
        squares = [self._group(place, sigma2, squares).square for place in places]
        moments = [self._group(place, sigma2, squares) for place in places]
        log = self._log_sigma2(grid, sigma2, moments)
        weights = np.exp(log - log.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True), moments

    def _log_sigma2(self, grid: Floats, sigma2: Floats, moments: Sequence[_Moments]) -> Floats:
        sizes = [len(group.members) for group in self.groups]
        explained = np.sum([n * one.explained for n, one in zip(sizes, moments, strict=True)], axis=0)
        varying = np.sum([n * one.explained_variance for n, one in zip(sizes, moments, strict=True)], axis=0)
        response = self.expectation.centred[-1]
        noise = self.expectation.noise_of(response, response)
        noise += 2 * self.expectation.noise_of(response, self.expectation.constant) ** 2
        total = self.expectation.variance
        released = total + np.sqrt(noise) * self.draws[0]
        spread = noise + 2 * sigma2**2 / self.expectation.rows + varying
        log = -self.prior.noise_shape * grid - self.prior.noise_scale / sigma2
        log += sum(n * one.log for n, one in zip(sizes, moments, strict=True))
        return log - 0.5 * np.log(spread) - 0.5 * (released - sigma2 - explained) ** 2 / spread

    def _group(self, place: int, sigma2: Floats, squares: Sequence[Floats]) -> _Moments:
        """Integrate over v: one coefficient's moments given sigma2."""
        group, n = self.groups[place], self.expectation.rows
        noise_c = group.noise_c + np.sum([w * s for w, s in zip(group.others, squares, strict=True)], axis=0)
        true_c = group.noise_c + sum(w * one.slope**2 for w, one in zip(group.others, self.groups, strict=True))
        g = self.draws[1][place]
        released_v = group.v + np.sqrt(group.noise_v) * g[0]
        sampled = group.v * self.residual / n
        released_c = group.v * group.slope * np.sign(g[2]) + np.sqrt(sampled + true_c) * g[1]
        v, log_v = _nodes(released_v, group.noise_v, group.kind, self.prior.spread)
        v, log_v = v[:, None, :], log_v[:, None, :]
        s2, c = sigma2[..., None], released_c[..., None]
        around = v * s2 / n + noise_c[..., None]
        ahead = group.mu * np.sqrt(s2)
        precision = v**2 / around + 1 / (group.tau**2 * s2)
        mean = (v * c / around + ahead / (group.tau**2 * s2)) / precision
        total = around + v**2 * group.tau**2 * s2
        log = log_v - 0.5 * np.log(total) - 0.5 * (c - v * ahead) ** 2 / total
        top = log.max(axis=2, keepdims=True)
        weights = np.exp(log - top)
        sums = weights.sum(axis=2, keepdims=True)
        weights /= sums
        first = (weights * mean).sum(axis=2)
        second = (weights * (mean**2 + 1 / precision)).sum(axis=2)
        scale = group.share / group.v
        square = v * (mean**2 + 1 / precision)
        explained = (weights * square).sum(axis=2)
        fourth = (weights * (square**2 + v**2 * (2 / precision**2 + 4 * mean**2 / precision))).sum(axis=2)
        return _Moments(
            log=(top + np.log(sums))[..., 0],
            mean=first,
            variance=second - first**2,
            explained=scale * explained,
            explained_variance=scale**2 * np.maximum(fourth - explained**2, 0.0),
        )

    def _level(self, sigma2: Floats, moments: Sequence[_Moments]) -> Floats:
        """Variance of the response's level at the covariates' means."""
        of, ex = self.groups, self.expectation
        noise = ex.noise_of(ex.constant, ex.centred[-1])
        for group, one in zip(of, moments, strict=True):
            means = sum(ex.noise_of(ex.constant, ex.centred[k]) for k in group.members)
            noise = noise + means * one.square
        prior = (self.prior.intercept_sd**2) * sigma2
        return 1 / (1 / (sigma2 / ex.rows + noise) + 1 / prior)


def _nodes(released: Floats, noise: float, kind: str, spread: float) -> tuple[Floats, Floats]:
    """Nodes of v, (made-up releases, nodes), and the log of their weights: prior times noise."""
    if noise <= 0:
        return np.maximum(released, 1e-12), np.zeros_like(released)
    deviation = np.sqrt(noise)
    highest = 16 * spread**2 if kind == "continuous" else WIDEST_SPREAD[kind] ** 2
    low = np.sqrt(np.clip(released - 6 * deviation, 0, 0.9 * highest))
    high = np.sqrt(np.clip(released + 6 * deviation, 1e-3 * highest, highest))
    high = np.maximum(high, low * (1 + 1e-9) + 1e-9)
    s = low + (high - low) * (np.arange(NODES) + 0.5) / NODES
    log = -0.5 * ((released - s**2) / deviation) ** 2
    if kind == "continuous":
        log -= 0.5 * (s / spread) ** 2
    return s**2, log


def _groups(ex: Expectation, prior: Prior) -> list[_Group]:
    named = {name: (mean, sd) for name, mean, sd in prior.named}
    variables = ex.schema.variables[:-1]
    keys: dict[tuple[object, ...], list[int]] = {}
    for place, variable in enumerate(variables):
        law = named.get(variable.label, (0.0, prior.coefficient_sd))
        key = (variable.kind, round(ex.means[place], 12), round(ex.covariance[place, place], 12), law)
        keys.setdefault(key, []).append(place)
    member_lists = list(keys.values())
    return [_group(ex, members, member_lists, key) for key, members in keys.items()]


def _group(ex: Expectation, members: list[int], all_members: list[list[int]], key: tuple[object, ...]) -> _Group:
    k = members[0]
    kind, law = str(key[0]), key[3]
    assert isinstance(law, tuple)
    own, response = ex.partial[k], ex.centred[-1]
    on_mean = ex.noise_of(ex.constant, ex.centred[k])
    v = float(ex.partial_variances[k])
    likely = v / (ex.d + 1)
    others = np.zeros(len(all_members))
    for place, them in enumerate(all_members):
        rest = [j for j in them if j != k]
        if rest:
            noise = ex.noise_of(own, ex.centred[rest[0]]) + on_mean * ex.noise_of(ex.constant, ex.centred[rest[0]])
            prior_variance = likely * ex.covariance[rest[0], rest[0]]
            others[place] = len(rest) * _both(noise, prior_variance)
    return _Group(
        members=tuple(members),
        kind=kind,
        v=v,
        share=float(ex.covariance[k, k]),
        noise_v=ex.noise_of(own, own) + 2 * on_mean**2,
        noise_c=ex.noise_of(own, response) + on_mean * ex.noise_of(ex.constant, response),
        others=others,
        slope=float(np.sqrt(EXPLAINED * ex.variance / (ex.d * ex.covariance[k, k]))),
        tau=float(law[1]),
        mu=float(law[0]),
    )


def _both(first: float, second: float) -> float:
    return first * second / (first + second) if first > 0 else 0.0


def _spread(weights: Floats, mean: Floats, variance: Floats) -> Floats:
    """Standard deviation of a mixture over the nodes, one a made-up release."""
    first = (weights * mean).sum(axis=1)
    return np.sqrt(np.maximum((weights * (variance + mean**2)).sum(axis=1) - first**2, 0.0))


def _user_units(ex: Expectation, correlation: Floats, level: Floats, slopes: Floats) -> Floats:
    """Standard deviations of the intercept, if any, and the slopes in the user's units: (coefficients, made-up)."""
    size, first = len(ex.schema.coefficients), int(ex.schema.intercept)
    unit, _ = ex.schema.to_user_units(np.eye(size), np.zeros(size))
    zero, _ = ex.schema.to_user_units(np.zeros((1, size)), np.zeros(1))
    linear = (unit - zero).T  # user's coefficients from standardised ones
    found = np.abs(np.diag(linear)[first:, None]) * slopes
    if not first:
        return found
    scaled = (linear[0, 1:] - linear[0, 0] * ex.means)[:, None] * slopes
    intercept = (linear[0, 0] * level) ** 2 + np.einsum("ig,ij,jg->g", scaled, correlation, scaled)
    return np.vstack([np.sqrt(intercept), found])


def _correlation(ex: Expectation, prior: Prior, residual: float) -> Floats:
    """Of the slopes' posterior where everything is linear."""
    response = ex.centred[-1]
    forms = np.stack([ex.forms(row, response) for row in ex.centred[:-1]])
    around = residual * ex.covariance / ex.rows + (forms * ex.noise) @ forms.T
    precision = ex.covariance @ np.linalg.solve(around, ex.covariance)
    precision += np.eye(ex.d) / (prior.coefficient_sd**2 * residual)
    found = np.linalg.inv(precision)
    root = np.sqrt(np.diag(found))
    return found / np.outer(root, root)
