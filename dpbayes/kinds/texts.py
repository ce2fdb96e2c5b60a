"""What the archive and the pages ask of a kind of release."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpbayes.kinds.counted import Counted

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Declared:
    """What was declared of a column."""

    name: str
    role: str
    declared: str
    enters: str


@dataclass(frozen=True)
class Group:
    """Parameters that belong together; on one axis where `shared`, with 0 on it where `zero`; short `labels` if any."""

    title: str
    note: str
    names: tuple[str, ...]
    shared: bool
    zero: bool
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Graph:
    """A picture of nodes and of the edges (parent, child) between them."""

    title: str
    note: str
    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Curve:
    """Probabilities, by the names of their parameters, over the numbers that they are about."""

    title: str
    note: str
    points: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Spread:
    """What the numbers of an analysis are called: those of a posterior, unless a kind has none."""

    numbers: str = "posterior"
    centre: str = "Posterior mean"
    estimates: str = "Posterior means with 95% intervals"
    interval: str = "95% interval"
    deviation: str = "posterior standard deviation"


class Texts(ABC):
    """One kind of release in words; `release` is the release, `posterior` the record of an analysis of it."""

    what: str  # in a sentence: "a differentially private release: ..."
    parameter: str = "Coefficient"  # what the parameters of its analyses are called
    parameters: str = "Coefficients"
    answers: bool = False  # whether the release is the answer itself, and has a page of its own
    spread: Spread = Spread()
    units: str = "in the units of the table’s columns"

    # --- files ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def lines(self, release: Any) -> list[dict[str, Any]]:
        """The noisy numbers, one line each; every line has the same keys: whole numbers, text and floats."""

    @abstractmethod
    def product(self, release: Any) -> str:
        """What was released, for the registry: "Noisy second moments for ..."."""

    @abstractmethod
    def declared(self, release: Any) -> tuple[Declared, ...]:
        """The columns it used."""

    @abstractmethod
    def applied(self, record: Record) -> str:
        """Which mechanism was applied to what; `record` is the release's."""

    def foresight(self, design: Any, rows: int) -> tuple[tuple[str, str], ...]:
        """What the release will be worth, before it is made; `rows` as declared."""
        return ()

    # --- pages ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def title(self, release: Any) -> str:
        """What the page is about."""

    def limits(self, release: Any) -> str:
        """What its numbers cannot be, whatever the table says, and what they are therefore; "" where nothing is."""
        return ""

    @abstractmethod
    def lede(self, release: Any) -> str:
        """What was inferred, as the subject of a sentence: "A Bayesian linear regression"."""

    @abstractmethod
    def model(self, release: Any) -> str:
        """The model on one line."""

    @abstractmethod
    def prior(self, prior: Record) -> str:
        """What was believed before."""

    @abstractmethod
    def meanings(self, release: Any) -> Mapping[str, str]:
        """What each parameter says."""

    @abstractmethod
    def groups(self, release: Any, names: Sequence[str]) -> tuple[Group, ...]:
        """How the parameters are drawn."""

    @abstractmethod
    def reading(self, release: Any) -> str:
        """How to read a parameter."""

    @abstractmethod
    def noise(self, release: Any, counted: Counted) -> tuple[str, ...]:
        """What the noise in one released number means; `counted` says of how many people or rows they are sums."""

    @abstractmethod
    def noise_pairs(self, release: Any) -> tuple[tuple[str, str], ...]:
        """Terms and values: the mechanism, the sensitivity, the scale."""

    @abstractmethod
    def noise_size(self, release: Any) -> tuple[str, str, str]:
        """The noise as a key figure: term, value, and what it is measured in."""

    def answers_of(self, release: Any) -> Mapping[str, Sequence[float]]:
        """Where the release is the answer: each parameter's draws, in the user's units."""
        return {}

    def graphs(self, release: Any) -> tuple[Graph, ...]:
        """What is drawn beside the parameters."""
        return ()

    def curves(self, release: Any) -> tuple[Curve, ...]:
        """What is drawn over what was asked."""
        return ()

    def caveats(self, release: Any) -> tuple[str, ...]:
        """What to keep in mind of this kind."""
        return ()
