"""What a run says of itself, made of the public documents that commands print: one notice for each thing that happened.

A notice has a sentence for logs, facts for an event, and a table or a page for people; `notice_board.py` puts it up.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from dpbayes.calendar.states import FAILURES
from dpbayes.markup.convergence_advice import why_words
from dpbayes.markup.numbers import fixed, short
from dpbayes.markup.visible import visible
from dpbayes_core.errors import DpbayesError
from storage.ledger.cap_document import measure_words, rounded_down

Document = Mapping[str, Any]

MOST_ROWS = 200
"""Coefficients that a table shows; the report has all of them."""

SHOWN_STEPS = ("reading the table", "sampling")
"""Steps that last, and whose share is shown while they do."""

ENDED_STEPS = ("charged and released",)
"""Steps that are reported when they are over, and have a notice of their own."""

_RELEASED_NEXT = "Publish the crate. Others check it with `dpbayes audit --crate` and the agency's fingerprint."
_CONVERGED_NEXT = "Read the report, then publish the crate."
_REPEATED = (
    "Run the same period again afterwards, as a custom run of the deployment or with `dpbayes run`. What is released "
    "or archived already is not charged again."
)


@dataclass(frozen=True)
class Subject:
    """The study and period that a run is about; a period may be a word such as `due`."""

    study: str
    account: str
    period: str

    def __str__(self) -> str:
        return f"{self.study} {self.period}"


@dataclass(frozen=True, kw_only=True)
class Page:
    """A table or a text in Markdown that people read; pages of one key are versions of each other."""

    key: str
    heading: str
    data: str | list[dict[str, Any]]

    @property
    def kind(self) -> Literal["table", "markdown"]:
        """The type of Prefect's artifact."""
        return "markdown" if isinstance(self.data, str) else "table"


@dataclass(frozen=True, kw_only=True)
class Crate:
    """A crate that was written, and the crates that it is computed from, by names that are the same at every run."""

    name: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Notice:
    """One thing that happened: a sentence, and, if others may wait for it, facts for an event."""

    event: str
    subject: Subject
    message: str
    level: int = logging.INFO
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    page: Page | None = None
    crate: Crate | None = None

    @property
    def awaited(self) -> bool:
        """Whether it is sent as an event, for automations."""
        return bool(self.facts)

    def to_record(self) -> dict[str, Any]:
        """Plain data: the subject, the sentence and the facts."""
        return {**vars(self.subject), "message": self.message, **self.facts}


DONE_BEFORE = {
    "refused": "Nothing was read or charged for what was refused.",
    "shape-differs": "Nothing was charged for the release that failed.",
    "integrity": "Release nothing more until it is known who altered or lost it.",
}
"""What holds of the work done before a failure, by the state that the failure leaves; else what `KEPT` says."""

KEPT = "What was released or archived before stays charged and stored."

LATE = "table-late"
"""The kind of failure of a table that was waited for in vain; its event is `late`."""


def step_notice(subject: Subject, step: str) -> Notice:
    """A step begins."""
    return Notice(event="step", subject=subject, message=f"{subject}: {step}")


def charged_notice(subject: Subject, release: str, statuses: Sequence[str]) -> Notice:
    """A release is charged, at one holder or several; or it was charged before."""
    made = "released" in statuses
    said = f"charged {release}" if made else f"{release} was charged before, and nothing is spent again"
    return Notice(event="charged", subject=subject, message=f"{subject}: {said}")


def released_notice(subject: Subject, document: Document) -> Notice:
    """A release's crate is written."""
    name, left = _release_name(document), _remains(document)
    return Notice(
        event="released",
        subject=subject,
        message=f"{subject}: published {name} ({document['status']}) at {_cost(document)}; remains in "
        f"{'; '.join(f'{cap}: {value}' for cap, value in left.items())}; crate {document['crate']}",
        facts={
            **{part: document[part] for part in ("release", "holder", "revision", "status", "digest", "crate", "cost")},
            "remaining": [
                {part: cap[part] for part in ("cap", "period", "measure", "remaining")} for cap in document["caps"]
            ],
            "repeated": "no" if document["status"] == "released" else "yes",
            "next": _RELEASED_NEXT,
        },
        page=Page(
            key=_key("release", subject.study, document["release"], document["holder"]),
            heading=f"**{subject.period}: {document['status']}** at {_cost(document)}. {_plain(name)} of study "
            f"{subject.study}. {_RELEASED_NEXT} Crate: {_link(document['crate'])}",
            data=_release_rows(document),
        ),
        crate=Crate(name=_release_crate(subject, document)),
    )


def _release_name(document: Document) -> str:
    return document["release"] + ("" if document["holder"] is None else f" at {document['holder']}")


def _remains(document: Document) -> dict[str, str]:
    """What the charge leaves of each cap."""
    return {
        f"{cap['cap']}{_in(cap)}": f"{measure_words(cap['measure'], _left(cap))} of {short(cap['limit'])}"
        for cap in document["caps"]
    }


def _release_rows(document: Document) -> list[dict[str, str]]:
    """The release as a table of what operators ask for."""
    gone = document["withdrawn"]
    rows = {
        "release": f"{_release_name(document)}, revision {document['revision']}",
        "status": document["status"],
        "cost": _cost(document),
        **{f"remains in {cap}": value for cap, value in _remains(document).items()},
        "numbers released": str(document["numbers"]),
        "counted": document["counted"],
        "withdrawn": gone and f"{gone['date']}: {gone['reason']}",
        "digest": document["digest"],
        "crate": document["crate"],
        "report": document["report"],
        "what next": _RELEASED_NEXT.replace("`", ""),
    }
    return [{"what": what, "value": visible(value)} for what, value in rows.items() if value]


