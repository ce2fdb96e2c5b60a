"""What clipping the response does to a regression, told from public facts: its bounds, guesses and noisy sums."""

import math

import numpy as np

from dpbayes_core.bounds import Bounds
from dpbayes_core.expectation import SPREAD_OF, Expected
from dpbayes_core.pool import Evidence, parts_of
from dpbayes_core.schema import Continuous
from storage.report.numbers import short

WORTH_SAYING = 0.005
"""The expected share of clipped responses from which wider bounds are advised."""

MEASURED = (
    "On made-up tables of 100,000 rows (dpbayes evaluate coverage) with 2% of the responses clipped, 95% intervals "
    "held the slopes that made them in about 86% of cases and sigma in 1%, against 52% and none without privacy; with "
    "0.5%, in 94% and 88%, against 92% and 52%"
)
"""What clipping did where it was tried: docs/coverage.md."""

TELLING = 0.25
"""How large the noise may be beside the response's variance for that to be told."""

REACH = 3.0
"""Advised bounds are so many expected standard deviations from the expected mean: 0.3% of a normal law is beyond."""


def clipping_advice(response: Continuous, expected: Expected | None) -> str:
    """What to do about the response's bounds before anything is released; empty where nothing need be done."""
    if expected is None:
        return ""
    share = expected.clipped(response.bounds)
    if share <= WORTH_SAYING:
        return ""
    wider = advised(response.bounds, expected)
    return (
        f"{told_share(share)} of {response.name} would be clipped, if it is about normal around {short(expected.mean)} "
        f"with standard deviation {short(expected.sd)}. The regression would be that of the clipped column. Bounds of "
        f"[{short(wider.low)}, {short(wider.high)}] would clip about {told_share(expected.clipped(wider))}. "
        f"{MEASURED}"
    )


def clipping_caveat(evidence: Evidence) -> str:
    """What the released numbers themselves say of clipping; how many were clipped is not among them."""
    response = evidence.schema.response
    general = (
        "Values outside their declared bounds were clipped before anything was computed, and the coefficients describe "
        "the clipped columns. How many were clipped is not published."
    )
    found = response_of(evidence)
    if found is None:
        return general
    share = found.clipped(response.bounds)
    if share <= WORTH_SAYING:
        return (
            f"{general} By the released sums {response.name} stays well within its bounds: were it normal, about "
            f"{told_share(share)} of it would lie beyond them."
        )
    return (
        f"{general} By the released sums, about {told_share(share)} of {response.name} would lie beyond its bounds "
        "were it normal, and as much may have been clipped: the regression is then bent, without privacy just as here, "
        f"and intervals do not know. {MEASURED}. Wider bounds in the next release would mend it."
    )


def response_of(evidence: Evidence) -> Expected | None:
    """Mean and standard deviation of the clipped response, as far as noise lets them be told from the release."""
    schema, parts = evidence.schema, parts_of(evidence)
    count = evidence.count
    if not schema.intercept or count < 1:
        return None
    moments, place = np.sum([part.matrix() for part in parts], axis=0) / count, schema.m
    mean, square = float(moments[0, place]), float(moments[place, place])
    noise = 0.0
    for part in parts:
        scales = dict(zip(part.entries, part.mechanism.scales.tolist(), strict=False))
        deviations = SPREAD_OF.get(part.mechanism.name, 1.0) * np.array([scales[0, place], scales[place, place]])
        noise += float((deviations[0] * 2 * mean) ** 2 + deviations[1] ** 2) / count**2
    variance = square - mean**2
    if variance <= 0 or math.sqrt(noise) > TELLING * variance or abs(mean) > 1:
        return None
    scale = schema.standardised(schema.response)
    return Expected((mean - scale.shift) / scale.slope, math.sqrt(variance) / abs(scale.slope))


def advised(bounds: Bounds, expected: Expected) -> Bounds:
    """Bounds that hold nearly all of what is expected, and no less than before."""
    reach = REACH * expected.sd
    return Bounds(min(bounds.low, expected.mean - reach), max(bounds.high, expected.mean + reach))


def told_share(share: float) -> str:
    """A share of rows in words."""
    return "less than 0.01%" if share < 1e-4 else f"{short(100 * share, 2)}%"
