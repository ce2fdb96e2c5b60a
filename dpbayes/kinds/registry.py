"""Every kind of release by name: its section of the study file, its texts and its prior; to add one, add a row."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from operator import or_
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from dpbayes.kinds.draws.section import MapSpec, PosteriorDrawSpec
from dpbayes.kinds.networks.prior import PriorOfNetworks
from dpbayes.kinds.networks.section import NetworkSpec
from dpbayes.kinds.prior import PriorOfKind
from dpbayes.kinds.regression.prior import PriorOfRegressions
from dpbayes.kinds.regression.section import RegressionSpec
from dpbayes.kinds.ridge.prior import PriorOfRidge
from dpbayes.kinds.ridge.section import RidgeSpec
from dpbayes.kinds.section import ReleaseSection
from dpbayes.kinds.subsample.prior import PriorOfSubsets
from dpbayes.kinds.subsample.section import ProbabilitySpec, QuantileSpec
from dpbayes.kinds.texts import Texts
from dpbayes_core.privacy.release import AnyRelease


@dataclass(frozen=True)
class Kind:
    """One kind of release."""

    section: type[ReleaseSection]
    texts_at: str  # in this package; imported when asked for, since some are heavy
    prior: PriorOfKind | None = None  # none where the release is the answer itself

    @property
    def texts(self) -> Texts:
        """Its words, lines and pictures."""
        module, name = self.texts_at.rsplit(".", 1)
        return getattr(import_module(f"dpbayes.kinds.{module}"), name)


KINDS: Mapping[str, Kind] = {
    "regression": Kind(RegressionSpec, "regression.texts.REGRESSION", PriorOfRegressions()),
    "posterior-probability": Kind(ProbabilitySpec, "subsample.texts.PROBABILITY", PriorOfSubsets()),
    "posterior-quantile": Kind(QuantileSpec, "subsample.texts.QUANTILE", PriorOfSubsets()),
    "bayes-net": Kind(NetworkSpec, "networks.texts.NETWORK", PriorOfNetworks()),
    "posterior-draw": Kind(PosteriorDrawSpec, "draws.texts.POSTERIOR_DRAW"),
    "map": Kind(MapSpec, "draws.texts.MODE"),
    "ridge": Kind(RidgeSpec, "ridge.texts.RIDGE", PriorOfRidge()),
}
"""In the order of the study reference."""

_SECTIONS = tuple(kind.section for kind in KINDS.values())
_FIRST = (RegressionSpec, RidgeSpec, NetworkSpec)  # the study reference names their samplers before all others
SAMPLER_NAMES = tuple(dict.fromkeys(name for section in (*_FIRST, *_SECTIONS) for name in section.all_samplers))
"""Every sampler that a study may name; the registry in dpbayes_core.samplers needs numba, and is kept apart."""

if TYPE_CHECKING:
    ReleaseSpec = ReleaseSection
    SamplerName = str
else:
    ReleaseSpec = Annotated[reduce(or_, _SECTIONS), Field(discriminator="kind")]
    SamplerName = Literal["auto", *SAMPLER_NAMES]


def texts_of(release: AnyRelease) -> Texts:
    """The texts of a release's kind."""
    return KINDS[release.kind].texts
