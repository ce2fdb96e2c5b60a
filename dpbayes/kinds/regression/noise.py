"""The noise of a regression's release: on its second moments, and with a share of the loss on higher ones."""

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpbayes.kinds.regression.section import RegressionSpec
    from dpbayes.study.file import StudyFile
    from dpbayes_core.privacy.mechanisms import GaussianMechanism, LaplaceMechanism, Mechanism
    from dpbayes_core.privacy.sensitivity import Sensitivity
    from dpbayes_core.regression.schema import RegressionSchema

ROBUST = (Decimal("0.9"), Decimal("0.1"))  # shares of the loss: second moments, and those that residuals weigh
MOST_FOR_FOURTH = 30  # variables have 45,880 third and fourth moments; their number grows with the fourth power


def noise_for(spec: "RegressionSpec", file: "StudyFile", schema: "RegressionSchema") -> "Mechanism":
    """Calibrated to the study's relation and rows a person; `spec` names its mechanism."""
    from dpbayes_core.regression.moments import grid_for
    from dpbayes_core.regression.sensitivity.box import regression_sensitivity
    from dpbayes_core.regression.sensitivity.fourth import fourth_sensitivity

    people = (file.privacy.neighbours, file.source.max_rows_per_unit)
    grid, moved = grid_for(file.source.rows), regression_sensitivity(schema, *people)
    make = _laplace if spec.mechanism == "laplace" else _gaussian
    if spec.robust:
        from dpbayes_core.regression.sensitivity.residual import residual_sensitivity

        return _split(
            make(spec, file, moved, grid), make(spec, file, residual_sensitivity(schema, *people), grid), *ROBUST
        )
    if spec.moments is None:
        return make(spec, file, moved, grid)
    first = make(spec, file, moved, grid)
    rest = make(spec, file, fourth_sensitivity(schema, *people), grid)
    return _split(first, rest, spec.split.second, spec.split.fourth)


def robust_shares() -> dict[str, str]:
    """How a loss is shared between the two steps of a robust release, as the ledger hashes it."""
    return {name: str(share) for name, share in zip(("moments", "residuals"), ROBUST, strict=True)}


def has_higher_moments(schema: "RegressionSchema") -> bool:
    """Whether any third or fourth moment of the covariates is not a second one."""
    from dpbayes_core.regression.fourth_moments import fourth_entries

    return next(iter(fourth_entries(schema)), None) is not None


def _laplace(spec: "RegressionSpec", file: "StudyFile", moved: "Sensitivity", grid: int) -> "LaplaceMechanism":
    from dpbayes_core.privacy.mechanisms import laplace_for

    assert spec.epsilon is not None
    return laplace_for(moved, epsilon=spec.epsilon, grid=grid, entries=len(moved.weights))


def _gaussian(spec: "RegressionSpec", file: "StudyFile", moved: "Sensitivity", grid: int) -> "GaussianMechanism":
    from dpbayes_core.privacy.mechanisms import gaussian_for

    if spec.rho is not None:
        return gaussian_for(moved, grid=grid, rho=spec.rho)
    return gaussian_for(moved, grid=grid, epsilon=spec.epsilon, delta=file.privacy.delta)


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
