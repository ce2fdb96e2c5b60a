"""What `plan` predicts against real posteriors: the demo study and made-up ones, from nearly exact to noise-heavy."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import examples.wages
from dpbayes.plans.precision import predict_release
from dpbayes.study.load import load_study
from dpbayes_core.arrays import Columns
from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.mechanisms import Mechanism, gaussian_for, laplace_for
from dpbayes_core.privacy.noise import SeededNoise
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.moments import grid_for
from dpbayes_core.regression.planning.expected_moments import Expectation, Expected
from dpbayes_core.regression.planning.precision import detectable_effect, precision_of
from dpbayes_core.regression.planning.relations import HIGH_CORRELATION, UNSTATED, Relations
from dpbayes_core.regression.pool import pooled
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import RegressionDesign
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity, released_entries
from dpbayes_core.samplers.driver import sample
from examples.wages.generate import everybody

RELEASES = 7  # noise draws, of which the median posterior sd is compared
WITHIN, WITHIN_OF_SIGMA = 1.3, 1.4


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
    relations: Relations = UNSTATED

    def mechanism(self) -> Mechanism:
        moved, grid = regression_sensitivity(self.schema, *self.relation), grid_for(self.count)
        if self.noise == "laplace":
            return laplace_for(moved, epsilon=self.epsilon, grid=grid, entries=len(moved.weights))
        return gaussian_for(moved, grid=grid, epsilon=self.epsilon, delta=1e-6)

    def predicted(self, prior: Prior, relations: Relations | None = None) -> dict[str, float]:
        known = Expectation.of(
            self.schema,
            self.mechanism(),
            rows=self.count,
            expected=self.expected,
            places=released_entries(self.schema, *self.relation),
            holders=self.holders,
            relations=relations or self.relations,
        )
        return {one.coefficient: one.sd for one in precision_of(known, prior)}


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


def _related(random: np.random.Generator) -> Columns:
    """Four columns of numbers, each correlated with each by .85."""
    x = 1.2 * (np.sqrt(0.85) * random.normal(size=(20_000, 1)) + np.sqrt(0.15) * random.normal(size=(20_000, 4)))
    columns = {f"x{k}": x[:, k] for k in range(4)}
    return {**columns, "y": x @ [0.5, -0.5, 0.3, 0.0] + random.normal(0, 2, 20_000)}


def _pair(random: np.random.Generator) -> Columns:
    """x0 and x1 correlated by .85, x2 and a rare level by themselves; the response correlated by .6 with x0."""
    x = 1.2 * random.normal(size=(50_000, 3))
    x[:, 1] = 0.85 * x[:, 0] + np.sqrt(1 - 0.85**2) * x[:, 1]
    job = random.choice(3, 50_000, p=[0.67, 0.3, 0.03]).astype(np.int32)
    mean = x[:, 0] + np.array([0, 0.9, 2.0])[job]
    return {**{f"x{k}": x[:, k] for k in range(3)}, "job": job, "y": mean + random.normal(0, 1.52, 50_000)}


PLANT = ("AT", "V", "AP", "RH", "PE")
"""Columns of the public table power-plant, and their correlations: strong ones, of every sign."""
PLANT_RELATED = np.array(
    [
        [1.0, 0.84, -0.51, -0.54, -0.95],
        [0.84, 1.0, -0.41, -0.31, -0.87],
        [-0.51, -0.41, 1.0, 0.1, 0.52],
        [-0.54, -0.31, 0.1, 1.0, 0.39],
        [-0.95, -0.87, 0.52, 0.39, 1.0],
    ]
)


def _plant(random: np.random.Generator) -> Columns:
    """9,568 normal rows of such columns, of standard deviation 1."""
    x = random.normal(size=(9568, 5)) @ np.linalg.cholesky(PLANT_RELATED).T
    return {name: x[:, place] for place, name in enumerate(PLANT)}


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

ALL_RELATED = Relations({frozenset((f"x{i}", f"x{j}")): 0.85 for i in range(4) for j in range(i)})
RELATED = Made(
    RegressionSchema(WIDE, _columns(4)),
    {"y": Expected(0, 2.06), **{f"x{k}": GUESS for k in range(4)}},
    _related,
    20_000,
    "gaussian",
    1.0,
    relations=ALL_RELATED,
)
MADE = {
    **MADE,
    "correlated, stated": RELATED,
    "correlated, noise-heavy": replace(RELATED, epsilon=0.1),
    "like a power plant": Made(
        RegressionSchema(
            Continuous("PE", Bounds(-3, 3)), tuple(Continuous(name, Bounds(-3, 3)) for name in PLANT[:-1])
        ),
        {name: Expected(0, 1) for name in PLANT},
        _plant,
        9568,
        "gaussian",
        1.0,
        relations=Relations(
            {frozenset((PLANT[i], PLANT[j])): float(PLANT_RELATED[i, j]) for i in range(len(PLANT)) for j in range(i)}
        ),
    ),
    "a pair, and a rare level": Made(
        RegressionSchema(WIDE, (*_columns(3), Factor("job", tuple("abc")))),
        {"y": Expected(0.33, 2.0), **{f"x{k}": GUESS for k in range(3)}},
        _pair,
        50_000,
        "gaussian",
        1.0,
        relations=Relations(
            {
                frozenset(("x0", "x1")): 0.85,
                frozenset(("x0", "x2")): 0.0,
                frozenset(("x1", "x2")): 0.0,
                frozenset(("x0", "y")): 0.6,
                frozenset(("x1", "y")): 0.51,
                frozenset(("x2", "y")): 0.0,
            },
            {"job": (0.67, 0.3, 0.03)},
        ),
    ),
}


def _median_posterior(design: RegressionDesign, columns: Columns, prior: Prior, holders: int = 1) -> dict[str, float]:
    """The posterior sd of every coefficient: the median over noise draws."""
    statistic = design.statistic()
    split = [{name: values[one::holders] for name, values in columns.items()} for one in range(holders)]
    exact = [statistic.sum(statistic.encode(own)) for own in split]
    found: dict[str, list[float]] = {}
    for seed in range(RELEASES):
        noises = [SeededNoise(100 * (seed + 1) + one, i_know_this_is_not_private=True) for one in range(holders)]
        release = pooled([design.release(noise, own) for noise, own in zip(noises, exact, strict=True)], alike=True)
        posterior = sample(release, prior, chains=2, draws=500, seed=seed)
        for name, draws in posterior.draws.items():
            found.setdefault(name, []).append(float(draws.std()))
    return {name: float(np.median(each)) for name, each in found.items()}


def _compare(label: str, predicted: Mapping[str, float], real: Mapping[str, float]) -> None:
    ratios = {name: predicted[name] / real[name] for name in real}
    print(f"{label}: predicted over posterior sd:", ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items()))
    assert predicted.keys() == real.keys()
    for name, ratio in ratios.items():
        within = WITHIN_OF_SIGMA if name == "sigma" else WITHIN
        assert 1 / within <= ratio <= within, (name, ratios)


LAWS = {"independent": IndependentPrior(), "conjugate": Prior()}
CASES = [(name, law) for name in sorted(MADE) for law in LAWS if law == "conjugate" or MADE[name].holders == 1]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "law"), CASES)
def test_made_up_studies_have_posteriors_as_wide_as_predicted(name: str, law: str) -> None:
    made, prior = MADE[name], LAWS[law]
    neighbours, rows = made.relation
    design = RegressionDesign(
        schema=made.schema, mechanism=made.mechanism(), neighbours=neighbours, max_rows_per_unit=rows
    )
    real = _median_posterior(design, made.rows(np.random.default_rng(5)), prior, made.holders)
    _compare(f"{name}, law: {law}", made.predicted(prior), real)


@pytest.mark.slow
def test_the_demo_study_has_posteriors_as_wide_as_predicted() -> None:
    study = load_study(Path(examples.wages.__file__).parent / "study.yaml")
    people, design = everybody("2026-01"), study.design("wage-regression")
    levels = {name: getattr(people, name).astype(np.int32) for name in ("female", "education", "region")}
    columns = {"log_wage": people.log_wage(), "age": people.age, "tenure": people.tenure, **levels}
    predicted = {one.coefficient: one.sd for one in predict_release(study, "wage-regression").predicted}
    assert isinstance(design, RegressionDesign)
    _compare("wages", predicted, _median_posterior(design, columns, IndependentPrior()))


@pytest.mark.slow
def test_correlations_that_nobody_states_are_within_the_worse_case_and_far_from_the_expected() -> None:
    made, prior = RELATED, Prior()
    design = RegressionDesign(schema=made.schema, mechanism=made.mechanism())
    real = _median_posterior(design, made.rows(np.random.default_rng(5)), prior)
    _compare("worse case", made.predicted(prior, replace(UNSTATED, otherwise=HIGH_CORRELATION)), real)
    plain = made.predicted(prior, UNSTATED)
    print(
        "unstated: predicted over posterior sd:", ", ".join(f"{name} {plain[name] / real[name]:.2f}" for name in real)
    )
    assert all(plain[f"x{k}"] < 0.5 * real[f"x{k}"] for k in range(4))


EFFECT_RELEASES = 60


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_effects_of_the_size_that_plan_names_are_told_from_0_in_about_three_releases_of_four(epsilon: float) -> None:
    """One covariate of that slope, a new table and new noise each time."""
    schema, rows = RegressionSchema(WIDE, _columns(1)), 5000
    made = Made(schema, {"y": Expected(0, 2), "x0": GUESS}, _shop, rows, "gaussian", epsilon)
    known = Expectation.of(schema, made.mechanism(), rows=rows, expected=made.expected, places=released_entries(schema))
    (_, slope, _), draws = (
        precision_of(known, Prior()),
        Prior().draws(schema, 100_000, np.random.default_rng(1))["x0"],
    )
    least = detectable_effect(slope.half_width, float(np.diff(np.quantile(draws, (0.025, 0.975)))[0] / 2))
    assert least is not None
    design, told = RegressionDesign(schema=schema, mechanism=made.mechanism()), 0
    for seed in range(EFFECT_RELEASES):
        random = np.random.default_rng(seed)
        x = 1.2 * random.normal(size=rows)
        columns = {"x0": x, "y": least * x + random.normal(0, np.sqrt(4 - (1.2 * least) ** 2), rows)}
        statistic = design.statistic()
        release = design.release(
            SeededNoise(seed, i_know_this_is_not_private=True), statistic.sum(statistic.encode(columns))
        )
        draws = sample(release, Prior(), chains=2, draws=500, seed=seed).draws["x0"]
        low, high = np.quantile(draws, (0.025, 0.975))
        told += low > 0 or high < 0
    print(f"epsilon {epsilon}: an effect of {least:.3g} was told from 0 in {told} of {EFFECT_RELEASES}")
    assert 0.6 <= told / EFFECT_RELEASES <= 0.95


def test_the_comparison_can_fail() -> None:
    with pytest.raises(AssertionError):
        _compare("a wrong one", {"a": 1.35}, {"a": 1.0})
    with pytest.raises(AssertionError):
        _compare("a wrong sigma", {"sigma": 1.45}, {"sigma": 1.0})