def analysed_notice(subject: Subject, document: Document) -> Notice:
    """A posterior is archived, now or earlier; whether it may be published."""
    name, good = document["analysis"], document["status"] == "converged"
    what_next = _CONVERGED_NEXT if good else f"Do not publish it. {why_words(document)} {document['advice']}".strip()
    drawn = "was archived before" if document["already_analysed"] else f"took {document['seconds']['total']:.0f} s"
    said = f"{name} {'converged' if good else 'has NOT converged'} ({document['sampler']}; {drawn})"
    return Notice(
        event="analysed" if good else "not-converged",
        subject=subject,
        level=logging.INFO if good else logging.WARNING,
        message=f"{subject}: archived: {said}. {what_next} Report {document['report']}",
        facts={
            **{part: document[part] for part in ("analysis", "status", "sampler", "why", "crate", "report")},
            "repeated": "yes" if document["already_analysed"] else "no",
            "who": "analyst",
            "next": what_next,
        },
        page=Page(
            key=_key("posterior", subject.study, name),
            heading=f"**{subject.period}: {'converged' if good else 'NOT converged'}**. {_plain(name)} of study "
            f"{subject.study} ({document['sampler']}, {document['draws']['made']:,} draws of each chain; {drawn}). "
            f"{_plain(what_next)} Report: {_link(document['report'])}",
            data=[_coefficient(row) for row in document["coefficients"][:MOST_ROWS]],
        ),
        crate=Crate(
            name=f"dpbayes://{subject.study}/{subject.period}/{name}",
            sources=tuple(_release_crate(subject, link) for link in document["releases"]),
        ),
    )


def failed_notice(subject: Subject, failure: DpbayesError, *, repeated: bool = False) -> Notice:
    """A run ended without doing what it was for: why, what to do, and who has to.

    It is `repeated` where the attempt before ended by the same sentence.
    """
    state, who = FAILURES.get(failure.exit_code, FAILURES[1])
    event = "late" if failure.kind == LATE else state if state in ("refused", "integrity") else "failed"
    title = "integrity failure" if event == "integrity" else event
    sentence = visible(str(failure))
    reason, _, remedy = sentence.partition(". ")
    text = [
        f"# {title.capitalize()}: {subject}",
        f"**Why:** {_plain(reason)}{'.' * bool(remedy)}",
        *([f"**What to do:** {_plain(remedy)}"] if remedy else []),
        f"**Who has to act:** the {who}.",
        f"**What was done:** {DONE_BEFORE.get(state, KEPT)}",
        f"**What next:** {_REPEATED}",
    ]
    heading = f"**{subject.period}: {title}**. {_plain(remedy or reason)}"
    return Notice(
        event=event,
        subject=subject,
        level=logging.ERROR,
        message=f"{subject}: {title}: {sentence}",
        facts={
            "kind": failure.kind,
            "exit_code": failure.exit_code,
            "reason": reason,
            "remedy": remedy,
            "who": who,
            "next": _REPEATED,
            "repeated": "yes" if repeated else "no",
        },
        page=Page(key=_key(event, subject.study), heading=heading, data="\n\n".join(text)),
    )


def summary(document: Document) -> str:
    """What a run did, in one line: each release with its cost, and each posterior with its status."""
    runs = document.get("runs", [document])
    releases = [f"{one['release']} {one['status']} at {_cost(one)}" for run in runs for one in run.get("releases", ())]
    analyses = [f"{one['analysis']} {one['status']}" for run in runs for one in run.get("analyses", ())]
    return "; ".join(dict.fromkeys([*releases, *analyses]))


def _cost(document: Document) -> str:
    cost = document["cost"]
    rho = f"rho {short(cost['rho'])}"
    if cost["epsilon"] is None:
        return rho
    at = f" at delta {cost['delta']:g}" if cost["delta"] else ""
    return f"epsilon {short(cost['epsilon'])}{at} ({rho})"


def _left(cap: Document) -> str:
    """What remains of a cap, in four digits rounded down."""
    return f"{rounded_down(cap['remaining']).normalize():f}"


def _in(cap: Document) -> str:
    return f" {cap['period']}" if cap["period"] else ""


def _coefficient(row: Document) -> dict[str, str]:
    numbers = {"mean": "mean", "sd": "sd", "2.5%": "q025", "97.5%": "q975"}
    diagnostics = {"R-hat": ("rhat", 3), "ESS bulk": ("ess_bulk", 0), "ESS tail": ("ess_tail", 0)}
    return {
        "coefficient": visible(row["name"]),
        **{shown: short(row[key]) for shown, key in numbers.items()},
        **{shown: fixed(row[key], places) for shown, (key, places) in diagnostics.items()},
    }


def _release_crate(subject: Subject, release: Document) -> str:
    """The name of a release's crate, from its own document or a posterior's link to it."""
    period = release.get("period", subject.period)
    holder = "" if release.get("holder") is None else f"/{_key(release['holder'])}"
    return f"dpbayes://{subject.study}/{period}/{release['release']}{holder}/r{release['revision']}"


def _link(address: str) -> str:
    """The address, to be followed where a browser can."""
    return f"<{address}>" if re.match(r"https?://", address) else f"`{visible(address)}`"


def _key(*parts: str | None) -> str:
    """The parts as a key of Prefect's artifacts: small letters, digits and dashes."""
    return "-".join(re.sub(r"[^a-z0-9]+", "-", part.lower()).strip("-") for part in parts if part)


def _plain(text: str) -> str:
    """The text so that Markdown shows it as it is; `_` stays, which only marks whole words."""
    return re.sub(r"([\\*\[\]<>|#])", r"\\\1", visible(text))
