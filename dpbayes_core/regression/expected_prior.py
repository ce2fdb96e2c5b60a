"""The default prior where the response's sd is stated: independent, in units of the columns' expected moments.

One sd of a covariate, or a level instead of the reference, changes the response by a few of the response's sds,
whatever the bounds are. Where the sd of a covariate is not stated, its bounds give one.
"""

import math
from collections.abc import Mapping
from typing import Any

from dpbayes_core.regression.independent_prior import LAW, IndependentPrior
from dpbayes_core.regression.planning.expected_moments import Expected
from dpbayes_core.regression.prior import LEAST, MOST
from dpbayes_core.regression.schema import Continuous, RegressionSchema

REACH = 2.0
"""The prior sd of a slope, in expected sds of the response per expected sd of the covariate."""
HALF_WIDTH = 3.5
"""The number of expected sds of the response that replaces the half width of its bounds."""


def expected_prior(schema: RegressionSchema, expected: Mapping[str, Expected]) -> IndependentPrior:
    """Prior sds, in the response's expected sd: slopes REACH per covariate's sd, levels HALF_WIDTH; sigma's mean is 1.

    A covariate whose sd is not stated has HALF_WIDTH per half width of its bounds. Without an intercept, root mean
    squares replace sds. The intercept at the middles of the bounds varies as the slopes imply, around the expected
    means. Values beyond the limits of a stated prior are set to the limits.
    """
    guesses = {
        column.name: expected[column.name].standardised(schema.standardised(column))
        for column in (*schema.covariates, schema.response)
        if isinstance(column, Continuous) and column.name in expected
    }
    unit = _size(guesses[schema.response.name], schema)
    general = _within(HALF_WIDTH * unit)
    named = dict[str, float]()
    for variable in schema.variables[:-1]:
        if variable.kind == "two-level":
            named[variable.label] = _within(HALF_WIDTH * unit / 2)  # the levels are 2 apart: -1 and 1
        elif variable.column in guesses:
            named[variable.label] = _within(REACH * unit / _size(guesses[variable.column], schema))
    offsets = [named[name] * guess.mean for name, guess in guesses.items() if name in named and schema.intercept]
    return IndependentPrior(
        intercept_sd=_within(math.hypot(IndependentPrior.intercept_sd, *offsets)),
        coefficient_sd=general,
        noise_scale=_within(IndependentPrior.scale_for(unit, IndependentPrior.noise_shape)),
        named=tuple((name, 0.0, sd) for name, sd in named.items()),
    )


def is_expected(record: Mapping[str, Any]) -> bool:
    """Whether a prior's record is one of this module's, for any expected moments."""
    return (
        record.get("law") == LAW
        and record["noise_shape"] == IndependentPrior.noise_shape
        and math.isclose(record["coefficient_sd"], HALF_WIDTH * record["noise_shape"] * record["noise_scale"])
        and all(mean == 0 for _, mean, _ in record["named"])
    )


def _size(guess: Expected, schema: RegressionSchema) -> float:
    return guess.sd if schema.intercept else math.hypot(guess.mean, guess.sd)


def _within(sd: float) -> float:
    return min(max(sd, LEAST), MOST)
