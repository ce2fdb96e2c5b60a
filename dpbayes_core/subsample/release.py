"""Bases of releases and designs of posterior probabilities and of posterior quantiles."""

from abc import ABC, abstractmethod
from decimal import Decimal
from typing import Any, Protocol

from dpbayes_core.arrays import Integers
from dpbayes_core.errors import Refusal
from dpbayes_core.privacy.release import PublicNumbers
from dpbayes_core.rounding import printed_down
from dpbayes_core.subsample.moments import SubsetScatters, scatters
from dpbayes_core.subsample.regressions import SubsetMoments, SubsetRegressions
from dpbayes_core.subsample.schema import OpenSchema


class Terms(Protocol):
    """The public definition of a release, without its noise."""

    def refusal(self, epsilon: float) -> Refusal | None:
        """Why these terms cannot be released, from public facts alone, or None."""
        ...


class SubsetRelease(PublicNumbers):
    """Integers that a mechanism released from the subsets' answers, with the stated terms."""

    terms: Any
    values: tuple[int, ...]

    @property
    def schema(self) -> OpenSchema:
        """The regression of the queries."""
        return self.terms.schema

    @property
    def neighbours(self) -> str:
        """The relation under which it is private."""
        return self.terms.neighbours

    @property
    def max_rows_per_unit(self) -> None:
        """None: any number of rows is protected, since all rows of a person are in one subset."""
        return None

    def payload(self) -> dict[str, Any]:
        """The noisy numbers and the queries they answer."""
        return {"queries": list(self.terms.names), "values": list(self.values)}

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON, the kind included."""
        return self._record(terms=self.terms.to_record())


class SubsetDesign(ABC):
    """The design of such a release, complete before any row is read."""

    terms: Any

    @property
    def neighbours(self) -> str:
        """The relation under which it will be private."""
        return self.terms.neighbours

    def statistic(self) -> SubsetRegressions:
        """The subsets' sums, with a new secret key."""
        return SubsetRegressions(self.terms.schema, self.terms.subsets)

    def answers(self, exact: SubsetMoments) -> Integers:
        """The subsets' answers in the form that the mechanism takes; confidential."""
        return self.answers_of(scatters(exact))

    @abstractmethod
    def answers_of(self, data: SubsetScatters) -> Integers:
        """The same, from centred moments."""


def stated(terms: Terms, epsilon: float | Decimal) -> float:
    """The epsilon as a double, rounded down; terms that public facts rule out are refused."""
    found = epsilon if isinstance(epsilon, float) else printed_down(epsilon)
    if refusal := terms.refusal(found):
        raise refusal
    return found
