"""Made-up regressions: exact statistics of simulated rows, and releases of them with seeded noise of a chosen scale."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from dpbayes_core.arrays import Floats
from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.mechanisms import GaussianMechanism, LaplaceMechanism, Mechanism
from dpbayes_core.regression.fourth import FourthMoments
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.residual_moments import ResidualMoments, residual_entries
from dpbayes_core.regression.schema import Continuous, Covariate, Factor, RegressionSchema

UNIT = Bounds(-1.0, 1.0)
SEX = Factor("sex", ("f", "m"))
URBAN = Factor("urban", ("no", "yes"))
REGION = Factor("region", ("n", "s", "e", "w"))
JOB = Factor("job", ("a", "b", "c"))


def schema_of(*covariates: Covariate | str) -> RegressionSchema:
    """A regression of y, every continuous column already in [-1, 1]."""
    return RegressionSchema(
        Continuous("y", UNIT), tuple(Continuous(c, UNIT) if isinstance(c, str) else c for c in covariates)
    )


def mechanism(name: str, scale: float, entries: int) -> Mechanism:
    """A real mechanism whose noise has this scale."""
    if name == "laplace":
        return LaplaceMechanism(epsilon=1.0, sensitivity=scale, sensitivity_l2=scale, grid=30, entries=entries)
    return GaussianMechanism(rho=0.5, sensitivity=scale, weights=(1.0,) * entries, grid=30)


def noise_log_density(mechanism: Mechanism, residuals: Floats) -> Floats:
    """Log density of Laplace or Gaussian noise by entry, to compare the samplers' kernels with."""
    law = {"laplace": stats.laplace, "gaussian": stats.norm}[mechanism.name]
    return law.logpdf(residuals, scale=mechanism.scales)


def entries_of(schema: RegressionSchema, moments: Floats) -> Floats:
    """The released entries of full second moments."""
    rows, columns = np.array(schema.entries).T
    return moments[rows, columns]


def released(
    schema: RegressionSchema, moments: Floats, stated: Mechanism, generator: np.random.Generator, *, wrong: float = 1.0
) -> Release:
    """Exact moments with seeded noise, `wrong` times the scale that the release states."""
    exact, rows = entries_of(schema, moments), round(moments[0, 0])
    draw = generator.laplace if stated.name == "laplace" else generator.normal
    noisy = exact + wrong * stated.scales * draw(size=exact.size)
    return Release(
        schema=schema, neighbours="replace-one", rows=rows, mechanism=stated, values=tuple(float(v) for v in noisy)
    )


def encoded(schema: RegressionSchema, rows: int, generator: np.random.Generator) -> Floats:
    """Rows of (1, x): normal covariates, uneven levels."""
    columns: list[Any] = [np.ones(rows)]
    for covariate in schema.covariates:
        if isinstance(covariate, Continuous):
            columns.append(generator.normal(0.1, 0.35, rows))
            continue
        size = len(covariate.levels)
        codes = generator.choice(size, rows, p=np.arange(size, 0, -1) / (size * (size + 1) / 2))
        columns += [2.0 * codes - 1] if size == 2 else [(codes == level) * 1.0 for level in range(1, size)]
    return np.stack(columns, axis=1)


def moments_of(
    covariates: Floats, theta: Sequence[float] | Floats, sigma: float, generator: np.random.Generator
) -> Floats:
    """Second moments of (1, x, y), y drawn from the regression."""
    response = covariates @ np.asarray(theta) + sigma * generator.standard_normal(len(covariates))
    rows = np.column_stack([covariates, response])
    return rows.T @ rows


def example(
    schema: RegressionSchema, rows: int, *, name: str = "gaussian", scale: float = 10.0, seed: int = 1
) -> Release:
    """A release of simulated rows with modest coefficients."""
    generator = np.random.default_rng(seed)
    covariates = encoded(schema, rows, generator)
    theta = 0.2 * generator.standard_normal(covariates.shape[1])
    moments = moments_of(covariates, theta, 0.25, generator)
    return released(schema, moments, mechanism(name, scale, len(schema.entries)), generator)


def example_with_fourth(schema: RegressionSchema, rows: int, *, name: str = "gaussian", scale: float = 10.0) -> Release:
    """A release of simulated rows with third and fourth moments, all noise of one scale."""
    release, generator = example(schema, rows, name=name, scale=scale), np.random.default_rng(1)
    covariates = encoded(schema, rows, generator)  # those of the example
    entries = np.array(FourthMoments(schema).entries)
    beside = mechanism(name, scale, len(entries))
    fourth = replace(release, mechanism=replace(release.mechanism, beside=beside), higher=(0.0,) * len(entries)).fourth
    assert fourth is not None
    sums = np.prod(covariates[:, entries], axis=2).sum(axis=0) * fourth.weights
    noisy = sums + beside.scales * generator.normal(size=len(sums))
    both: Mechanism = replace(release.mechanism, beside=beside)
    return replace(release, mechanism=both, higher=tuple(float(v) for v in noisy))


