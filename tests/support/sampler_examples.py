"""A fixed small release and prior for every kind of release, and for samplers that need particular ones."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dpbayes_core.networks.design import counts_design
from dpbayes_core.networks.posterior.prior import NetworkPrior
from dpbayes_core.networks.schema import NetworkSchema
from dpbayes_core.privacy.noise import SeededNoise
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.schema import Factor
from dpbayes_core.ridge.release import ridge_design
from dpbayes_core.samplers.papers.distributed.samplers import DISTRIBUTED_SAMPLERS
from dpbayes_core.sampling.protocol import Sampler
from dpbayes_core.subsample.probability import ProbabilityQuery, ProbabilityTerms, probability_design
from dpbayes_core.subsample.quantile import QuantileTerms, quantile_design
from dpbayes_core.subsample.schema import OpenSchema, Unbounded
from tests.support.regressions import JOB, REGION, SEX, example, example_with_fourth, example_with_residuals, schema_of

OPEN = OpenSchema("y", (Unbounded("x"),))
ROWS, SUBSETS = 2000, 40


def regression(name: str = "laplace") -> tuple[Any, Any]:
    return example(schema_of("x", SEX, REGION), 300, name=name, scale=5.0), Prior()


def fourth_moments() -> tuple[Any, Any]:
    return example_with_fourth(schema_of("x", SEX, JOB), 300, name="laplace", scale=5.0), Prior()


def two_level_regression() -> tuple[Any, Any]:
    return example(schema_of("x", SEX), 300, name="laplace", scale=5.0), Prior()


def with_residuals() -> tuple[Any, Any]:
    return example_with_residuals(schema_of("x", SEX, JOB), 300), Prior()


def ridge() -> tuple[Any, Any]:
    design, random = ridge_design(schema_of("x", "w"), grid=30, rho=0.5), np.random.default_rng(7)
    statistic = design.statistic()
    columns = {name: random.uniform(-1, 1, 300) for name in ("x", "w", "y")}
    exact = statistic.sum(statistic.encode(columns))
    return design.release(SeededNoise(8, i_know_this_is_not_private=True), exact), Prior()


def network() -> tuple[Any, Any]:
    schema = NetworkSchema((Factor("a", ("no", "yes")), Factor("b", ("x", "y", "z"))), {"b": ("a",)})
    design, random = counts_design(schema, epsilon=0.5), np.random.default_rng(1)
    statistic = design.statistic()
    codes = {"a": random.integers(0, 2, 300), "b": random.integers(0, 3, 300)}
    exact = statistic.sum(statistic.encode(codes), None)
    return design.release(SeededNoise(2, i_know_this_is_not_private=True), exact), NetworkPrior()


def _aggregate(design: Any) -> tuple[Any, Any]:
    random = np.random.default_rng(3)
    x = random.normal(size=ROWS)
    columns = {"x": x, "y": 1 + 2 * x + random.normal(size=ROWS)}
    statistic = design.statistic()
    people = np.stack([np.arange(ROWS, dtype=np.uint64), np.zeros(ROWS, np.uint64)], axis=1)
    exact = statistic.sum(statistic.encode(columns), people)
    return design.release(SeededNoise(4, i_know_this_is_not_private=True), exact), design.terms.prior


def probability() -> tuple[Any, Any]:
    queries = tuple(ProbabilityQuery(coefficient="x", threshold=b) for b in (1.9, 2.0))
    terms = ProbabilityTerms(schema=OPEN, queries=queries, subsets=SUBSETS, rows=ROWS)
    return _aggregate(probability_design(terms, epsilon=2.0))


def quantile() -> tuple[Any, Any]:
    terms = QuantileTerms(
        schema=OPEN, coefficient="x", probabilities=(0.25, 0.75), outer=(-10.0, 10.0), subsets=SUBSETS, rows=ROWS
    )
    return _aggregate(quantile_design(terms, epsilon=8.0))


def continuous() -> tuple[Any, Any]:
    return example(schema_of("x", "w"), 300, name="gaussian", scale=5.0), Prior()


EXAMPLES: Mapping[str, Callable[[], tuple[Any, Any]]] = {
    "regression": regression,
    "bayes-net": network,
    "ridge": ridge,
    "posterior-probability": probability,
    "posterior-quantile": quantile,
}


PARTICULAR: Mapping[str, Callable[[], tuple[Any, Any]]] = {
    **{sampler.name: continuous for sampler in DISTRIBUTED_SAMPLERS},
    "gibbs-ss-noisy": fourth_moments,
    "robust": with_residuals,
    "gibbs-ss-update": two_level_regression,
    "gibbs-ss-exact": continuous,
}


def example_for(sampler: Sampler) -> tuple[Any, Any]:
    """A release that the sampler takes, and a prior for it."""
    return PARTICULAR.get(sampler.name, EXAMPLES[sampler.takes[0]])()
