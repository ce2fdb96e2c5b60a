"""Designs of posterior draws: of epsilon, tempering and floor two are stated, and the third follows."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dpbayes_core.draws.grid import GridSubject
from dpbayes_core.draws.model import Subject
from dpbayes_core.draws.network import NetworkSubject, floors_for
from dpbayes_core.draws.regression import RegressionSubject
from dpbayes_core.draws.release import MapRelease, PosteriorDrawRelease
from dpbayes_core.errors import Refusal
from dpbayes_core.exact_sums.protocol import Statistic
from dpbayes_core.networks.schema import NetworkSchema
from dpbayes_core.networks.sensitivity import ADD_REMOVE
from dpbayes_core.privacy.accounting import UNITS, limit_units
from dpbayes_core.privacy.mechanisms import PosteriorDrawMechanism
from dpbayes_core.privacy.noise import NoiseSource
from dpbayes_core.privacy.sensitivity import REPLACE_ONE
from dpbayes_core.rounding import float_down, float_up

LARGEST_TEMPERING = 1e6  # of a network: with a billion records, draws are then still accurate to 1e-7 in doubles


@dataclass(frozen=True, kw_only=True)
class DrawDesign:
    """Exact draws of a model's parameters; `kind` is the kind of the release."""

    subject: Subject
    mechanism: PosteriorDrawMechanism
    neighbours: str = REPLACE_ONE
    kind: type[PosteriorDrawRelease] = PosteriorDrawRelease

    def __post_init__(self) -> None:
        if self.mechanism.oscillation < self.subject.oscillation(self.neighbours):
            raise ValueError("cannot design draws: their price leaves out a part of the oscillation. Raise it.")

    def statistic(self) -> Statistic:
        """The statistic that the posterior depends on."""
        return self.subject.statistic()

    def release(self, noise: NoiseSource, exact: Any) -> PosteriorDrawRelease:
        """The draws; the privacy guarantee covers them, but not the running time."""
        drawn = self.subject.draw(noise, exact, self.mechanism.sampled_tempering, self.mechanism.draws)
        return self.kind(
            subject=self.subject,
            neighbours=self.neighbours,
            rows=None if self.neighbours == ADD_REMOVE else exact.rows,
            mechanism=self.mechanism,
            values=tuple(tuple(draw) for draw in drawn.tolist()),
        )


def network_draws(
    schema: NetworkSchema,
    *,
    epsilon: float,
    draws: int = 1,
    tempering: float = 1.0,
    concentration: float | Mapping[str, float] = 1.0,
    neighbours: str = REPLACE_ONE,
) -> DrawDesign:
    """Draws of a network's probabilities, from its posterior truncated to those above floors that epsilon sets."""
    _check_draws(epsilon, draws)
    _check_tempering("tempering", tempering)
    floors = floors_for(schema, float(_share(epsilon, draws) / Fraction(tempering)), neighbours)
    subject = NetworkSubject(schema=schema, floors=floors, concentrations=_by_node(schema, concentration))
    mechanism = PosteriorDrawMechanism(
        epsilon=epsilon, draws=draws, tempering=tempering, oscillation=subject.oscillation(neighbours)
    )
    return DrawDesign(subject=subject, mechanism=mechanism, neighbours=neighbours)


def network_map(
    schema: NetworkSchema,
    *,
    epsilon: float,
    floor: float | Mapping[str, float],
    concentration: float | Mapping[str, float] = 1.0,
    neighbours: str = REPLACE_ONE,
    score: str = "likelihood",
) -> DrawDesign:
    """One draw above stated floors, tempered by as much as epsilon allows: near the mode for a large epsilon."""
    check_score(score)
    subject = NetworkSubject(
        schema=schema, floors=_by_node(schema, floor), concentrations=_by_node(schema, concentration)
    )
    design = tempered(subject, epsilon=epsilon, neighbours=neighbours, kind=MapRelease)
    _check_tempering("epsilon", design.mechanism.tempering)
    return design


