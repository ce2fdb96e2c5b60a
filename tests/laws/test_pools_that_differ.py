"""What 95% intervals of a pool hold where four offices differ, and where they do not, by either law of the parts."""

from collections.abc import Sequence

import numpy as np
import pytest

from dpbayes_core.regression.parts_alike import parts_check
from dpbayes_core.regression.pool import Pool
from dpbayes_core.regression.prior import Prior
from dpbayes_core.samplers.driver import sample
from tests.dpbayes_core.test_parts_alike import THETA, TWO, Made, apart, noise_of, part

TABLES = 20


def held(parts: Sequence[Made], *, alike: bool) -> tuple[np.ndarray, float, int]:
    """In how many tables each slope is held, the mean width of their intervals, and in how many the alarm is given."""
    told, generator = noise_of(TWO, 1.0), np.random.default_rng(1)
    hits, width, alarms = np.zeros(2, dtype=int), 0.0, 0
    for seed in range(TABLES):
        made = [part(one, told, generator) for one in parts]
        found = parts_check(made)
        alarms += found is not None and found.alarm
        posterior = sample(Pool(tuple(made), alike=alike), Prior(), chains=4, draws=500, seed=seed)
        assert posterior.converged
        ends = [np.quantile(posterior.draws[name], (0.025, 0.975)) for name in ("a", "b")]
        hits += [low <= true <= high for (low, high), true in zip(ends, THETA[1:], strict=True)]
        width += sum(high - low for low, high in ends) / (2 * TABLES)
    return hits, width, alarms


@pytest.mark.slow
def test_offices_that_differ_are_missed_as_alike_and_held_without_it() -> None:
    """All chains converge either way: the alarm alone tells."""
    offices = apart([10_000] * 4, 0.6)
    alike, differ = held(offices, alike=True), held(offices, alike=False)
    assert alike[0].max() <= 0.8 * TABLES
    assert differ[0].min() >= 0.85 * TABLES
    assert alike[2] == differ[2] == TABLES


@pytest.mark.slow
def test_where_offices_are_alike_it_costs_no_width_not_to_say_so() -> None:
    offices = [Made(10_000)] * 4
    alike, differ = held(offices, alike=True), held(offices, alike=False)
    assert min(alike[0].min(), differ[0].min()) >= 0.85 * TABLES
    assert differ[1] == pytest.approx(alike[1], rel=0.05)
    assert differ[2] == 0
