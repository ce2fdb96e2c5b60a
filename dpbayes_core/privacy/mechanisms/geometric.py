"""Two-sided geometric noise on integers: pure epsilon, with a share of it for each group of entries."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.errors import Refusal
from dpbayes_core.privacy.accounting import UNITS, Cost, chargeable, covers, geometric_cost, limit_units
from dpbayes_core.privacy.mechanisms.noise_law import NoiseLaw
from dpbayes_core.privacy.noise import NoiseSource, check_counts
from dpbayes_core.rounding import HEADROOM, float_up, meant

if TYPE_CHECKING:
    from dpbayes_core.privacy.sensitivity import Sensitivity


@dataclass(frozen=True, kw_only=True)
class SharedEpsilon(ABC):
    """A mechanism on integers whose parts share a pure epsilon."""

    epsilon: float  # of all parts together; means the decimal it prints as

    @property
    def grid(self) -> int:
        """0: the entries are integers."""
        return 0

    @abstractmethod
    def cost(self) -> Cost:
        """What a release charges to every cap that covers it."""

    def at(self, epsilon: Decimal, delta: Decimal) -> Cost:
        """The price at another epsilon, everything else as it is."""
        try:
            return replace(self, epsilon=float(epsilon)).cost()
        except ValueError:  # too small to be shared out: such a release does not exist
            return Cost(limit_units(epsilon), 0)


def parts_of(epsilon: float, shares: tuple[float, ...]) -> tuple[int, ...]:
    """Epsilon in units, dealt out by shares, each part rounded down."""
    parts, whole = [meant(share) for share in shares], limit_units(epsilon)
    return tuple(math.floor(whole * part / sum(parts)) for part in parts)


@dataclass(frozen=True, kw_only=True)
class GeometricMechanism(SharedEpsilon):
    """Independent noise P(k) ~ exp(-|k| / scale) on integers, in groups with a scale each; groups compose.

    Group i gets epsilon share_i / (sum of shares), and its entries move by its L1 sensitivity at most.
    """

    name: ClassVar[str] = "geometric"
    norm: ClassVar[str] = "L1"
    words: ClassVar[str] = "Two-sided geometric noise"
    law: ClassVar[NoiseLaw | None] = None  # its shape changes with its scale: samplers of counts read the scale

    sizes: tuple[int, ...]  # entries of each group
    sensitivities: tuple[int, ...]  # L1 of each group under the release's neighbour relation
    largest_move: int  # the most any one entry moves; only the rho charged depends on it
    shares: tuple[float, ...]  # of epsilon, up to a factor; each means the decimal it prints as

    def __post_init__(self) -> None:
        if not chargeable(self.epsilon):
            raise ValueError("cannot make geometric noise: epsilon is not above 0, or above a million. State another.")
        groups = len(self.sizes)
        if groups == 0 or not groups == len(self.sensitivities) == len(self.shares):
            raise ValueError("cannot make geometric noise: its groups are not clear. Give each a size and a share.")
        if not all(isinstance(n, int) and n > 0 for n in (*self.sizes, *self.sensitivities, self.largest_move)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError("cannot make geometric noise: sizes and moves are not whole and positive. Count again.")
        if not all(math.isfinite(share) and share > 0 for share in self.shares):
            raise ValueError("cannot make geometric noise: a share of epsilon is not positive. Give every table one.")
        if min(self._units) < 1:
            what = "cannot make geometric noise: a share of epsilon is too small to charge"
            raise Refusal("epsilon", what, "Enlarge it")

    @cached_property
    def _units(self) -> tuple[int, ...]:
        """Each group's epsilon in units, rounded down."""
        return parts_of(self.epsilon, self.shares)

    @cached_property
    def group_scales(self) -> tuple[float, ...]:
        """The least scale of each group at which the noise source certifies no more than its share."""
        pairs = zip(self.sensitivities, self._units, strict=True)
        return tuple(float_up(moved * HEADROOM * Fraction(UNITS, units)) for moved, units in pairs)

    @property
    def entries(self) -> int:
        """How many integers there are."""
        return sum(self.sizes)

    @property
    def sensitivity(self) -> float:
        """L1, of all groups together."""
        return float(sum(self.sensitivities))

    @property
    def scale(self) -> float:
        """The largest scale."""
        return max(self.group_scales)

    @property
    def scales(self) -> Floats:
        """The noise scale of each entry."""
        return np.repeat(self.group_scales, self.sizes)

    @property
    def deviations(self) -> Floats:
        """The standard deviation of each entry's noise."""
        return 1 / (math.sqrt(2) * np.sinh(0.5 / self.scales))

    def cost(self) -> Cost:
        """The stated epsilon, exactly, and the rho of the worst pair of neighbours in every group."""
        groups = list(zip(self.sensitivities, self.group_scales, strict=True))
        rho = {group: geometric_cost(group[0], group[1], largest_move=self.largest_move).rho for group in set(groups)}
        return Cost(limit_units(self.epsilon), sum(rho[group] for group in groups))

    def protects(self, sensitivity: "Sensitivity") -> bool:
        """Whether the noise suffices for integers of this sensitivity, wherever among the groups they move."""
        if len(sensitivity.weights) != self.entries:
            return False
        loss = Fraction(sensitivity.l1) / Fraction(min(self.group_scales))
        whole = loss * UNITS <= limit_units(self.epsilon)
        return whole and self.largest_move >= min(sensitivity.l1, sensitivity.l2)

    def certified_loss(self, noise: NoiseSource) -> float:
        """What the noise source itself says a release costs in pure epsilon, group by group."""
        groups = zip(self.sizes, self.group_scales, self.sensitivities, strict=True)
        losses = [noise.geometric_loss(size, scale, moved) for size, scale, moved in groups]
        if not all(map(math.isfinite, losses)):
            return math.inf
        return float_up(sum(map(Fraction, losses), Fraction(0)))

    def release(self, noise: NoiseSource, values: Integers) -> Integers:
        """The noisy integers; refused where the noise source certifies more than is charged."""
        check_counts(values, self.entries)
        if not covers(limit_units(self.epsilon), self.certified_loss(noise)):
            raise ValueError(
                "cannot release by geometric: the noise source certifies a larger loss. Nothing was spent."
            )
        parts = np.split(values, np.cumsum(self.sizes)[:-1])
        noisy = [noise.geometric(part, scale) for part, scale in zip(parts, self.group_scales, strict=True)]
        return np.concatenate(noisy)

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {
            "epsilon": self.epsilon,
            "group_scales": list(self.group_scales),
            "largest_move": self.largest_move,
            "name": self.name,
            "norm": self.norm,
            "scale": self.scale,
            "sensitivities": list(self.sensitivities),
            "sensitivity": self.sensitivity,
            "shares": list(self.shares),
            "sizes": list(self.sizes),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "GeometricMechanism":
        """The inverse of `to_record`; a record whose scales do not follow from its parameters is refused."""
        mechanism = cls(
            epsilon=record["epsilon"],
            sizes=tuple(record["sizes"]),
            sensitivities=tuple(record["sensitivities"]),
            largest_move=record["largest_move"],
            shares=tuple(record["shares"]),
        )
        if mechanism.to_record() != dict(record):
            raise ValueError("cannot read a geometric record: its parts contradict each other. Fetch it again.")
        return mechanism