def grid_map(
    schema: NetworkSchema,
    *,
    epsilon: float,
    values: tuple[float, ...],
    concentration: float | Mapping[str, float] = 1.0,
    neighbours: str = REPLACE_ONE,
) -> DrawDesign:
    """One point of an explicit grid, by the exponential mechanism on the posterior's mass."""
    subject = GridSubject(schema=schema, values=tuple(values), concentrations=_by_node(schema, concentration))
    return tempered(subject, epsilon=epsilon, neighbours=neighbours, kind=MapRelease)


def regression_draws(
    subject: RegressionSubject, *, tempering: float = 1.0, draws: int = 1, neighbours: str = REPLACE_ONE
) -> DrawDesign:
    """Draws of a regression's coefficients; epsilon follows from the bounds."""
    oscillation = subject.oscillation(neighbours)
    loss = draws * Fraction(tempering) * Fraction(oscillation)
    mechanism = PosteriorDrawMechanism(
        epsilon=_decimal_above(loss), draws=draws, tempering=tempering, oscillation=oscillation
    )
    return DrawDesign(subject=subject, mechanism=mechanism, neighbours=neighbours)


def tempered(
    subject: Subject,
    *,
    epsilon: float,
    draws: int = 1,
    neighbours: str = REPLACE_ONE,
    kind: type[PosteriorDrawRelease] = PosteriorDrawRelease,
) -> DrawDesign:
    """Draws that cost epsilon in all; the tempering follows, and may exceed 1."""
    _check_draws(epsilon, draws)
    oscillation = subject.oscillation(neighbours)
    tempering = float_down(_share(epsilon, draws) / Fraction(oscillation))
    mechanism = PosteriorDrawMechanism(epsilon=epsilon, draws=draws, tempering=tempering, oscillation=oscillation)
    return DrawDesign(subject=subject, mechanism=mechanism, neighbours=neighbours, kind=kind)


def check_score(score: str) -> None:
    """Refuse the paper's score, which does not work for continuous parameters."""
    if score == "density":
        raise Refusal(
            "score",
            "cannot use the posterior's density as a score: a record moves it without limit, so that a nominal "
            "epsilon of 1 was measured as 1.8 to 17",
            "Use the tempered likelihood, or the mass on a grid",
        )
    if score != "likelihood":
        raise Refusal("score", "cannot draw near the mode: the score is not known", "Write likelihood, or state a grid")


def _by_node(schema: NetworkSchema, stated: float | Mapping[str, float]) -> tuple[float, ...]:
    if not isinstance(stated, Mapping):
        return (float(stated),) * len(schema.nodes)
    if set(stated) != set(schema.names):
        what = "cannot draw probabilities: what is stated by node does not name every node"
        raise Refusal("schema", what, "Name each")
    return tuple(float(stated[name]) for name in schema.names)


def _check_draws(epsilon: float, draws: int) -> None:
    if draws < 1 or limit_units(epsilon) < draws:
        what = "cannot draw from a posterior: epsilon or the number of draws is not positive"
        raise Refusal("epsilon", what, "State both")


def _check_tempering(field: str, tempering: float) -> None:
    if not 0 < tempering <= LARGEST_TEMPERING:
        what = "cannot draw probabilities: their tempering is not between 0 and a million"
        raise Refusal(field, what, "Lower the floor or epsilon")


def _share(epsilon: float, draws: int) -> Fraction:
    return Fraction(limit_units(epsilon), UNITS * draws)


def _decimal_above(loss: Fraction) -> float:
    """A float whose decimal, as the ledger reads it, is not below the loss."""
    stated = float_up(loss)
    while Fraction(limit_units(stated), UNITS) < loss:
        stated = float_up(Fraction(Decimal(repr(stated))) * (1 + Fraction(1, 2**50)))
    return stated
