"""Tulap noise on counts (Awan and Slavkovic 2018): two-sided geometric noise plus a uniform number of (-1/2, 1/2)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.privacy.accounting import UNITS, Cost, chargeable, covers, geometric_cost, limit_units
from dpbayes_core.privacy.mechanisms.noise_law import NoiseLaw
from dpbayes_core.privacy.noise import NoiseSource, check_counts
from dpbayes_core.rounding import HEADROOM, float_up

if TYPE_CHECKING:
    from dpbayes_core.privacy.sensitivity import Sensitivity


@dataclass(frozen=True, kw_only=True)
class TulapMechanism:
    """Independent Tulap noise of one scale; the uniform number is drawn apart from the rows, and costs nothing."""

    name: ClassVar[str] = "tulap"
    norm: ClassVar[str] = "L1"
    words: ClassVar[str] = "Tulap noise"
    law: ClassVar[NoiseLaw | None] = None  # its shape changes with its scale

    epsilon: float  # pure; means the decimal it prints as
    moved: int  # L1 of all counts under the release's neighbour relation
    entries: int

    def __post_init__(self) -> None:
        if not chargeable(self.epsilon):
            raise ValueError("cannot make Tulap noise: epsilon is not above 0, or above a million. State another.")
        if self.entries < 1 or self.moved < 1:
            raise ValueError("cannot make Tulap noise: there are no counts, or none that moves. Count something.")

    @property
    def sensitivity(self) -> float:
        """L1."""
        return float(self.moved)

    @property
    def grid(self) -> int:
        """Counts are whole: nothing is rounded."""
        return 0

    @cached_property
    def scale(self) -> float:
        """The least scale of the geometric part at which the noise source certifies no more than epsilon."""
        return float_up(self.moved * HEADROOM * Fraction(UNITS, limit_units(self.epsilon)))

    @property
    def scales(self) -> Floats:
        """The same for every count."""
        return np.full(self.entries, self.scale)

    @property
    def deviations(self) -> Floats:
        """The standard deviation of both parts together."""
        return np.sqrt(1 / (2 * np.sinh(0.5 / self.scales) ** 2) + 1 / 12)

    def cost(self) -> Cost:
        """The stated epsilon, and the rho of the geometric part."""
        return Cost(limit_units(self.epsilon), geometric_cost(self.moved, self.scale, largest_move=self.moved).rho)

    def at(self, epsilon: Decimal, delta: Decimal) -> Cost:
        """The price at another epsilon."""
        return replace(self, epsilon=float(epsilon)).cost()

    def protects(self, sensitivity: "Sensitivity") -> bool:
        """Whether neighbours move these counts by no more."""
        return len(sensitivity.weights) == self.entries and sensitivity.l1 <= self.moved

    def certified_loss(self, noise: NoiseSource) -> float:
        """What the noise source says that the geometric part costs."""
        return noise.geometric_loss(self.entries, self.scale, self.moved)

    def release(self, noise: NoiseSource, values: Integers) -> Floats:
        """The noisy counts; refused where the noise source certifies more than is charged."""
        check_counts(values, self.entries)
        if not covers(limit_units(self.epsilon), self.certified_loss(noise)):
            raise ValueError("cannot release by tulap: the noise source certifies a larger loss. Nothing was spent.")
        return noise.geometric(values, self.scale) + (noise.uniform(self.entries) - 0.5)

    def drawn(self, generator: np.random.Generator, count: int) -> Floats:
        """Noise as the law has it, for samplers; never added to anything."""
        shape = (count, self.entries)
        up, down = (np.floor(self.scale * generator.standard_exponential(shape)) for _ in range(2))
        return up - down + generator.uniform(-0.5, 0.5, shape)

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        names = ("entries", "epsilon", "moved", "name", "norm", "scale", "sensitivity")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "TulapMechanism":
        """The inverse of `to_record`; a record whose parts contradict each other is refused."""
        made = cls(epsilon=record["epsilon"], moved=record["moved"], entries=record["entries"])
        if made.to_record() != dict(record):
            raise ValueError("cannot read a tulap record: its parts contradict each other. Fetch it again.")
        return made
