"""A release in public terms: what is summed, which noise is added, what is published."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self

from dpbayes_core import canonical
from dpbayes_core.exact_sums.protocol import Statistic
from dpbayes_core.privacy.mechanisms import Mechanism
from dpbayes_core.privacy.noise import NoiseSource


class AnyRelease(Protocol):
    """What leaves the secure task, of whatever kind: public, frozen, with the mechanism that made it."""

    kind: ClassVar[str]

    @property
    def neighbours(self) -> str:
        """The relation under which it is private."""
        ...

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that was charged."""
        ...

    @property
    def max_rows_per_unit(self) -> int | None:
        """How many rows a person may have for that; None where any number is protected."""
        ...

    @property
    def protected(self) -> bool:
        """Whether the mechanism suffices for how far neighbours can move what was released."""
        ...

    @property
    def digest(self) -> str:
        """sha256 of the noisy payload alone."""
        ...

    def payload(self) -> dict[str, Any]:
        """The noisy numbers and the places they belong to."""
        ...

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON, the kind included."""
        ...

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of `to_record`."""
        ...


class PublicNumbers(ABC):
    """The digest and the record that releases of every kind make of their noisy payload."""

    kind: ClassVar[str]
    mechanism: Any

    @abstractmethod
    def payload(self) -> dict[str, Any]:
        """The noisy numbers and the places they belong to."""

    @property
    def digest(self) -> str:
        """sha256 of the noisy payload alone."""
        return canonical.digest(self.payload())

    def _record(self, **about: Any) -> dict[str, Any]:
        return {"kind": self.kind, "mechanism": self.mechanism.to_record(), "noisy": self.payload()} | about


class Design(Protocol):
    """Everything public that decides a release before any row is read."""

    @property
    def neighbours(self) -> str:
        """The relation under which it will be private."""
        ...

    @property
    def mechanism(self) -> Mechanism:
        """The noise, calibrated to its own sensitivity: what the ledger prices."""
        ...

    def statistic(self) -> Statistic:
        """The statistic of the pass; new for each attempt, for it may contain a key that no other attempt may know."""
        ...

    def release(self, noise: NoiseSource, exact: Any) -> AnyRelease:
        """The release; the only step that sees both rows' sums and noise."""
        ...
