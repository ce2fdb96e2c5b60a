"""Releases of posterior draws: the draws and the public model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.draws.grid import GridSubject
from dpbayes_core.draws.model import Subject
from dpbayes_core.draws.network import NetworkSubject
from dpbayes_core.draws.regression import RegressionSubject
from dpbayes_core.networks.sensitivity import ADD_REMOVE
from dpbayes_core.privacy.mechanisms import Mechanism, PosteriorDrawMechanism, mechanism_from_record
from dpbayes_core.privacy.release import PublicNumbers
from dpbayes_core.privacy.sensitivity import REPLACE_ONE

SUBJECTS: Mapping[str, type[Subject]] = {
    "network": NetworkSubject,
    "network-grid": GridSubject,
    "regression": RegressionSubject,
}


@dataclass(frozen=True, kw_only=True)
class PosteriorDrawRelease(PublicNumbers):
    """Exact draws from a tempered posterior."""

    kind: ClassVar[str] = "posterior-draw"

    subject: Subject
    neighbours: str
    rows: int | None  # public under replace-one, else None
    mechanism: Mechanism
    values: tuple[tuple[float, ...], ...]  # one tuple a draw

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self.subject.names

    def draws(self) -> Floats:
        """(draws, parameters)."""
        return np.array(self.values)

    @property
    def max_rows_per_unit(self) -> int:
        """One: each person is one record."""
        return 1

    @property
    def protected(self) -> bool:
        """Whether the mechanism was charged for as many draws, with at least the model's oscillation."""
        if not isinstance(self.mechanism, PosteriorDrawMechanism) or self.neighbours not in (REPLACE_ONE, ADD_REMOVE):
            return False
        public = (self.rows is None) == (self.neighbours == ADD_REMOVE)
        whole = len(self.values) == self.mechanism.draws
        whole = whole and all(len(draw) == len(self.names) for draw in self.values)
        return public and whole and self.mechanism.oscillation >= self.subject.oscillation(self.neighbours)

    def payload(self) -> dict[str, Any]:
        """The draws and their public model."""
        return {"draws": [list(draw) for draw in self.values], "names": list(self.names), "rows": self.rows}

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return self._record(neighbours=self.neighbours, subject=self.subject.to_record())

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of `to_record`; a record that contradicts itself is refused."""
        subject = SUBJECTS.get(record["subject"]["model"])
        if subject is None:
            raise ValueError(f"cannot read draws: their model is not one of {', '.join(SUBJECTS)}. Update dpbayes.")
        release = cls(
            subject=subject.from_record(record["subject"]),
            neighbours=record["neighbours"],
            rows=record["noisy"]["rows"],
            mechanism=mechanism_from_record(record["mechanism"]),
            values=tuple(tuple(draw) for draw in record["noisy"]["draws"]),
        )
        if release.to_record() != dict(record):
            raise ValueError("cannot read draws: their record's parts contradict each other. Fetch it again.")
        return release


@dataclass(frozen=True, kw_only=True)
class MapRelease(PosteriorDrawRelease):
    """Draws of a posterior whose tempering concentrates them at its mode as epsilon grows."""

    kind: ClassVar[str] = "map"
