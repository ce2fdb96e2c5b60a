"""Reading a release of any kind from its record."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from dpbayes_core.privacy.release import AnyRelease

RELEASES: Mapping[str, str] = {
    "regression": "regression.release.Release",
    "bayes-net": "networks.release.NetworkRelease",
    "posterior-draw": "draws.release.PosteriorDrawRelease",
    "posterior-probability": "subsample.probability.ProbabilityRelease",
    "posterior-quantile": "subsample.quantile.QuantileRelease",
    "map": "draws.release.MapRelease",
    "ridge": "ridge.release.RidgeRelease",
}
"""The module and class of each kind, imported when one is read: some are slow to import."""


def release_from_record(record: Mapping[str, Any]) -> AnyRelease:
    """The release that a record describes."""
    home = RELEASES.get(record["kind"])
    if home is None:
        raise ValueError(f"cannot read a release: its kind is not one of {', '.join(RELEASES)}. Update dpbayes.")
    module, name = home.rsplit(".", 1)
    return cast("AnyRelease", getattr(import_module(f"dpbayes_core.{module}"), name).from_record(record))
