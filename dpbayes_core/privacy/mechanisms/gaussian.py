"""Gaussian noise on a vector of statistics: zCDP, with a scale per entry by power-of-two weights."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.accounting import (
    UNITS,
    Cost,
    analytic_gaussian_epsilon,
    cap_rho_units,
    chargeable,
    covers,
    largest_rho,
    limit_units,
)
from dpbayes_core.privacy.mechanisms.additional_noise import cost_with, read_beside, recorded
from dpbayes_core.privacy.mechanisms.noise_law import GAUSSIAN, NoiseLaw
from dpbayes_core.privacy.noise import GRID_EXPONENT, NoiseSource, check_statistics
from dpbayes_core.rounding import HEADROOM, float_up, printed_down, root_up

if TYPE_CHECKING:
    from dpbayes_core.privacy.mechanisms import Mechanism
    from dpbayes_core.privacy.sensitivity import Sensitivity


@dataclass(frozen=True, kw_only=True)
class GaussianMechanism:
    """Independent Gaussian noise on weighted entries, unweighted afterwards. Priced by the ledger, read by the sampler.

    A heavier entry gets less noise. Weights are powers of two, so that weighting and unweighting are exact.
    """

    name: ClassVar[str] = "gaussian"
    norm: ClassVar[str] = "L2"
    words: ClassVar[str] = "Gaussian noise"
    law: ClassVar[NoiseLaw | None] = GAUSSIAN

    rho: float  # zCDP; means the decimal it prints as
    epsilon: float | None = None  # with delta: the cap that this release alone would fill, if stated so
    delta: float | None = None
    sensitivity: float  # L2 of the weighted entries under the release's neighbour relation, output grid included
    weights: tuple[float, ...]  # one per entry
    grid: int  # the entries are multiples of 2^-grid
    beside: "Mechanism | None" = None  # Gaussian noise on further statistics of the same release; rho is added

    def __post_init__(self) -> None:
        if not chargeable(self.rho):
            raise ValueError("cannot make Gaussian noise: rho is not above 0, or above a million. State another.")
        if not (math.isfinite(self.sensitivity) and self.sensitivity > 0):
            raise ValueError("cannot make Gaussian noise: sensitivity is not positive. Derive it from public bounds.")
        if not self.weights or self.grid > -GRID_EXPONENT:
            raise ValueError("cannot make Gaussian noise: no entries, or a grid finer than the noise's. Coarsen it.")
        if not all(math.isfinite(w) and w > 0 and math.frexp(w)[0] == 0.5 for w in self.weights):
            raise ValueError("cannot make Gaussian noise: a weight is not a power of two. Round it down to one.")
        if (self.epsilon is None) != (self.delta is None):
            raise ValueError("cannot make Gaussian noise: epsilon and delta go together. State both or neither.")
        if self.epsilon is None or self.delta is None:
            return
        if self.cost().rho > cap_rho_units(self.epsilon, self.delta):
            raise ValueError("cannot make Gaussian noise: rho exceeds the stated epsilon and delta. Lower rho.")

    @property
    def scale(self) -> float:
        """The least deviation at which the noise source certifies no more than rho; of the weighted entries."""
        return self._scale

    @cached_property
    def _scale(self) -> float:
        return float_up(self._moved * HEADROOM * root_up(Fraction(UNITS, 2 * limit_units(self.rho))))

    @property
    def _moved(self) -> Fraction:
        """The sensitivity with what the noise source itself rounds."""
        entries = root_up(Fraction(len(self.weights)))
        return Fraction(self.sensitivity) + entries * Fraction(2) ** GRID_EXPONENT

    @property
    def scales(self) -> Floats:
        """The noise scale of each entry, in standardised units."""
        return self.scale / np.array(self.weights)

    @property
    def deviations(self) -> Floats:
        """The standard deviation of each entry's noise: its scale."""
        return self.scales

    @cached_property
    def exact_epsilon(self) -> float | None:
        """The tighter epsilon that this release satisfies alone at its delta; for reading, never charged."""
        if self.delta is None:
            return None
        if not isinstance(self.beside, GaussianMechanism):
            return analytic_gaussian_epsilon(self._moved, self.scale, self.delta)
        ratios = (self._moved / Fraction(self.scale), self.beside._moved / Fraction(self.beside.scale))
        return analytic_gaussian_epsilon(root_up(ratios[0] ** 2 + ratios[1] ** 2), 1, self.delta)

    def cost(self) -> Cost:
        """The stated rho, exactly, plus that of additional noise; no pure epsilon."""
        return cost_with(Cost(None, limit_units(self.rho)), self.beside)

    def at(self, epsilon: Decimal, delta: Decimal) -> Cost:
        """The cost of such a release at another epsilon and delta."""
        rho = largest_rho(epsilon, delta)
        return Cost(None, limit_units(rho))

    def protects(self, sensitivity: "Sensitivity") -> bool:
        """Whether the noise suffices for entries of this sensitivity, rounded to the output grid."""
        if len(self.weights) != len(sensitivity.weights):
            return False
        if any(own > free for own, free in zip(self.weights, sensitivity.weights, strict=True)):
            return False
        due = gaussian_for(replace(sensitivity, weights=self.weights), rho=self.rho, grid=self.grid)
        return self.sensitivity >= due.sensitivity

    def certified_loss(self, noise: NoiseSource) -> float:
        """What the noise source itself says a release costs in rho."""
        return noise.gaussian_loss(len(self.weights), self.scale, self.sensitivity)

    def release(self, noise: NoiseSource, values: Floats) -> Floats:
        """The noisy statistics; refused where the noise source certifies more than is charged."""
        check_statistics(values, len(self.weights))
        if not covers(limit_units(self.rho), self.certified_loss(noise)):
            raise ValueError("cannot release by gaussian: the noise source certifies a larger loss. Nothing was spent.")
        weights = np.array(self.weights)
        return noise.gaussian(values * weights, self.scale) / weights

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {
            "delta": self.delta,
            "epsilon": self.epsilon,
            "exact_epsilon": self.exact_epsilon,
            "grid": self.grid,
            "name": self.name,
            "norm": self.norm,
            "rho": self.rho,
            "scale": self.scale,
            "sensitivity": self.sensitivity,
            "weights": list(self.weights),
            **recorded(self.beside),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "GaussianMechanism":
        """The inverse of `to_record`; a record whose scale does not follow from its parameters is refused."""
        mechanism = cls(
            rho=record["rho"],
            epsilon=record["epsilon"],
            delta=record["delta"],
            sensitivity=record["sensitivity"],
            weights=tuple(record["weights"]),
            grid=record["grid"],
            beside=read_beside(record),
        )
        if mechanism.to_record() != dict(record):
            raise ValueError("cannot read a gaussian record: its parts contradict each other. Fetch it again.")
        return mechanism


@lru_cache(maxsize=64, typed=True)  # called for every charge
def gaussian_for(
    sensitivity: "Sensitivity",
    *,
    grid: int,
    epsilon: float | Decimal | None = None,
    delta: float | Decimal | None = None,
    rho: float | Decimal | None = None,
) -> GaussianMechanism:
    """Gaussian noise of a stated rho, or the one that fills a cap of (epsilon, delta) alone."""
    weight_norm = root_up(sum((Fraction(w) ** 2 for w in sensitivity.weights), Fraction(0)))
    moved = float_up(Fraction(sensitivity.l2) + weight_norm * Fraction(2) ** -grid)
    if rho is not None and epsilon is None and delta is None:
        return GaussianMechanism(rho=_stated(rho), sensitivity=moved, weights=tuple(sensitivity.weights), grid=grid)
    if rho is None and epsilon is not None and delta is not None:
        stated_epsilon, stated_delta = _stated(epsilon), _stated(delta)
        return GaussianMechanism(
            rho=largest_rho(stated_epsilon, stated_delta),
            epsilon=stated_epsilon,
            delta=stated_delta,
            sensitivity=moved,
            weights=tuple(sensitivity.weights),
            grid=grid,
        )
    raise ValueError("cannot make Gaussian noise: its loss is not clear. State either rho or epsilon with delta.")


def _stated(value: float | Decimal) -> float:
    return value if isinstance(value, float) else printed_down(value)
