"""The protocols of a release and of its design, for releases of every kind."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self

from dpbayes_core import canonical
from dpbayes_core.exact_sums.protocol import Statistic
from dpbayes_core.privacy.mechanisms import Mechanism
from dpbayes_core.privacy.noise import NoiseSource


class AnyRelease(Protocol):
    """The public result of the secure task, of any kind, with the mechanism that made it."""

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
        """The most rows of one person that the mechanism protects; None where any number is protected."""
        ...

    @property
    def protected(self) -> bool:
        """Whether the mechanism's sensitivities are at least those of the released values."""
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
    """The digest and the record of a release, from its noisy payload."""

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
    """The public definition of a release, complete before any row is read."""

    @property
    def neighbours(self) -> str:
        """The relation under which it will be private."""
        ...

    @property
    def mechanism(self) -> Mechanism:
        """The noise and its sensitivity, from which the ledger computes the charge."""
        ...

    def statistic(self) -> Statistic:
        """The statistic of the pass; a new one for each attempt, since it may contain a secret key."""
        ...

    def release(self, noise: NoiseSource, exact: Any) -> AnyRelease:
        """The release; the only step that has both the exact sums and the noise."""
        ...
