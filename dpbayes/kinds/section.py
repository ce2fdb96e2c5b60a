"""The base class of every kind's section of the study file, and the checks that kinds share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from dpbayes.kinds.context import ReleaseContext
from dpbayes.strict_yaml.fields import Loss, Section
from dpbayes.strict_yaml.problem import Place, Problem
from dpbayes_core.errors import Refusal
from dpbayes_core.text import nearest, shown
from storage.ledger.request import decimal_text

if TYPE_CHECKING:
    from dpbayes_core.privacy.release import Design


class ReleaseSection(Section, ABC):
    """Noisy statistics to release once per period; each is charged to every cap."""

    all_samplers: ClassVar[tuple[str, ...]] = ()  # that can analyse a release of this kind
    if TYPE_CHECKING:
        kind: Any  # every section declares its own Literal, at its own position among the keys

    @property
    @abstractmethod
    def uses(self) -> tuple[str, ...]:
        """The columns that the release uses, in the order of its parameters."""

    @property
    @abstractmethod
    def formula(self) -> str:
        """The model or question on one line."""

    @property
    def has_pure_epsilon(self) -> bool:
        """Whether its loss can be charged to a cap in pure epsilon."""
        return True

    @property
    def needs_delta(self) -> bool:
        """Whether its noise is calibrated with the study's delta."""
        return False

    @property
    def clips(self) -> bool:
        """Whether numbers are clipped to their columns' bounds."""
        return True

    @property
    def complete(self) -> bool:
        """Whether rows with a missing value in one of its columns are left out."""
        return False

    @property
    def samplers(self) -> tuple[str, ...]:
        """The samplers that can analyse it."""
        return self.all_samplers

    @property
    def analysed(self) -> bool:
        """Whether analyses draw a posterior from it; otherwise the release is itself the answer."""
        return True

    @property
    def by_holder(self) -> bool:
        """Whether each holder gets its own release where a table has several holders."""
        return False

    @property
    def publishes_count(self) -> bool:
        """Whether it publishes, with or without noise, how many people or rows there were."""
        return True

    @abstractmethod
    def problems(self, context: ReleaseContext, place: Place) -> Iterator[Problem]:
        """Everything that is wrong with the section in its study; `place` is the section's key path."""

    @abstractmethod
    def definition(self, context: ReleaseContext) -> dict[str, Any]:
        """The public facts that define the release, `kind` and `mechanism` among them; the ledger hashes them."""

    @abstractmethod
    def design(self, context: ReleaseContext) -> "Design":
        """The statistic and the mechanism of the release."""

    def chosen(self, context: ReleaseContext) -> str | None:
        """What the program chose where the study leaves a choice, and why; None where nothing is left open."""
        return None

    def losses(self) -> dict[str, str]:
        """The stated privacy loss, epsilon or rho, as the ledger hashes it."""
        stated = {name: getattr(self, name, None) for name in ("epsilon", "rho")}
        return {name: decimal_text(loss) for name, loss in stated.items() if loss is not None}


class PureSection(ReleaseSection):
    """A release whose privacy loss is a pure epsilon."""

    epsilon: Loss = Field(description="Privacy loss of the whole release, pure.", examples=["1"])


def refused(make: Callable[[], object], place: Place, keys: Mapping[str, str]) -> Iterator[Problem]:
    """The Refusal that `make` raises, if any, as a Problem; `keys` maps arguments to other names in the study."""
    try:
        make()
    except Refusal as refusal:
        yield Problem((*place, keys.get(refusal.field, refusal.field)), refusal.what, refusal.remedy)


def undeclared(context: ReleaseContext, place: Place, names: Iterable[str]) -> Iterator[Problem]:
    """A Problem for every column that the study does not declare."""
    for name in names:
        if name not in context.columns:
            remedy = nearest(name, context.columns, "Declare it under columns, which has")
            yield Problem(place, f"column {shown(name)} is not declared", remedy)
