"""How a status is worded, on the screen and on its page."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from storage.home.attempts import minute

Document = Mapping[str, Any]


def moment(at: str | None) -> str:
    """A moment of a document to the minute."""
    return "never" if at is None else minute(datetime.fromisoformat(at))


def day(at: str) -> str:
    """The day of a moment of a document."""
    return at[:10]


def analysed_words(last: Document) -> str:
    """What became of a released period."""
    if last["withdrawn"]:
        return "withdrawn"
    return {None: "released", "converged": "analysed", "not-converged": "NOT CONVERGED"}[last["analysed"]]


def fit_words(budget: Document) -> str:
    """How many of the coming periods fit under a cap."""
    if not budget["coming"]:
        return "nothing scheduled"
    return f"{budget['fit']} of {budget['coming']}"


def refused_words(budget: Document) -> str:
    """The first period that a cap refuses, and when that is due."""
    refused = budget["first_refused"]
    if refused is not None:
        return f"{refused['study']} {refused['period']}, due {day(refused['due'])}"
    return "none" if budget["until"] is None else f"none up to {day(budget['until'])}"


def matter_name(one: Document) -> str:
    """A study with the period or the analysis that something is about."""
    return " ".join(filter(None, (one["study"], one["period"] or one.get("analysis"))))


def going_on(document: Document) -> list[Document]:
    """The open periods that wait for no person, each with its study."""
    waits = {(one["study"], one["period"]) for one in document["waits"]}
    pairs = [(study["study"], one) for study in document["studies"] for one in study["periods"]]
    return [{"study": study, **one} for study, one in pairs if (study, one["period"]) not in waits]


def deployment_words(found: Document | None) -> str:
    """Whether something is deployed on a Prefect server, and when its next run begins."""
    if found is None:
        return "not deployed"
    state = "paused" if found["paused"] else "deployed" if found["scheduled"] else "deployed without a schedule"
    return state if found["next_run"] is None else f"{state}, next run {moment(found['next_run'])}"
