"""A plan as one HTML page that loads nothing and runs nothing: the runway of every cap, then the numbers behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from storage.plan_document import run_ends, run_verdict, runs, shown_epsilons
from storage.plan_plot import Bar, Runway, picture
from storage.plan_widths_plot import Curve, pictures
from storage.report.numbers import listed, short
from storage.report.page import Fact, Pair

if TYPE_CHECKING:
    from jinja2 import Template

Document = Mapping[str, Any]

MOST_DRAWN = 24
"""Coefficients that have a picture each."""

MEASURES: Mapping[str, str] = {"epsilon-delta": "epsilon", "pure-epsilon": "pure epsilon", "rho": "rho"}


@dataclass(frozen=True)
class Panel:
    """One cap's runway with the words under it."""

    name: str
    limit: str
    svg: Markup
    words: str


@dataclass(frozen=True)
class CapLine:
    """What one release would do to one cap."""

    name: str
    words: str
    limit: str
    spent: str
    after: str
    fits: bool
    largest: str


@dataclass(frozen=True)
class WidthLine:
    """One coefficient's predicted precision, at the study's own epsilon and nearby."""

    name: str
    rough: bool
    sd: str
    half_width: str
    others: tuple[str, ...]


@dataclass(frozen=True)
class Widths:
    """The predicted posterior of one release; `more` says what is not drawn."""

    epsilons: tuple[str, ...]
    lines: tuple[WidthLine, ...]
    pictures: tuple[tuple[str, Markup], ...]
    more: str


@dataclass(frozen=True)
class ReleasePart:
    """One release: its price, its noise, its precision, its caps."""

    name: str
    words: str
    facts: tuple[Pair, ...]
    widths: Widths | None
    caps: tuple[CapLine, ...]


@dataclass(frozen=True)
class YearLine:
    """One coming period, or several in a row with one verdict."""

    periods: tuple[str, ...]  # one, or the first and the last
    verdict: str
    refused: bool
    after: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PlanPage:
    """The whole page; every string is plain text and is escaped when it is set."""

    study: str
    period: str
    lede: str
    alarm: str  # empty where the period fits
    facts: tuple[Fact, ...]
    kinds: frozenset[str]  # of the coming periods
    panels: tuple[Panel, ...]
    caps: tuple[str, ...]
    year: tuple[YearLine, ...]
    releases: tuple[ReleasePart, ...]
    footer: str


def render(document: Document) -> str:
    """The page of a plan's document; the same document gives the same bytes."""
    styles = (files("storage.report") / "style.css", files("storage") / "plan.css")
    style = "\n".join(sheet.read_text(encoding="utf-8") for sheet in styles)
    # marked safe: these are the package's own files, nothing of a study is in them
    return _template().render(page=page(document), style=Markup(style))


