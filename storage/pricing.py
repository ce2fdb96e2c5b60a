"""From a study's public words to the mechanism that would make a release: no data, no ledger."""

from dpbayes_core.mechanisms import Mechanism, gaussian_for, laplace_for
from dpbayes_core.regression import RegressionDesign
from dpbayes_core.sensitivity import regression_sensitivity
from dpbayes_core.statistics import grid_for
from storage.study.study import Study


def design_for(study: Study, release: str) -> RegressionDesign:
    """What `release` will be."""
    return RegressionDesign(schema=study.schema(release), mechanism=mechanism_for(study, release))


def mechanism_for(study: Study, release: str) -> Mechanism:
    """The mechanism `release` asks for, calibrated to its own sensitivity."""
    spec = study.releases[release]
    sensitivity = regression_sensitivity(study.schema(release))
    grid = grid_for(study.source.rows)
    if spec.mechanism == "laplace":
        assert spec.epsilon is not None  # the study file is checked for it
        return laplace_for(sensitivity, epsilon=spec.epsilon, grid=grid, entries=len(sensitivity.weights))
    if spec.rho is not None:
        return gaussian_for(sensitivity, grid=grid, rho=spec.rho)
    return gaussian_for(sensitivity, grid=grid, epsilon=spec.epsilon, delta=study.privacy.delta)
