"""What is told of clipping: from bounds and guesses alone, with advice exactly where much would be clipped."""

from pathlib import Path

import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.expectation import Expected
from dpbayes_core.schema import Continuous
from storage.tellings.clipping import WORTH_SAYING, advised, clipping_advice, clipping_caveat, told_share
from tests.storage.plan_cases import Bureau, regression

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
    assert "not published" in clipping_caveat(PAY, None)


def test_a_caveat_tells_the_expected_share() -> None:
    assert "about 32% of it was clipped" in clipping_caveat(PAY, Expected(5, 5))
    assert told_share(1e-7) == "less than 0.01%"


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
