"""Exact draws from a tempered likelihood times a prior: pure epsilon without any added noise."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.accounting import UNITS, Cost, chargeable, limit_units, to_units
from dpbayes_core.privacy.mechanisms.noise_law import NoiseLaw
from dpbayes_core.privacy.noise import NoiseSource
from dpbayes_core.rounding import float_up

if TYPE_CHECKING:
    from dpbayes_core.privacy.sensitivity import Sensitivity


DOUBLES = 2.0**-23  # a tenth of a millionth of the loss covers the rounding of samplers in doubles


@dataclass(frozen=True, kw_only=True)
class PosteriorDrawMechanism:
    """Independent exact draws of density prior x exp(tempering x score); between neighbours the score's difference
    ranges over no more than `oscillation`, so each draw has a bounded range of tempering x oscillation.
    """

    name: ClassVar[str] = "posterior-draw"
    norm: ClassVar[str] = "oscillation"
    words: ClassVar[str] = "Exact draws of a tempered posterior"
    law: ClassVar[NoiseLaw | None] = None

    epsilon: float  # pure, of all draws together; means the decimal it prints as
    draws: int
    tempering: float
    oscillation: float  # of the score between neighbours, over all parameters

    def __post_init__(self) -> None:
        if not chargeable(self.epsilon):
            raise ValueError("cannot draw from a posterior: epsilon is not above 0, or above a million. State another.")
        if self.draws < 1 or limit_units(self.epsilon) < self.draws:
            raise ValueError("cannot draw from a posterior: the number of draws is not usable. Ask for one or more.")
        if not all(math.isfinite(x) and x > 0 for x in (self.tempering, self.oscillation)):
            raise ValueError("cannot draw from a posterior: tempering or oscillation is not positive. Derive them.")
        if self._loss * UNITS > limit_units(self.epsilon):
            raise ValueError("cannot draw from a posterior: the draws cost more than epsilon. Temper them, or fewer.")

    @property
    def _loss(self) -> Fraction:
        return self.draws * Fraction(self.tempering) * Fraction(self.oscillation)

    @property
    def sampled_tempering(self) -> float:
        """The tempering for the sampler: reduced by a little, so that the charge covers its rounding."""
        return self.tempering * (1 - DOUBLES)

    @property
    def sensitivity(self) -> float:
        """The oscillation."""
        return self.oscillation

    @property
    def grid(self) -> int:
        """Nothing is rounded before the draw."""
        return 0

    @property
    def scale(self) -> float:
        """The temperature."""
        return 1 / self.tempering

    @property
    def scales(self) -> Floats:
        """No entry has noise of its own."""
        return np.empty(0)

    @property
    def deviations(self) -> Floats:
        """No entry has noise of its own."""
        return np.empty(0)

    def cost(self) -> Cost:
        """The stated epsilon, and epsilon^2 / 8 of each draw's part of it in rho."""
        units = limit_units(self.epsilon)
        return Cost(units, to_units(Fraction(units, UNITS) ** 2 / (8 * self.draws)))

    def at(self, epsilon: Decimal, delta: Decimal) -> Cost:
        """The price at another epsilon, as many draws as now."""
        units = limit_units(epsilon)
        return Cost(units, to_units(Fraction(units, UNITS) ** 2 / (8 * self.draws)))

    def protects(self, sensitivity: "Sensitivity") -> bool:
        """Never: an oscillation does not follow from how far sums move. A release of draws asks for its own."""
        return False

    def certified_loss(self, noise: NoiseSource) -> float:
        """Draws x tempering x oscillation, which includes the sampler's rounding."""
        return float_up(self._loss)

    def release(self, noise: NoiseSource, values: Any) -> NoReturn:
        """Refused: there is nothing to add noise to."""
        raise ValueError("cannot add noise by posterior-draw: it draws parameters instead. Release draws of a model.")

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {
            "draws": self.draws,
            "epsilon": self.epsilon,
            "name": self.name,
            "norm": self.norm,
            "oscillation": self.oscillation,
            "tempering": self.tempering,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "PosteriorDrawMechanism":
        """The inverse of `to_record`; a record that contradicts itself is refused."""
        names = ("epsilon", "draws", "tempering", "oscillation")
        mechanism = cls(**{name: record[name] for name in names})
        if mechanism.to_record() != dict(record):
            raise ValueError("cannot read a posterior-draw record: its parts contradict each other. Fetch it again.")
        return mechanism
