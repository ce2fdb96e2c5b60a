"""What an archive says of prior and release, in a sentence."""

import html
import json
from pathlib import Path
from typing import Any

import numpy as np

from dpbayes.crates.release import build_release_crate
from dpbayes.kinds.regression.prior_check import BLIND, conflict_words, dependence_words, named_words, prior_check
from dpbayes_core.canonical import canonical_json
from dpbayes_core.regression.prior import Prior
from dpbayes_core.samplers.driver import sample
from storage.home.signatures import Signer
from tests.dpbayes.crates.crate_examples import STUDY_TEXT, TRUTH, posterior_crate, small_entry
from tests.support.regressions import example, schema_of
from tests.support.sampler_examples import network


def test_an_analysis_says_that_prior_and_release_do_not_contradict_each_other_and_that_this_proves_little() -> None:
    release, prior = example(schema_of("x"), 500, scale=1.0), Prior()
    found = prior_check(release, prior.to_record(), sample(release, prior, sampler="naive", draws=300, seed=1).draws)
    assert found is not None
    assert not found["conflict"]
    assert found["words"].startswith("Prior and release do not contradict each other: before the release, the prior")
    assert found["words"].endswith(BLIND)
    canonical_json(found)


def test_an_analysis_says_what_they_disagree_on_and_whether_the_prior_is_felt() -> None:
    release, firm = example(schema_of("x"), 500, scale=1.0), Prior(named=(("x", 3.0, 0.05),))
    found = prior_check(release, firm.to_record(), sample(release, firm, sampler="naive", draws=300, seed=1).draws)
    assert found is not None
    assert "disagree on x" in found["words"]
    assert "State a prior that allows for what was found" in found["words"]
    assert found["dependence"].startswith("The prior decides these numbers: without it ")
    loose = Prior(noise_shape=2.0, noise_scale=1e-9)
    many = example(schema_of("x"), 5000, scale=1.0)
    found = prior_check(many, loose.to_record(), sample(many, loose, sampler="naive", draws=300, seed=1).draws)
    assert found is not None
    assert "disagree on sigma" in found["words"]
    assert "The release outweighs the prior all the same." in found["words"]
    assert found["dependence"].startswith("The prior decides none of these numbers: without it none would move by more")


def test_a_prior_of_single_coefficients_is_told_in_the_tables_units() -> None:
    release = example(schema_of("x"), 500)
    assert named_words(release, Prior().to_record()) == ""
    stated = Prior.from_user({"named": {"x": {"mean": 0.01, "sd": 0.02}}, "noise": {"sd": 0.6}}, release.schema)
    assert named_words(release, stated.to_record()) == (
        "in the table’s units, at a residual standard deviation of 0.6, x around 0.01 with standard deviation 0.02"
    )


def record(*pulls: float, left: float = 0.1, combination: tuple[float, ...] = (1.0,), tail: float = 0.5) -> Any:
    """As `PriorConflict` has it, its parameters called a, b, ..."""
    names = "abcdefgh"
    return {
        "conflict": tail < 0.01,
        "decides": max(pulls) >= 1 or left > 0.5,
        "probability": tail,
        "weakest": {"left": left, "combination": [list(each) for each in zip(names, combination, strict=False)]},
        "parameters": [
            {"name": name, "probability": tail, "left": left, "pull": pull}
            for name, pull in zip(names, pulls, strict=False)
        ],
    }


def test_many_disagreements_are_counted() -> None:
    assert "disagree on a, b, c and 2 more: " in conflict_words(record(2, 2, 2, 2, 2, tail=1e-9))


def test_where_no_parameter_alone_is_unlikely_all_of_them_are_said_to_be() -> None:
    found = record(2, 2, 2, tail=0.001)
    for one in found["parameters"]:
        one["probability"] = 0.2
    assert conflict_words(found).startswith("Prior and release disagree: before the release, the prior gave")
    assert "all numbers taken together" in conflict_words(found)


def test_a_probability_that_underflows_is_not_called_nothing() -> None:
    for value in (0.0, 5e-324, 1e-301):
        assert "a probability of less than 10⁻³⁰⁰. State" in conflict_words(record(2, tail=value))
    assert "a probability of 10⁻²⁹⁹. State" in conflict_words(record(2, tail=1e-299))


def test_what_the_prior_decides_is_told_as_dependence() -> None:
    said = dependence_words(record(0.1, 4.21, 6.3, left=0.61, combination=(0.02, 0.709, -0.7)))
    assert said == (
        "The prior decides these numbers: without it c would move by about 6.3 posterior standard deviations and b "
        "by about 4.2. The release says least about the combination 0.71 b − 0.7 c (each in standard deviations of its "
        "prior): it leaves 78% of the prior’s standard deviation."
    )
    for word in ("wrong", "error", "bias", "mistake"):
        assert word not in said


def test_many_that_the_prior_moved_are_counted() -> None:
    assert "c by about 3 and 2 more by less." in dependence_words(record(5, 4, 3, 2, 1))


def test_a_contradicted_prior_that_decides_all_is_told_without_long_figures() -> None:
    assert dependence_words(record(18_119.0, 0.1, left=1.4, tail=1e-9)) == (
        "The prior decides these numbers: without it a would move by more than 100 posterior standard deviations. The "
        "release says least about a: it leaves all of the prior’s standard deviation."
    )


def test_a_prior_that_outweighs_the_release_is_told_though_it_moves_nothing() -> None:
    assert dependence_words(record(0.04, 0.02, left=0.8)) == (
        "The prior says more than the release about a: without it none would move by more than 0.04 posterior standard "
        "deviations. The release says least about it: it leaves 89% of the prior’s standard deviation."
    )
    said = dependence_words(record(3.0, 0.02, left=1.07, combination=(0.8, 0.6)))
    assert said == (
        "The prior decides these numbers: the release says next to nothing about the combination 0.8 a + 0.6 b (each "
        "in standard deviations of its prior), and what is said of it is the prior."
    )


def test_the_record_and_the_report_say_it(tmp_path: Path) -> None:
    signer = Signer.create(tmp_path / "keys")
    files = posterior_crate(build_release_crate(small_entry(tmp_path), STUDY_TEXT, signer), signer)
    stated = json.loads(files["posterior.json"])["prior_check"]
    assert [one["name"] for one in stated["parameters"]] == list(TRUTH)
    page = html.unescape(files["report.html"].decode())
    assert stated["words"] in page
    assert stated["dependence"] in page


def test_other_kinds_of_release_have_no_such_measure() -> None:
    assert prior_check(network()[0], {}, {"a": np.zeros((2, 3))}) is None
