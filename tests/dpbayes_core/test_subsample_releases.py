"""Designs and releases of probabilities and quantiles: refused early, released totally, read back unchanged."""

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.privacy.accounting import limit_units
from dpbayes_core.privacy.noise import OpenDPNoise
from dpbayes_core.regression.schema import Factor
from dpbayes_core.subsample import refusals
from dpbayes_core.subsample.fits import OpenPrior
from dpbayes_core.subsample.probability import (
    STEPS,
    ProbabilityQuery,
    ProbabilityRelease,
    ProbabilityTerms,
    probability_design,
)
from dpbayes_core.subsample.quantile import QuantileRelease, QuantileTerms, quantile_design
from dpbayes_core.subsample.regressions import SubsetMoments
from dpbayes_core.subsample.schema import OpenSchema, Unbounded

SCHEMA = OpenSchema("income", (Unbounded("age"), Factor("region", ("north", "south"))))
QUERIES = (
    ProbabilityQuery(coefficient="age", threshold=2.01),
    ProbabilityQuery(coefficient="age", threshold=2.02, share=2.0),
    ProbabilityQuery(coefficient="region[south]", threshold=0.0),
)  # fmt: skip
ASKED = ProbabilityTerms(schema=SCHEMA, queries=QUERIES, subsets=50, rows=20_000)
SOUGHT = QuantileTerms(
    schema=SCHEMA, coefficient="age", probabilities=(0.025, 0.5, 0.975), outer=(-100.0, 100.0), subsets=100, rows=20_000
)  # fmt: skip


def moments(statistic: Any, rows: int = 20_000) -> SubsetMoments:
    generator = np.random.default_rng(1)
    age, region = generator.normal(40, 10, rows), generator.integers(0, 2, rows).astype(np.float64)
    income = 5 + 2 * age + 0.1 * region + generator.standard_t(5, rows)
    people = generator.integers(0, 2**63, (rows, 2)).astype(np.uint64)
    return statistic.sum(statistic.encode({"age": age, "region": region, "income": income}), people)


def test_queries_are_priced_together_and_split_as_stated() -> None:
    design = probability_design(ASKED, epsilon=Decimal("0.8"))
    assert design.mechanism.cost().epsilon == limit_units(0.8)
    np.testing.assert_allclose(design.mechanism.scales, STEPS / np.array([0.2, 0.4, 0.2]), rtol=1e-12)
    assert ASKED.names == ("P(age <= 2.01)", "P(age <= 2.02)", "P(region[south] <= 0)")
    assert design.neighbours == "replace-one"


