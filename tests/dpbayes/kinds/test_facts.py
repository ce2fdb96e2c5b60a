"""What a page says of one study follows from its rows, noise, prior and parts, and from what was measured nearest."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpbayes.kinds.regression import facts as told
from dpbayes.kinds.regression import measured_coverage as measured
from dpbayes.kinds.regression.measured_coverage import Setting, cells_of, nearest
from dpbayes_core.experiments.coverage import about, cells, run
from dpbayes_core.regression.expected_prior import REACH, expected_prior
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.planning.expected_moments import Expected
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.samplers.registry import SAMPLERS
from tasks.answers import _caveat
from tests.support.regressions import REGION, encoded, mechanism, moments_of, released, schema_of

FIVE = schema_of(*"abcde")
MADE: Any = Prior().to_record()  # a prior under which cells were measured
OLD = [cell for cell in measured.cells() if cell["prior"] == MADE]


def of(rows: int, noise: float, *, sd: float = 0.2, seed: int = 1) -> Release:
    """A release of five covariates that explain a third of a response of this spread; noise on a mean."""
    generator = np.random.default_rng(seed)
    slopes = sd * np.sqrt(0.3 / 5) / 0.35 * np.array([1, -1, 1, -1, 1])
    moments = moments_of(encoded(FIVE, rows, generator), [0.0, *slopes], sd * np.sqrt(0.7), generator)
    return released(FIVE, moments, mechanism("gaussian", noise * rows, len(FIVE.entries)), generator)


def record(
    sigma: float = 0.167, *, left: float = 0.01, prior: Any = None, calibrated: bool = True, name: str = "collapsed"
) -> dict[str, Any]:
    return {
        "coefficients": [{"name": "a", "mean": 0.1}, {"name": "sigma", "mean": sigma}],
        "prior_check": {"parameters": [{"name": "sigma", "left": left}]},
        "request": {"prior": prior or MADE},
        "sampler": {"calibrated": calibrated, "name": name},
    }


def facts(parts: list[Release], posterior: dict[str, Any], rows: int = 1) -> tuple[str, ...]:
    """All but the sentence that every calibrated posterior of a regression has."""
    found = told.facts(parts, posterior, [{"unit": "person", "max_rows_per_unit": rows}] * len(parts))
    equal = told.EQUAL + (told.ROBUST_ADVICE if len(parts) == 1 else told.ROBUST_ADVICE_FOR_SEVERAL)
    assert (equal in found) is posterior["sampler"]["calibrated"]
    return tuple(said for said in found if said != equal)


def test_a_study_like_a_measured_cell_is_told_what_intervals_held_there() -> None:
    (said,) = facts([of(100_000, 3.1e-4)], record())
    assert said == (
        "In the measured cell nearest to this study (docs/coverage.md, 100,000 rows, covariates uniform), 95% "
        "intervals contained the slopes in 94.4 ± 0.5% and sigma in 94.2 ± 1.0% of 500 synthetic tables."
    )  # of cells that are equally near the one in which least was held


@pytest.mark.parametrize(
    ("release", "sigma", "unlike"),
    [
        (of(100_000, 3.1e-4), 0.03, "the share of the response’s variance that is explained (98% here, 30% there)"),
        (
            of(5_000_000, 6e-6),
            0.167,
            "rows (5,000,000 here, 100,000 there) and noise on a mean (6 × 10⁻⁶ here, 0.00031",
        ),
        (
            of(100_000, 3.1e-5, sd=0.02),
            0.0167,
            "standard deviation in half widths of its bounds (0.019 here, 0.2 there)",
        ),
        (of(1000, 3.1e-2), 0.167, "Noise hides how much the response and the covariates vary."),
    ],
    ids=["strong", "large", "wide", "hidden"],
)
def test_a_study_unlike_any_cell_is_told_that_nothing_is_known(release: Release, sigma: float, unlike: str) -> None:
    (said,) = facts([release], record(sigma))
    assert said.startswith(
        "No table like this one was measured to show how often 95% intervals contain the coefficients."
    )
    assert "In the nearest cell (docs/coverage.md, " in said
    assert unlike in said


def test_where_the_prior_decides_or_columns_go_together_no_cell_is_promised() -> None:
    release, decided = of(100_000, 3.1e-4), record()
    decided["prior_check"]["decides"] = True
    (said,) = facts([release], decided)
    assert said.startswith(
        "Where the prior decides, no measured cell shows how often 95% intervals contain the coefficients. In the"
    )
    generator = np.random.default_rng(4)
    rows = encoded(FIVE, 50_000, generator)
    rows[:, 2] = 0.9 * rows[:, 1] + 0.2 * rows[:, 2]
    moments = moments_of(rows, [0, 0.1, 0.1, 0.1, 0.1, 0.1], 0.167, generator)
    collinear = released(FIVE, moments, mechanism("gaussian", 16.0, len(FIVE.entries)), generator)
    (said,) = facts([collinear], record())
    assert said.startswith("No table like this one was measured")
    assert said.endswith("It differs in the largest correlation of two columns (0.98 here, 0 there).")


def test_levels_and_the_mechanism_decide_which_cell_is_nearest() -> None:
    place = Setting.of_cell(OLD[0])
    found = nearest(replace(place, levels=1.0), MADE, measured.cells())
    assert found is not None
    assert found[0]["name"] == "two levels, 50% to 1%"
    found = nearest(replace(place, mechanism="laplace"), MADE, measured.cells())
    assert found is not None
    assert not found[1]


def test_under_another_prior_nothing_measured_counts() -> None:
    (said,) = facts([of(100_000, 3.1e-4)], record(prior=Prior(coefficient_sd=3.0).to_record()))
    assert said.startswith("How often 95% intervals contain the coefficients was measured under other priors only")


def test_sigma_is_said_to_follow_its_prior_where_noise_hides_the_residuals() -> None:
    assert not any("residuals" in said for said in facts([of(100_000, 3.1e-4)], record()))
    for left, share in ((0.61, "61%"), (1.2, "all")):
        (_, said) = facts([of(1000, 3e-2)], record(left=left))
        assert said.startswith(
            f"Noise hides the residuals: the release leaves {share} of the prior’s variance of sigma"
        )


def test_every_interval_is_said_to_take_residuals_to_be_spread_equally() -> None:
    found = told.facts([of(100_000, 3.1e-4)], record(), [{"unit": "person", "max_rows_per_unit": 1}])
    assert found[-1].startswith("Residuals are assumed to have the same spread at all values of the covariates.")
    asked = told.facts([of(100_000, 3.1e-4)], record(name="robust"), [{"unit": "person", "max_rows_per_unit": 1}])
    assert asked == (told.ROBUST,), "nothing was measured of it in those cells"


@pytest.mark.parametrize(
    ("parts_of_record", "origin", "said"),
    [
        (None, "study", "as if people had been dealt out to them at random, which nobody declared"),
        ({"law": "alike", "declared": False}, "study", "which nobody declared"),
        ({"law": "alike", "declared": True}, "study", "The study says that people were dealt out to them at random"),
        ({"law": "alike", "declared": True}, "crates", "Whoever analysed says that people were dealt out to them"),
        ({"law": "differ", "declared": False}, "study", "Their covariates may differ"),
    ],
)
def test_of_several_releases_it_is_said_how_they_are_read(
    parts_of_record: dict[str, Any] | None, origin: str, said: str
) -> None:
    parts = [of(50_000, 3.1e-4, seed=seed) for seed in (1, 2)]
    stated = record() | {"origin": origin} | ({} if parts_of_record is None else {"parts": parts_of_record})
    (here, told_of_parts) = facts(parts, stated)
    assert here == told.OF_SEVERAL, "a cell of one table says nothing of several"
    assert told_of_parts.startswith("The 2 releases are taken to share the coefficients and the spread around them")
    assert said in told_of_parts
    assert ("at random" in told_of_parts) == ("may differ" not in told_of_parts)


def test_a_sampler_that_takes_moments_as_released_assumes_nothing_of_the_covariates() -> None:
    parts = [of(1000, 1e-3, seed=seed) for seed in (1, 2)]
    (said,) = facts(parts, record(calibrated=False, name="naive"))
    assert said.endswith("analysed one by one, the releases can be compared.")


def test_several_rows_of_a_person_are_told_of_any_sampler() -> None:
    (said,) = facts([of(1000, 1e-3)], record(calibrated=False), rows=3)
    assert said.startswith("One person may contribute up to 3 rows.")


def test_other_samplers_promise_nothing_that_was_measured() -> None:
    assert facts([of(1000, 1e-3)], record(calibrated=False)) == ()


def test_an_empty_table_and_one_without_numbers_have_facts_too() -> None:
    schema = schema_of(REGION)
    moments = np.zeros((schema.m + 1, schema.m + 1))
    release = released(schema, moments, mechanism("gaussian", 5.0, len(schema.entries)), np.random.default_rng(1))
    (said,) = facts([release], record())
    assert said.startswith("No table like this one was measured")
    assert Setting.of([release], record()).levels == 1.0


def test_under_the_default_prior_its_own_cells_count() -> None:
    (said,) = facts([of(100_000, 3.1e-4)], record(prior=IndependentPrior().to_record()))
    assert said.startswith("In the measured cell nearest to this study (docs/coverage.md, 100,000 rows, covariates ")
    assert "of 120 synthetic tables." in said


def expected(response: float = 0.2, number: float = 0.35) -> dict[str, Any]:
    """The record of a prior in units of such sds, all in half widths of bounds."""
    guesses = {"y": Expected(0, response), **dict.fromkeys("abcde", Expected(0, number))}
    return expected_prior(FIVE, guesses).to_record()


def test_under_a_prior_in_units_of_what_is_expected_cells_of_such_priors_count_whatever_was_expected() -> None:
    release = of(100_000, 3.1e-4)
    (said,) = facts([release], record(prior=expected()))
    assert ", expected" in said
    place = Setting.of([release], record(prior=expected()))
    assert place.guess == pytest.approx(1, rel=0.05)
    assert place.reach == pytest.approx(REACH, rel=0.05)
    assert Setting.of([release], record()).guess is None


def test_a_guess_that_is_far_off_is_told_as_unlike_any_cell() -> None:
    (said,) = facts([of(100_000, 3.1e-4)], record(prior=expected(response=0.002)))
    assert "the response’s expected standard deviation over the one estimated from the release (0.01 here, " in said


def test_cells_of_the_default_are_compared_as_before_there_were_guesses() -> None:
    for cell in measured.cells():
        place = Setting.of_cell(cell)
        assert (place.guess is not None) == ("guess" in cell)
        if "guess" in cell:
            assert place.guess == pytest.approx(cell["guess"])
            assert place.reach == pytest.approx(REACH * cell["guess"])


def test_results_and_cells_made_before_are_merged_in_the_order_of_the_command() -> None:
    known = [cell for cell in measured.cells() if cell["prior"] != MADE]
    assert measured.merged([known[5:], known[:5]]) == measured.merged([known])
    again = {**known[3], "tables": 7}
    assert [cell["tables"] for cell in measured.merged([known, [again]])].count(7) == 1


def test_how_wide_the_bounds_of_the_covariates_are_decides_too() -> None:
    place, prior = Setting.of_cell(measured.cells()[0]), IndependentPrior().to_record()
    for wide in (1.0, 3.0, 10.0):
        found = nearest(replace(place, spread=1 / (3.5 * wide)), prior, measured.cells())
        assert found is not None
        assert found[0]["wide"] == wide


@pytest.mark.slow
def test_cells_are_made_from_the_results_of_the_command() -> None:
    cell = {**cells(False)[0], "data_sets": 2, "quick": True}
    (found,) = cells_of(json.loads(json.dumps(run(cell, 5))))
    names = {name: found[name] for name in about(cell)}
    (stored,) = (each for each in measured.cells() if {name: each[name] for name in names} == names)
    assert found.keys() == stored.keys()
    assert found["tables"] == 2


def test_an_earlier_versions_promise_is_not_repeated() -> None:
    old = {"name": "collapsed", "caveat": "at fixed truths 95% intervals held 93% or more where nothing was clipped"}
    assert _caveat(old) == SAMPLERS["collapsed"].caveat
    assert "93" not in SAMPLERS["collapsed"].caveat
    assert _caveat({"name": "no longer there", "caveat": "as it was"}) == "as it was"
