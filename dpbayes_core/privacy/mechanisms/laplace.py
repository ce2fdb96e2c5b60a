"""Laplace noise on a vector of statistics: pure epsilon, of one scale."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.accounting import UNITS, Cost, chargeable, covers, laplace_cost, limit_units
from dpbayes_core.privacy.mechanisms.additional_noise import cost_with, read_beside, recorded, shares
from dpbayes_core.privacy.mechanisms.noise_law import LAPLACE, NoiseLaw
from dpbayes_core.privacy.noise import GRID_EXPONENT, NoiseSource, check_statistics
from dpbayes_core.rounding import HEADROOM, float_up, printed_down, root_up

if TYPE_CHECKING:
    from dpbayes_core.privacy.mechanisms import Mechanism
    from dpbayes_core.privacy.sensitivity import Sensitivity


@dataclass(frozen=True, kw_only=True)
class LaplaceMechanism:
    """Independent Laplace noise of one scale on every entry. Priced by the ledger, read by the sampler."""

    name: ClassVar[str] = "laplace"
    norm: ClassVar[str] = "L1"
    words: ClassVar[str] = "Laplace noise"
    law: ClassVar[NoiseLaw | None] = LAPLACE

    epsilon: float  # pure; means the decimal it prints as
    sensitivity: float  # L1 under the release's neighbour relation, output grid included
    sensitivity_l2: float  # of the same entries, output grid included; only the rho charged depends on it
    grid: int  # the entries are multiples of 2^-grid
    entries: int
    beside: "Mechanism | None" = None  # noise on further statistics of the same release; its cost is added

    def __post_init__(self) -> None:
        if not chargeable(self.epsilon):
            raise ValueError("cannot make Laplace noise: epsilon is not above 0, or above a million. State another.")
        if not all(math.isfinite(moved) and moved > 0 for moved in (self.sensitivity, self.sensitivity_l2)):
            raise ValueError("cannot make Laplace noise: a sensitivity is not positive. Derive it from public bounds.")
        if self.entries < 1 or self.grid > -GRID_EXPONENT:
            raise ValueError("cannot make Laplace noise: no entries, or a grid finer than the noise's. Coarsen it.")

    @property
    def scale(self) -> float:
        """The least scale at which the noise source certifies no more than epsilon, its own rounding included."""
        return self._scale

    @cached_property
    def _scale(self) -> float:
        moved = Fraction(self.sensitivity) + self.entries * Fraction(2) ** GRID_EXPONENT
        return float_up(moved * HEADROOM / Fraction(limit_units(self.epsilon), UNITS))

    @property
    def scales(self) -> Floats:
        """The noise scale of each entry, in standardised units."""
        return np.full(self.entries, self.scale)

    @property
    def deviations(self) -> Floats:
        """The standard deviation of each entry's noise, in standardised units."""
        return LAPLACE.deviation * self.scales

    def cost(self) -> Cost:
        """The stated epsilon, exactly, and the rho of the worst pair of neighbours; plus those of additional noise."""
        grid = Fraction(2) ** GRID_EXPONENT
        moved = Fraction(self.sensitivity) + self.entries * grid
        moved_l2 = Fraction(self.sensitivity_l2) + root_up(Fraction(self.entries)) * grid
        return cost_with(Cost(limit_units(self.epsilon), laplace_cost(moved, moved_l2, self.scale).rho), self.beside)

    def at(self, epsilon: Decimal, delta: Decimal) -> Cost:
        """What it would cost at another epsilon, everything else as it is."""
        return self.restated(epsilon).cost()

    def restated(self, epsilon: Decimal) -> "LaplaceMechanism":
        """The same at another epsilon, of which additional Laplace noise keeps its share."""
        if not isinstance(self.beside, LaplaceMechanism):
            return replace(self, epsilon=float(epsilon))
        own, other = shares(epsilon, self.epsilon, self.beside.epsilon)
        return replace(self, epsilon=own, beside=replace(self.beside, epsilon=other))

    def protects(self, sensitivity: "Sensitivity") -> bool:
        """Whether the noise suffices for entries of this sensitivity, rounded to the output grid."""
        due = laplace_for(sensitivity, epsilon=self.epsilon, grid=self.grid, entries=len(sensitivity.weights))
        enough = self.sensitivity >= due.sensitivity and self.sensitivity_l2 >= due.sensitivity_l2
        return enough and self.entries == due.entries

    def certified_loss(self, noise: NoiseSource) -> float:
        """What the noise source itself says a release costs in pure epsilon."""
        return noise.laplace_loss(self.entries, self.scale, self.sensitivity)

    def release(self, noise: NoiseSource, values: Floats) -> Floats:
        """The noisy statistics; refused where the noise source certifies more than is charged."""
        check_statistics(values, self.entries)
        if not covers(limit_units(self.epsilon), self.certified_loss(noise)):
            raise ValueError("cannot release by laplace: the noise source certifies a larger loss. Nothing was spent.")
        return noise.laplace(values, self.scale)

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {
            "entries": self.entries,
            "epsilon": self.epsilon,
            "grid": self.grid,
            "name": self.name,
            "norm": self.norm,
            "scale": self.scale,
            "sensitivity": self.sensitivity,
            "sensitivity_l2": self.sensitivity_l2,
            **recorded(self.beside),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "LaplaceMechanism":
        """The inverse of `to_record`; a record whose scale does not follow from its parameters is refused."""
        mechanism = cls(
            epsilon=record["epsilon"],
            sensitivity=record["sensitivity"],
            sensitivity_l2=record["sensitivity_l2"],
            grid=record["grid"],
            entries=record["entries"],
            beside=read_beside(record),
        )
        if mechanism.to_record() != dict(record):
            raise ValueError("cannot read a laplace record: its parts contradict each other. Fetch it again.")
        return mechanism


@lru_cache(maxsize=64, typed=True)  # called for every charge
def laplace_for(sensitivity: "Sensitivity", *, epsilon: float | Decimal, grid: int, entries: int) -> LaplaceMechanism:
    """Laplace noise of a pure epsilon; rounding each entry to the output grid is added to the sensitivity."""
    cell = Fraction(2) ** -grid
    plain_l2 = Fraction(sensitivity.l2) / Fraction(min(sensitivity.weights))  # of the entries without weights
    return LaplaceMechanism(
        epsilon=epsilon if isinstance(epsilon, float) else printed_down(epsilon),
        sensitivity=float_up(Fraction(sensitivity.l1) + entries * cell),
        sensitivity_l2=float_up(plain_l2 + root_up(Fraction(entries)) * cell),
        grid=grid,
        entries=entries,
    )
