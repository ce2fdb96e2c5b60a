"""The protocol of a model whose parameters are released as draws."""

from collections.abc import Mapping
from typing import Any, Protocol, Self

from dpbayes_core.arrays import Floats
from dpbayes_core.exact_sums.protocol import Statistic
from dpbayes_core.networks.sensitivity import check_neighbours
from dpbayes_core.privacy.noise import NoiseSource
from dpbayes_core.privacy.sensitivity import REPLACE_ONE


class Subject(Protocol):
    """A model whose parameters are released as draws."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        ...

    def oscillation(self, neighbours: str) -> float:
        """The largest range, over all parameters, of the score's difference between neighbours, rounded up."""
        ...

    def statistic(self) -> Statistic:
        """The sufficient statistic, which never leaves the secure task."""
        ...

    def draw(self, noise: NoiseSource, exact: Any, tempering: float, draws: int) -> Floats:
        """Exact draws (draws, names) with density prior x exp(tempering x score)."""
        ...

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON, the model's name included."""
        ...

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of `to_record`."""
        ...


def records_moved(neighbours: str) -> int:
    """The number of records in which neighbours differ: two where one is replaced, else one."""
    return 2 if check_neighbours(neighbours) == REPLACE_ONE else 1
