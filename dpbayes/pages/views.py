"""The data of the report's page, as text and pictures; the template only formats it."""

from dataclasses import dataclass

from markupsafe import Markup

from dpbayes.kinds.texts import Declared, Spread


@dataclass(frozen=True)
class Pair:
    """A term and its explanation."""

    term: str
    value: str


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section that is paragraphs, then commands to copy, then terms and values; `anchor` is what a link names."""

    anchor: str
    title: str
    paragraphs: tuple[str, ...]
    commands: str = ""
    pairs: tuple[Pair, ...] = ()


@dataclass(frozen=True)
class Fact:
    """One of the key figures below the title."""

    term: str
    value: str
    small: str = ""
    bad: bool = False


@dataclass(frozen=True)
class Shown:
    """One line of numbers, already rounded."""

    mean: str
    sd: str
    low: str
    high: str

    @property
    def interval(self) -> str:
        """The 95% interval in words."""
        return f"{self.low} to {self.high}"


@dataclass(frozen=True)
class CoefficientLine:
    """A coefficient with both of its estimates."""

    name: str
    words: str
    aware: Shown
    naive: Shown | None


@dataclass(frozen=True)
class ForestLine:
    """A coefficient's name next to its picture."""

    name: str
    svg: Markup


@dataclass(frozen=True)
class ForestGroup:
    """Coefficients of one kind; `shared` if they are on one axis."""

    title: str
    note: str
    shared: bool
    rows: tuple[ForestLine, ...]


@dataclass(frozen=True)
class GraphPicture:
    """A network or a curve as a picture."""

    title: str
    note: str
    svg: Markup


@dataclass(frozen=True)
class CapLine:
    """A cap before and after the release, in its own measure."""

    name: str
    words: str
    limit: str
    before: str
    after: str
    remaining: str
    bar: Markup
    share: str


@dataclass(frozen=True)
class SourceLine:
    """One of several releases that were analysed together."""

    name: str
    words: str
    rows: str
    noise: str
    cost: str


@dataclass(frozen=True)
class DiagnosticLine:
    """How well the chains agree on one parameter."""

    name: str
    rhat: str
    ess_bulk: str
    ess_tail: str


@dataclass(frozen=True)
class ChainsLine:
    """A parameter's chains as pictures."""

    name: str
    trace: Markup
    ranks: Markup


@dataclass(frozen=True, kw_only=True)
class Page:
    """The whole report; every string is plain text, which the template escapes."""

    study: str
    period: str
    analysis: str
    title: str
    lede: str
    alarm: str  # empty where the chains converged
    notices: tuple[Pair, ...]  # next to the title: where the releases contradict prior or declarations
    facts: tuple[Fact, ...]
    reading: str
    precision: str
    spread: Spread
    has_naive: bool
    naive_words: str
    series: str
    parameter: str
    parameters: str
    graphs: tuple[GraphPicture, ...]
    units: str
    forest: tuple[ForestGroup, ...]
    coefficients: tuple[CoefficientLine, ...]
    request: tuple[Pair, ...]
    sources: tuple[SourceLine, ...]  # where there are several
    sources_words: str
    columns: tuple[Declared, ...]
    spent: str
    caps: tuple[CapLine, ...]
    cap_note: str
    cap_caption: str
    noise_words: tuple[str, ...]
    noise: tuple[Pair, ...]
    diagnosis: str
    gate: str
    diagnostics: tuple[DiagnosticLine, ...]
    chains: tuple[ChainsLine, ...]
    chains_note: str
    closing: tuple[Section, ...]
    footer: str
