"""What `mechanism: auto` stands for: decided by the study file alone, and by nothing in it that may change any day.

The request's hash covers what was chosen, exactly as if it had been written, and not that it was chosen.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from dpbayes.kinds.regression.noise import ROBUST
from dpbayes_core.regression.schema import RegressionSchema
from storage.ledger.request import priced_under

if TYPE_CHECKING:
    from dpbayes.kinds.regression.section import RegressionSpec
    from dpbayes.study.file import StudyFile
    from dpbayes.study.study import Study

Name = Literal["gaussian", "laplace"]

CLEARLY = 0.9
"""Laplace noise is chosen where it makes intervals so many times as wide as Gaussian noise, or less."""

GRID_BITS = 20  # of the noise that is compared: the study's own depends on its number of rows


@dataclass(frozen=True)
class Chosen:
    """A mechanism and why it was taken, as part of a sentence."""

    name: Name
    why: str


def chosen_mechanism(spec: "RegressionSpec", file: "StudyFile") -> Chosen:
    """The noise with the narrower intervals at the same cost in the caps that the study states."""
    measures = {cap.measure for cap in file.privacy.caps}
    if "pure-epsilon" in measures:
        return Chosen("laplace", "a cap counts in pure epsilon, and gaussian noise has none")
    if spec.rho is not None or spec.epsilon is None:
        return Chosen("gaussian", "the loss is stated in rho, at which laplace noise is always wider")
    if file.privacy.delta is None:
        return Chosen("laplace", "the study states no delta, and gaussian noise of an epsilon needs one")
    if "rho" in measures:
        return Chosen("gaussian", "a cap counts in rho, at which laplace noise is always wider")
    holder = file.source.holder
    neighbours = file.privacy.neighbours
    if holder is not None:
        neighbours = priced_under(neighbours, holder.membership, holder.names[0])
    rows = file.source.max_rows_per_unit
    ratio = _ratio(spec.regression(file), neighbours, rows, spec.epsilon, file.privacy.delta)
    # a share of epsilon is worth less than the same share of rho
    if spec.robust:
        ratio /= math.sqrt(ROBUST[0])
    elif spec.moments is not None:
        ratio /= math.sqrt(spec.split.second)
    told = f"where noise decides, laplace would make intervals {ratio:.2g} times as wide at the same epsilon"
    return Chosen("laplace" if ratio <= CLEARLY else "gaussian", told)


def told_choice(study: "Study", release: str) -> str | None:
    """What a release's auto stands for and why; None where the mechanism is written."""
    spec = study.release(release)
    if spec.kind != "regression" or spec.mechanism != "auto":
        return None
    chosen = chosen_mechanism(spec, study.file)
    return f"auto stands for {chosen.name}: {chosen.why}"


@lru_cache(maxsize=64)  # asked for with every request
def _ratio(
    schema: RegressionSchema, neighbours: str, max_rows_per_unit: int, epsilon: Decimal, delta: Decimal
) -> float:
    """How many times wider Laplace noise makes intervals."""
    from dpbayes_core.privacy.mechanisms import gaussian_for, laplace_for
    from dpbayes_core.regression.planning.mechanism_choice import width_ratio
    from dpbayes_core.regression.sensitivity.box import regression_sensitivity, released_entries

    moved = regression_sensitivity(schema, neighbours, max_rows_per_unit)
    places = released_entries(schema, neighbours, max_rows_per_unit)
    laplace = laplace_for(moved, epsilon=epsilon, grid=GRID_BITS, entries=len(places))
    gaussian = gaussian_for(moved, grid=GRID_BITS, epsilon=epsilon, delta=delta)
    return width_ratio(schema, laplace, gaussian, places)
