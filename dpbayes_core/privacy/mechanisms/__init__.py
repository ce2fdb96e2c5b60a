"""Mechanisms are immutable data: the ledger prices them, releases contain them, samplers read them."""

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.accounting import Cost
from dpbayes_core.privacy.mechanisms.centre_scale import CentreScaleMechanism
from dpbayes_core.privacy.mechanisms.exponential import ExponentialMechanism
from dpbayes_core.privacy.mechanisms.gaussian import GaussianMechanism, gaussian_for
from dpbayes_core.privacy.mechanisms.geometric import GeometricMechanism
from dpbayes_core.privacy.mechanisms.laplace import LaplaceMechanism, laplace_for
from dpbayes_core.privacy.mechanisms.noise_law import NoiseLaw
from dpbayes_core.privacy.mechanisms.posterior_draw import PosteriorDrawMechanism
from dpbayes_core.privacy.noise import NoiseSource

if TYPE_CHECKING:
    from dpbayes_core.privacy.sensitivity import Sensitivity

__all__ = [
    "MECHANISMS",
    "CentreScaleMechanism",
    "ExponentialMechanism",
    "GaussianMechanism",
    "GeometricMechanism",
    "LaplaceMechanism",
    "Mechanism",
    "PosteriorDrawMechanism",
    "gaussian_for",
    "laplace_for",
    "mechanism_from_record",
]


class Mechanism(Protocol):
    """Noise on a vector of exact statistics: its parameters, its price, its law."""

    name: ClassVar[str]
    norm: ClassVar[str]
    words: ClassVar[str]  # what a page calls it, at the start of a sentence: "Laplace noise"
    law: ClassVar[NoiseLaw | None]
    """The law of its noise where that is known up to a scale: a sampler takes only laws that it names."""

    @property
    def sensitivity(self) -> float:
        """The most a neighbour moves the entries the noise is added to, in `norm`, output grid included."""
        ...

    @property
    def grid(self) -> int:
        """The entries are multiples of 2^-grid."""
        ...

    @property
    def scale(self) -> float:
        """The noise scale where the noise is added."""
        ...

    @property
    def scales(self) -> Floats:
        """The noise scale of each entry, in standardised units."""
        ...

    @property
    def deviations(self) -> Floats:
        """The standard deviation of each entry's noise; refused with a ValueError where it depends on the rows."""
        ...

    def cost(self) -> Cost:
        """What a release charges to every cap that covers it."""
        ...

    def at(self, epsilon: Decimal, delta: Decimal) -> Cost:
        """What it would cost at another epsilon, everything else as it is; delta only where it has no pure epsilon."""
        ...

    def protects(self, sensitivity: "Sensitivity") -> bool:
        """Whether the noise suffices for entries of this sensitivity, rounded to the output grid."""
        ...

    def certified_loss(self, noise: NoiseSource) -> float:
        """What the noise source itself says a release costs, in the mechanism's own measure."""
        ...

    def release(self, noise: NoiseSource, values: Any) -> Any:
        """The noisy statistics."""
        ...

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        ...

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of `to_record`."""
        ...


_ALL: tuple[type[Mechanism], ...] = (
    LaplaceMechanism,
    GaussianMechanism,
    GeometricMechanism,
    PosteriorDrawMechanism,
    ExponentialMechanism,
    CentreScaleMechanism,
)

MECHANISMS: Mapping[str, type[Mechanism]] = {mechanism.name: mechanism for mechanism in _ALL}


def mechanism_from_record(record: Mapping[str, Any]) -> Mechanism:
    """The mechanism that a record describes."""
    known = MECHANISMS.get(record["name"])
    if known is None:
        raise ValueError(
            f"cannot read a mechanism record: its name is not one of {', '.join(MECHANISMS)}. Update dpbayes."
        )
    return known.from_record(record)
