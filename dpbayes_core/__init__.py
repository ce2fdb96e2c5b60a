"""Mathematics of differentially private Bayesian analyses: no clock, disk, environment or network."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpbayes_core import subsample
    from dpbayes_core.bounds import Bounds
    from dpbayes_core.draws.design import network_draws as posterior_draw
    from dpbayes_core.draws.design import network_map as map_draw
    from dpbayes_core.experiments import metrics as evaluation
    from dpbayes_core.networks import design as bayes_net
    from dpbayes_core.networks.schema import NetworkSchema
    from dpbayes_core.privacy import accounting
    from dpbayes_core.privacy.mechanisms import MECHANISMS, GaussianMechanism, LaplaceMechanism
    from dpbayes_core.privacy.noise import NoiseSource, OpenDPNoise, SeededNoise
    from dpbayes_core.regression.ball import Ball
    from dpbayes_core.regression.independent_prior import IndependentPrior
    from dpbayes_core.regression.moments import regression_statistics
    from dpbayes_core.regression.prediction import forecast
    from dpbayes_core.regression.prior import Prior
    from dpbayes_core.regression.prior_conflict import prior_conflict
    from dpbayes_core.regression.release import Release
    from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema
    from dpbayes_core.regression.sensitivity import box as sensitivity
    from dpbayes_core.samplers.driver import sample
    from dpbayes_core.samplers.registry import SAMPLERS
    from dpbayes_core.sampling.posterior import Posterior

__all__ = [
    "MECHANISMS",
    "SAMPLERS",
    "Ball",
    "Bounds",
    "Continuous",
    "Factor",
    "GaussianMechanism",
    "IndependentPrior",
    "LaplaceMechanism",
    "NetworkSchema",
    "NoiseSource",
    "OpenDPNoise",
    "Posterior",
    "Prior",
    "RegressionSchema",
    "Release",
    "SeededNoise",
    "accounting",
    "bayes_net",
    "evaluation",
    "forecast",
    "map_draw",
    "posterior_draw",
    "prior_conflict",
    "regression_statistics",
    "sample",
    "sensitivity",
    "subsample",
]

_HOMES = {
    "MECHANISMS": "privacy.mechanisms",
    "SAMPLERS": "samplers.registry",
    "Ball": "regression.ball",
    "Bounds": "bounds",
    "Continuous": "regression.schema",
    "Factor": "regression.schema",
    "GaussianMechanism": "privacy.mechanisms",
    "IndependentPrior": "regression.independent_prior",
    "LaplaceMechanism": "privacy.mechanisms",
    "NetworkSchema": "networks.schema",
    "NoiseSource": "privacy.noise",
    "OpenDPNoise": "privacy.noise",
    "Posterior": "sampling.posterior",
    "Prior": "regression.prior",
    "RegressionSchema": "regression.schema",
    "Release": "regression.release",
    "SeededNoise": "privacy.noise",
    "forecast": "regression.prediction",
    "prior_conflict": "regression.prior_conflict",
    "regression_statistics": "regression.moments",
    "sample": "samplers.driver",
}

_MODULES = {
    "accounting": "privacy.accounting",
    "bayes_net": "networks.design",
    "evaluation": "experiments.metrics",
    "sensitivity": "regression.sensitivity.box",
    "subsample": "subsample",
}
_RENAMED = {
    "map_draw": ("draws.design", "network_map"),
    "posterior_draw": ("draws.design", "network_draws"),
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: a command that needs none of them starts at once."""
    if name in _MODULES:
        return import_module(f"dpbayes_core.{_MODULES[name]}")
    if name in _RENAMED:
        home, own = _RENAMED[name]
        return getattr(import_module(f"dpbayes_core.{home}"), own)
    if name not in _HOMES:
        raise AttributeError(f"module 'dpbayes_core' has no attribute {name!r}")
    return getattr(import_module(f"dpbayes_core.{_HOMES[name]}"), name)
