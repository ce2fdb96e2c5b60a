"""What the orchestrator records: public facts only, and at the end a state whose name says what came of the run."""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.desk import PERIOD, Desk, people

BROKEN: dict[str, Any] = {"pay": 1e308, "age": float("nan"), "female": None, "region": "atlantis", "person": None}


COST = "epsilon 1 at delta 1e-06 (rho 0.02436)"


def release_with(desk: Desk, prefect_home: Path, columns: dict[str, Any], period: str) -> list[tuple[str, ...]]:
    """Names, states and state messages of the flow runs that one release of a month adds."""
    desk.write_table(columns, period)
    before = len(runs(prefect_home))
    assert desk.run("release", desk.study, "--period", period).exit_code == 0
    return runs(prefect_home)[before:]


def runs(prefect_home: Path) -> list[tuple[str, ...]]:
    query = (
        "SELECT r.name, s.type, s.name, coalesce(s.message, '') FROM flow_run_state s JOIN flow_run r "
        "ON r.id = s.flow_run_id ORDER BY s.timestamp"
    )
    return asked(prefect_home, query)


def asked(prefect_home: Path, query: str) -> list[tuple[str, ...]]:
    if not (prefect_home / "prefect.db").exists():
        return []
    with closing(sqlite3.connect(f"file:{prefect_home / 'prefect.db'}?mode=ro", uri=True)) as database:
        return list(database.execute(query).fetchall())


@pytest.mark.slow
def test_a_row_that_breaks_every_rule_leaves_the_same_states(desk: Desk, prefect_home: Path) -> None:
    columns = people()
    clean = release_with(desk, prefect_home, columns, PERIOD)
    for name, value in BROKEN.items():
        columns[name] = list(columns[name])
        columns[name][17] = value
    broken = release_with(desk, prefect_home, columns, "2026-02")
    assert len(clean) >= 3
    assert broken == [(name.replace(PERIOD, "2026-02"), *state) for name, *state in clean]
    assert clean[-1][0] == f"release pay {PERIOD}"
    assert clean[-1][1] == "COMPLETED"


@pytest.mark.slow
def test_a_refusal_ends_in_a_state_that_says_so_in_one_sentence(desk: Desk, prefect_home: Path) -> None:
    clean = release_with(desk, prefect_home, people(), PERIOD)
    desk.edit_study("epsilon: 1\n", "epsilon: 3\n")
    before = len(runs(prefect_home))
    error = desk.document("run", desk.study, "--period", "2026-03", exit_code=3)["error"]
    refused = runs(prefect_home)[before:]
    assert refused != clean
    ended = [state for state in refused if state[1] == "FAILED"]
    assert ended == [
        (name, "FAILED", "Refused", error["message"]) for name in ("release pay 2026-03", "run pay 2026-03")
    ]
    assert error["message"].startswith("cannot charge pay-regression")


@pytest.mark.slow
@pytest.mark.usefixtures("workers")
def test_a_posterior_that_is_not_to_be_published_does_not_end_green(desk: Desk, prefect_home: Path) -> None:
    desk.edit_study("draws: 500", "draws: 10")
    before = len(runs(prefect_home))
    document = desk.document("run", desk.study, "--period", PERIOD, exit_code=6)
    assert document["analyses"][0]["status"] == "not-converged"
    assert document["releases"][0]["status"] == "released"
    ends = [state for state in runs(prefect_home)[before:] if state[1] in ("COMPLETED", "FAILED")]
    said = "pay-posterior for 2026-01 has not converged and is archived as such. Do not publish it."
    assert ends == [
        (f"release pay {PERIOD}", "COMPLETED", "Completed", "pay-regression released at " + COST),
        (f"analyse pay {PERIOD}", "FAILED", "NotConverged", said),
        (f"run pay {PERIOD}", "FAILED", "NotConverged", said),
    ]
    again = desk.document("run", desk.study, "--period", PERIOD, exit_code=6)
    assert again["analyses"][0]["already_analysed"]
    assert runs(prefect_home)[-1] == ends[-1]


def test_what_a_worker_logs_of_a_refusal_is_its_sentence(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.engine import handle_engine_signals
    from prefect.flow_engine import run_flow

    from flows.run import run_study

    desk.edit_study("epsilon: 1\n", "epsilon: 3\n")
    error = desk.document("run", desk.study, "--period", PERIOD, exit_code=3)["error"]
    said = Heard()
    loggers = [logging.getLogger(f"prefect.{name}") for name in ("engine", "flow_runs", "task_runs")]
    for logger in loggers:
        monkeypatch.setattr(logger, "level", logging.INFO)
        monkeypatch.setattr(logger, "handlers", [said])
        monkeypatch.setattr(logger, "propagate", False)
        logger._cache.clear()  # what it remembers of its level
    order = {"study": str(desk.study), "period": PERIOD}
    with pytest.raises(SystemExit), handle_engine_signals():
        run_flow(run_study, parameters=order, error_logger=loggers[1])
    assert "Traceback" not in "".join(said.lines)
    assert said.lines.count(error["message"]) == 1
    assert f"Finished in state Refused('{error['message']}', type=FAILED)" in said.lines


class Heard(logging.Handler):
    """Whole lines as a log shows them."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def test_no_state_keeps_what_was_raised(desk: Desk, prefect_home: Path) -> None:
    desk.edit_study("epsilon: 1\n", "epsilon: 3\n")
    desk.release(exit_code=3)
    kept = asked(
        prefect_home,
        "SELECT coalesce(data, '') FROM flow_run_state UNION SELECT coalesce(data, '') FROM task_run_state",
    )
    assert not [data for (data,) in kept if "cannot" in data or "pay" in data]
    logs = [message for (message,) in asked(prefect_home, "SELECT message FROM log")]
    assert not [message for message in logs if "Traceback" in message]
