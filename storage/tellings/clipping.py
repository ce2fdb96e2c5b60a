"""What clipping the response does to a regression, told from public facts: its bounds and what is expected of it."""

from dpbayes_core.bounds import Bounds
from dpbayes_core.expectation import Expected
from dpbayes_core.schema import Continuous
from storage.report.numbers import short

WORTH_SAYING = 0.005
"""The expected share of clipped responses from which wider bounds are advised."""

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
        f"[{short(wider.low)}, {short(wider.high)}] would clip about {told_share(expected.clipped(wider))}"
    )


def clipping_caveat(response: Continuous, expected: Expected | None) -> str:
    """What a report says of clipping; without any public guess only that the share is not published."""
    general = (
        "Values outside their declared bounds were clipped before anything was computed, and the coefficients describe "
        "the clipped columns. How many were clipped is not published."
    )
    if expected is None:
        return general
    share = expected.clipped(response.bounds)
    return (
        f"{general} If {response.name} is about normal around {short(expected.mean)} with standard deviation "
        f"{short(expected.sd)}, as the study expects, about {told_share(share)} of it was clipped."
    )


def advised(bounds: Bounds, expected: Expected) -> Bounds:
    """Bounds that hold nearly all of what is expected, and no less than before."""
    reach = REACH * expected.sd
    return Bounds(min(bounds.low, expected.mean - reach), max(bounds.high, expected.mean + reach))


def told_share(share: float) -> str:
    """A share of rows in words."""
    return "less than 0.01%" if share < 1e-4 else f"{short(100 * share, 2)}%"
