"""What released draws cannot be, whatever the table says: the range that their definition keeps them in, in words."""

import math
from typing import Any

from dpbayes.markup.numbers import listed, short
from dpbayes_core.draws.grid import GridSubject
from dpbayes_core.draws.network import NetworkSubject
from dpbayes_core.draws.regression import RegressionSubject

MOST_NAMED = 4  # columns of one range


def limits(subject: Any, why: str) -> str:
    """What the numbers cannot be, what they are therefore drawn from, and what decides it (`why`, of a network)."""
    if isinstance(subject, GridSubject):
        values = listed([short(value) for value in sorted(subject.values)])
        return f"Whatever the table says, the probability of each second level is one of {values}, and nothing between."
    if isinstance(subject, RegressionSubject):
        return (
            f"Whatever the table says, the coefficients together are no longer than {short(subject.radius)} where "
            "every column is mapped to −1 … 1. What is drawn from is the posterior truncated to them, not the "
            "posterior itself: larger coefficients show as ones of about that length. The study states it: radius."
        )
    return (
        f"Whatever the table says, every probability lies {between(subject)}. What is drawn from is the posterior "
        "truncated to such probabilities, not the posterior itself: a share beyond shows as a number near that end. "
        f"{why}"
    )


def ranges(subject: NetworkSubject) -> dict[tuple[float, float], list[str]]:
    """Least and largest probability of a level, and the nodes that have them."""
    found: dict[tuple[float, float], list[str]] = {}
    for name, floor, levels in zip(subject.schema.names, subject.floors, subject.schema.levels, strict=True):
        found.setdefault((floor, 1 - (levels - 1) * floor), []).append(name)
    return found


def between(subject: NetworkSubject) -> str:
    """The ranges of a network's probabilities, rounded outwards so that they stay true."""
    told = [(f"between {_ends(*ends)}", names) for ends, names in ranges(subject).items()]
    if len(told) == 1:
        return told[0][0]
    return listed([f"{words} for {_named(names)}" for words, names in told])


def _named(names: list[str]) -> str:
    return listed(names) if len(names) <= MOST_NAMED else f"{names[0]} and {len(names) - 1} other columns"


def _ends(low: float, high: float) -> str:
    decimals = max(3, 1 - math.floor(math.log10(high - low)))
    unit = 10.0**decimals
    least = math.floor(low * unit) / unit
    power = 10.0 ** math.floor(math.log10(low))  # of a floor that so many decimals do not show
    down = f"{least:.{decimals}f}" if least > 0 else short(math.floor(low / power) * power, 1)
    return f"{down} and {min(math.ceil(high * unit) / unit, 1):.{decimals}f}"
