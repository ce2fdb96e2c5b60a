"""What the orchestrator records of a release depends on public facts: a row that breaks every rule leaves no mark."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.desk import PERIOD, Desk, people

BROKEN: dict[str, Any] = {"pay": 1e308, "age": float("nan"), "female": None, "region": "atlantis", "person": None}


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
    if not (prefect_home / "prefect.db").exists():
        return []
    with closing(sqlite3.connect(f"file:{prefect_home / 'prefect.db'}?mode=ro", uri=True)) as database:
        return list(database.execute(query).fetchall())


def test_a_row_that_breaks_every_rule_leaves_the_same_states(desk: Desk, prefect_home: Path) -> None:
    columns = people()
    clean = release_with(desk, prefect_home, columns, PERIOD)
    for name, value in BROKEN.items():
        columns[name] = list(columns[name])
        columns[name][17] = value
    broken = release_with(desk, prefect_home, columns, "2026-02")
    assert len(clean) >= 3
    assert broken == clean
    assert clean[-1][1] == "COMPLETED"


def test_the_comparison_of_states_can_fail(desk: Desk, prefect_home: Path) -> None:
    clean = release_with(desk, prefect_home, people(), PERIOD)
    desk.edit_study("epsilon: 1\n", "epsilon: 3\n")
    before = len(runs(prefect_home))
    assert desk.run("release", desk.study, "--period", "2026-03").exit_code == 3
    assert runs(prefect_home)[before:] != clean
