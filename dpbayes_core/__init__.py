"""Mathematics of differentially private Bayesian analyses: no clock, disk, environment or network."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpbayes_core import accounting, evaluation, sensitivity, subsample
    from dpbayes_core.ball import Ball
    from dpbayes_core.bounds import Bounds
    from dpbayes_core.conflict import prior_conflict
    from dpbayes_core.draws.design import network_draws as posterior_draw
    from dpbayes_core.draws.design import network_map as map_draw
    from dpbayes_core.independent_prior import IndependentPrior
    from dpbayes_core.mechanisms import MECHANISMS, GaussianMechanism, LaplaceMechanism
    from dpbayes_core.networks import design as bayes_net
    from dpbayes_core.networks.schema import NetworkSchema
    from dpbayes_core.noise import NoiseSource, OpenDPNoise, SeededNoise
    from dpbayes_core.posterior import Posterior
    from dpbayes_core.prediction import forecast
    from dpbayes_core.priors import Prior
    from dpbayes_core.release import Release
    from dpbayes_core.samplers.driver import sample
    from dpbayes_core.samplers.registry import SAMPLERS
    from dpbayes_core.schema import Continuous, Factor, RegressionSchema
    from dpbayes_core.statistics import regression_statistics

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
    "MECHANISMS": "mechanisms",
    "SAMPLERS": "samplers.registry",
    "Ball": "ball",
    "Bounds": "bounds",
    "Continuous": "schema",
    "Factor": "schema",
    "GaussianMechanism": "mechanisms",
    "IndependentPrior": "independent_prior",
    "LaplaceMechanism": "mechanisms",
    "NetworkSchema": "networks.schema",
    "NoiseSource": "noise",
    "OpenDPNoise": "noise",
    "Posterior": "posterior",
    "Prior": "priors",
    "RegressionSchema": "schema",
    "Release": "release",
    "SeededNoise": "noise",
    "forecast": "prediction",
    "prior_conflict": "conflict",
    "regression_statistics": "statistics",
    "sample": "samplers.driver",
}

_MODULES = {
    "accounting": "accounting",
    "bayes_net": "networks.design",
    "evaluation": "evaluation",
    "sensitivity": "sensitivity",
    "subsample": "subsample",
}
_RENAMED = {
    "map_draw": ("draws.design", "network_map"),
    "posterior_draw": ("draws.design", "network_draws"),
}


def __getattr__(name: str) -> Any:
    """Names are loaded when they are used, so that a command that needs none of them starts at once."""
    if name in _MODULES:
        return import_module(f"dpbayes_core.{_MODULES[name]}")
    if name in _RENAMED:
        home, own = _RENAMED[name]
        return getattr(import_module(f"dpbayes_core.{home}"), own)
    if name not in _HOMES:
        raise AttributeError(f"module 'dpbayes_core' has no attribute {name!r}")
    return getattr(import_module(f"dpbayes_core.{_HOMES[name]}"), name)
