"""Sentences about a regression's prior: what it states, what it decided, and whether the release contradicts it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes.markup.numbers import MINUS, listed, short

Record = Mapping[str, Any]

_LEAST_PULL = 0.25  # posterior sds: a parameter that the prior moved by less is not named
_SURPRISING = 0.05  # a probability of one parameter alone: below it the parameter is named
MOST_NAMED = 3
_MOST_PULL = 100  # posterior sds: a larger figure is not shown
_LEAST_WEIGHT = 0.3  # in a combination of unit length: a parameter of smaller weight is not named
UNINFORMED = 0.95  # of the prior's variance: where more is left, the release tells next to nothing
LEAST_PROBABILITY = 1e-300  # smaller doubles lose digits, and then are 0

_DECIDES = "The prior decides these numbers"
BLIND = "Few priors that mislead are caught that way."


def prior_check(release: Any, prior: Record, draws: Mapping[str, NDArray[np.float64]]) -> dict[str, Any] | None:
    """The record of `PriorConflict` with sentences about contradiction and dependence; None for other kinds."""
    if release.kind != "regression":
        return None
    from dpbayes_core.regression.independent_prior import prior_from_record
    from dpbayes_core.regression.prior_conflict import prior_conflict

    found = prior_conflict(prior_from_record(prior), release.schema, draws).to_record()
    return {**found, "words": conflict_words(found), "dependence": dependence_words(found)}


def named_words(release: Any, prior: Record) -> str:
    """What the prior states about single coefficients, in the table's units; empty if it names none."""
    if not prior.get("named"):
        return ""
    from dpbayes_core.regression.independent_prior import IndependentPrior, prior_from_record
    from dpbayes_core.regression.prior import half_width

    stated = prior_from_record(prior)
    terms = [
        f"{name} around {short(mean)} with standard deviation {short(sd)}"
        for name, (mean, sd) in stated.in_units(release.schema).items()
    ]
    if isinstance(stated, IndependentPrior):
        return f"in the table’s units, {listed(terms)}"
    height = stated.reference * half_width(release.schema)
    return f"in the table’s units, at a residual standard deviation of {short(height)}, {listed(terms)}"


def conflict_words(found: Record) -> str:
    """Whether prior and release contradict each other, from the record of `PriorConflict`."""
    said = (
        "before the release, the prior gave a posterior at least this far from itself, all numbers taken together, a "
        f"probability of {_probability(found['probability'])}."
    )
    if not found["conflict"]:
        return f"Prior and release do not contradict each other: {said} {BLIND}"
    ranked = sorted(found["parameters"], key=lambda one: one["probability"])
    unlikely = [one for one in ranked if one["probability"] < min(2 * ranked[0]["probability"] + 0.01, _SURPRISING)]
    on = f" on {_named([one['name'] for one in unlikely])}" if unlikely else ""
    if all(one["pull"] < _LEAST_PULL for one in found["parameters"]):
        return f"Prior and release disagree{on}: {said} The release outweighs the prior all the same."
    return (
        f"Prior and release disagree{on}: {said} State a prior that allows for what was found, or say why this one is "
        "right."
    )


def dependence_words(found: Record) -> str:
    """Which numbers would differ without the prior, and where the release is least informative."""
    moved = sorted((one for one in found["parameters"] if one["pull"] >= _LEAST_PULL), key=lambda one: -one["pull"])
    weakest, left = _weakest(found), found["weakest"]["left"]
    if left > UNINFORMED and not found["conflict"]:  # then the draws do not show how far the prior moved it
        return f"{_DECIDES}: the release says next to nothing about {weakest}, and what is said of it is the prior."
    if moved and moved[0]["pull"] >= 1:
        lead = _DECIDES
    elif found["decides"]:
        lead = f"The prior says more than the release about {weakest}"
    else:
        lead = "The prior decides none of these numbers"
    about = "it" if weakest in lead else weakest
    share = "all of the" if left > UNINFORMED else f"{short(100 * math.sqrt(max(left, 0.0)), 2)}% of the"
    rest = f"The release says least about {about}: it leaves {share} prior’s standard deviation."
    return f"{lead}: without it {_moves(moved, found)}. {rest}"


def _moves(moved: Sequence[Record], found: Record) -> str:
    """How far parameters would move without the prior, the farthest first."""
    if not moved:
        most = max(one["pull"] for one in found["parameters"])
        return f"none would move by more than {short(most, 1)} posterior standard deviations"
    first, *rest = moved[:MOST_NAMED]
    moves = [f"{first['name']} would move by {_sds(first)} posterior standard deviations"]
    moves += [f"{one['name']} by {_sds(one)}" for one in rest]
    more = len(moved) - MOST_NAMED
    return listed([*moves, f"{more} more by less"] if more > 0 else moves)


def _sds(one: Record) -> str:
    if one["pull"] > _MOST_PULL:
        return f"more than {_MOST_PULL}"
    return f"about {short(one['pull'], 2 if one['pull'] >= 1 else 1)}"


def _weakest(found: Record) -> str:
    """The combination about which the release is least informative."""
    weights = [each for each in found["weakest"]["combination"] if abs(each[1]) >= _LEAST_WEIGHT]
    if len(weights) == 1:
        return str(weights[0][0])
    return f"the combination {_combination(weights)} (each in standard deviations of its prior)"


def _combination(weights: Sequence[Any]) -> str:
    """0.71 age − 0.7 age_squared, largest first."""
    ordered = sorted(weights, key=lambda each: -abs(each[1]))
    terms = [f"{MINUS if weight < 0 else '+'} {short(abs(weight), 2)} {name}" for name, weight in ordered]
    return " ".join(terms).removeprefix("+ ")


def _named(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return listed([*names[:MOST_NAMED], f"{more} more"] if more > 0 else names)


def _probability(value: float) -> str:
    return f"less than {short(LEAST_PROBABILITY)}" if value < LEAST_PROBABILITY else short(value, 2)
