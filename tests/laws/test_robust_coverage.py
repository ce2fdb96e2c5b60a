"""Intervals of a robust release hold where residuals grow with a covariate, and the default sampler's do not."""

from functools import cache
from math import sqrt

import numpy as np
import pytest

from tools.robust_coverage import AGE, Cell, Coverage, measure

pytestmark = pytest.mark.slow
TABLES, ROWS, EPSILON = 100, 200_000, 3.0


@cache
def measured(spread: str) -> dict[str, Coverage]:
    return measure(Cell(ROWS, EPSILON, spread=spread, tables=TABLES))


def test_where_residuals_grow_with_age_its_intervals_hold_and_the_default_samplers_miss() -> None:
    robust, plain = (measured("grows")[name].covered for name in ("robust", "collapsed"))
    print(f"held: robust {robust.mean(axis=0).round(3)}, collapsed {plain.mean(axis=0).round(3)}")
    error = sqrt(0.93 * 0.07 / TABLES)
    assert robust[:, AGE].mean() >= 0.93 - 2 * error
    assert robust.mean() >= 0.93 - 2 * robust.mean(axis=1).std() / sqrt(TABLES)
    assert plain[:, AGE].mean() < 0.93 - 2 * error  # so that the test can fail


def test_where_residuals_are_spread_equally_its_intervals_hold_and_are_a_quarter_wider_at_most() -> None:
    robust, plain = (measured("equal")[name] for name in ("robust", "collapsed"))
    ratios = np.median(robust.widths, axis=0) / np.median(plain.widths, axis=0)
    print(f"held: {robust.covered.mean(axis=0).round(3)}, width over the default sampler's: {ratios.round(3)}")
    assert robust.covered.mean() >= 0.93 - 2 * robust.covered.mean(axis=1).std() / sqrt(TABLES)
    assert ratios.max() <= 1.25