def example_with_residuals(
    schema: RegressionSchema,
    rows: int,
    *,
    name: str = "gaussian",
    scale: float = 5.0,
    spread: float = 0.0,
    seed: int = 1,
) -> Release:
    """A robust release of simulated rows, all noise of one scale; residuals grow with x where `spread` is 1."""
    generator = np.random.default_rng(seed)
    covariates = encoded(schema, rows, generator)
    grows = 0.25 * (1 - spread + spread * np.exp(2 * covariates[:, 1]))
    theta = 0.2 * generator.standard_normal(covariates.shape[1])
    response = covariates @ theta + grows * generator.standard_normal(rows)
    whole = np.column_stack([covariates, response])
    beside = mechanism(name, scale, len(residual_entries(schema)))
    both: Mechanism = replace(mechanism(name, scale, len(schema.entries)), beside=beside)
    release = released(schema, whole.T @ whole, both, generator)
    fit = release.fit()
    weight = np.minimum(((response - covariates @ np.array(fit.coefficients)) / fit.limit) ** 2, 1)
    exact = (covariates * weight[:, None]).T @ covariates
    first, second = np.array(residual_entries(schema)).T
    draw = generator.laplace if name == "laplace" else generator.normal
    noisy = exact[first, second] + beside.scales * draw(size=len(first))
    residuals = ResidualMoments(schema=schema, mechanism=beside, fit=fit, values=tuple(noisy.tolist()))
    return replace(release, residuals=residuals)


def regression_draws(
    prior: Prior, schema: RegressionSchema, count: int, generator: np.random.Generator
) -> tuple[Floats, Floats]:
    """Exact draws of (theta, sigma) from the prior."""
    if isinstance(prior, IndependentPrior):
        means, sds, basis = prior.laws(schema)
        normal = means + sds * generator.standard_normal((count, len(sds)))
        return normal @ np.linalg.inv(basis), generator.gamma(prior.noise_shape, prior.noise_scale, count)
    sigma = np.sqrt(prior.noise_scale / generator.gamma(prior.noise_shape, size=count))
    matrix, size = prior.response_matrix(schema), len(schema.coefficients)
    spread = np.linalg.cholesky(np.linalg.inv(matrix[:-1, :-1])) @ generator.standard_normal((size, count))
    centre = np.linalg.solve(matrix[:-1, :-1], matrix[:-1, -1])
    return centre + sigma[:, None] * spread.T, sigma


def regressed(
    known: Floats, theta: Floats, sigma: Floats, rows: float | Floats, generator: np.random.Generator
) -> Floats:
    """Second moments of known variables and one more that is regressed on them: exact for any law of the known."""
    size = known.shape[-1]
    root = np.linalg.cholesky(known)
    cross = (known @ theta[..., None])[..., 0]
    cross += sigma[:, None] * (root @ generator.standard_normal((len(sigma), size, 1)))[..., 0]
    squares = np.einsum("ti,ti->t", cross, np.linalg.solve(known, cross[..., None])[..., 0])
    squares += sigma**2 * generator.chisquare(rows - size, len(sigma))
    full = np.zeros((len(sigma), size + 1, size + 1))
    full[:, :size, :size], full[:, size, :size], full[:, :size, size], full[:, size, size] = (
        known,
        cross,
        cross,
        squares,
    )
    return full


def flat_factors(schema: RegressionSchema, count: int, generator: np.random.Generator) -> Floats:
    """Moments of the constant and the levels, over their rows, uniform wherever their scatter is positive definite."""
    schema = replace(schema, intercept=True)
    inside = [index for index, v in enumerate(schema.variables, start=1) if v.kind != "continuous"]
    assert inside == list(range(1, len(inside) + 1)), "factors come first"
    places = [place for place, (_, j) in enumerate(schema.entries) if j <= len(inside)]
    kinds = [schema.variables[j - 1].kind if i == 0 else "cross product" for i, j in schema.entries]
    lowest = [0.0 if kinds[place] == "indicator" else -1.0 for place in places]
    corner = np.s_[: len(inside) + 1, : len(inside) + 1]
    known = schema.complete(np.zeros(len(schema.entries)), 1.0)[corner]  # complete is affine in the entries
    units = np.stack([schema.complete(unit, 1.0)[corner] - known for unit in np.eye(len(schema.entries))])
    found = np.zeros((0, *known.shape))
    while len(found) < count:
        values = generator.uniform(lowest, 1.0, (count, len(places)))
        full = known + np.tensordot(values, units[places], axes=1)
        found = np.concatenate([found, full[np.linalg.eigvalsh(full)[:, 0] > 0]])
    return found[:count]


