"""Priors: what a study may say, and what it means."""

import numpy as np
import pytest

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.priors import Prior


def test_a_study_changes_only_what_it_names() -> None:
    prior = Prior.from_user({"coefficients": {"sd": 1.0}, "noise": {"scale": 2}})
    assert prior == Prior(coefficient_sd=1.0, noise_scale=2.0)
    assert Prior.from_user({}) == Prior()
    assert Prior.from_user({"intercept": {"sd": 3}, "noise": {"shape": 1}}).intercept_sd == 3.0


@pytest.mark.parametrize("choices", [{"slope": {"sd": 1.0}}, {"noise": {"sd": 1.0}}, {"intercept": {"mean": 0.0}}])
def test_a_part_that_does_not_exist_is_refused_by_name(choices: dict[str, dict[str, float]]) -> None:
    part, values = next(iter(choices.items()))
    with pytest.raises(StudyInvalid, match=f"{part}.{next(iter(values))} is not part of it. Choose from intercept.sd"):
        Prior.from_user(choices)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_only_positive_numbers_are_a_prior(value: float) -> None:
    with pytest.raises(StudyInvalid, match="noise_scale must be a positive number"):
        Prior(noise_scale=value)


def test_a_prior_travels_as_its_record() -> None:
    prior = Prior(intercept_sd=3.0, extra_degrees=4.0)
    assert Prior.from_record(prior.to_record()) == prior
    assert canonical_json(prior.to_record()) == canonical_json(Prior.from_record(prior.to_record()).to_record())


def test_prior_matrices_hold_precisions_and_twice_the_noise_scale() -> None:
    prior = Prior(intercept_sd=2.0, coefficient_sd=0.5, noise_scale=0.3)
    assert np.array_equal(np.diag(prior.response_matrix(2)), [0.25, 4.0, 4.0, 0.6])
    assert np.array_equal(np.diag(prior.normal_matrix(1)), [0.01, 0.01])
    assert prior.degrees(3) == 5.0
