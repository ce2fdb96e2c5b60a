"""Every kind of release by name: its section of the study file, its texts and its prior; docs/how-to-add.md."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from dpbayes.kinds.draws.section import MapSpec, PosteriorDrawSpec
from dpbayes.kinds.networks.section import NetworkSpec
from dpbayes.kinds.prior import PriorOfKind
from dpbayes.kinds.regression.section import RegressionSpec
from dpbayes.kinds.ridge.section import RidgeSpec
from dpbayes.kinds.section import ReleaseSection
from dpbayes.kinds.subsample.section import ProbabilitySpec, QuantileSpec
from dpbayes.kinds.texts import Texts
from dpbayes_core.privacy.release import AnyRelease


@dataclass(frozen=True)
class Kind:
    """One kind of release: its section, texts and prior."""

    section: type[ReleaseSection]
    texts_at: str  # their place in this package; imported on first use, since some load slow libraries
    prior_at: str | None = None  # likewise; None where the release is the answer itself

    @property
    def texts(self) -> Texts:
        """Its texts, imported on first use."""
        return _imported(self.texts_at)

    @property
    def prior(self) -> PriorOfKind | None:
        """What its analyses make of a stated prior."""
        return None if self.prior_at is None else _imported(self.prior_at)


def _imported(place: str) -> Any:
    module, name = place.rsplit(".", 1)
    return getattr(import_module(f"dpbayes.kinds.{module}"), name)


KINDS: Mapping[str, Kind] = {
    "regression": Kind(RegressionSpec, "regression.texts.REGRESSION", "regression.prior.PRIOR"),
    "posterior-probability": Kind(ProbabilitySpec, "subsample.texts.PROBABILITY", "subsample.prior.PRIOR"),
    "posterior-quantile": Kind(QuantileSpec, "subsample.texts.QUANTILE", "subsample.prior.PRIOR"),
    "bayes-net": Kind(NetworkSpec, "networks.texts.NETWORK", "networks.prior.PRIOR"),
    "posterior-draw": Kind(PosteriorDrawSpec, "draws.texts.POSTERIOR_DRAW"),
    "map": Kind(MapSpec, "draws.texts.MODE"),
    "ridge": Kind(RidgeSpec, "ridge.texts.RIDGE", "ridge.prior.PRIOR"),
}
"""In the order of the study reference."""

_SECTIONS = tuple(kind.section for kind in KINDS.values())
_FIRST = (RegressionSpec, RidgeSpec, NetworkSpec)  # the study reference names their samplers before all others
SAMPLER_NAMES = tuple(dict.fromkeys(name for section in (*_FIRST, *_SECTIONS) for name in section.all_samplers))
"""Every sampler that a study may name; not taken from dpbayes_core.samplers, which loads numba."""

if TYPE_CHECKING:
    ReleaseSpec = ReleaseSection
    SamplerName = str
else:
    ReleaseSpec = Annotated[reduce(or_, _SECTIONS), Field(discriminator="kind")]
    SamplerName = Literal["auto", *SAMPLER_NAMES]


def texts_of(release: AnyRelease) -> Texts:
    """The texts of a release's kind."""
    return KINDS[release.kind].texts
