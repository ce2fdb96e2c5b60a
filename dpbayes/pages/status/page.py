"""A status as one HTML page without scripts or external files: what waits for a person, the studies, the budgets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from dpbayes.markup.numbers import short
from dpbayes.markup.svg import figure, short_number, tag
from dpbayes.markup.template import COMMON_STYLE, set_page
from dpbayes.pages.views import Fact, Pair
from dpbayes.status.words import (
    analysed_words,
    day,
    deployment_words,
    fit_words,
    going_on,
    matter_name,
    moment,
    refused_words,
)
from storage.ledger.cap_document import measure_words, rounded_down

Document = Mapping[str, Any]

_CALM = ("done", "running", "due", "waiting")
"""States that need nobody, in the order of their bars; everything else is drawn as one more."""


@dataclass(frozen=True)
class Matter:
    """Something about a study or one of its periods; `who` has to act, if anybody."""

    name: str
    state: str
    who: str
    sentence: str


@dataclass(frozen=True)
class StudyLine:
    """One study with its next period, its last release and a bar of all due periods."""

    name: str
    words: str
    due: str
    due_small: str
    last: str
    last_small: str
    bar: Markup
    counts: str
    bad: bool


@dataclass(frozen=True)
class BudgetLine:
    """One cap, what was spent of it, and how long it lasts."""

    population: str
    words: str
    bar: Markup
    spent: str
    remaining: str
    fit: str
    refused: str
    refused_small: str
    bad: bool


@dataclass(frozen=True, kw_only=True)
class StatusPage:
    """The whole page; every string is plain text, which the template escapes."""

    folder: str
    at: str
    verdict: str
    facts: tuple[Fact, ...]
    waits: tuple[Matter, ...]
    others: tuple[Matter, ...]
    studies: tuple[StudyLine, ...]
    budget: tuple[BudgetLine, ...]
    server: tuple[Pair, ...]
    server_words: str
    footer: str


def render(document: Document) -> str:
    """The page of a status; the same document gives the same bytes."""
    return set_page(
        "dpbayes.pages.status/status.html.j2", page(document), COMMON_STYLE, "dpbayes.pages.status/status.css"
    )


def page(document: Document) -> StatusPage:
    """Everything that the page shows."""
    studies: Sequence[Document] = document["studies"]
    server = document["server"]
    return StatusPage(
        folder=document["folder"],
        at=moment(document["at"]),
        verdict=document["verdict"],
        facts=_facts(document),
        waits=tuple(_matter(one) for one in document["waits"]),
        others=tuple(_matter(one) for one in going_on(document)),
        studies=tuple(_study(study, number) for number, study in enumerate(studies)),
        budget=tuple(_budget(one, number) for number, one in enumerate(document["budget"])),
        server=() if server is None else tuple(_server(document)),
        server_words="" if server is None else server["sentence"] or f"What the server at {server['url']} says.",
        footer="Made by dpbayes status from the study files, the ledger, the archive and what was tried last. "
        "This page loads nothing and runs no script.",
    )


def _facts(document: Document) -> tuple[Fact, ...]:
    studies, waits = document["studies"], document["waits"]
    opened = sum(many for study in studies for state, many in study["counts"].items() if state not in _OVER)
    coming = sorted((study["next"]["due"], study["study"]) for study in studies if study["next"])
    caps = [(one["first_refused"], f"{one['population']}, {one['cap']}") for one in document["budget"]]
    refused = sorted((day(first["due"]), words) for first, words in caps if first)
    return (
        Fact("Waits for a person", str(len(waits)), f"exit code {document['exit_code']}", bad=bool(waits)),
        Fact("Studies", str(len(studies)), f"{opened} period{'' if opened == 1 else 's'} open"),
        Fact("Next due", day(coming[0][0]) if coming else "nothing", coming[0][1] if coming else "no schedule"),
        Fact("First refusal", *(refused[0] if refused else ("none", "of what is due within a year"))),
    )


_OVER = ("done", "not-converged")


def _matter(one: Document) -> Matter:
    return Matter(matter_name(one), one["state"], one["who"] or "", one["sentence"])


def _study(study: Document, number: int) -> StudyLine:
    due, last, counts = study["next"], study["last"], study["counts"]
    bad = study["error"] is not None or any(state not in _CALM for state in counts)
    return StudyLine(
        name=study["study"],
        words=study["population"],
        due="none" if due is None else due["period"],
        due_small="no schedule" if due is None else f"due {day(due['due'])}",
        last="none" if last is None else last["period"],
        last_small="" if last is None else f"{analysed_words(last)}, {last['day']}",
        bar=_states(counts, number) if counts else Markup(""),
        counts="cannot be read" if study["error"] else ", ".join(f"{many} {state}" for state, many in counts.items()),
        bad=bad,
    )


def _states(counts: Mapping[str, int], number: int) -> Markup:
    """A bar of the due periods by state."""
    whole = sum(counts.values())
    rest = sum(many for state, many in counts.items() if state not in _CALM)
    parts: list[Markup] = []
    left = 0.0
    for kind, many in (*((state, counts.get(state, 0)) for state in _CALM), ("trouble", rest)):
        width = 100 * many / whole
        if many:
            parts.append(_rect(kind, left, width))
        left += width
    words = ", ".join(f"{many} {state}" for state, many in counts.items())
    return figure(f"states-{number}", "Periods by state", words, parts, kind="states", width="100%", height=10)


def _budget(one: Document, number: int) -> BudgetLine:
    window = f" of {one['period']}" if one["period"] else ""
    delta = "" if one["delta"] is None else f"{one['delta']:g}"
    words = f"{one['cap']}{window}: {measure_words(one['measure'], short(one['limit']), delta)}"
    spent = one["spent"]
    share = 100.0 if spent is None else min(100.0, 100 * spent / one["limit"])
    bar = figure(
        f"budget-{number}",
        f"Budget of {one['population']}",
        f"{short(spent)} of {short(one['limit'])} spent",
        [_rect("left", 0, 100), _rect("spent", 0, share)],
        kind="states",
        width="100%",
        height=10,
    )
    return BudgetLine(
        population=one["population"],
        words=words if one["account"] == "open" else f"{words}; not opened yet",
        bar=bar,
        spent=short(spent),
        remaining=f"{rounded_down(one['remaining']).normalize():f}",
        fit=fit_words(one),
        refused=_refused(one)[0],
        refused_small=_refused(one)[1],
        bad=one["first_refused"] is not None,
    )


def _refused(one: Document) -> tuple[str, str]:
    """The first refusal in two lines."""
    words, _, when = refused_words(one).partition(", ")
    return words, when


def _rect(kind: str, left: float, width: float) -> Markup:
    across = {"x": f"{short_number(left, 3)}%", "width": f"{short_number(width, 3)}%"}
    return tag("rect", class_=kind, **across, y=0, height=10)


def _server(document: Document) -> Iterator[Pair]:
    server = document["server"]
    if not server["answers"]:
        return
    for study in document["studies"]:
        yield Pair(study["study"], deployment_words(study["deployment"]))
    if server["catch_up"] is not None:
        yield Pair("catch-up", deployment_words(server["catch_up"]))
    for worker in server["workers"]:
        yield Pair(
            f"Worker {worker['worker']}", f"of pool {worker['pool']}, last sign of life {moment(worker['seen'])}"
        )
    if not server["workers"]:
        yield Pair("Worker", "None was ever seen: nothing that is scheduled runs.")
    for run in server["runs"]:
        yield Pair(run["deployment"], run["sentence"])
