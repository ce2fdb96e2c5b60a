"""The prior of a regression in words, and whether it and the release believe each other: for archive and pages."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.report.numbers import listed, short

Record = Mapping[str, Any]

FELT = 0.25  # posterior sds that a prior must have moved a posterior by to be felt
MOST_NAMED = 3
LEAST_SAID = 1e-300  # a probability: below it doubles lose their digits and then are 0


def prior_check(release: Any, prior: Record, draws: Mapping[str, NDArray[np.float64]]) -> dict[str, Any] | None:
    """The record of the comparison, its sentence as `words`; nothing where the kind of release has no such measure."""
    if release.kind != "regression":
        return None
    from dpbayes_core.conflict import prior_conflict
    from dpbayes_core.priors import Prior

    found = prior_conflict(Prior.from_record(prior), release.schema, draws).to_record()
    return {**found, "words": conflict_words(found)}


def named_words(release: Any, prior: Record) -> str:
    """What the prior says of single coefficients, in the table's units; empty where it names none."""
    if not prior.get("named"):
        return ""
    from dpbayes_core.priors import Prior, half_width

    stated = Prior.from_record(prior)
    said = [
        f"{name} around {short(mean)} with standard deviation {short(sd)}"
        for name, (mean, sd) in stated.in_units(release.schema).items()
    ]
    height = stated.reference * half_width(release.schema)
    return f"in the table’s units, at a residual standard deviation of {short(height)}, {listed(said)}"


def conflict_words(found: Record) -> str:
    """A record of `PriorConflict` in a sentence or two."""
    probability = _probability(found["probability"])
    if not found["conflict"]:
        return (
            "Prior and release agree: before the release, the prior gave a posterior at least this far from itself a "
            f"probability of {probability}."
        )
    ranked = sorted(found["parameters"], key=lambda one: one["probability"])
    unlikely = [one for one in ranked if one["probability"] < 2 * ranked[0]["probability"] + 0.01]
    strongest = max(unlikely, key=lambda one: one["pull"])
    felt = strongest["pull"] >= FELT
    if felt:
        unlikely = [strongest, *(one for one in unlikely if one is not strongest)]
    names = [one["name"] for one in unlikely[:MOST_NAMED]]
    more = len(unlikely) - MOST_NAMED
    said = (
        f"Prior and release disagree on {listed([*names, f'{more} more'] if more > 0 else names)}: before the release, "
        f"the prior gave a posterior at least this far from itself a probability of {probability}. "
    )
    if not felt:
        return said + (
            "The release outweighs it: the prior moved none of them by more than "
            f"{short(strongest['pull'], 1)} posterior standard deviations."
        )
    return said + (
        f"It moved {strongest['name']} by about {short(strongest['pull'], 2)} posterior standard deviations: state a "
        "prior that allows for what was found, or say why this one is right."
    )


def _probability(value: float) -> str:
    return f"less than {short(LEAST_SAID)}" if value < LEAST_SAID else short(value, 2)