def covariate_moments(prior: Prior, known: Floats, schema: RegressionSchema, generator: np.random.Generator) -> Floats:
    """Moments per row of (1, x) drawn from the prior, given those of the constant and the factors, which come first.

    Correlations are built row by row of their Cholesky factor: the rest's square is Beta, the direction uniform.
    """
    count, d, inside = len(known), schema.d, known.shape[-1] - 1
    means, scatter = np.zeros((count, d)), np.zeros((count, d, d))
    means[:, :inside] = known[:, 0, 1:]
    factors = known[:, 1:, 1:] - known[:, 1:, :1] * known[:, :1, 1:]
    root = np.zeros((count, d, d))
    root[:, :inside, :inside] = np.linalg.cholesky(factors) if inside else 0.0
    for i in range(inside + 1, d + 1):
        variance = prior.variance * generator.standard_exponential(count)
        rest = generator.beta((d - i) / 2 + prior.correlation, (i - 1) / 2, count) if i > 1 else np.ones(count)
        direction = generator.standard_normal((count, i - 1))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True) if i > 1 else 1.0
        root[:, i - 1, : i - 1] = np.sqrt(variance * (1 - rest))[:, None] * direction
        root[:, i - 1, i - 1] = np.sqrt(variance * rest)
        means[:, i - 1] = prior.mean_sd * generator.standard_normal(count) if schema.intercept else 0.0
    scatter = root @ root.transpose(0, 2, 1)
    full = np.ones((count, d + 1, d + 1))
    full[:, 0, 1:] = full[:, 1:, 0] = means
    full[:, 1:, 1:] = scatter + means[:, :, None] * means[:, None, :]
    return full


def prior_statistics(
    prior: Prior, schema: RegressionSchema, rows: int, count: int, generator: np.random.Generator
) -> tuple[Floats, Floats]:
    """Parameters (theta, sigma) and full moments, exactly as the model has them; factors come first.

    Without intercept the constant has no part in either.
    """
    known = rows * covariate_moments(prior, flat_factors(schema, count, generator), schema, generator)
    known = known if schema.intercept else known[:, 1:, 1:]
    theta, sigma = regression_draws(prior, schema, count, generator)
    return np.column_stack([theta, sigma]), regressed(known, theta, sigma, rows, generator)


def _rows_of(moments: Floats, count: int, generator: np.random.Generator) -> Floats:
    """Random rows with exactly these moments per row."""
    directions = np.linalg.qr(generator.standard_normal((count, len(moments))))[0]
    return np.sqrt(count) * directions @ np.linalg.cholesky(moments).T


def split_statistics(
    prior: Prior, schema: RegressionSchema, rows: Sequence[int], count: int, generator: np.random.Generator
) -> tuple[Floats, list[Floats]]:
    """Parameters, and full moments of every part, for people split over parts at random."""
    heads = [flat_factors(schema, count, generator) for _ in rows]
    whole_heads: Floats = np.tensordot(np.divide(rows, sum(rows)), heads, axes=1)
    whole = covariate_moments(prior, whole_heads, schema, generator)
    theta, sigma = regression_draws(prior, schema, count, generator)
    starts, parts = np.cumsum([0, *rows]), [np.zeros((count, schema.m + 1, schema.m + 1)) for _ in rows]
    for trial in range(count):
        inside = whole_heads.shape[-1]
        known = np.ones((sum(rows), schema.d + 1))
        if inside > 1:
            known[:, :inside] = np.concatenate(
                [_rows_of(head[trial], n, generator) for head, n in zip(heads, rows, strict=True)]
            )
        known[:, inside:] = generator.standard_normal((sum(rows), schema.d + 1 - inside))
        made = np.linalg.cholesky(known.T @ known / len(known))  # any rows with these moments are split alike
        known = known @ np.linalg.solve(made.T, np.linalg.cholesky(whole[trial]).T)
        response = known @ theta[trial] + sigma[trial] * generator.standard_normal(len(known))
        full = np.column_stack([known, response])
        for place, part in enumerate(parts):
            own = full[starts[place] : starts[place + 1]]
            part[trial] = own.T @ own
    return np.column_stack([theta, sigma]), parts
