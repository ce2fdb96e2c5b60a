"""Posteriors: summaries in the user's units, and an honest word on convergence."""

from typing import Any

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.samplers.driver import sample
from dpbayes_core.sampling.posterior import Posterior
from tests.support.regressions import JOB, SEX, encoded, example, mechanism, moments_of, released, schema_of


def posterior(**others: Any) -> Posterior:
    generator = np.random.default_rng(2)
    given: dict[str, Any] = {
        "draws": {"(intercept)": 2 + generator.standard_normal((4, 1000)), "sigma": generator.gamma(9, size=(4, 1000))},
        "latent": {"sum y": generator.standard_normal((4, 1000))},
        "sampler": "collapsed",
        "choice": "asked for by name",
        "target": "posterior",
        "calibrated": True,
        "caveat": "none",
        "release": "0" * 64,
        "seed": 1,
        "attempt": 0,
        "divergences": 0,
        "gradients": 1,
        **others,
    }
    return Posterior(**given)


def test_a_summary_has_a_line_for_every_coefficient_and_sigma_last() -> None:
    lines = posterior().summary()
    assert [line.name for line in lines] == ["(intercept)", "sigma"]
    assert lines[0].mean == pytest.approx(2.0, abs=0.1)
    assert lines[0].sd == pytest.approx(1.0, abs=0.05)
    assert lines[0].q025 == pytest.approx(0.04, abs=0.15)
    assert lines[0].q025 < lines[0].mean < lines[0].q975
    assert lines[1].ess_bulk > 3000


def test_draws_that_mixed_converged_and_nothing_is_said() -> None:
    assert posterior().converged
    assert posterior().why_not == ""


def test_a_latent_statistic_that_did_not_mix_is_enough_not_to_converge() -> None:
    stuck = np.random.default_rng(3).standard_normal((4, 1000)) + np.arange(4)[:, None]
    found = posterior(latent={"sum y": stuck})
    assert not found.converged
    assert found.why_not.startswith("R-hat of sum y is ")


def test_the_least_effective_sample_size_is_of_anything_monitored() -> None:
    fine, stuck = posterior(), np.random.default_rng(3).standard_normal((4, 1000)) + np.arange(4)[:, None]
    assert fine.least_ess == min(fine.diagnosis.ess_bulk.min(), fine.diagnosis.ess_tail.min())
    assert posterior(latent={"sum y": stuck}).least_ess < 20
    assert posterior(latent={"sum y": np.zeros((4, 1000))}).least_ess in (0.0, fine.least_ess)


def test_divergences_above_a_thousandth_are_enough_not_to_converge() -> None:
    assert posterior(divergences=4).converged
    found = posterior(divergences=5)
    assert found.why_not == "0.12% of the draws are divergent, above 0.1%"
    assert found.divergent


def test_divergences_that_are_just_too_many_are_shown_so() -> None:
    draws = {"sigma": np.random.default_rng(2).gamma(9, size=(4, 10_000))}
    found = posterior(draws=draws, latent={}, divergences=41)
    assert found.why_not == "0.103% of the draws are divergent, above 0.1%"


def test_draws_come_back_in_the_users_units() -> None:
    schema = RegressionSchema(Continuous("pay", Bounds(0.0, 200.0)), (Continuous("age", Bounds(20.0, 60.0)), SEX, JOB))
    generator = np.random.default_rng(4)
    covariates = encoded(schema, 3000, generator)
    moments = moments_of(covariates, [0.1, 0.2, -0.1, 0.3, 0.0], 0.1, generator)
    made = released(schema, moments, mechanism("gaussian", 1e-3, len(schema.entries)), generator)
    lines = {line.name: line for line in sample(made, Prior(), seed=5, draws=500).summary()}
    # pay = 100 + 100 y; y = .1 + .2 (age - 40)/20 - .1 (2 [m] - 1) + .3 [b]
    truth = {"(intercept)": 80.0, "age": 1.0, "sex[m]": -20.0, "job[b]": 30.0, "job[c]": 0.0, "sigma": 10.0}
    assert list(lines) == list(truth)
    for name, value in truth.items():
        assert abs(lines[name].mean - value) < 4 * lines[name].sd, name
        assert lines[name].sd < 2.0, name


def test_every_released_entry_is_monitored() -> None:
    schema = schema_of("x", SEX)
    found = sample(example(schema, 50), Prior(), seed=1, draws=50)
    assert list(found.latent) == [
        "sum x",
        "sum sex[m]",
        "sum y",
        "sum x*x",
        "sum x*sex[m]",
        "sum x*y",
        "sum sex[m]*y",
        "sum y*y",
    ]
