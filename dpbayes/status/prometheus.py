"""The status of a project as numbers in Prometheus' text format."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_args

from dpbayes.calendar.states import State
from dpbayes.markup.visible import visible

Document = Mapping[str, Any]
Labels = Mapping[str, str]


@dataclass(frozen=True)
class Metric:
    """One gauge with its values."""

    name: str
    help: str
    values: Sequence[tuple[Labels, float | int]]

    def lines(self) -> Iterator[str]:
        """The gauge in the text format; nothing where it has no value."""
        if self.values:
            yield f"# HELP {self.name} {self.help}"
            yield f"# TYPE {self.name} gauge"
        for labels, value in self.values:
            named = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            yield f"{self.name}{{{named}}} {value!r}" if named else f"{self.name} {value!r}"


def prometheus_text(document: Document) -> str:
    """Every number that a monitor may want to watch, in an order that is always the same."""
    metrics = (*_whole(document), *_studies(document["studies"]), *_budget(document["budget"]), *_server(document))
    return "".join(f"{line}\n" for metric in metrics for line in metric.lines())


def _whole(document: Document) -> Iterator[Metric]:
    at = _seconds(document["at"])
    yield Metric("dpbayes_status_timestamp_seconds", "When this was written.", [({}, at)])
    yield Metric("dpbayes_status_exit_code", "Exit code of dpbayes status: 0 is well.", [({}, document["exit_code"])])
    people = [one["who"] for one in document["waits"]]
    waits = [({"who": who}, people.count(who)) for who in ("steward", "analyst", "operator", "auditor")]
    yield Metric("dpbayes_waits_for_person", "Matters that wait for a person.", waits)
    yield Metric("dpbayes_broken_studies", "Study files that cannot be used.", [({}, len(document["broken"]))])


def _studies(studies: Sequence[Document]) -> Iterator[Metric]:
    named = [(_named(study), study) for study in studies]
    readable = [(labels, int(study["error"] is None)) for labels, study in named]
    yield Metric("dpbayes_study_readable", "1 where study, ledger and archive can be read.", readable)
    states = [
        ({**labels, "state": state}, study["counts"].get(state, 0))
        for labels, study in named
        for state in get_args(State)
    ]
    yield Metric("dpbayes_periods", "Periods that are due, by state.", states)
    oldest = [
        (labels, _seconds(first["due"]))
        for labels, study in named
        if (first := next((each for each in study["periods"] if each["state"] != "not-converged"), None))
    ]
    yield Metric("dpbayes_oldest_open_due_timestamp_seconds", "Since when the oldest open period is due.", oldest)
    due = [(labels, _seconds(study["next"]["due"])) for labels, study in named if study["next"]]
    yield Metric("dpbayes_next_due_timestamp_seconds", "When the next period is due.", due)
    last = [(labels, _seconds(f"{study['last']['day']}T00:00:00+00:00")) for labels, study in named if study["last"]]
    yield Metric("dpbayes_last_release_timestamp_seconds", "The UTC day of the newest release.", last)


def _named(study: Document) -> dict[str, str]:
    return {"study": study["study"], "population": study["population"]}


def _budget(budget: Sequence[Document]) -> Iterator[Metric]:
    named = [({"population": one["population"], "cap": one["cap"], "measure": one["measure"]}, one) for one in budget]
    for name, words in (("limit", "Limit of a cap."), ("remaining", "What remains of a cap.")):
        yield Metric(f"dpbayes_budget_{name}", words, [(labels, float(one[name])) for labels, one in named])
    fit = [(labels, one["fit"]) for labels, one in named if one["coming"]]
    yield Metric("dpbayes_budget_periods_that_fit", "Coming periods before the first that a cap refuses.", fit)
    refused = [(labels, _seconds(one["first_refused"]["due"])) for labels, one in named if one["first_refused"]]
    words = "When the first period is due that a cap refuses."
    yield Metric("dpbayes_budget_first_refused_timestamp_seconds", words, refused)


def _server(document: Document) -> Iterator[Metric]:
    server = document["server"]
    if server is None:
        return
    yield Metric("dpbayes_server_answers", "1 where the Prefect server answered.", [({}, int(server["answers"]))])
    if not server["answers"]:
        return
    deployed = [(_named(study), int(study["deployment"] is not None)) for study in document["studies"]]
    yield Metric("dpbayes_study_deployed", "1 where the study has a deployment.", deployed)
    seen = [
        ({"pool": one["pool"], "worker": one["worker"]}, _seconds(one["seen"]))
        for one in server["workers"]
        if one["seen"]
    ]
    yield Metric("dpbayes_worker_seen_timestamp_seconds", "A worker's last sign of life.", seen)
    dead = [run for run in server["runs"] if run["life"] == "dead"]
    yield Metric("dpbayes_dead_runs", "Runs that are dead and that the server believes running.", [({}, len(dead))])


def _seconds(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp())


def _escaped(text: str) -> str:
    return visible(text).replace("\\", r"\\").replace('"', r"\"")