@pytest.mark.parametrize("method", ["noise-aware", "rescaled-normal", "fisher"])
def test_a_release_of_probabilities_reads_back_and_knows_that_it_is_protected(method: Any) -> None:
    design = probability_design(replace(ASKED, method=method, prior=OpenPrior(kind="flat")), epsilon=1.0)
    release = design.release(OpenDPNoise(), moments(design.statistic()))
    back = ProbabilityRelease.from_record(json.loads(canonical_json(release.to_record())))
    assert back == release
    assert back.digest == release.digest
    assert release.protected
    assert not replace(release, values=release.values[:2]).protected
    louder = replace(release.mechanism, sensitivities=(STEPS // 2,) * 3)
    assert not replace(release, mechanism=louder).protected


@pytest.mark.parametrize("method", ["auto", "median", "centre-scale"])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_a_release_of_quantiles_reads_back_and_knows_that_it_is_protected(method: Any, epsilon: float) -> None:
    design = quantile_design(replace(SOUGHT, method=method), epsilon=epsilon)
    assert design.mechanism.cost().epsilon == limit_units(epsilon)
    release = design.release(OpenDPNoise(), moments(design.statistic()))
    assert QuantileRelease.from_record(json.loads(canonical_json(release.to_record()))) == release
    assert release.protected
    assert not replace(release, values=(*release.values, 0)).protected
    assert ((release.estimates() > -200) & (release.estimates() < 200)).all()
    assert SOUGHT.names == ("age[q0.025]", "age[q0.5]", "age[q0.975]")


def test_auto_takes_centre_and_scale_where_a_mean_is_worth_its_share() -> None:
    assert SOUGHT.algorithm(2.99) == "median"
    assert SOUGHT.algorithm(3.0) == "centre-scale"


def test_released_quantiles_are_near_the_posteriors_own() -> None:
    design = quantile_design(replace(SOUGHT, outer=(0.0, 4.0)), epsilon=20.0)
    release = design.release(OpenDPNoise(), moments(design.statistic()))
    spread = 1.29 / (10 * np.sqrt(20_000))
    assert np.abs(release.estimates() - 2 - spread * np.array([-1.96, 0, 1.96])).max() < 6 * spread


@pytest.mark.parametrize("made", [
    lambda: probability_design(ASKED, epsilon=1.0), lambda: quantile_design(SOUGHT, epsilon=1.0),
    lambda: quantile_design(SOUGHT, epsilon=4.0),
])  # fmt: skip
def test_no_table_stops_a_release(made: Callable[[], Any]) -> None:
    design = made()
    nothing = design.statistic().empty()
    assert design.release(OpenDPNoise(), nothing).protected
    statistic = design.statistic()
    odd = np.array([np.nan, np.inf, -np.inf, 1e308, 0.0, 1.0])
    columns = {"age": odd, "region": np.zeros(6), "income": odd[::-1].copy()}
    people = np.arange(12, dtype=np.uint64).reshape(6, 2)
    assert design.release(OpenDPNoise(), statistic.sum(statistic.encode(columns), people)).protected


@pytest.mark.parametrize(("changed", "epsilon", "words"), [
    ({"subsets": 1}, 1.0, "an aggregate needs two"),
    ({"subsets": 667}, 1.0, "into 667 subsets: each needs 30. Declare 666 or fewer"),
    ({"queries": ()}, 1.0, "none is asked for"),
    ({"queries": (QUERIES[0], QUERIES[0])}, 1.0, "asked for twice"),
    ({"queries": (ProbabilityQuery(coefficient="height", threshold=1.0),)}, 1.0, "height: the regression has no such"),
    ({"queries": (ProbabilityQuery(coefficient="age", threshold=float("nan")),)}, 1.0, "not a finite number"),
    ({"method": "fisher", "least": 0.5}, 1.0, "p\\* = 0.5: it must lie between 0 and 0.5"),
    ({"method": "bootstrap"}, 1.0, "does not exist"),
    ({}, 0.0, "epsilon 0: it must be a positive number"),
])  # fmt: skip
def test_probabilities_that_public_facts_rule_out_are_refused(
    changed: dict[str, Any], epsilon: float, words: str
) -> None:
    with pytest.raises(StudyInvalid, match=words):
        probability_design(replace(ASKED, **changed), epsilon=epsilon)


@pytest.mark.parametrize(("changed", "epsilon", "words"), [
    ({"subsets": 29}, 1.0, "their product is below 30. Declare 30 subsets or more"),
    ({"outer": (1.0, 1.0)}, 1.0, "not two increasing finite numbers"),
    ({"outer": (0.0, float("inf"))}, 1.0, "not two increasing finite numbers"),
    ({"coefficient": "height"}, 1.0, "no such coefficient"),
    ({"probabilities": ()}, 1.0, "none is asked for"),
    ({"probabilities": (0.5, 0.5)}, 1.0, "one twice"),
    ({"probabilities": (1.0,)}, 1.0, "quantile of 1: it must lie between 0 and 1"),
    ({"subsets": 1000}, 1.0, "Declare 666 or fewer"),
    ({"method": "mean"}, 1.0, "does not exist"),
    ({}, float("nan"), "must be a positive number"),
])  # fmt: skip
def test_quantiles_that_public_facts_rule_out_are_refused(changed: dict[str, Any], epsilon: float, words: str) -> None:
    with pytest.raises(StudyInvalid, match=words):
        quantile_design(replace(SOUGHT, **changed), epsilon=epsilon)


def test_outer_bounds_that_are_missing_are_asked_for() -> None:
    assert "no outer bounds are declared" in str(refusals.outer_refusal(None))
    assert refusals.outer_refusal((-1.0, 1.0)) is None


def test_every_refusal_is_one_sentence_and_one_advice() -> None:
    found = [
        refusals.subsets_refusal(SCHEMA, subsets=9, rows=50), refusals.subsets_refusal(SCHEMA, subsets=1, rows=50),
        refusals.epsilon_refusal(-1.0), refusals.coefficient_refusal(SCHEMA, "x"), refusals.threshold_refusal(np.inf),
        refusals.least_refusal(0.0), refusals.outer_refusal((2.0, 1.0)), refusals.quantile_refusal(0.0),
        refusals.ranks_refusal(subsets=10, epsilon=0.5),
    ]  # fmt: skip
    for refusal in found:
        assert refusal is not None
        assert str(refusal) == f"{refusal.what}. {refusal.remedy}."
        assert refusal.what.startswith("cannot ")
        assert ": " in refusal.what


def test_what_the_noise_drowns_is_known_beforehand() -> None:
    assert refusals.unresolvable(subsets=100, epsilon=0.1)
    assert not refusals.unresolvable(subsets=100, epsilon=1.0)
    assert refusals.noise_to_signal(subsets=100, epsilon=1.0) == pytest.approx(0.3544907701811032)


def test_schemas_that_name_something_twice_are_refused() -> None:
    with pytest.raises(StudyInvalid, match="itself"):
        OpenSchema("x", (Unbounded("x"),))
    with pytest.raises(StudyInvalid, match="occurs twice"):
        OpenSchema("y", (Unbounded("x"), Unbounded("x")))
    assert OpenSchema.from_record(SCHEMA.to_record()) == SCHEMA
