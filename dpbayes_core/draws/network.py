"""Draws of a network's conditional probabilities from the tempered posterior above a floor."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.draws.dirichlet import truncated_dirichlet
from dpbayes_core.draws.model import records_moved
from dpbayes_core.errors import Refusal
from dpbayes_core.networks.schema import NetworkSchema
from dpbayes_core.networks.tables import ExactTables, FamilyTables
from dpbayes_core.privacy.noise import NoiseSource
from dpbayes_core.rounding import EXACT, SAFETY, decimal, float_up

SMALLEST_LOSS, LARGEST_LOSS = 1e-9, 25.0  # of one node
LEAST_FLOOR, LEAST_ROOM = 1e-11, 1e-10  # the samplers' precision was measured within these limits and the prior's
LEAST_PRIOR, LARGEST_PRIOR = 0.01, 1e6


@dataclass(frozen=True, kw_only=True)
class NetworkSubject:
    """Every row of every table is Dirichlet, given that each probability is at least its node's floor."""

    schema: NetworkSchema
    floors: tuple[float, ...]  # one a node, below 1 over its levels
    concentrations: tuple[float, ...]  # one a node: the pseudo-count of each level

    def __post_init__(self) -> None:
        if not len(self.floors) == len(self.concentrations) == len(self.schema.nodes):
            what = "cannot draw probabilities: each node needs one floor and one pseudo-count"
            raise Refusal("floors", what, "Give them")
        for node, floor, levels in zip(self.schema.names, self.floors, self.schema.levels, strict=True):
            if not 0 < floor < 1 / levels:
                limit = f"1/{levels}, one over its levels"
                what = f"cannot draw probabilities: the floor of {node} is not between 0 and {limit}"
                raise Refusal("floors", what, "State another")
            if floor < LEAST_FLOOR or 1 - levels * floor < LEAST_ROOM:
                what = f"cannot draw probabilities: the floor of {node} is below 1e-11, or leaves no room"
                raise Refusal("floors", what, "State another")
        check_prior(self.concentrations)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all conditional probabilities."""
        return self.schema.coefficients

    def oscillation(self, neighbours: str) -> float:
        """The sum over nodes of ln((1 - (k-1) w) / w), the most that a log probability ranges, per record moved."""
        total = EXACT.add(SAFETY, 0)
        for floor, levels in zip(self.floors, self.schema.levels, strict=True):
            ratio = (1 - (levels - 1) * Fraction(floor)) / Fraction(floor)
            total = EXACT.add(total, EXACT.add(EXACT.ln(decimal(ratio)), SAFETY))
        return float_up(EXACT.multiply(total, records_moved(neighbours)))

    def statistic(self) -> FamilyTables:
        """The exact tables of the network's families."""
        return FamilyTables(self.schema)

    def draw(self, noise: NoiseSource, exact: ExactTables, tempering: float, draws: int) -> Floats:
        """Independent draws (draws, names), table after table."""
        statistic, parts = self.statistic(), list[Floats]()
        for family, floor, prior in zip(self.schema.families, self.floors, self.concentrations, strict=True):
            counts = statistic.table(exact, family).reshape(-1, self.schema.levels[family[-1]]).astype(np.float64)
            shapes = np.tile(prior + tempering * counts, (draws, 1))
            parts.append(truncated_dirichlet(noise, shapes, floor).reshape(draws, -1))
        return np.concatenate(parts, axis=1)

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {
            "concentrations": list(self.concentrations),
            "floors": list(self.floors),
            "model": "network",
            "schema": self.schema.to_record(),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "NetworkSubject":
        """The inverse of `to_record`."""
        return cls(
            schema=NetworkSchema.from_record(record["schema"]),
            floors=tuple(record["floors"]),
            concentrations=tuple(record["concentrations"]),
        )


def check_prior(concentrations: tuple[float, ...]) -> None:
    """Refuse pseudo-counts for which the samplers' precision was not measured."""
    if not all(LEAST_PRIOR <= value <= LARGEST_PRIOR for value in concentrations):
        what = "cannot draw probabilities: a pseudo-count is not between 0.01 and 1000000"
        raise Refusal("concentrations", what, "State a prior within")


def epsilon_for_floor(schema: NetworkSchema, floor: float, *, draws: int, tempering: float, neighbours: str) -> float:
    """The epsilon at which no floor exceeds this one: the inverse of `floors_for` for the node of fewest levels."""
    each = math.log(1 / floor - (min(schema.levels) - 1))
    return draws * tempering * records_moved(neighbours) * len(schema.nodes) * each


def floors_for(schema: NetworkSchema, loss: float, neighbours: str) -> tuple[float, ...]:
    """The least floors with oscillation `loss`, shared equally by nodes: w = 1 / (k - 1 + exp(loss / (c |I|))).

    Floors depend on the number of levels k, so that every small loss is possible. No floor is below 1e-11, however
    large the loss.
    """
    each = min(loss / (records_moved(neighbours) * len(schema.nodes)), LARGEST_LOSS)
    if not each > SMALLEST_LOSS:
        what = "cannot draw probabilities: epsilon is too small to share among the nodes"
        raise Refusal("epsilon", what, "Raise it")
    room = 2.0**-48  # above the rounding error of doubles
    return tuple((1 + room) / (levels - 1 + math.exp(each)) for levels in schema.levels)
