"""What is told of clipping: from bounds and guesses alone, with advice exactly where much would be clipped."""

import re
from pathlib import Path

import numpy as np
import pytest

from dpbayes.kinds.regression.clipping import (
    WORTH_SAYING,
    about_share_text,
    advised,
    clipping_advice,
    clipping_alarm,
    clipping_caveat,
    response_of,
    share_text,
)
from dpbayes_core.bounds import Bounds
from dpbayes_core.regression.planning.expected_moments import Expected
from dpbayes_core.regression.pool import Pool
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.schema import Continuous
from tests.dpbayes.plans.plan_cases import Bureau, regression
from tests.support.regressions import mechanism, schema_of
from tests.support.regressions import released as draw

PAY = Continuous("pay", Bounds(0, 10))


@pytest.mark.parametrize(("sd", "said"), [(1.0, False), (1.7, False), (1.9, True), (5.0, True)])
def test_wider_bounds_are_advised_exactly_where_more_than_half_a_percent_is_beyond_them(sd: float, said: bool) -> None:
    expected = Expected(5, sd)
    assert (expected.clipped(PAY.bounds) > WORTH_SAYING) == said
    assert bool(clipping_advice(PAY, expected)) == said


def test_advised_bounds_hold_the_old_ones_and_clip_little() -> None:
    expected = Expected(9, 2)
    wider = advised(PAY.bounds, expected)
    assert (wider.low, wider.high) == (0, 15)
    assert expected.clipped(wider) < WORTH_SAYING
    assert "[0, 15]" in clipping_advice(PAY, expected)


def test_nothing_is_advised_where_nothing_was_declared() -> None:
    assert clipping_advice(PAY, None) == ""
    assert share_text(1e-7) == about_share_text(1e-7) == "less than 0.01%"
    assert about_share_text(0.002) == "about 0.2%"


def released(sd: float, *, scale: float, seed: int = 1) -> Release:
    """A response of this deviation around 0, clipped to [-1, 1]."""
    random = np.random.default_rng(seed)
    x, y = random.normal(0, 0.3, 20_000), np.clip(random.normal(0.1, sd, 20_000), -1, 1)
    rows = np.stack([np.ones(20_000), x, y], axis=1)
    schema = schema_of("x")
    return draw(schema, rows.T @ rows, mechanism("gaussian", scale, len(schema.entries)), random)


@pytest.mark.parametrize("scale", [1e-3, 30.0])
def test_the_released_sums_tell_the_responses_mean_and_spread(scale: float) -> None:
    found = response_of(released(0.3, scale=scale))
    assert found is not None
    assert (found.mean, found.sd) == (pytest.approx(0.1, abs=0.02), pytest.approx(0.3, abs=0.02))
    pool = Pool((released(0.3, scale=scale), released(0.3, scale=scale, seed=2)))
    both = response_of(pool)
    assert both is not None
    assert both.sd == pytest.approx(0.3, abs=0.02)


def test_a_report_says_when_much_may_have_been_clipped_and_when_noise_lets_nothing_be_told() -> None:
    little = clipping_caveat(released(0.2, scale=1.0))
    assert "less than 0.01% of a normal y would lie beyond its bounds" in little
    assert "a code for missing" in little
    much = clipping_caveat(released(0.5, scale=1.0))
    assert "may have been clipped" in much
    share = float(re.search(r"about ([\d.]+)% of y", much)[1])  # type: ignore[index]
    assert 3 < share < 7  # 5.1% was; the clipped column's own spread is a little smaller
    drowned = clipping_caveat(released(0.5, scale=1e5))
    assert drowned.endswith("is not published.")


@pytest.mark.parametrize(("sign", "bound"), [(1, "1"), (-1, "−1")])
def test_a_response_next_to_a_bound_is_told_although_noise_hides_its_spread(sign: int, bound: str) -> None:
    random, schema = np.random.default_rng(1), schema_of("x")
    response = np.clip(sign * random.normal(3.0, 0.9, 20_000), -1, 1)
    rows = np.stack([np.ones(20_000), random.normal(0, 0.3, 20_000), response], axis=1)
    made = draw(schema, rows.T @ rows, mechanism("gaussian", 200.0, len(schema.entries)), random)
    assert response_of(made) is None
    assert f"the mean of y is next to its bound of {bound}, and noise hides" in clipping_alarm(made)
    assert clipping_alarm(made) in clipping_caveat(made)


def test_no_alarm_is_raised_where_little_was_clipped_or_nothing_can_be_told() -> None:
    assert clipping_alarm(released(0.2, scale=1.0)) == ""
    assert clipping_alarm(released(0.5, scale=1e5)) == ""


@pytest.mark.slow
def test_a_plan_advises_wider_bounds_of_the_response(tmp_path: Path) -> None:
    bureau = Bureau(tmp_path, "{lifetime: {epsilon: 8}}", (regression("epsilon: 0.4"),))
    told: list[dict[str, str]] = []
    for sd in (1, 4):
        guess = f"  pay: {{bounds: [0, 10], expect: {{mean: 5, sd: {sd}}}}}"
        edited = bureau.edited("  pay: {bounds: [0, 10]}", guess)
        told.append({one["term"]: one["value"] for one in edited.document()["releases"][0]["foreseen"]})
    assert "Clipping" not in told[0]
    assert told[1]["Clipping"].startswith("21% of pay would be clipped")
    assert "age" in told[0]["Expected"]
