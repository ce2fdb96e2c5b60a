"""The base class of every kind's texts: what files and pages say about its releases."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpbayes.kinds.counted import Counted

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Declared:
    """The declaration of a column, for a page."""

    name: str
    role: str
    declared: str
    enters: str  # how its values enter the statistic


@dataclass(frozen=True)
class Group:
    """Parameters shown together; `shared`: on one axis; `zero`: with 0 on it; `labels`: short names, if any."""

    title: str
    note: str
    names: tuple[str, ...]
    shared: bool
    zero: bool
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Graph:
    """A picture of nodes, and of the edges (parent, child) between them."""

    title: str
    note: str
    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Curve:
    """A curve of probabilities; a point is a number and the name of the parameter that is its probability."""

    title: str
    note: str
    points: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Spread:
    """What the numbers of an analysis are called; a kind without a posterior has names of its own."""

    numbers: str = "posterior"
    centre: str = "Posterior mean"
    estimates: str = "Posterior means with 95% intervals"
    interval: str = "95% interval"
    deviation: str = "posterior standard deviation"


class Texts(ABC):
    """The texts for one kind of release; `release` is the release, and `posterior` the record of its analysis."""

    what: str  # in a sentence: "a differentially private release: ..."
    parameter: str = "Coefficient"  # what the parameters of its analyses are called
    parameters: str = "Coefficients"
    answers: bool = False  # whether the release is the answer itself, and has a page of its own
    spread: Spread = Spread()
    units: str = "in the units of the table’s columns"

    # --- files ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def lines(self, release: Any) -> list[dict[str, Any]]:
        """The noisy numbers, one line each; every line has the same keys, with whole numbers, text and floats."""

    @abstractmethod
    def product(self, release: Any) -> str:
        """What was released, for the registry: "Noisy second moments for ..."."""

    @abstractmethod
    def declared(self, release: Any) -> tuple[Declared, ...]:
        """The declared columns that it used."""

    @abstractmethod
    def applied(self, record: Record) -> str:
        """Which mechanism was applied to what; `record` is the release's."""

    def foresight(self, design: Any, rows: int) -> tuple[tuple[str, str], ...]:
        """Terms and values that predict the release's precision; `rows` is the declared number."""
        return ()

    # --- pages ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def title(self, release: Any) -> str:
        """The title of its page."""

    def limits(self, release: Any) -> str:
        """The range that its numbers cannot leave, whatever the table contains, and its consequence; "" if none."""
        return ""

    @abstractmethod
    def lede(self, release: Any) -> str:
        """What was inferred, as the subject of a sentence: "A Bayesian linear regression"."""

    @abstractmethod
    def model(self, release: Any) -> str:
        """The model on one line."""

    @abstractmethod
    def prior(self, prior: Record) -> str:
        """The prior, in words."""

    @abstractmethod
    def meanings(self, release: Any) -> Mapping[str, str]:
        """What each parameter means."""

    @abstractmethod
    def groups(self, release: Any, names: Sequence[str]) -> tuple[Group, ...]:
        """The groups in which parameters are shown."""

    @abstractmethod
    def reading(self, release: Any) -> str:
        """How to read a parameter."""

    @abstractmethod
    def noise(self, release: Any, counted: Counted) -> tuple[str, ...]:
        """What the noise in one released number means; `counted` names what the sums are over."""

    @abstractmethod
    def noise_pairs(self, release: Any) -> tuple[tuple[str, str], ...]:
        """Terms and values: the mechanism, the sensitivity, the scale."""

    @abstractmethod
    def noise_size(self, release: Any) -> tuple[str, str, str]:
        """The noise as a key figure: term, value, and unit."""

    def answers_of(self, release: Any) -> Mapping[str, Sequence[float]]:
        """Each parameter's draws in the user's units, where the release is the answer."""
        return {}

    def graphs(self, release: Any) -> tuple[Graph, ...]:
        """The pictures shown next to the parameters."""
        return ()

    def curves(self, release: Any) -> tuple[Curve, ...]:
        """The pictures of probabilities at the thresholds of the study."""
        return ()

    def caveats(self, release: Any) -> tuple[str, ...]:
        """What to keep in mind about releases of this kind."""
        return ()
