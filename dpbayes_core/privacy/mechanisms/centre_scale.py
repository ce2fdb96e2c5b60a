"""Centre and scale of M subset posteriors by exponential mechanisms, then, where M is large, a clipped mean.

Locations lie on a grid of `points` over the outer bounds, scales on a grid of sixteenths of an octave below their
width. The clipping interval follows from what was already released, and the mean is taken in 2^20ths of it, so that
one subset moves an integer sum by at most 2^21 and the noise on it is two-sided geometric.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.errors import Refusal
from dpbayes_core.privacy.accounting import (
    UNITS,
    Cost,
    chargeable,
    covers,
    exponential_cost,
    geometric_cost,
    limit_units,
)
from dpbayes_core.privacy.mechanisms.exponential import (
    MedianLottery,
    RankMechanism,
    check_grid_values,
    lottery_of,
)
from dpbayes_core.privacy.mechanisms.geometric import parts_of
from dpbayes_core.privacy.noise import NoiseSource
from dpbayes_core.rounding import HEADROOM, float_up

POINTS = 2**52  # of the grid of locations
PER_OCTAVE = 16
OCTAVES = 48
CELLS = PER_OCTAVE * OCTAVES + 1  # the last is the whole width of the outer bounds
UNIT = 2**20  # of the clipped mean: the clipping radius
CLIP = 3.0  # radius of the clipped mean, in standard deviations of the subsets' locations
MEAN_FROM = 300  # subsets times epsilon: from here on a mean is worth its share
CENTRE, SCALE = 100, 64  # subsets times epsilon of each, where a mean follows: weights fall by 25 and 16 nats
WITHOUT_MEAN = (0.6, 0.4)  # of epsilon: centre and scale


@dataclass(frozen=True, kw_only=True)
class CentreScaleMechanism(RankMechanism):
    """A location and a scale that describe M subset posteriors, of which a neighbour replaces one."""

    name: ClassVar[str] = "centre-scale"
    words: ClassVar[str] = "Exponential mechanism for centre and scale, then a clipped mean"

    def __post_init__(self) -> None:
        if not chargeable(self.epsilon):
            raise ValueError("cannot draw centre and scale: epsilon is not above 0, or above a million. State another.")
        if self.values < 2:
            raise ValueError("cannot draw centre and scale: there must be two subsets at least. Declare more.")
        if min(self.parts) < 1:
            what = "cannot draw centre and scale: epsilon is too small to be shared out"
            raise Refusal("epsilon", what, "State another")

    @property
    def with_mean(self) -> bool:
        """Whether a clipped mean follows."""
        return self.values * self.epsilon >= MEAN_FROM

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """Epsilon of centre, scale and mean, in units."""
        if not self.with_mean:
            return parts_of(self.epsilon, WITHOUT_MEAN)
        ranks = self.values * self.epsilon
        return parts_of(self.epsilon, (float(CENTRE), float(SCALE), ranks - CENTRE - SCALE))

    @property
    def entries(self) -> int:
        """Centre, scale and, where there is one, the sum behind the mean."""
        return len(self.parts)

    @cached_property
    def lotteries(self) -> tuple[MedianLottery, MedianLottery]:
        """The weights of centre and scale."""
        return lottery_of(self.parts[0], POINTS), lottery_of(self.parts[1], CELLS)

    @property
    def scale(self) -> float:
        """Of the noise on the sum, in 2^-20 clipping radii; without a mean, that of the centre, in ranks."""
        if self.with_mean:
            return float_up(2 * UNIT * HEADROOM * Fraction(UNITS, self.parts[2]))
        return float(2 / self.lotteries[0].epsilon)

    @property
    def scales(self) -> Floats:
        """The noise scale of each entry, in its own unit."""
        ranks = [float(2 / lottery.epsilon) for lottery in self.lotteries]
        return np.array([*ranks, self.scale] if self.with_mean else ranks)

    def radius(self, cell: int) -> int:
        """Half the clipping interval, in grid points: a function of the released scale alone."""
        spread = math.sqrt(self.values) * 2.0 ** (cell / PER_OCTAVE - OCTAVES)  # of the outer bounds' width
        return math.ceil(min(CLIP * spread, 1.0) * POINTS)

    def clipped_sum(self, locations: Integers, centre: int, cell: int) -> int:
        """Confidential: distances from the centre, cut at the radius, in 2^-20 radii; one subset adds +-2^20."""
        radius = self.radius(cell)
        distances = np.clip(locations - centre, -radius, radius)
        return int(np.rint(distances.astype(np.float64) * (UNIT / radius)).astype(np.int64).sum())

    def cost(self) -> Cost:
        """The stated epsilon, exactly, and the rho of its parts."""
        rho = sum(exponential_cost(lottery.epsilon).rho for lottery in self.lotteries)
        if self.with_mean:
            rho += geometric_cost(2 * UNIT, self.scale, largest_move=2 * UNIT).rho
        return Cost(limit_units(self.epsilon), rho)

    def certified_loss(self, noise: NoiseSource) -> float:
        """What the weights lose, and what the noise source says the sum loses."""
        total = sum((lottery.loss for lottery in self.lotteries), Fraction(0))
        if self.with_mean:
            loss = noise.geometric_loss(1, self.scale, 2 * UNIT)
            if not math.isfinite(loss):
                return math.inf
            total += Fraction(loss)
        return float_up(total)

    def release(self, noise: NoiseSource, values: Integers) -> Integers:
        """Centre and scale as grid points, then the noisy sum of clipped distances from the centre; values (2, M)."""
        check_grid_values(values, (2, self.values), POINTS)
        check_grid_values(values[1], (self.values,), CELLS)
        if not covers(limit_units(self.epsilon), self.certified_loss(noise)):
            raise ValueError("cannot release by centre-scale: its parts lose more than is charged. Nothing was spent.")
        centre, cell = (lottery.draw(noise, row) for lottery, row in zip(self.lotteries, values, strict=True))
        if not self.with_mean:
            return np.array([centre, cell], dtype=np.int64)
        total = self.clipped_sum(values[0], centre, cell)
        noisy = noise.geometric(np.array([total], dtype=np.int64), self.scale)
        return np.array([centre, cell, int(noisy[0])], dtype=np.int64)

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {
            "epsilon": self.epsilon,
            "epsilons": [float(Fraction(part, UNITS)) for part in self.parts],
            "name": self.name,
            "norm": self.norm,
            "scale": self.scale,
            "sensitivity": self.sensitivity,
            "values": self.values,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "CentreScaleMechanism":
        """The inverse of `to_record`; a record whose parts contradict each other is refused."""
        made = cls(epsilon=record["epsilon"], values=record["values"])
        if made.to_record() != dict(record):
            raise ValueError("cannot read a centre-scale record: its parts contradict each other. Fetch it again.")
        return made
