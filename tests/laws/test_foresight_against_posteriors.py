"""What `plan` predicts against real posteriors: the demo study and made-up ones, from nearly exact to noise-heavy."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import studies.wages
from dpbayes_core.bounds import Bounds
from dpbayes_core.expectation import Expectation, Expected
from dpbayes_core.foresight import foresee
from dpbayes_core.mechanisms import Mechanism, gaussian_for, laplace_for
from dpbayes_core.noise import SeededNoise
from dpbayes_core.pool import pooled
from dpbayes_core.priors import Prior
from dpbayes_core.regression import RegressionDesign
from dpbayes_core.samplers.driver import sample
from dpbayes_core.schema import Continuous, Factor, RegressionSchema
from dpbayes_core.sensitivity import regression_sensitivity, released_entries
from dpbayes_core.statistics import grid_for
from storage.plan_foresight import foreseen
from storage.study.load import load_study
from studies.wages.generate import everybody

Floats = NDArray[np.float64]
Columns = Mapping[str, NDArray[Any]]

RELEASES = 7  # noise draws, of which the median posterior sd is compared
WITHIN = 1.25


@dataclass(frozen=True)
class Made:
    """A study that was made up: its columns, what is expected of them, and rows."""

    schema: RegressionSchema
    expected: Mapping[str, Expected]
    rows: Callable[[np.random.Generator], Columns]
    count: int
    noise: str
    epsilon: float

    relation: tuple[str, int] = ("replace-one", 1)  # and rows a person
    holders: int = 1

    def mechanism(self) -> Mechanism:
        moved, grid = regression_sensitivity(self.schema, *self.relation), grid_for(self.count)
        if self.noise == "laplace":
            return laplace_for(moved, epsilon=self.epsilon, grid=grid, entries=len(moved.weights))
        return gaussian_for(moved, grid=grid, epsilon=self.epsilon, delta=1e-6)

    def predicted(self) -> dict[str, float]:
        known = Expectation.of(
            self.schema,
            self.mechanism(),
            rows=self.count,
            expected=self.expected,
            places=released_entries(self.schema, *self.relation),
            holders=self.holders,
        )
        return {one.coefficient: one.sd for one in foresee(known, Prior())}


def _shop(random: np.random.Generator) -> Columns:
    a, b = random.normal(6, 1.5, 5000), random.normal(0, 1, 5000)
    return {"a": a, "b": b, "y": 20 + 4 * a - 3 * b + random.normal(0, 12, 5000)}


def _survey(random: np.random.Generator) -> Columns:
    x = random.normal(0, 1.2, (20_000, 4))
    x[:, 1] += 0.2 * x[:, 0]
    job = random.choice(5, 20_000, p=[0.24, 0.2, 0.2, 0.18, 0.18]).astype(np.int32)
    sex = random.integers(0, 2, 20_000).astype(np.int32)
    mean = x @ [0.5, -0.8, 0.3, 0.0] + np.array([0, 0.5, -0.5, 1, 0])[job] + 0.7 * sex
    columns = {f"x{k}": x[:, k] for k in range(4)}
    return {**columns, "job": job, "sex": sex, "y": mean + random.normal(0, 2, 20_000)}


def _heavy(random: np.random.Generator) -> Columns:
    x = random.normal(0, 1.2, (20_000, 5))
    columns = {f"x{k}": x[:, k] for k in range(5)}
    return {**columns, "y": x @ [0.5, -0.5, 0.3, 0.0, 0.2] + random.normal(0, 2, 20_000)}


def _columns(count: int) -> tuple[Continuous, ...]:
    return tuple(Continuous(f"x{k}", Bounds(-4, 4)) for k in range(count))


WIDE, GUESS = Continuous("y", Bounds(-10, 10)), Expected(0, 1.2)
MADE: Mapping[str, Made] = {
    "shop": Made(
        RegressionSchema(
            Continuous("y", Bounds(0, 100)), (Continuous("a", Bounds(0, 10)), Continuous("b", Bounds(-3, 3)))
        ),
        {"y": Expected(45, 14), "a": Expected(6, 1.5), "b": Expected(0, 1)},
        _shop,
        5000,
        "laplace",
        1.0,
    ),
    "survey": Made(
        RegressionSchema(WIDE, (*_columns(4), Factor("job", tuple("abcde")), Factor("sex", ("m", "w")))),
        {"y": Expected(0.5, 2.3), **{f"x{k}": GUESS for k in range(4)}},
        _survey,
        20_000,
        "gaussian",
        1.0,
    ),
    "noise-heavy": Made(
        RegressionSchema(WIDE, _columns(5)),
        {"y": Expected(0, 2.2), **{f"x{k}": GUESS for k in range(5)}},
        _heavy,
        20_000,
        "gaussian",
        0.1,
    ),
}


MADE = {
    **MADE,
    "a noisy count": replace(MADE["shop"], epsilon=2.0, relation=("add-remove", 1)),
    "several rows a person": replace(MADE["survey"], epsilon=2.0, relation=("replace-one", 2)),
    "holders": replace(MADE["shop"], noise="gaussian", epsilon=3.0, holders=4),
}


def _median_posterior(design: RegressionDesign, columns: Columns, holders: int = 1) -> dict[str, float]:
    """The posterior sd of every coefficient: the median over noise draws."""
    statistic = design.statistic()
    split = [{name: values[one::holders] for name, values in columns.items()} for one in range(holders)]
    exact = [statistic.sum(statistic.encode(own)) for own in split]
    found: dict[str, list[float]] = {}
    for seed in range(RELEASES):
        noises = [SeededNoise(100 * (seed + 1) + one, i_know_this_is_not_private=True) for one in range(holders)]
        release = pooled([design.release(noise, own) for noise, own in zip(noises, exact, strict=True)])
        posterior = sample(release, Prior(), chains=2, draws=500, seed=seed)
        for name, draws in posterior.draws.items():
            found.setdefault(name, []).append(float(draws.std()))
    return {name: float(np.median(each)) for name, each in found.items()}


def _compare(label: str, predicted: Mapping[str, float], real: Mapping[str, float]) -> None:
    ratios = {name: predicted[name] / real[name] for name in real}
    print(f"{label}: predicted over posterior sd:", ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()))
    assert predicted.keys() == real.keys()
    assert all(1 / WITHIN <= ratio <= WITHIN for ratio in ratios.values()), ratios


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MADE))
def test_made_up_studies_have_posteriors_as_wide_as_predicted(name: str) -> None:
    made = MADE[name]
    neighbours, rows = made.relation
    design = RegressionDesign(
        schema=made.schema, mechanism=made.mechanism(), neighbours=neighbours, max_rows_per_unit=rows
    )
    real = _median_posterior(design, made.rows(np.random.default_rng(5)), made.holders)
    _compare(name, made.predicted(), real)


@pytest.mark.slow
def test_the_demo_study_has_posteriors_as_wide_as_predicted() -> None:
    study = load_study(Path(studies.wages.__file__).parent / "study.yaml")
    people, design = everybody("2026-01"), study.design("wage-regression")
    levels = {name: getattr(people, name).astype(np.int32) for name in ("female", "education", "region")}
    columns = {"log_wage": people.log_wage(), "age": people.age, "tenure": people.tenure, **levels}
    predicted = {one.coefficient: one.sd for one in foreseen(study, "wage-regression").predicted}
    assert isinstance(design, RegressionDesign)
    _compare("wages", predicted, _median_posterior(design, columns))


def test_the_comparison_can_fail() -> None:
    with pytest.raises(AssertionError):
        _compare("a wrong one", {"a": 1.3}, {"a": 1.0})
