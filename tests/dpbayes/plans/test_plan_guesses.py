"""What a study expects of its columns changes what `plan` predicts, and nothing that is released or analysed."""

from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from dpbayes.markup.numbers import short
from dpbayes.plans.precision import ReleasePrediction, predict_release
from dpbayes.study.load import load_study
from dpbayes.study.study import Study

STUDY = """\
study: pay
population: staff
source: {path: "data/pay-{period}.parquet", rows: 20000, unit: person}
period: {grain: month, people: same}
columns:
  pay: {bounds: [0, 10]PAY}
  age: {bounds: [16, 80]AGE}
  tenure: {bounds: [0, 50]}MORE
  female: {levels: [no, yes]}
  region: {levels: [north, south, east]REGION}
privacy: {delta: 1e-6, budget: {lifetime: {epsilon: 8}}}
releases:
  pay-regression:
    {kind: regression, response: pay, covariates: [age, tenure, female, region], mechanism: gaussian, epsilon: LOSS}
  with-fourth:
    {kind: regression, response: pay, covariates: [age, tenure], mechanism: auto, epsilon: 1, moments: fourth}
analyses:
  pay-posterior: {release: pay-regressionLAW}
"""
STATED = {
    "PAY": ", expect: {mean: 4, sd: 1.5, correlations: {tenure: 0.4}}",
    "AGE": ", expect: {correlations: {tenure: 0.85, female: -0.1, pay: 0.5}}",
    "REGION": ", expect: {shares: {east: 0.01}}",
}
ONLY_TENURE = ", expect: {correlations: {tenure: 0.85}}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("studies")


def study_of(folder: Path, loss: str = "1", **stated: str) -> Study:
    """A study with these guesses."""
    text = STUDY.replace("LOSS", loss)
    for key in (*STATED, "MORE", "LAW"):
        text = text.replace(key, stated.get(key, ""))
    path = folder / f"{crc32(text.encode())}.yaml"
    path.write_text(text)
    return load_study(path)


@pytest.fixture(scope="module")
def plain(folder: Path) -> ReleasePrediction:
    return predict_release(study_of(folder), "pay-regression", ())


def ahead(folder: Path, loss: str = "1", **stated: str) -> ReleasePrediction:
    return predict_release(study_of(folder, loss, **stated), "pay-regression", ())


def by_name(found: ReleasePrediction) -> dict[str, dict[str, Any]]:
    return {one["coefficient"]: one for one in found.document()["predicted"]}


def test_guesses_change_neither_a_release_nor_what_names_it(folder: Path) -> None:
    plain, stated = study_of(folder), study_of(folder, **STATED)
    for name in plain.releases:
        one, other = (study.request(name, "2026-01") for study in (plain, stated))
        assert (one.definition, one.hash, one.key) == (other.definition, other.hash, other.key)
        assert plain.design(name) == stated.design(name)
        assert plain.table(name, "2026-01") == stated.table(name, "2026-01")


def test_where_correlations_are_not_stated_a_worse_case_is_told_and_where_they_are_it_is_expected(
    folder: Path, plain: ReleasePrediction
) -> None:
    before, after = by_name(plain), by_name(ahead(folder, AGE=ONLY_TENURE))
    for name in ("age", "tenure"):
        assert before[name]["high_correlation"]["sd"] > 2 * before[name]["sd"]
        assert after[name]["sd"] == pytest.approx(before[name]["high_correlation"]["sd"], rel=1e-6)
        assert after[name]["high_correlation"] is None
        assert after[name]["told_from_zero"] == pytest.approx(before[name]["told_from_zero_high_correlation"])
    assert before["female[yes]"]["high_correlation"]["sd"] == pytest.approx(before["female[yes]"]["sd"], rel=0.1)


