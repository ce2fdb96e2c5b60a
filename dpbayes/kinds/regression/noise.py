"""Calibrates the noise of a regression's release, and chooses the mechanism for `auto`.

The choice depends on the study file alone. The request's hash covers the chosen mechanism as if the study named it.
"""

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from dpbayes.kinds.context import ReleaseContext
from dpbayes_core.regression.schema import RegressionSchema

if TYPE_CHECKING:
    from dpbayes_core.privacy.mechanisms import Mechanism
    from dpbayes_core.privacy.sensitivity import Sensitivity

MechanismName = Literal["gaussian", "laplace"]

ROBUST_SHARES = (Decimal("0.9"), Decimal("0.1"))  # of the loss: second moments, and residual-weighted moments
MOST_FOR_FOURTH = 30  # variables have 45,880 third and fourth moments; their number grows with the fourth power

CLEARLY = 0.9
"""Laplace noise is chosen if its intervals are at most this many times as wide as under Gaussian noise."""

GRID_BITS = 20  # output grid of the compared mechanisms; the study's own depends on its rows


@dataclass(frozen=True, kw_only=True)
class NoiseRequest:
    """What a regression's section states about its noise, except the mechanism."""

    epsilon: Decimal | None
    rho: Decimal | None
    besides: Literal["residuals", "fourth"] | None = None  # what is released in addition to second moments
    shares: tuple[Decimal, Decimal] = (Decimal(1), Decimal(0))  # of the loss: second moments, and the addition


def noise_for(
    noise: NoiseRequest, mechanism: MechanismName, schema: RegressionSchema, context: ReleaseContext
) -> "Mechanism":
    """Noise calibrated to the study's neighbour relation and to how many rows a person may have."""
    from dpbayes_core.regression.sensitivity.box import regression_sensitivity
    from dpbayes_core.regression.sensitivity.fourth import fourth_sensitivity
    from dpbayes_core.regression.sensitivity.residual import residual_sensitivity

    people = (context.neighbours, context.max_rows_per_unit)
    whole = _whole(noise, mechanism, regression_sensitivity(schema, *people), context)
    if noise.besides is None:
        return whole
    moved = (residual_sensitivity if noise.besides == "residuals" else fourth_sensitivity)(schema, *people)
    return _split(whole, _whole(noise, mechanism, moved, context), *noise.shares)


def robust_shares() -> dict[str, str]:
    """The shares of the loss for the two steps of a robust release, as the ledger hashes them."""
    return {name: str(share) for name, share in zip(("moments", "residuals"), ROBUST_SHARES, strict=True)}


def has_higher_moments(schema: RegressionSchema) -> bool:
    """Whether any third or fourth moment of the covariates is not already a second moment."""
    from dpbayes_core.regression.sensitivity.fourth import fourth_entries

    return next(iter(fourth_entries(schema)), None) is not None


def _whole(noise: NoiseRequest, mechanism: MechanismName, moved: "Sensitivity", context: ReleaseContext) -> "Mechanism":
    """Noise that spends the whole loss on one set of sums."""
    from dpbayes_core.privacy.mechanisms import gaussian_for, laplace_for
    from dpbayes_core.regression.moments import grid_for

    grid = grid_for(context.rows)
    if mechanism == "laplace":
        assert noise.epsilon is not None
        return laplace_for(moved, epsilon=noise.epsilon, grid=grid, entries=len(moved.weights))
    if noise.rho is not None:
        return gaussian_for(moved, grid=grid, rho=noise.rho)
    return gaussian_for(moved, grid=grid, epsilon=noise.epsilon, delta=context.delta)


def _split(first: "Mechanism", rest: "Mechanism", own: Decimal, other: Decimal) -> "Mechanism":
    """One mechanism with two parts, each at its share of the loss; their sum is at most the whole."""
    from dpbayes_core.privacy.mechanisms import GaussianMechanism, LaplaceMechanism
    from dpbayes_core.rounding import meant, printed_down

    if isinstance(first, LaplaceMechanism) and isinstance(rest, LaplaceMechanism):
        parts = [printed_down(meant(first.epsilon) * meant(share)) for share in (own, other)]
        return replace(first, epsilon=parts[0], beside=replace(rest, epsilon=parts[1]))
    assert isinstance(first, GaussianMechanism)
    assert isinstance(rest, GaussianMechanism)
    parts = [printed_down(meant(first.rho) * meant(share)) for share in (own, other)]
    beside = replace(rest, rho=parts[1], epsilon=None, delta=None)
    return replace(first, rho=parts[0], beside=beside)


@dataclass(frozen=True)
class Chosen:
    """A mechanism, and the reason for it as part of a sentence."""

    name: MechanismName
    why: str


def chosen_mechanism(noise: NoiseRequest, schema: RegressionSchema, context: ReleaseContext) -> Chosen:
    """The mechanism with the narrower intervals at the same cost to the caps that the study states."""
    if "pure-epsilon" in context.measures:
        return Chosen("laplace", "a cap counts in pure epsilon, and gaussian noise has none")
    if noise.rho is not None or noise.epsilon is None:
        return Chosen("gaussian", "the loss is stated in rho, at which laplace noise is always wider")
    if context.delta is None:
        return Chosen("laplace", "the study states no delta, and gaussian noise of an epsilon needs one")
    if "rho" in context.measures:
        return Chosen("gaussian", "a cap counts in rho, at which laplace noise is always wider")
    ratio = _ratio(schema, context.neighbours, context.max_rows_per_unit, noise.epsilon, context.delta)
    # a share of epsilon is worth less than the same share of rho
    ratio /= math.sqrt(noise.shares[0])
    reason = f"where noise decides, laplace would make intervals {ratio:.2g} times as wide at the same epsilon"
    return Chosen("laplace" if ratio <= CLEARLY else "gaussian", reason)


@lru_cache(maxsize=64)  # called for every request
def _ratio(
    schema: RegressionSchema, neighbours: str, max_rows_per_unit: int, epsilon: Decimal, delta: Decimal
) -> float:
    """The width of intervals under Laplace noise relative to Gaussian noise."""
    from dpbayes_core.privacy.mechanisms import gaussian_for, laplace_for
    from dpbayes_core.regression.planning.noise_blocks import width_ratio
    from dpbayes_core.regression.sensitivity.box import regression_sensitivity, released_entries

    moved = regression_sensitivity(schema, neighbours, max_rows_per_unit)
    places = released_entries(schema, neighbours, max_rows_per_unit)
    laplace = laplace_for(moved, epsilon=epsilon, grid=GRID_BITS, entries=len(places))
    gaussian = gaussian_for(moved, grid=GRID_BITS, epsilon=epsilon, delta=delta)
    return width_ratio(schema, laplace, gaussian, places)
