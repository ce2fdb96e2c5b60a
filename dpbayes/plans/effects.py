"""Which effects a release could distinguish from 0, and expectations that do not suit bounds or prior."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpbayes.markup.numbers import listed, short
from dpbayes_core.regression.planning.expected_moments import Expectation
from dpbayes_core.regression.planning.precision import Prediction, detectable_effect
from dpbayes_core.regression.planning.relations import HIGH_CORRELATION
from dpbayes_core.regression.prior import half_width, user_coefficients
from dpbayes_core.regression.schema import INTERCEPT, SIGMA

_STEEP = 2.0
"""Half widths of the response for each half width of a column: steeper slopes are outside the default prior."""

HIDDEN = 0.03
"""Half widths of the response: a smaller residual sd is outside the default prior."""

_MOST_EXPLAINED = 0.5
"""The share of the response's variance that one coefficient is taken to explain at most."""

MOST_NAMED = 6
WIDER = 1.05  # times: a smaller difference is not mentioned


@dataclass(frozen=True)
class Effect:
    """The least size at which a coefficient is distinguished from 0 in three releases of four; None if none is."""

    coefficient: str
    largest: float  # the size that would by itself explain half of the response's variance
    least: float | None
    least_worse: float | None  # if numbers are highly correlated; equal to `least` if their correlations are stated


def effects_of(
    known: Expectation, predicted: Sequence[Prediction], worse: Sequence[Prediction], alone: Sequence[float]
) -> tuple[Effect, ...]:
    """The effect of every slope, in the units of the columns."""
    schema, found = known.schema, list[Effect]()
    units = np.abs(np.diag(user_coefficients(schema))) * half_width(schema)
    largest = np.sqrt(_MOST_EXPLAINED * known.variance / known.partial_variances)
    for place, (one, prior) in enumerate(zip(predicted, alone, strict=True)):
        if one.coefficient in (INTERCEPT, SIGMA):
            continue
        most = float(units[place] * largest[place - schema.intercept])
        least = _possible(detectable_effect(one.half_width, prior), most)
        high = _possible(detectable_effect(worse[place].half_width, prior), most) if worse else least
        found.append(Effect(one.coefficient, most, least, high))
    return tuple(found)


def effects_words(effects: Sequence[Effect]) -> list[tuple[str, str]]:
    """Sentences about which coefficients can be distinguished from 0, and which cannot."""
    sentences: list[tuple[str, str]] = []
    if can := [(one.coefficient, one.least) for one in effects if one.least is not None]:
        sentences.append(
            (
                "Can tell from 0",
                f"{_sizes(can)}: the 95% interval excludes 0 in about three releases of four, in fewer if smaller",
            )
        )
    if cannot := [one.coefficient for one in effects if one.least is None]:
        sentences.append(
            (
                "Cannot tell from 0",
                f"{_some(cannot)}: intervals come out about as wide as the prior's own, or as any effect that the "
                "response's spread leaves room for. A larger epsilon or fewer columns may help",
            )
        )
    worse = [one for one in effects if one.least is not None and one.least_worse != one.least and _wider(one)]
    if worse:
        lost = [one.coefficient for one in worse if one.least_worse is None]
        kept = [(one.coefficient, one.least_worse) for one in worse if one.least_worse is not None]
        sentences.append(
            (
                f"If numbers are correlated by {HIGH_CORRELATION:g}",
                "; ".join(
                    [*([_sizes(kept, "only beyond")] if kept else []), *([f"nothing of {_some(lost)}"] if lost else [])]
                ),
            )
        )
    return sentences


def _sizes(effects: Sequence[tuple[str, float]], beyond: str = "beyond") -> str:
    return f"effects {_some([f'of {name} {beyond} {short(least, 2)}' for name, least in effects])}"


def _some(named: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = len(named) - MOST_NAMED
    return listed([*named[:MOST_NAMED], f"{more} more, listed below"] if more > 0 else named)


def _wider(one: Effect) -> bool:
    return one.least is None or one.least_worse is None or one.least_worse > WIDER * one.least


def warnings_of(known: Expectation) -> list[tuple[str, str]]:
    """Warnings where a slope or the residual sd is expected outside the range that the default prior allows."""
    schema, sentences = known.schema, list[tuple[str, str]]()
    kinds = zip(schema.variables, known.slopes.tolist(), strict=False)
    steep = {one.label: size for one, size in kinds if one.kind == "continuous" and size > _STEEP}
    response = schema.response.name
    if steep:
        sizes = listed([f"{name} (about {short(size, 2)})" for name, size in steep.items()])
        sentences.append(
            (
                "Steep",
                f"from the middle to an end of its bounds, {sizes} is expected to move {response} by more than "
                f"{_STEEP:g} half widths of its bounds: that far from 0 the prior pulls. Bounds closer to where the "
                "column lies, or a prior of your own, avoid this",
            )
        )
    residual = float(np.sqrt((1 - known.explained) * known.variance))
    if residual < HIDDEN:
        sentences.append(
            (
                "Small residual",
                f"what the covariates leave of {response} is expected to have a standard deviation of "
                f"{short(residual, 2)} half widths of its bounds, below {HIDDEN:g}: the noise hides it, and sigma is "
                f"what the prior says. Narrower bounds of {response} avoid this",
            )
        )
    return sentences


def _possible(least: float | None, most: float) -> float | None:
    return least if least is not None and least <= most else None
