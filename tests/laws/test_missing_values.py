"""Where 18% of the responses are missing, more often at higher ages: intervals of complete cases hold what they say.

The twin is what a missing value became before: the middle of the bounds, counted like any other.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.mechanisms import gaussian_for
from dpbayes_core.privacy.noise import SeededNoise
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.moments import regression_statistics
from dpbayes_core.regression.release import RegressionDesign, Release
from dpbayes_core.regression.schema import Cases, Continuous, Factor, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from dpbayes_core.samplers.driver import sample

ROWS, TABLES = 10_000, 60
ERRORS = 2 * (0.95 * 0.05 / TABLES) ** 0.5  # two Monte Carlo errors of a share
WAGE, AGE = Bounds(0, 5), Bounds(16, 80)
SCHEMA = RegressionSchema(Continuous("wage", WAGE), (Continuous("age", AGE), Factor("female", ("no", "yes"))))
TRUTH = {"(intercept)": 1.2, "age": 0.025, "female[yes]": -0.15, "sigma": 0.4}


def made_table(seed: int) -> dict[str, np.ndarray]:
    """Rows as a pass has them: NaN where the response is missing, whatever it would have been."""
    generator = np.random.default_rng([20261120, seed])
    age, female = generator.uniform(18, 68, ROWS), generator.integers(0, 2, ROWS)
    wage = TRUTH["(intercept)"] + TRUTH["age"] * age + TRUTH["female[yes]"] * female
    wage = wage + TRUTH["sigma"] * generator.standard_normal(ROWS)
    missing = generator.random(ROWS) < 0.36 * (age - 18) / 50
    return {"age": age, "female": female, "wage": np.where(missing, np.nan, wage)}


def released(cases: Cases, seed: int) -> Release:
    schema, table = replace(SCHEMA, cases=cases), made_table(seed)
    if cases == "all":
        table["wage"] = np.where(np.isnan(table["wage"]), WAGE.middle, table["wage"])
    mechanism = gaussian_for(regression_sensitivity(schema), epsilon=1.0, delta=1e-6, grid=25)
    noise = SeededNoise(seed, i_know_this_is_not_private=True)
    return RegressionDesign(schema=schema, mechanism=mechanism).release(noise, regression_statistics(schema, table))


@cache
def held(cases: Cases, tables: int) -> dict[str, float]:
    """The share of tables whose 95% intervals hold each of the truths."""
    found = dict.fromkeys(TRUTH, 0)
    for seed in range(tables):
        posterior = sample(
            released(cases, seed), IndependentPrior(), sampler="collapsed", chains=2, draws=500, seed=seed
        )
        for name, truth in TRUTH.items():
            low, high = posterior.interval(name)
            found[name] += low <= truth <= high
    return {name: count / tables for name, count in found.items()}


def test_about_so_many_are_missing_and_more_at_higher_ages() -> None:
    table = made_table(0)
    missing = np.isnan(table["wage"])
    assert 0.16 < missing.mean() < 0.2
    assert table["age"][missing].mean() > table["age"][~missing].mean() + 7


@pytest.mark.slow
def test_intervals_of_complete_cases_hold_what_they_say() -> None:
    found = held("complete", TABLES)
    assert all(share >= 0.93 - ERRORS for share in found.values()), found


@pytest.mark.slow
def test_intervals_where_a_constant_stands_for_missing_values_do_not() -> None:
    found = held("all", TABLES)
    assert found["age"] < 0.5, found
