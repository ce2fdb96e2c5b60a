"""The response that a regression's posterior predicts for public rows of covariates, in the user's units.

A row's expected response is b'(1, x) for each draw of b; its response adds a normal residual with the draw's sigma.
Clipping at the response's bounds is no part of the model, so predictions may leave them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.regression.schema import INTERCEPT, SIGMA, Continuous, RegressionSchema

Rows = Mapping[str, Sequence[float] | Sequence[str] | Floats]

ROUNDS = 60  # of bisection, at most
CLOSE = 1e-9  # of a quantile, in predictive standard deviations


@dataclass(frozen=True)
class Predictive:
    """Draws (chains, draws, rows) of each row's expected response, and of a response."""

    expected: Floats
    response: Floats


@dataclass(frozen=True)
class Forecast:
    """Mean, sd and quantiles (rows, probabilities): of the expected response, and of a response."""

    mean: Floats
    expected_sd: Floats
    expected_quantiles: Floats
    sd: Floats
    quantiles: Floats


def covariate_rows(schema: RegressionSchema, rows: Rows) -> Floats:
    """The design matrix (rows, coefficients); columns that are not covariates are ignored."""
    missing = [column.name for column in schema.covariates if column.name not in rows]
    if missing:
        raise StudyInvalid(f"cannot predict: column {missing[0]} is missing. Give every covariate.")
    sizes = {len(rows[column.name]) for column in schema.covariates}
    if len(sizes) > 1:
        raise StudyInvalid("cannot predict: columns have different numbers of rows. Give each row all covariates.")
    columns = [np.ones(next(iter(sizes), 1))] if INTERCEPT in schema.coefficients else list[Floats]()
    for column in schema.covariates:
        if isinstance(column, Continuous):
            columns.append(_numbers(column, rows[column.name]))
        else:
            values = [str(value) for value in rows[column.name]]
            if not set(values) <= set(column.levels):
                raise StudyInvalid(
                    f"cannot predict: {column.name} has a value that is none of its levels. "
                    f"Choose from {', '.join(column.levels)}."
                )
            columns += [np.array([value == level for value in values], np.float64) for level in column.levels[1:]]
    return np.stack(columns, axis=1)


def _numbers(column: Continuous, given: Sequence[float] | Sequence[str] | Floats) -> Floats:
    try:
        values = np.asarray([float(value) for value in given])
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if not np.isfinite(values).all():
        raise StudyInvalid(f"cannot predict: {column.name} has a value that is no number. Give numbers.")
    low, high = column.bounds.low, column.bounds.high
    if ((values < low) | (values > high)).any():
        raise StudyInvalid(
            f"cannot predict: {column.name} has a value outside [{low:g}, {high:g}], the bounds of the release. "
            "Keep within them: nothing was learnt beyond."
        )
    return values


def predict(
    draws: Mapping[str, Floats], schema: RegressionSchema, rows: Rows, generator: np.random.Generator
) -> Predictive:
    """Predictive draws of the response, one for each posterior draw and row."""
    expected = _expected(draws, schema, covariate_rows(schema, rows))
    residual = draws[SIGMA][..., None] * generator.standard_normal(expected.shape)
    return Predictive(expected, expected + residual)


def forecast(
    draws: Mapping[str, Floats], schema: RegressionSchema, rows: Rows, probabilities: Sequence[float] = (0.025, 0.975)
) -> Forecast:
    """Moments and quantiles of each row's prediction, the residual integrated out instead of simulated."""
    given = covariate_rows(schema, rows)
    sigma = draws[SIGMA].ravel()
    parts: list[Forecast] = []
    step = max(1, 1_000_000 // sigma.size)  # rows at a time, so that memory stays bounded
    for start in range(0, max(len(given), 1), step):
        expected = _expected(draws, schema, given[start : start + step]).reshape(sigma.size, -1)
        parts.append(_forecast(expected, sigma, probabilities))
    return Forecast(*(np.concatenate([getattr(part, name) for part in parts]) for name in Forecast.__annotations__))


def _forecast(expected: Floats, sigma: Floats, probabilities: Sequence[float]) -> Forecast:
    mean, between = expected.mean(axis=0), expected.var(axis=0, ddof=1)
    sd = np.sqrt(between + np.mean(sigma**2))
    tails = [mixture_quantile(expected, sigma, probability) for probability in probabilities]
    return Forecast(
        mean=mean,
        expected_sd=np.sqrt(between),
        expected_quantiles=np.quantile(expected, list(probabilities), axis=0).T,
        sd=sd,
        quantiles=np.stack(tails, axis=1),
    )


def mixture_quantile(means: Floats, sds: Floats, probability: float) -> Floats:
    """The quantile of an equal mixture of normals, column by column: means (parts, columns), sds (parts,).

    Newton's steps inside the bracket, else bisection.
    """
    from scipy.special import ndtr, ndtri

    each = means + float(ndtri(probability)) * sds[:, None]
    low, high = each.min(axis=0), each.max(axis=0)  # the mixture's quantile is between its parts'
    unit = np.sqrt(means.var(axis=0) + np.mean(sds**2))
    at = means.mean(axis=0) + float(ndtri(probability)) * unit
    for _ in range(ROUNDS):
        at = np.where((low <= at) & (at <= high), at, (low + high) / 2)
        scores = (at - means) / sds[:, None]
        excess = ndtr(scores).mean(axis=0) - probability
        low, high = np.where(excess < 0, at, low), np.where(excess < 0, high, at)
        density = (np.exp(-(scores**2) / 2) / sds[:, None]).mean(axis=0) / np.sqrt(2 * np.pi)
        step = excess / np.maximum(density, 1e-300)
        if (np.abs(step) <= CLOSE * unit).all() or (high - low <= CLOSE * unit).all():
            break
        at = at - step
    return at


def _expected(draws: Mapping[str, Floats], schema: RegressionSchema, rows: Floats) -> Floats:
    coefficients = np.stack([draws[name] for name in schema.coefficients], axis=-1)
    return coefficients @ rows.T
