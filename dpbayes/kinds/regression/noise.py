"""The noise of a regression's release: on its second moments, and with a share of the loss on higher ones."""

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from dpbayes.kinds.context import ReleaseContext

if TYPE_CHECKING:
    from dpbayes_core.privacy.mechanisms import Mechanism
    from dpbayes_core.privacy.sensitivity import Sensitivity
    from dpbayes_core.regression.schema import RegressionSchema

MechanismName = Literal["gaussian", "laplace"]

ROBUST_SHARES = (Decimal("0.9"), Decimal("0.1"))  # of the loss: second moments, and those that residuals weigh
MOST_FOR_FOURTH = 30  # variables have 45,880 third and fourth moments; their number grows with the fourth power


@dataclass(frozen=True, kw_only=True)
class NoiseRequest:
    """What a regression's section says of its noise, its mechanism apart."""

    epsilon: Decimal | None
    rho: Decimal | None
    besides: Literal["residuals", "fourth"] | None = None  # what is released besides second moments
    shares: tuple[Decimal, Decimal] = (Decimal(1), Decimal(0))  # of the loss: second moments, and what is besides


def noise_for(
    asked: NoiseRequest, mechanism: MechanismName, schema: "RegressionSchema", context: ReleaseContext
) -> "Mechanism":
    """Calibrated to the study's relation and rows a person."""
    from dpbayes_core.regression.sensitivity.box import regression_sensitivity
    from dpbayes_core.regression.sensitivity.fourth import fourth_sensitivity
    from dpbayes_core.regression.sensitivity.residual import residual_sensitivity

    people = (context.neighbours, context.max_rows_per_unit)
    whole = _whole(asked, mechanism, regression_sensitivity(schema, *people), context)
    if asked.besides is None:
        return whole
    moved = (residual_sensitivity if asked.besides == "residuals" else fourth_sensitivity)(schema, *people)
    return _split(whole, _whole(asked, mechanism, moved, context), *asked.shares)


def robust_shares() -> dict[str, str]:
    """How a loss is shared between the two steps of a robust release, as the ledger hashes it."""
    return {name: str(share) for name, share in zip(("moments", "residuals"), ROBUST_SHARES, strict=True)}


def has_higher_moments(schema: "RegressionSchema") -> bool:
    """Whether any third or fourth moment of the covariates is not a second one."""
    from dpbayes_core.regression.fourth_moments import fourth_entries

    return next(iter(fourth_entries(schema)), None) is not None


def _whole(asked: NoiseRequest, mechanism: MechanismName, moved: "Sensitivity", context: ReleaseContext) -> "Mechanism":
    """Noise that costs the whole loss."""
    from dpbayes_core.privacy.mechanisms import gaussian_for, laplace_for
    from dpbayes_core.regression.moments import grid_for

    grid = grid_for(context.rows)
    if mechanism == "laplace":
        assert asked.epsilon is not None
        return laplace_for(moved, epsilon=asked.epsilon, grid=grid, entries=len(moved.weights))
    if asked.rho is not None:
        return gaussian_for(moved, grid=grid, rho=asked.rho)
    return gaussian_for(moved, grid=grid, epsilon=asked.epsilon, delta=context.delta)


def _split(first: "Mechanism", rest: "Mechanism", own: Decimal, other: Decimal) -> "Mechanism":
    """Two that cost the whole each, as one in which each costs its share; no more than the whole is charged."""
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
