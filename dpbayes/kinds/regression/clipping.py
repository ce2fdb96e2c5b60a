"""What clipping the response does to a regression, estimated from bounds, expected moments and noisy sums."""

import math
from dataclasses import dataclass

import numpy as np

from dpbayes.markup.numbers import short
from dpbayes_core.bounds import Bounds
from dpbayes_core.regression.planning.expected_moments import Expected
from dpbayes_core.regression.pool import Evidence, parts_of
from dpbayes_core.regression.schema import Continuous

WORTH_SAYING = 0.005
"""The expected share of clipped responses from which wider bounds are advised."""

_MEASURED = (
    "On synthetic tables of 100,000 rows (dpbayes evaluate coverage) with 2% of the responses clipped, 95% intervals "
    "contained the slopes in about 86% of cases and sigma in 1%, against 52% and none without privacy; with 0.5%, "
    "in 94% and 88%, against 92% and 52%"
)
"""What clipping did where it was measured: docs/coverage.md."""

_MOST_NOISE = 0.25
"""The largest noise, relative to the response's variance, at which the variance is estimated."""

_LEAST_SHOWN = 1e-4
"""The smallest share that is written as a number."""

_AT_A_BOUND = 0.9
"""A mean of larger size counts as close to a bound, on the scale where bounds are -1 and 1."""

REACH = 3.0
"""Advised bounds are so many expected standard deviations from the expected mean: 0.3% of a normal law is beyond."""


def clipping_advice(response: Continuous, expected: Expected | None) -> str:
    """What to change about the response's bounds before a release; empty if they are wide enough."""
    if expected is None:
        return ""
    share = expected.clipped(response.bounds)
    if share <= WORTH_SAYING:
        return ""
    wider = advised(response.bounds, expected)
    return (
        f"{share_text(share)} of {response.name} would be clipped, if it is about normal around {short(expected.mean)} "
        f"with standard deviation {short(expected.sd)}. The regression would be that of the clipped column. Bounds of "
        f"[{short(wider.low)}, {short(wider.high)}] would clip {about_share_text(expected.clipped(wider))}. "
        f"{_MEASURED}"
    )


def clipping_caveat(evidence: Evidence) -> str:
    """What the released numbers indicate about clipping; how many values were clipped is not released."""
    response = evidence.schema.response
    general = (
        "Values outside their declared bounds were clipped before anything was computed, and the coefficients describe "
        "the clipped columns. How many were clipped is not published."
    )
    alarm = clipping_alarm(evidence)
    found = response_of(evidence)
    if alarm or found is None:
        return f"{general} {alarm}".rstrip()
    return (
        f"{general} By the mean and spread of the released sums, {about_share_text(found.clipped(response.bounds))} "
        f"of a normal {response.name} would lie beyond its bounds. Single values far outside, such as a code for "
        "missing, do not show in them."
    )


def clipping_alarm(evidence: Evidence) -> str:
    """A warning that much of the response may have been clipped, by the released sums; empty otherwise."""
    response, found = evidence.schema.response, response_of(evidence)
    if found is None:
        bound = _bound_near_mean(evidence)
        if bound is None:
            return ""
        return (
            f"By the released sums the mean of {response.name} is next to its bound of {short(bound)}, and noise hides "
            "how much it varies: either nearly all of it was clipped to that bound, or its bounds are far wider than "
            "it is. Look at the bounds before trusting any coefficient."
        )
    share = found.clipped(response.bounds)
    if share <= WORTH_SAYING:
        return ""
    return (
        f"By the released sums, {about_share_text(share)} of {response.name} would lie beyond its bounds "
        "if it were normal, and as much may have been clipped: that distorts the regression, with and without privacy, "
        f"and intervals do not show it. {_MEASURED}. Wider bounds in the next release would avoid it."
    )


@dataclass(frozen=True)
class _ResponseMoments:
    """Mean and variance of the standardised response, as released, and the standard deviations of their noise."""

    mean: float
    variance: float
    mean_sd: float
    variance_sd: float


def _response_moments(evidence: Evidence) -> _ResponseMoments | None:
    schema, parts, count = evidence.schema, parts_of(evidence), evidence.count
    if not schema.intercept or count < 1:
        return None
    moments, place = np.sum([part.matrix() for part in parts], axis=0) / count, schema.m
    mean, noise = float(moments[0, place]), np.zeros(2)
    for part in parts:
        deviations = dict(zip(part.entries, part.mechanism.deviations.tolist(), strict=False))
        noise += (np.array([deviations[0, place], deviations[place, place]]) / count) ** 2
    variance_sd = math.sqrt(4 * mean**2 * noise[0] + noise[1])
    return _ResponseMoments(mean, float(moments[place, place]) - mean**2, math.sqrt(noise[0]), variance_sd)


def response_of(evidence: Evidence) -> Expected | None:
    """Mean and sd of the clipped response estimated from the release; None where noise hides them."""
    found = _response_moments(evidence)
    if found is None or found.variance <= 0 or found.variance_sd > _MOST_NOISE * found.variance or abs(found.mean) > 1:
        return None
    scale = evidence.schema.standardised(evidence.schema.response)
    return Expected((found.mean - scale.shift) / scale.slope, math.sqrt(found.variance) / abs(scale.slope))


def _bound_near_mean(evidence: Evidence) -> float | None:
    """The bound that the response's mean is certainly close to; None if there is none."""
    found, bounds = _response_moments(evidence), evidence.schema.response.bounds
    if found is None or abs(found.mean) - 2 * found.mean_sd < _AT_A_BOUND:
        return None
    scale = evidence.schema.standardised(evidence.schema.response)
    return bounds.high if found.mean * scale.slope > 0 else bounds.low


def advised(bounds: Bounds, expected: Expected) -> Bounds:
    """Bounds that contain nearly everything that is expected, and at least the present ones."""
    reach = REACH * expected.sd
    return Bounds(min(bounds.low, expected.mean - reach), max(bounds.high, expected.mean + reach))


def share_text(share: float) -> str:
    """A share of rows as text."""
    return "less than 0.01%" if share < _LEAST_SHOWN else f"{short(100 * share, 2)}%"


def about_share_text(share: float) -> str:
    """A share of rows as text, with "about" unless it is an upper bound."""
    return f"{'about ' * (share >= _LEAST_SHOWN)}{share_text(share)}"
