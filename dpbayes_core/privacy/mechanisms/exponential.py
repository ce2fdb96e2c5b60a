"""The exponential mechanism for medians: exact draws from a finite public grid, likelier the closer to the middle.

A grid point's distance r is how many of the M values would have to change sides before it were a median; it moves by
at most 1 when one value is replaced. A point is drawn in proportion to an integer W(r) with W(0) = 2^256 and
W(r + 1) = ceil(q W(r)), q >= exp(-epsilon / 2), so that the loss is at most -2 ln q <= epsilon whatever is rounded.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.errors import Refusal
from dpbayes_core.privacy.accounting import UNITS, Cost, chargeable, covers, exponential_cost, limit_units
from dpbayes_core.privacy.mechanisms.geometric import SharedEpsilon, parts_of
from dpbayes_core.privacy.mechanisms.noise_law import NoiseLaw
from dpbayes_core.privacy.noise import UNIFORM_BITS, NoiseSource
from dpbayes_core.rounding import EXACT, HEADROOM, SAFETY, decimal, float_up

if TYPE_CHECKING:
    from dpbayes_core.privacy.sensitivity import Sensitivity


WEIGHT_BITS = 256  # weights differ by a factor of 2^256 at most
DIGITS = 2**UNIFORM_BITS - 1  # how many values a uniform number has


@dataclass(frozen=True)
class MedianLottery:
    """A draw of one median, in proportion to integer weights that cost a share of epsilon."""

    epsilon: Fraction
    points: int  # the grid is 0 .. points - 1

    @cached_property
    def ratio(self) -> Fraction:
        """q: a little above exp(-epsilon / 2)."""
        decay = EXACT.exp(EXACT.minus(decimal(self.epsilon / 2)))
        return Fraction(math.ceil(Fraction(EXACT.add(decay, SAFETY)) * 2**180), 2**180)

    @cached_property
    def loss(self) -> Fraction:
        """-2 ln q, rounded up: the most by which log probabilities of neighbours differ."""
        return Fraction(EXACT.add(EXACT.multiply(-2, EXACT.ln(decimal(self.ratio))), SAFETY))

    def weights(self, furthest: int) -> list[int]:
        """W(0), ..., W(furthest)."""
        found = [1 << WEIGHT_BITS]
        for _ in range(furthest):
            found.append(-(-found[-1] * self.ratio.numerator // self.ratio.denominator))
        return found

    def cells(self, values: Integers) -> list[tuple[int, int, int]]:
        """(first point, number of points, distance) of every stretch of the grid with one distance."""
        places, repeats = np.unique(values, return_counts=True)
        total, half = len(values), len(values) // 2
        found: list[tuple[int, int, int]] = []
        below, free = 0, 0
        for place, count in zip(places.tolist(), repeats.tolist(), strict=True):
            found.append((free, place - free, max(0, max(below, total - below) - half)))
            found.append((place, 1, max(0, max(below, total - below - count) - half)))
            below, free = below + count, place + 1
        found.append((free, self.points - free, total - half))
        return [cell for cell in found if cell[1] > 0]

    def draw(self, noise: NoiseSource, values: Integers) -> int:
        """A grid point, with exactly its probability."""
        cells = self.cells(values)
        weights = self.weights(max(cell[2] for cell in cells))
        ticket = uniform_below(noise, sum(length * weights[distance] for _, length, distance in cells))
        for first, length, distance in cells:
            tickets = length * weights[distance]
            if ticket < tickets:
                return first + ticket // weights[distance]
            ticket -= tickets
        raise AssertionError("every ticket belongs to a cell")


def uniform_below(noise: NoiseSource, bound: int) -> int:
    """A whole number of 0 .. bound - 1, all exactly equally likely."""
    count = (bound.bit_length() + 64) // (UNIFORM_BITS - 1) + 1
    limit = DIGITS**count // bound * bound
    while True:
        steps = np.ldexp(noise.uniform(count), UNIFORM_BITS).astype(np.int64) - 1
        drawn = 0
        for digit in steps.tolist():
            drawn = drawn * DIGITS + digit
        if drawn < limit:
            return drawn % bound


@dataclass(frozen=True, kw_only=True)
class RankMechanism(SharedEpsilon):
    """Draws near the middle of M values on a public grid, of which a neighbour replaces one."""

    name: ClassVar[str]
    norm: ClassVar[str] = "rank"
    law: ClassVar[NoiseLaw | None] = None

    values: int  # M

    @property
    @abstractmethod
    def entries(self) -> int:
        """How many numbers are released."""

    @property
    def sensitivity(self) -> float:
        """The most a neighbour moves a point's distance from the middle, in values that change sides."""
        return 1.0

    @property
    def deviations(self) -> NoReturn:
        """Refused: how far from the exact median a draw lands depends on the values."""
        raise ValueError(f"cannot state deviations of {self.name}: they depend on the rows. Read its scales, in ranks.")

    def protects(self, sensitivity: "Sensitivity") -> bool:
        """Whether a neighbour moves every distance by no more than one."""
        return sensitivity.l1 <= self.entries and sensitivity.l2 <= math.sqrt(self.entries)


