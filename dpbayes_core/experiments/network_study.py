"""The experiments of the paper on networks and posterior draws: accuracy of classifiers, error of regressions.

Every cell is plain data and every function pure: the same cell and seed give the same rows on any worker.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import AnyIntegers, Floats
from dpbayes_core.draws.design import network_draws, network_map, regression_draws
from dpbayes_core.draws.regression import RegressionSubject
from dpbayes_core.draws.utility import estimate
from dpbayes_core.networks.design import counts_design, fourier_design
from dpbayes_core.networks.marginals import clipped, family_tables, noise_bump, rows_of
from dpbayes_core.networks.posterior.collapsed_tables import CollapsedTables
from dpbayes_core.networks.posterior.prior import NetworkPrior
from dpbayes_core.networks.prediction import class_probabilities, posterior_means, simulated
from dpbayes_core.networks.release import NetworkRelease
from dpbayes_core.networks.schema import NetworkSchema
from dpbayes_core.networks.tables import FamilyTables
from dpbayes_core.privacy.noise import NoiseSource, SeededNoise
from dpbayes_core.privacy.release import Design
from dpbayes_core.regression.fixed_point import UNIT
from dpbayes_core.regression.moments import ExactStatistics
from dpbayes_core.regression.schema import Factor

Cell = Mapping[str, Any]
Row = Mapping[str, Any]

TARGET = "class"
FLOOR = 0.05  # of every probability near the mode
NOISE_AWARE_DRAWS = 300  # noise-aware draws
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)  # over repeats


def classifier_cells(*, quick: bool) -> tuple[Cell, ...]:
    """Naive Bayes of 16 binary features learnt from 50 records, at epsilon 1, 10 and 100."""
    repeats = 4 if quick else 100
    plain = {"experiment": "classifier", "features": 16, "rows": 50, "test_rows": 1000, "repeats": repeats}
    return tuple({**plain, "epsilon": epsilon} for epsilon in ((10.0,) if quick else (1.0, 10.0, 100.0)))


def classifier_rows(cell: Cell, seed: int) -> list[Row]:
    """Mean accuracy, with its standard error, of every method on the same data sets."""
    generator, found = np.random.default_rng(seed), dict[str, list[float]]()
    noise = SeededNoise(seed, i_know_this_is_not_private=True)
    schema = naive_bayes(int(cell["features"]))
    methods = _methods(schema, float(cell["epsilon"]))
    for _ in range(int(cell["repeats"])):
        truth = _truth(schema, generator)
        train, test = (simulated(schema, truth, int(cell[size]), generator) for size in ("rows", "test_rows"))
        for name, learn in methods.items():
            shares = class_probabilities(schema, learn(train, noise), TARGET, test)
            guess = shares.reshape(-1, *shares.shape[-2:]).mean(axis=0).argmax(axis=-1)
            found.setdefault(name, []).append(float(np.mean(guess == test[:, 0])))
    spent = {name: None if name == "without privacy" else float(cell["epsilon"]) for name in methods}
    return [_classifier_row(cell, name, spent[name], np.array(hits)) for name, hits in found.items()]


def _classifier_row(cell: Cell, method: str, spent: float | None, hits: Floats) -> Row:
    return {
        **cell,
        "method": method,
        "epsilon_spent": spent,
        "accuracy": float(hits.mean()),
        "standard_error": float(hits.std(ddof=1) / sqrt(len(hits))),
        "quantiles": _quantiles(hits),
    }


def _quantiles(values: Floats) -> list[float]:
    return np.quantile(values, QUANTILES).tolist()


def naive_bayes(features: int) -> NetworkSchema:
    """A class and binary features that depend on it alone."""
    nodes = (TARGET, *(f"x{place}" for place in range(1, features + 1)))
    return NetworkSchema(tuple(Factor(name, ("no", "yes")) for name in nodes), dict.fromkeys(nodes[1:], (TARGET,)))


def _truth(schema: NetworkSchema, generator: np.random.Generator) -> Floats:
    """True probabilities: 1/2 for each class, so that chance accuracy is 1/2, and random ones for the features."""
    rows = (generator.dirichlet(np.ones(schema.levels[f[-1]]), schema.cells(f[:-1])) for f in schema.families)
    truth = np.concatenate([row.ravel() for row in rows])
    truth[:2] = 0.5  # the class comes first and has no parents
    return truth


def _methods(schema: NetworkSchema, epsilon: float) -> dict[str, Callable[[AnyIntegers, NoiseSource], Floats]]:
    """The methods, each a function from records to probabilities: means, or one vector for each draw."""
    counts = counts_design(schema, epsilon=epsilon, families="all", noise="laplace", budget="equal")
    best = counts_design(schema, epsilon=epsilon)
    signs = fourier_design(schema, epsilon=epsilon, noise="laplace")
    bump = noise_bump(schema, signs.mechanism, signs.neighbours)
    drawn = network_draws(schema, epsilon=epsilon)
    near = network_map(schema, epsilon=epsilon, floor=FLOOR)
    return {
        "without privacy": lambda train, noise: _means(schema, _exact(schema, train)),
        "laplace-counts": lambda train, noise: estimate(_released(counts, train, noise), _ones(schema)),
        "fourier": lambda train, noise: _bumped(_released(signs, train, noise), bump),
        "posterior-draw": lambda train, noise: estimate(_released(drawn, train, noise), _ones(schema)),
        "map": lambda train, noise: estimate(_released(near, train, noise), _ones(schema)),
        "noise-aware": lambda train, noise: noise_aware(_released(best, train, noise)),
    }


def noise_aware(release: NetworkRelease, *, draws: int = NOISE_AWARE_DRAWS, seed: int = 0) -> Floats:
    """Draws of all probabilities, (draws, coefficients), by one chain."""
    sampler = CollapsedTables()
    problem = sampler.prepare(release, NetworkPrior())
    state = sampler.start(problem, seed, 0)
    return sampler.run_block(problem, state, sampler.warmup(0) + draws)[1].parameters


def _ones(schema: NetworkSchema) -> tuple[float, ...]:
    return (1.0,) * len(schema.nodes)


def _exact(schema: NetworkSchema, train: AnyIntegers) -> tuple[Floats, ...]:
    statistic = FamilyTables(schema)
    exact = statistic.sum(statistic.encode(dict(zip(schema.names, train.T, strict=True))), None)
    return tuple(statistic.table(exact, family).astype(np.float64) for family in schema.families)


def _means(schema: NetworkSchema, tables: tuple[Floats, ...]) -> Floats:
    return posterior_means(schema, tables, _ones(schema))


def _released(design: Design, train: AnyIntegers, noise: NoiseSource) -> Any:
    statistic = design.statistic()
    columns = dict(zip(statistic.columns, train.T, strict=True))
    return design.release(noise, statistic.sum(statistic.encode(columns), None))


def _bumped(release: NetworkRelease, bump: float) -> Floats:
    """Posterior means from signed sums with the bump that keeps noise from making cells negative."""
    most = round(rows_of(release) + bump)
    return _means(release.schema, clipped(family_tables(release, bump=bump), most))


def regression_cells(*, quick: bool) -> tuple[Cell, ...]:
    """Posterior draws of a regression in balls of several radii: smaller ones cost less epsilon, and predict worse."""
    radii = (1.0,) if quick else (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
    return tuple({"experiment": "regression", "radius": r, "repeats": 10 if quick else 100} for r in radii)


def regression_rows(
    cell: Cell, seed: int, *, subject: RegressionSubject, columns: Mapping[str, NDArray[Any]]
) -> list[Row]:
    """Mean squared error of predictions, in standardised units, by draws and by least squares, with epsilon.

    `columns` are within their bounds; every other row is for training, the rest are predicted.
    """
    design = regression_draws(replace(subject, radius=float(cell["radius"])))
    noise, statistic = SeededNoise(seed, i_know_this_is_not_private=True), design.statistic()
    halves = ({name: values[first::2] for name, values in columns.items()} for first in (0, 1))
    learnt, unseen = (statistic.sum(statistic.encode(half), None) for half in halves)
    draws = (design.release(noise, learnt).draws()[0] for _ in range(int(cell["repeats"])))
    test, known = (_mean_moments(subject, exact) for exact in (unseen, learnt))
    errors = np.array([_squared(test, theta) for theta in draws])
    row = {**cell, "rows": int(learnt.rows)}
    fitted = np.linalg.lstsq(known[:-1, :-1], known[:-1, -1], rcond=None)[0].astype(np.float64)
    return [
        {**row, "method": "posterior-draw", "epsilon_spent": design.mechanism.epsilon, **_errors(errors)},
        {
            **row,
            "method": "least squares, without privacy",
            "epsilon_spent": None,
            **_errors(np.array([_squared(test, fitted)])),
        },
    ]


def _mean_moments(subject: RegressionSubject, exact: ExactStatistics) -> Floats:
    """Second moments of (1, x, y) in standardised units, divided by the number of rows."""
    sums = np.array([float(Fraction(total, UNIT**2)) for total in exact.sums])
    return subject.schema.complete(sums, float(exact.rows)) / exact.rows


def _squared(moments: Floats, theta: Floats) -> float:
    """The mean squared error of predicting y by x theta."""
    contrast = np.append(-theta, 1.0)
    return float(contrast @ moments @ contrast)


def _errors(squared: Floats) -> dict[str, Any]:
    spread = float(squared.std(ddof=1)) if len(squared) > 1 else 0.0
    return {
        "mean_squared_error": float(squared.mean()),
        "standard_error": spread / sqrt(len(squared)),
        "quantiles": _quantiles(squared),
    }