@cache
def _template() -> "Template":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("storage", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("plan.html.j2")


def page(document: Document) -> PlanPage:
    """Everything the page says."""
    year: Sequence[Document] = document["year"]
    return PlanPage(
        study=document["study"],
        period=document["period"],
        lede=f"{document['verdict']} This is what the ledger would say if every release of every period were charged "
        "in turn. Nothing was read of the table and nothing was spent.",
        alarm="" if document["fits"] else _alarm(document),
        facts=_facts(document),
        kinds=frozenset(one["status"] for one in year),
        panels=tuple(_panel(year, number) for number in range(len(year[0]["caps"]))),
        caps=tuple(cap["cap"] for cap in year[0]["caps"]),
        year=tuple(_year(year)),
        releases=tuple(_release(release, number) for number, release in enumerate(document["releases"])),
        footer=f"Made by dpbayes plan from {_sources(document)}. This page loads nothing and runs no script.",
    )


def _alarm(document: Document) -> str:
    first = document["year"][0]
    if first["status"] == "closed":
        return f"{first['period']} was closed and takes no further charges. Release another period."
    largest = next(one["largest_epsilon"] for one in document["releases"] if one["name"] == first["release"])
    fits = f"Ask for epsilon {short(largest)} or less" if largest > 0 else "Nothing more fits"
    return f"{first['release']} would be refused by {first['refused_by']}. {fits}, or raise the cap."


def _facts(document: Document) -> tuple[Fact, ...]:
    releases, schedule = document["releases"], document["schedule"]
    when = f"cron {schedule['cron']}, {schedule['timezone']}" if schedule else "no schedule"
    facts = Fact("Period", document["period"], when), _price(releases), _lasts(document["year"])
    if len(releases) > 1:
        return (*facts, Fact("Releases", str(len(releases)), listed([release["name"] for release in releases])))
    lasting = releases[0]["largest_epsilon_for_year"]
    return (*facts, Fact("Largest for every period", _epsilon(lasting), "of the same mechanism"))


def _lasts(year: Sequence[Document]) -> Fact:
    refused = next((place for place, one in enumerate(year) if one["status"] == "refused"), None)
    if refused is None:
        return Fact("Budget lasts", f"past {year[-1]['period']}", "nothing is refused")
    small = f"{year[refused]['period']} is refused"
    return Fact("Budget lasts", f"to {year[refused - 1]['period']}" if refused else "no period", small, bad=not refused)


def _epsilon(value: float) -> str:
    return f"epsilon {short(value)}" if value else "none"


def _price(releases: Sequence[Document]) -> Fact:
    rho = f"rho {short(sum(release['cost']['rho'] for release in releases))}"
    if len(releases) > 1:
        return Fact("Privacy cost", rho, f"of {len(releases)} releases")
    cost = releases[0]["cost"]
    if cost["epsilon"] is None:
        return Fact("Privacy cost", rho, "zCDP")
    at = f"at delta {cost['delta']:g}, " if cost["delta"] is not None else "pure, "
    return Fact("Privacy cost", f"epsilon {short(cost['epsilon'])}", at + rho)


def _panel(year: Sequence[Document], number: int) -> Panel:
    caps = [one["caps"][number] for one in year]
    first, last = caps[0], caps[-1]
    bars = tuple(
        Bar(one["period"], one["status"], cap["after"], cap["asked"], not cap["fits"])
        for one, cap in zip(year, caps, strict=True)
    )
    refused = [bar.period for bar in bars if bar.refusing]
    words = f"{short(last['after'])} of {short(first['limit'])} spent after {year[-1]['period']}."
    if first["window"] == "per-period":
        words = "Starts anew with each period."
    if refused:
        words = f"Refuses {refused[0]}{' and others' if len(refused) > 1 else ''}. {words}"
    runway = Runway(first["cap"], first["limit"], bars)
    return Panel(first["cap"], _measured(first), picture(runway, words, number=number), words)


def _year(year: Sequence[Document]) -> list[YearLine]:
    lines: list[YearLine] = []
    for run in runs(year):
        last = run[-1]
        after = tuple(short(cap["after"]) for cap in last["caps"])
        lines.append(YearLine(run_ends(run), run_verdict(run), last["status"] == "refused", after))
    return lines


def _release(release: Document, number: int) -> ReleasePart:
    facts = [Pair("Cost", _cost(release["cost"]))]
    if release["analytic"] is not None:
        facts.append(Pair("Analytic Gaussian", _analytic(release)))
    facts += [
        Pair("Neighbour relation", release["neighbours"]),
        *_noise(release),
        *(Pair(one["term"], one["value"]) for one in release["foreseen"]),
        Pair("Largest that fits", _largest(release)),
    ]
    words = {
        "planned": "Not released yet.",
        "already-released": "Released already: running it again answers the same and costs nothing.",
        "period-closed": "The period is closed and takes no charge.",
    }[release["status"]]
    caps = tuple(_cap(cap) for cap in release["caps"])
    return ReleasePart(release["name"], words, tuple(facts), _widths(release, number), caps)


def _widths(release: Document, number: int) -> Widths | None:
    predicted: Sequence[Document] = release["predicted"]
    if not predicted:
        return None
    known = {point["epsilon"]: point["sd"] for point in release["grid"]}
    shown, own = shown_epsilons(release), release["cost"]["epsilon"]
    lines = tuple(
        WidthLine(
            one["coefficient"],
            one["rough"],
            short(one["sd"], 3),
            short(one["interval95"], 3),
            tuple(short(known[epsilon][place], 2) for epsilon in shown),
        )
        for place, one in enumerate(predicted)
    )
    curves = [
        Curve(
            one["coefficient"],
            tuple((epsilon, sds[place]) for epsilon, sds in known.items()),
            None if own is None else (own, one["sd"]),
        )
        for place, one in enumerate(predicted[:MOST_DRAWN])
    ]
    more = f"Drawn are the first {MOST_DRAWN} of {len(predicted)}." if len(predicted) > MOST_DRAWN else ""
    epsilons = tuple(f"{epsilon:g}" for epsilon in shown)
    return Widths(epsilons, lines, tuple(pictures(curves, number=number)), more)


def _noise(release: Document) -> list[Pair]:
    units = ", in standardised units" if release["kind"] == "regression" else ""
    pairs = [Pair("Sensitivity", f"{short(release['sensitivity'])} in {release['norm']}{units}")]
    if release["entries"]:
        pairs.insert(0, Pair("Noise", f"{release['mechanism']} on {release['entries']} numbers"))
    if release["kind"] == "regression":
        pairs.append(Pair("Noise scale", _scale(release["scale"])))
    return pairs


def _cost(cost: Document) -> str:
    rho = f"rho {short(cost['rho'])}"
    if cost["epsilon"] is None:
        return rho
    return f"epsilon {short(cost['epsilon'])}{_at(cost)}, {rho}"


def _largest(release: Document) -> str:
    now, year = release["largest_epsilon"], release["largest_epsilon_for_year"]
    return f"{_epsilon(now)} now; {_epsilon(year)} for every period above, with any other release as it is"


def _analytic(release: Document) -> str:
    analytic, asked = release["analytic"], release["cost"]
    return (
        f"Taken alone, this noise satisfies epsilon {short(analytic['epsilon'])} at delta {asked['delta']:g}. Noise "
        f"just enough for epsilon {short(asked['epsilon'])} alone would have scale {_scale(analytic['scale'])}, and "
        f"cost rho {short(analytic['rho'])}. These figures do not add up over releases, so no cap is charged by them."
    )


def _scale(scale: float | list[float]) -> str:
    if not isinstance(scale, list):
        return short(scale)
    return f"{short(max(scale))}, and {short(min(scale))} on squares of columns"


def _cap(cap: Document) -> CapLine:
    where = f"period {cap['period']}" if cap["period"] else "all periods"
    return CapLine(
        name=cap["cap"],
        words=f"{where}, {_measure(cap)}",
        limit=short(cap["limit"]),
        spent=short(cap["spent"]),
        after=short(cap["after"]),
        fits=cap["fits"],
        largest=short(cap["largest_epsilon"]),
    )


def _measure(cap: Document) -> str:
    return MEASURES[cap["measure"]] + _at(cap)


def _measured(cap: Document) -> str:
    return f"{MEASURES[cap['measure']]} {short(cap['limit'])}{_at(cap)}"


def _at(record: Document) -> str:
    return "" if record["delta"] is None else f" at delta {record['delta']:g}"


def _sources(document: Document) -> str:
    ledger = document["ledger"]
    if ledger is None:
        return "the study file alone: there is no ledger yet"
    return f"the study file and the ledger up to entry {ledger['seq']}"
