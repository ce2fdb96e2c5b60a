"""The telling of each kind of release."""

from collections.abc import Mapping

from dpbayes_core.design import AnyRelease
from storage.tellings.base import Telling
from storage.tellings.draws import MODE, POSTERIOR_DRAW
from storage.tellings.networks import NetworkTelling
from storage.tellings.regression import RegressionTelling
from storage.tellings.ridge import RidgeTelling
from storage.tellings.subsample import ProbabilityTelling, QuantileTelling

TELLINGS: Mapping[str, Telling] = {
    "regression": RegressionTelling(),
    "bayes-net": NetworkTelling(),
    "posterior-draw": POSTERIOR_DRAW,
    "map": MODE,
    "posterior-probability": ProbabilityTelling(),
    "posterior-quantile": QuantileTelling(),
    "ridge": RidgeTelling(),
}


def telling_of(release: AnyRelease) -> Telling:
    """How a release is told."""
    return TELLINGS[release.kind]
