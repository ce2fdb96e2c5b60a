"""Texts for released posterior draws, where the release is itself the answer."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpbayes.kinds.counted import Counted
from dpbayes.kinds.networks.precision import accuracy
from dpbayes.kinds.networks.texts import declared_nodes, graph_of, network_model, node_groups
from dpbayes.kinds.regression.texts import declared_columns
from dpbayes.kinds.texts import Declared, Graph, Group, Record, Texts
from dpbayes.markup.numbers import listed, short
from dpbayes_core.draws.design import DrawDesign
from dpbayes_core.draws.grid import GridSubject
from dpbayes_core.draws.network import NetworkSubject, epsilon_for_floor
from dpbayes_core.draws.regression import RegressionSubject
from dpbayes_core.draws.release import PosteriorDrawRelease

Release = PosteriorDrawRelease

_UNTEMPERED = "1 counts every record once"
_EPSILON_DECIDES = "Epsilon decides how far: more of it, fewer columns, fewer draws or a lower tempering reach further."
_LOWER_FLOORS = (0.1, 0.01)
MOST_NAMED = 4  # columns of one range


class DrawTexts(Texts):
    """Texts for exact draws from a truncated posterior, or for one draw near its mode."""

    parameter = "Parameter"
    parameters = "Parameters"
    answers = True

    def __init__(self, what: str, subject: str, reading: str, why: str) -> None:
        self.what = what
        self._subject = subject
        self._reading = reading
        self._why = why

    def limits(self, release: Release) -> str:
        """The floors of a network's probabilities, or the longest vector of a regression's coefficients."""
        return limits(release.subject, self._why)

    def lines(self, release: Release) -> list[dict[str, Any]]:
        """One line for each parameter of each draw."""
        return [
            {"draw": place, "name": name, "value": value}
            for place, draw in enumerate(release.values, start=1)
            for name, value in zip(release.names, draw, strict=True)
        ]

    def product(self, release: Release) -> str:
        return f"{self._subject} ({len(release.values)}) of {self._model_name(release)}"

    def declared(self, release: Release) -> tuple[Declared, ...]:
        subject: Any = release.subject
        if isinstance(subject, RegressionSubject):
            return declared_columns(subject.schema)
        return declared_nodes(subject.schema)

    def applied(self, record: Record) -> str:
        mechanism = record["mechanism"]
        return (
            f"{mechanism['draws']} exact draw(s) from the truncated posterior with the likelihood to the power "
            f"{mechanism['tempering']!r}; between neighbours the score's difference ranges over no more than "
            f"{mechanism['oscillation']!r}."
        )

    def foresight(self, design: DrawDesign, rows: int) -> tuple[tuple[str, str], ...]:
        """How far the likelihood is tempered, and how accurate that leaves a network."""
        subject: Any = design.subject
        if isinstance(subject, GridSubject):
            return (("Points", f"{len(subject.values)} of the grid, for each probability"),)
        pairs = [("Power of the likelihood", f"{short(design.mechanism.tempering, 3)}; {_UNTEMPERED}")]
        if isinstance(subject, NetworkSubject):
            pairs.append(
                (
                    "Probabilities",
                    f"{between(subject)}, whatever the table says: drawn from the posterior truncated to them",
                )
            )
            pairs += _lower_floors(design, self._why)
            pairs.append(accuracy(design, subject.schema, rows))
        return tuple(pairs)

    def title(self, release: Release) -> str:
        return f"{self._subject}: {self._model_name(release)}"

    def lede(self, release: Release) -> str:
        return f"{self._subject} of {self._model_name(release)}"

    def model(self, release: Release) -> str:
        subject: Any = release.subject
        if isinstance(subject, RegressionSubject):
            names = " + ".join(column.name for column in subject.schema.covariates)
            return (
                f"{subject.schema.response.name} = intercept + {names} + normal residual of sd {short(subject.sigma)}, "
                f"coefficients no longer than {short(subject.radius)} together, every column mapped to −1 … 1"
            )
        return network_model(subject.schema)

    def prior(self, prior: Record) -> str:
        return "part of the release"

    def answers_of(self, release: Release) -> Mapping[str, Sequence[float]]:
        """Each parameter's draws; a regression's are in the user's units."""
        drawn = release.draws()
        subject: Any = release.subject
        if isinstance(subject, RegressionSubject):
            drawn = subject.schema.to_user_units(drawn, np.full(len(drawn), subject.sigma))[0]
        return {name: drawn[:, place].tolist() for place, name in enumerate(release.names)}

    def meanings(self, release: Release) -> Mapping[str, str]:
        return {}

    def groups(self, release: Release, names: Sequence[str]) -> tuple[Group, ...]:
        subject: Any = release.subject
        if isinstance(subject, RegressionSubject):
            note = "every column mapped to −1 … 1"
            return (Group("Coefficients", note, tuple(names), True, True),)
        return node_groups(subject.schema)

    def reading(self, release: Release) -> str:
        power = _power(release)
        if isinstance(release.subject, GridSubject):
            return "Each number is a point of the stated grid, drawn the likelier the more posterior mass it has. "
        if power == 1:
            return self._reading
        nearer = "nearer its mode" if power > 1 else "nearer the prior"
        return f"{self._reading} The likelihood counted to the power {short(power, 3)}, {nearer} than the posterior. "

    def noise(self, release: Release, counted: Counted) -> tuple[str, ...]:
        return (
            "No noise was added: the draw itself is random, and what one person contributes changes its probability by "
            "a bounded factor only.",
        )

    def noise_size(self, release: Release) -> tuple[str, str, str]:
        if isinstance(release.subject, GridSubject):
            return "Points", str(len(release.subject.values)), "of the grid, for each probability"
        return "Power of the likelihood", short(_power(release), 3), _UNTEMPERED

    def noise_pairs(self, release: Release) -> tuple[tuple[str, str], ...]:
        record = release.mechanism.to_record()
        return (
            (
                "Mechanism",
                f"{record['draws']} independent exact draw(s) from the operating system's entropy; no Markov chain",
            ),
            ("Oscillation", f"{short(record['oscillation'])}, the most that a neighbour can move the score"),
            ("Power of the score", short(record["tempering"])),
        )

    def graphs(self, release: Release) -> tuple[Graph, ...]:
        subject: Any = release.subject
        return () if isinstance(subject, RegressionSubject) else (graph_of(subject.schema),)

    def caveats(self, release: Release) -> tuple[str, ...]:
        return (
            "The guarantee covers what was released, not how long the draw took: the sampler tries again until a "
            "proposal is accepted.",
        )

    def _model_name(self, release: Release) -> str:
        subject: Any = release.subject
        if isinstance(subject, RegressionSubject):
            names = [column.name for column in subject.schema.covariates]
            return f"the regression of {subject.schema.response.name} on {listed(names)}"
        return f"a network of {listed(subject.schema.names)}"


