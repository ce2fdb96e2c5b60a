"""The telling of each kind of release."""

from collections.abc import Mapping

from dpbayes.kinds.draws.texts import MODE, POSTERIOR_DRAW
from dpbayes.kinds.networks.texts import NetworkTelling
from dpbayes.kinds.regression.texts import RegressionTelling
from dpbayes.kinds.ridge.texts import RidgeTelling
from dpbayes.kinds.subsample.texts import ProbabilityTelling, QuantileTelling
from dpbayes.kinds.texts import Telling
from dpbayes_core.privacy.release import AnyRelease

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
