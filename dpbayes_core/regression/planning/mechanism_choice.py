"""Which noise makes narrower intervals: by the columns and the loss alone, so that nothing else changes the answer.

Sampling and prior are left out: they widen both alike, and where they decide, the choice matters little.
"""

import math

import numpy as np

from dpbayes_core.privacy.mechanisms import Mechanism
from dpbayes_core.regression.planning.expected_moments import EXPLAINED, Expectation
from dpbayes_core.regression.schema import RegressionSchema


def width_ratio(
    schema: RegressionSchema, first: Mechanism, second: Mechanism, places: tuple[tuple[int, int], ...]
) -> float:
    """How many times wider intervals are with the first noise, where noise decides: the mean over columns, of logs.

    Expected moments play no part: neither guesses for planning nor the number of rows may change the answer.
    """
    widths = [_widths(schema, mechanism, places) for mechanism in (first, second)]
    return math.exp(float(np.mean(np.log(widths[0]) - np.log(widths[1])) / 2))


def _widths(schema: RegressionSchema, mechanism: Mechanism, places: tuple[tuple[int, int], ...]) -> list[float]:
    """The noise's part of each column's squared width, in units of its own."""
    expectation = Expectation.of(schema, mechanism, rows=1, expected={}, places=places)
    response, found, variable = expectation.centred[-1], list[float](), 0
    for column in schema.covariates:
        own, spread = expectation.partial[variable], expectation.covariance[variable, variable]
        slope = EXPLAINED * expectation.variance / (expectation.d * spread)
        found.append(expectation.noise_of(own, response) + slope * expectation.noise_of(own, own))
        variable += len(column.variables())
    return found
