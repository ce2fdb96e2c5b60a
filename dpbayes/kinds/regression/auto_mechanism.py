"""What `mechanism: auto` stands for: decided by the study file alone, and by nothing in it that may change any day.

The request's hash covers what was chosen, exactly as if it had been written, and not that it was chosen.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from dpbayes.kinds.context import ReleaseContext
from dpbayes.kinds.regression.noise import MechanismName, NoiseRequest
from dpbayes_core.regression.schema import RegressionSchema

CLEARLY = 0.9
"""Laplace noise is chosen where it makes intervals so many times as wide as Gaussian noise, or less."""

GRID_BITS = 20  # of the noise that is compared: the study's own depends on its number of rows


@dataclass(frozen=True)
class Chosen:
    """A mechanism and why it was taken, as part of a sentence."""

    name: MechanismName
    why: str


def chosen_mechanism(asked: NoiseRequest, schema: RegressionSchema, context: ReleaseContext) -> Chosen:
    """The noise with the narrower intervals at the same cost in the caps that the study states."""
    if "pure-epsilon" in context.measures:
        return Chosen("laplace", "a cap counts in pure epsilon, and gaussian noise has none")
    if asked.rho is not None or asked.epsilon is None:
        return Chosen("gaussian", "the loss is stated in rho, at which laplace noise is always wider")
    if context.delta is None:
        return Chosen("laplace", "the study states no delta, and gaussian noise of an epsilon needs one")
    if "rho" in context.measures:
        return Chosen("gaussian", "a cap counts in rho, at which laplace noise is always wider")
    ratio = _ratio(schema, context.neighbours, context.max_rows_per_unit, asked.epsilon, context.delta)
    # a share of epsilon is worth less than the same share of rho
    ratio /= math.sqrt(asked.shares[0])
    told = f"where noise decides, laplace would make intervals {ratio:.2g} times as wide at the same epsilon"
    return Chosen("laplace" if ratio <= CLEARLY else "gaussian", told)


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