def test_the_worse_case_is_never_narrower_whatever_is_stated(folder: Path) -> None:
    """A pair of -0.8 cannot go with 0.85 elsewhere; what is filled in then may leave columns more of their own."""
    path = study_of(folder, AGE=", expect: {correlations: {hours: -0.8}}", MORE="\n  hours: {bounds: [0, 80]}").path
    path.write_text(path.read_text().replace("[age, tenure, female", "[age, tenure, hours, female"))
    for one in by_name(predict_release(load_study(path), "pay-regression", ())).values():
        assert one["high_correlation"]["interval95"] >= one["interval95"]


def test_a_rare_level_is_told_less_precisely_than_a_common_one(folder: Path, plain: ReleasePrediction) -> None:
    before, after = by_name(plain), by_name(ahead(folder, REGION=STATED["REGION"]))
    assert after["region[east]"]["sd"] > 5 * before["region[east]"]["sd"]
    assert after["region[south]"]["sd"] < 2 * before["region[south]"]["sd"]


def test_every_width_lies_between_that_without_noise_and_that_of_the_prior(
    folder: Path, plain: ReleasePrediction
) -> None:
    for found in (plain, ahead(folder, "0.02")):
        for one in by_name(found).values():
            assert one["without_noise"]["interval95"] <= 1.02 * one["interval95"], one["coefficient"]
            if one["coefficient"] not in ("(intercept)", "sigma"):
                assert one["interval95"] <= 1.05 * one["prior_interval95"], one["coefficient"]


def test_the_plan_says_in_words_what_it_can_tell_from_0_and_what_it_cannot(
    folder: Path, plain: ReleasePrediction
) -> None:
    words, least = dict(plain.sentences), by_name(plain)["age"]["told_from_zero"]
    assert f"effects of age beyond {short(least, 2)}" in words["Can tell from 0"]
    assert "age" in words["If numbers are correlated by 0.85"]
    assert "Cannot tell from 0" not in words
    assert by_name(plain)["sigma"]["told_from_zero"] is None
    small = ahead(folder, "0.002")
    assert "Can tell from 0" not in dict(small.sentences)
    assert "age, tenure, female[yes], region[south] and region[east]" in dict(small.sentences)["Cannot tell from 0"]
    assert by_name(small)["age"]["told_from_zero"] is None


def test_every_kind_of_released_number_has_its_noise_the_fourth_moments_too(
    folder: Path, plain: ReleasePrediction
) -> None:
    study = study_of(folder)
    assert sum(one.numbers for one in plain.blocks) == len(study.design("pay-regression").mechanism.scales)
    found = predict_release(study, "with-fourth", ())
    blocks = {one["block"]: one for one in found.document()["blocks"]}
    assert {"means of numbers", "third moments of covariates", "fourth moments of covariates"} <= blocks.keys()
    assert blocks["fourth moments of covariates"]["ratio"] > 3 * blocks["means of numbers"]["ratio"]
    for one in blocks.values():
        assert one["ratio"] == pytest.approx(one["noise"] / one["measures"])
    assert dict(found.sentences)["Fourth moments"].startswith("third and fourth moments take 24% of the rho")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stated", "term", "words"),
    [
        ({"AGE": ", expect: {mean: 40, sd: 1, correlations: {pay: 0.6}}"}, "Steep", "age (about"),
        ({"PAY": ", expect: {mean: 4, sd: 0.1}"}, "Small residual", "Narrower bounds of pay"),
    ],
)
def test_what_is_expected_out_of_the_conjugate_laws_reach_is_said(
    folder: Path, plain: ReleasePrediction, stated: dict[str, str], term: str, words: str
) -> None:
    assert words in dict(ahead(folder, LAW=", prior: {law: conjugate}", **stated).sentences)[term]
    assert term not in dict(ahead(folder, LAW=", prior: {law: conjugate}").sentences)
    assert term not in dict(ahead(folder, **stated).sentences)  # the default's reach is wider
    assert "law: independent" in dict(plain.sentences)["Predictions assume"]
