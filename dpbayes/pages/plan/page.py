"""A plan as one HTML page without scripts or external files: the runway of every cap, then the numbers behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from dpbayes.markup.numbers import listed, short
from dpbayes.markup.template import COMMON_STYLE, set_page
from dpbayes.pages.plan.releases import ReleasePart, epsilon_words, measured, release_part
from dpbayes.pages.plan.runway_plot import Bar, Runway, picture
from dpbayes.pages.views import Fact
from dpbayes.plans.document import run_ends, run_verdict, runs

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Panel:
    """One cap's runway with a caption."""

    name: str
    limit: str
    svg: Markup
    words: str


@dataclass(frozen=True)
class YearLine:
    """One coming period, or several in a row with the same verdict."""

    periods: tuple[str, ...]  # one, or the first and the last
    verdict: str
    refused: bool
    after: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PlanPage:
    """The whole page; every string is plain text, which the template escapes."""

    study: str
    period: str
    lede: str
    alarm: str  # empty where the period fits
    public_count: str  # empty unless a query's number of rows is published
    missing: str  # empty where the study says of every column what becomes of missing values
    facts: tuple[Fact, ...]
    kinds: frozenset[str]  # of the coming periods
    panels: tuple[Panel, ...]
    caps: tuple[str, ...]
    year: tuple[YearLine, ...]
    releases: tuple[ReleasePart, ...]
    footer: str


def render(document: Document) -> str:
    """The page of a plan's document; the same document gives the same bytes."""
    return set_page("dpbayes.pages.plan/plan.html.j2", page(document), COMMON_STYLE, "dpbayes.pages.plan/plan.css")


def _capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def page(document: Document) -> PlanPage:
    """Everything that the page shows."""
    year: Sequence[Document] = document["year"]
    return PlanPage(
        study=document["study"],
        period=document["period"],
        lede=f"{document['verdict']} This is what the ledger would say if every release of every period were charged "
        "in turn. Nothing was read of the table and nothing was spent.",
        alarm="" if document["fits"] else _alarm(document),
        public_count=_capital(document["public_count"] or ""),
        missing=_capital(document["missing"] or ""),
        facts=_facts(document),
        kinds=frozenset(one["status"] for one in year),
        panels=tuple(_panel(year, number) for number in range(len(year[0]["caps"]))),
        caps=tuple(cap["cap"] for cap in year[0]["caps"]),
        year=tuple(_year(year)),
        releases=tuple(release_part(release, number) for number, release in enumerate(document["releases"])),
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
    return (*facts, Fact("Largest for every period", epsilon_words(lasting), "of the same mechanism"))


def _lasts(year: Sequence[Document]) -> Fact:
    refused = next((place for place, one in enumerate(year) if one["status"] == "refused"), None)
    if refused is None:
        return Fact("Budget lasts", f"past {year[-1]['period']}", "nothing is refused")
    small = f"{year[refused]['period']} is refused"
    return Fact("Budget lasts", f"to {year[refused - 1]['period']}" if refused else "no period", small, bad=not refused)


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
    return Panel(first["cap"], measured(first), picture(runway, words, number=number), words)


def _year(year: Sequence[Document]) -> list[YearLine]:
    lines: list[YearLine] = []
    for run in runs(year):
        last = run[-1]
        after = tuple(short(cap["after"]) for cap in last["caps"])
        lines.append(YearLine(run_ends(run), run_verdict(run), last["status"] == "refused", after))
    return lines


def _sources(document: Document) -> str:
    ledger = document["ledger"]
    if ledger is None:
        return "the study file alone: there is no ledger yet"
    return f"the study file and the ledger up to entry {ledger['seq']}"
