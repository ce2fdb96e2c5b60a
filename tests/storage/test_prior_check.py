"""What an archive says of prior and release, in a sentence."""

import html
import json
from pathlib import Path

import numpy as np

from dpbayes_core.canonical import canonical_json
from dpbayes_core.priors import Prior
from dpbayes_core.samplers import sample
from storage.crate_release import build_release_crate
from storage.prior_check import conflict_words, named_words, prior_check
from storage.signatures import Signer
from tests.storage.crate_examples import STUDY_TEXT, TRUTH, posterior_crate, small_entry
from tests.support.regressions import example, schema_of
from tests.support.sampler_examples import network


def test_an_analysis_says_that_prior_and_release_agree() -> None:
    release, prior = example(schema_of("x"), 500, scale=1.0), Prior()
    found = prior_check(release, prior.to_record(), sample(release, prior, sampler="naive", draws=300, seed=1).draws)
    assert found is not None
    assert not found["conflict"]
    assert found["words"].startswith("Prior and release agree: before the release, the prior gave a posterior")
    canonical_json(found)


def test_an_analysis_says_what_they_disagree_on_and_whether_the_prior_is_felt() -> None:
    release, firm = example(schema_of("x"), 500, scale=1.0), Prior(named=(("x", 3.0, 0.05),))
    found = prior_check(release, firm.to_record(), sample(release, firm, sampler="naive", draws=300, seed=1).draws)
    assert found is not None
    assert "disagree on x" in found["words"]
    assert "It moved x by about" in found["words"] or "It moved sigma by about" in found["words"]
    loose = Prior(noise_shape=2.0, noise_scale=1e-9)
    many = example(schema_of("x"), 5000, scale=1.0)
    found = prior_check(many, loose.to_record(), sample(many, loose, sampler="naive", draws=300, seed=1).draws)
    assert found is not None
    assert "disagree on sigma" in found["words"]
    assert "The release outweighs it" in found["words"]


def test_a_prior_of_single_coefficients_is_told_in_the_tables_units() -> None:
    release = example(schema_of("x"), 500)
    assert named_words(release, Prior().to_record()) == ""
    stated = Prior.from_user({"named": {"x": {"mean": 0.01, "sd": 0.02}}, "noise": {"sd": 0.6}}, release.schema)
    assert named_words(release, stated.to_record()) == (
        "in the table’s units, at a residual standard deviation of 0.6, x around 0.01 with standard deviation 0.02"
    )


def test_many_disagreements_are_counted() -> None:
    one = {"probability": 1e-9, "left": 0.1, "pull": 2.0}
    parameters = [{**one, "name": name} for name in "abcde"]
    words = conflict_words({"conflict": True, "probability": 2e-9, "parameters": parameters})
    assert "disagree on a, b, c and 2 more: " in words


def test_the_parameter_that_the_prior_moved_most_is_named_first_where_it_was_felt() -> None:
    parameters = [{"name": name, "probability": 0.0, "left": 0.1, "pull": 0.1} for name in "abcde"]
    parameters[3] |= {"pull": 9.0, "probability": 1e-200}
    found = {"conflict": True, "probability": 0.0, "parameters": parameters}
    assert "disagree on d, a, b and 2 more: " in conflict_words(found)
    parameters[3]["pull"] = 0.2
    assert "disagree on a, b, c and 2 more: " in conflict_words(found)


def test_a_probability_that_underflows_is_not_called_nothing() -> None:
    one = {"name": "a", "probability": 0.0, "left": 0.1, "pull": 2.0}
    for value in (0.0, 5e-324, 1e-301):
        words = conflict_words({"conflict": True, "probability": value, "parameters": [one]})
        assert "a probability of less than 10⁻³⁰⁰. It moved" in words
    words = conflict_words({"conflict": True, "probability": 1e-299, "parameters": [one]})
    assert "a probability of 10⁻²⁹⁹. It moved" in words


def test_the_record_and_the_report_say_it(tmp_path: Path) -> None:
    signer = Signer.create(tmp_path / "keys")
    files = posterior_crate(build_release_crate(small_entry(tmp_path), STUDY_TEXT, signer), signer)
    stated = json.loads(files["posterior.json"])["prior_check"]
    assert [one["name"] for one in stated["parameters"]] == list(TRUTH)
    assert stated["words"] in html.unescape(files["report.html"].decode())


def test_other_kinds_of_release_have_no_such_measure() -> None:
    assert prior_check(network()[0], {}, {"a": np.zeros((2, 3))}) is None
