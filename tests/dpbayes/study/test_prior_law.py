"""Which law a regression's prior has: what a study states keeps its meaning, and either law can be named."""

from collections.abc import Mapping

import pytest

from dpbayes.analyses.earlier import changed
from dpbayes.analyses.prepare import refuse_law
from dpbayes.kinds.prior import PriorSpec
from dpbayes.kinds.regression.prior import NOTHING, regression_prior
from dpbayes.kinds.regression.prior_check import named_words
from dpbayes.kinds.regression.texts import RegressionTexts
from dpbayes.strict_yaml.yaml12 import parse
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.regression.expected_prior import expected_prior
from dpbayes_core.regression.independent_prior import IndependentPrior, prior_from_record
from dpbayes_core.regression.planning.expected_moments import Expected
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.schema import RegressionSchema
from tests.support.regressions import example, schema_of

SCHEMA: RegressionSchema = schema_of("x")


def prior_of(stated: str, sampler: str = "auto", expected: Mapping[str, Expected] = NOTHING) -> Prior:
    spec = PriorSpec.model_validate(parse(stated, if_empty="").value if stated else {})
    return regression_prior(spec, SCHEMA, sampler, expected)


@pytest.mark.parametrize(
    "stated",
    [
        "{intercept: {sd: 10}, coefficients: {sd: 1.5}, noise: {shape: 1, scale: 0.1}}",
        "{coefficients: {sd: 1.5}}",
        "{noise: {shape: 1}}",
        "{law: conjugate}",
    ],
)
def test_what_was_stated_before_there_was_a_choice_keeps_its_law_and_record(stated: str) -> None:
    assert prior_of(stated).to_record() == Prior().to_record()


def test_the_independent_law_is_named_and_has_defaults_of_its_own() -> None:
    assert prior_of("{law: independent}") == IndependentPrior()
    told = prior_of("{law: independent, coefficients: {sd: 3}, named: {x: {mean: 1, sd: 0.5}}}")
    assert isinstance(told, IndependentPrior)
    assert told.coefficient_sd == 3.0
    assert told.in_units(SCHEMA)["x"] == pytest.approx((1.0, 0.5))


def test_a_prior_that_states_nothing_is_independent_where_the_sampler_takes_it() -> None:
    assert prior_of("") == prior_of("", "collapsed") == IndependentPrior()
    assert type(prior_of("", "naive")) is type(prior_of("", "gibbs-ss-exact")) is Prior


def test_the_default_is_in_units_of_what_is_expected_where_the_response_is() -> None:
    response = {"y": Expected(0.1, 0.2)}
    assert prior_of("", expected=response) == expected_prior(SCHEMA, response)
    both = {**response, "x": Expected(0.0, 0.05)}
    assert prior_of("", "collapsed", expected=both) == expected_prior(SCHEMA, both) != expected_prior(SCHEMA, response)
    assert prior_of("", expected={"x": Expected(0.0, 0.05)}) == IndependentPrior()


def test_what_is_expected_changes_no_prior_that_is_stated_and_none_of_the_conjugate_law() -> None:
    expected = {"y": Expected(0.1, 0.2), "x": Expected(0.0, 0.05)}
    for stated in ("{law: independent}", "{law: conjugate}", "{noise: {shape: 1}}", "{law: independent, named: {}}"):
        assert prior_of(stated, expected=expected) == prior_of(stated)
    assert prior_of("", "naive", expected=expected) == Prior()


@pytest.mark.parametrize(
    ("now", "before", "words"),
    [
        (
            "",
            "{law: conjugate}",
            "the default is law: independent now (docs/priors.md). The posterior under the default",
        ),
        ("guess", "{law: conjugate}", "in units of what the study expects of its columns, now"),
        (
            "guess",
            "{law: independent}",
            "in half widths of the bounds, stays as it is: state prior: {law: independent}",
        ),
        ("guess", "other", "what it expects of its columns, in units of which the default is, has changed"),
        ("", "guess", "no longer an sd of the response, in units of which the default was"),
    ],
)
def test_why_a_study_has_another_default_than_before_is_said(now: str, before: str, words: str) -> None:
    guesses = {"guess": {"y": Expected(0.1, 0.2)}, "other": {"y": Expected(0.1, 0.3)}}
    records = [
        (prior_of("", expected=guesses[each]) if each in guesses else prior_of(each)).to_record()
        for each in (now, before)
    ]
    assert words in changed(*records)


def test_records_of_either_law_are_read_and_told_in_their_own_units() -> None:
    release, telling = example(SCHEMA, 100), RegressionTexts()
    for law, unit in (("independent", "half widths of the response"), ("conjugate", "residual standard deviations")):
        stated = prior_of(f"{{law: {law}, named: {{x: {{mean: 0.01, sd: 0.02}}}}}}")
        assert prior_from_record(stated.to_record()) == stated
        assert unit in telling.prior(stated.to_record())
        assert ("at a residual standard deviation of" in named_words(release, stated.to_record())) == (
            law == "conjugate"
        )


@pytest.mark.parametrize("sampler", ["naive", "gibbs-ss-exact", "normal-x"])
def test_a_sampler_of_the_conjugate_law_is_refused_with_the_independent_one(sampler: str) -> None:
    independent = PriorSpec.model_validate({"law": "independent"})
    with pytest.raises(StudyInvalid, match=f"cannot analyse with sampler {sampler}: it takes no prior with law"):
        refuse_law(independent, sampler)
    refuse_law(PriorSpec(), sampler)
    refuse_law(independent, "collapsed")