def _lower_floors(design: DrawDesign, why: str) -> list[tuple[str, str]]:
    """The epsilon that lower floors would need, where epsilon decides the floors."""
    subject = design.subject
    if why != _EPSILON_DECIDES or not isinstance(subject, NetworkSubject):
        return []
    return [
        (f"Probabilities down to {floor:g}", f"would take epsilon {short(_epsilon_for(design, subject, floor), 3)}")
        for floor in _LOWER_FLOORS
        if floor < min(subject.floors)
    ]


def _epsilon_for(design: DrawDesign, subject: NetworkSubject, floor: float) -> float:
    draws, tempering = design.mechanism.draws, design.mechanism.tempering
    return epsilon_for_floor(subject.schema, floor, draws=draws, tempering=tempering, neighbours=design.neighbours)


def _power(release: Release) -> float:
    return float(release.mechanism.to_record()["tempering"])


def limits(subject: Any, why: str) -> str:
    """The range of the numbers by the release's definition; `why` is the reason for a network's."""
    if isinstance(subject, GridSubject):
        values = listed([short(value) for value in sorted(subject.values)])
        return f"Whatever the table says, the probability of each second level is one of {values}, and nothing between."
    if isinstance(subject, RegressionSubject):
        return (
            f"Whatever the table says, the coefficients together are no longer than {short(subject.radius)} where "
            "every column is mapped to −1 … 1. What is drawn from is the posterior truncated to them, not the "
            "posterior itself: larger coefficients show as ones of about that length. The study states it: radius."
        )
    return (
        f"Whatever the table says, every probability lies {between(subject)}. What is drawn from is the posterior "
        "truncated to such probabilities, not the posterior itself: a share beyond shows as a number near that end. "
        f"{why}"
    )


def ranges(subject: NetworkSubject) -> dict[tuple[float, float], list[str]]:
    """Least and largest probability of a level, and the nodes that have them."""
    found: dict[tuple[float, float], list[str]] = {}
    for name, floor, levels in zip(subject.schema.names, subject.floors, subject.schema.levels, strict=True):
        found.setdefault((floor, 1 - (levels - 1) * floor), []).append(name)
    return found


def between(subject: NetworkSubject) -> str:
    """The ranges of a network's probabilities, rounded outwards so that they stay true."""
    found = [(f"between {_range_words(*ends)}", names) for ends, names in ranges(subject).items()]
    if len(found) == 1:
        return found[0][0]
    return listed([f"{words} for {_named(names)}" for words, names in found])


def _named(names: list[str]) -> str:
    return listed(names) if len(names) <= MOST_NAMED else f"{names[0]} and {len(names) - 1} other columns"


def _range_words(low: float, high: float) -> str:
    """Both ends, rounded outwards."""
    decimals = max(3, 1 - math.floor(math.log10(high - low)))
    unit = 10.0**decimals
    least = math.floor(low * unit) / unit
    power = 10.0 ** math.floor(math.log10(low))  # for a floor that rounds down to 0
    down = f"{least:.{decimals}f}" if least > 0 else short(math.floor(low / power) * power, 1)
    return f"{down} and {min(math.ceil(high * unit) / unit, 1):.{decimals}f}"


POSTERIOR_DRAW = DrawTexts(
    "exact draws from a truncated posterior",
    "Draws from a truncated posterior",
    "Each number is a draw from the truncated posterior distribution, not an estimate of its centre: draws of one "
    "release are independent, and their spread shows the uncertainty only if there are many.",
    _EPSILON_DECIDES,
)
MODE = DrawTexts(
    "a draw near a posterior's mode",
    "A draw near the posterior mode",
    "Each number was drawn near the posterior's mode: the larger epsilon, the nearer. How near is not known from the "
    "release alone.",
    "The study states the least one.",
)
