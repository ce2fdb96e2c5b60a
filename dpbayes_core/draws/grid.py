"""A draw from an explicit finite grid of a network's probabilities, scored by the posterior's mass at each point."""

from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.draws.model import records_moved
from dpbayes_core.draws.network import check_prior
from dpbayes_core.errors import Refusal
from dpbayes_core.networks.schema import NetworkSchema
from dpbayes_core.networks.tables import ExactTables, FamilyTables
from dpbayes_core.privacy.mechanisms.exponential import uniform_below
from dpbayes_core.privacy.noise import NoiseSource
from dpbayes_core.rounding import EXACT, SAFETY, decimal, float_up, fraction

MOST_POINTS = 2**16
WEIGHT_BITS, LEAST_LOG_WEIGHT = 256, -120.0  # e^-120 x 2^256, as an integer, still has a double's precision


@dataclass(frozen=True, kw_only=True)
class GridSubject:
    """Binary nodes; the probability of the second level, for each configuration of parents, is one of `values`.

    The score is the posterior's mass at a point, at most 1. Between neighbours it changes by at most
    min(1, tanh(oscillation of the log-likelihood / 4)).
    """

    schema: NetworkSchema
    values: tuple[float, ...]
    concentrations: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.schema.binary:
            what = "cannot draw from a grid: a node does not have two levels"
            raise Refusal("values", what, "Draw above a floor instead")
        if len(set(self.values)) < max(2, len(self.values)) or not all(0 < value < 1 for value in self.values):
            what = "cannot draw from a grid: its values are not two or more between 0 and 1"
            raise Refusal("values", what, "State others")
        if len(self.concentrations) != len(self.schema.nodes):
            raise Refusal("concentrations", "cannot draw from a grid: each node needs a pseudo-count", "Give one")
        check_prior(self.concentrations)
        if len(self.values) ** self._rows > MOST_POINTS:
            what = f"cannot draw from a grid: it has more than {MOST_POINTS} points"
            raise Refusal("values", what, "Take fewer values")

    @property
    def _rows(self) -> int:
        """The number of free probabilities."""
        return sum(self.schema.cells(family) // 2 for family in self.schema.families)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all conditional probabilities."""
        return self.schema.coefficients

    def difference(self, neighbours: str) -> float:
        """The largest difference of the mass at a point between neighbours, rounded up."""
        least = min(min(fraction(value), 1 - fraction(value)) for value in self.values)
        largest = max(max(fraction(value), 1 - fraction(value)) for value in self.values)
        moved = records_moved(neighbours) * len(self.schema.nodes)
        range_of_log = EXACT.multiply(moved, EXACT.add(EXACT.ln(decimal(largest / least)), SAFETY))
        decay = EXACT.exp(EXACT.divide(EXACT.minus(range_of_log), 2))  # tanh(x / 4) = (1 - e^-x/2) / (1 + e^-x/2)
        return min(1.0, float_up(EXACT.add(SAFETY, EXACT.divide(EXACT.subtract(1, decay), EXACT.add(1, decay)))))

    def oscillation(self, neighbours: str) -> float:
        """Twice the largest difference of the mass at a point, since one point may gain and another lose."""
        return 2 * self.difference(neighbours)

    def statistic(self) -> FamilyTables:
        """The exact tables of the network's families."""
        return FamilyTables(self.schema)

    @cached_property
    def points(self) -> Floats:
        """Every point of the grid, (points, rows): the probability of the second level in each row of each table."""
        places = np.unravel_index(np.arange(len(self.values) ** self._rows), (len(self.values),) * self._rows)
        return np.array(self.values)[np.stack(places, axis=1)]

    def masses(self, exact: ExactTables) -> Floats:
        """The posterior's mass at each point; confidential."""
        statistic, weights = self.statistic(), list[Floats]()
        for family, prior in zip(self.schema.families, self.concentrations, strict=True):
            weights.append(statistic.table(exact, family).reshape(-1, 2).astype(np.float64) + (prior - 1))
        counts = np.concatenate(weights)
        log_mass = np.log(self.points) @ counts[:, 1] + np.log1p(-self.points) @ counts[:, 0]
        mass = np.exp(log_mass - log_mass.max())
        return mass / mass.sum()

    def draw(self, noise: NoiseSource, exact: ExactTables, tempering: float, draws: int) -> Floats:
        """Points drawn with probability proportional to exp(tempering x mass), with integer weights."""
        masses = self.masses(exact)
        log_weights = np.maximum(tempering * (masses - masses.max()), LEAST_LOG_WEIGHT)
        cumulative = list(accumulate(int(weight) for weight in np.ldexp(np.exp(log_weights), WEIGHT_BITS)))
        chosen = self.points[[bisect(cumulative, uniform_below(noise, cumulative[-1])) for _ in range(draws)]]
        return np.stack([1 - chosen, chosen], axis=2).reshape(draws, -1)

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {
            "concentrations": list(self.concentrations),
            "model": "network-grid",
            "schema": self.schema.to_record(),
            "values": list(self.values),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "GridSubject":
        """The inverse of `to_record`."""
        return cls(
            schema=NetworkSchema.from_record(record["schema"]),
            values=tuple(record["values"]),
            concentrations=tuple(record["concentrations"]),
        )