@dataclass(frozen=True, kw_only=True)
class ExponentialMechanism(RankMechanism):
    """Medians of M values each on a public grid, of which a neighbour replaces one; the queries share epsilon."""

    name: ClassVar[str] = "exponential"
    words: ClassVar[str] = "Exponential mechanism"

    points: int  # of the grid
    shares: tuple[float, ...]  # of epsilon, up to a factor, one for each query

    def __post_init__(self) -> None:
        if not chargeable(self.epsilon):
            raise ValueError("cannot draw medians: epsilon is not above 0, or above a million. State another.")
        if self.values < 1 or not 2 <= self.points <= 2**53 or not self.shares:
            raise ValueError("cannot draw medians: values, grid or queries are missing. Give some of each.")
        if not all(math.isfinite(share) and share > 0 for share in self.shares):
            raise ValueError("cannot draw medians: a share of epsilon is not positive. Give every query one.")
        if min(parts_of(self.epsilon, self.shares)) < 1:
            raise Refusal("epsilon", "cannot draw medians: a share of epsilon is too small to charge", "Enlarge it")

    @property
    def entries(self) -> int:
        """How many medians there are."""
        return len(self.shares)

    @cached_property
    def lotteries(self) -> tuple[MedianLottery, ...]:
        """Each query's weights."""
        return tuple(lottery_of(part, self.points) for part in parts_of(self.epsilon, self.shares))

    @property
    def scale(self) -> float:
        """The largest scale: ranks from the middle over which weights fall by a factor of e."""
        return max(float(2 / lottery.epsilon) for lottery in self.lotteries)

    @property
    def scales(self) -> Floats:
        """The scale of each query, in ranks."""
        return np.array([float(2 / lottery.epsilon) for lottery in self.lotteries])

    def cost(self) -> Cost:
        """The stated epsilon, exactly, and the rho of mechanisms of bounded range."""
        rho = sum(exponential_cost(lottery.epsilon).rho for lottery in self.lotteries)
        return Cost(limit_units(self.epsilon), rho)

    def certified_loss(self, noise: NoiseSource) -> float:
        """The loss by the integer weights, whatever the source of the uniform numbers."""
        return float_up(sum((lottery.loss for lottery in self.lotteries), Fraction(0)))

    def release(self, noise: NoiseSource, values: Integers) -> Integers:
        """One grid point for each row of values."""
        check_grid_values(values, (self.entries, self.values), self.points)
        if not covers(limit_units(self.epsilon), self.certified_loss(noise)):
            raise ValueError("cannot release by exponential: its weights lose more than is charged. Nothing was spent.")
        drawn = [lottery.draw(noise, row) for lottery, row in zip(self.lotteries, values, strict=True)]
        return np.array(drawn, dtype=np.int64)

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {
            "epsilon": self.epsilon,
            "name": self.name,
            "norm": self.norm,
            "points": self.points,
            "scale": self.scale,
            "sensitivity": self.sensitivity,
            "shares": list(self.shares),
            "values": self.values,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "ExponentialMechanism":
        """The inverse of `to_record`; a record whose parts contradict each other is refused."""
        shares = tuple(record["shares"])
        made = cls(epsilon=record["epsilon"], values=record["values"], points=record["points"], shares=shares)
        if made.to_record() != dict(record):
            raise ValueError("cannot read an exponential record: its parts contradict each other. Fetch it again.")
        return made


def lottery_of(units: int, points: int) -> MedianLottery:
    """The draw of a median that a part of epsilon pays for; HEADROOM covers the rounding of its certificate."""
    return MedianLottery(Fraction(units, UNITS) / HEADROOM, points)


def check_grid_values(values: Integers, shape: tuple[int, ...], points: int) -> None:
    """Refuses anything but integers of the grid, of the declared shape."""
    if not isinstance(values, np.ndarray) or values.dtype != np.int64 or values.shape != shape:  # pyright: ignore[reportUnnecessaryIsInstance] -- privacy rests on it
        raise ValueError("cannot draw medians: there must be one integer per subset and query. Encode them first.")
    if values.min() < 0 or values.max() >= points:
        raise ValueError("cannot draw medians: a value is off the public grid. Clip to the outer bounds first.")
