"""One charge, one release and the same bytes, wherever a release or its database server is killed."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dpbayes_core.regression.release import Release
from tests.support.driver import drive

pytestmark = pytest.mark.slow
WINDOWS = ("before commit", "after commit", "archiving")
Run = dict[str, Any]


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> str:
    """The address of a PostgreSQL database, or nothing for SQLite."""
    return request.getfixturevalue("postgresql").new_database() if request.param == "postgresql" else ""


def assert_released_once(run: Run) -> None:
    """A death left everything or nothing; running again completed it; running once more changed nothing."""
    found, first, second = run["found"], run["first"], run["second"]
    assert found["ok"]
    assert len(found["releases"]) <= 1
    assert first["status"] == ("already-released" if found["releases"] else "released")
    assert second["status"] == "already-released"
    assert second["digest"] == first["digest"] == Release.from_record(json.loads(first["releases"][0])).digest
    assert found["releases"] in ([], first["releases"])
    for after in (first, second):
        assert after["ok"]
        assert after["entries"] == 3
        assert after["unanchored"] == 0
        assert after["finished"]
    assert second["releases"] == first["releases"]
    assert second["files"] == first["files"]
    assert found["files"].items() <= first["files"].items()  # nothing that was written is ever written otherwise


def assert_every_window_was_hit(runs: list[Run]) -> None:
    hits = Counter(run["window"] for run in runs if run["killed"])
    print(f"{sum(hits.values())} kills: " + ", ".join(f"{window} {hits[window]}" for window in (*WINDOWS, "finished")))
    assert [window for window in WINDOWS if not hits[window]] == []


def test_a_release_killed_at_every_statement_is_made_once(tmp_path: Path, database: str) -> None:
    runs = drive("tests.laws.release_driver", "statements", tmp_path, database)
    assert not runs[-1]["killed"]  # the last one ran to its end: no statement was left out
    assert len(runs) > 100
    for run in runs:
        assert_released_once(run)
    assert_every_window_was_hit(runs)


def test_a_release_killed_at_a_random_moment_after_its_sum_is_made_once(tmp_path: Path, database: str) -> None:
    runs = drive("tests.laws.release_driver", "moments", tmp_path, database)
    assert len(runs) >= 30
    for run in runs:
        assert_released_once(run)
    assert_every_window_was_hit(runs)


def test_a_server_killed_in_the_middle_of_a_commit_keeps_or_loses_all_of_it(tmp_path: Path, postgresql: object) -> None:
    runs = drive("tests.laws.release_driver", "server", tmp_path)
    for run in runs:
        assert run["said"] == {
            "error": "cannot reach the ledger: its database does not answer. Start it and run again."
        }
        assert_released_once(run)
    kept = {(run["how"], run["moment"]): len(run["found"]["releases"]) for run in runs}
    assert kept == {
        ("kill", "before its commit is on disk"): 0,
        ("kill", "after its commit is on disk"): 1,
        ("shut_down_immediately", "before its commit is on disk"): 0,
        ("shut_down_immediately", "after its commit is on disk"): 1,
    }


def test_a_server_that_keeps_dying_loses_nothing_it_confirmed(tmp_path: Path, postgresql: object) -> None:
    done = drive("tests.laws.release_driver", "dying-server", tmp_path)
    answers = [tuple(answer) for writer in done["answers"] for answer in writer]
    print(f"{done['kills']} kills of the server, {done['failures']} failed attempts, {len(answers)} answers")
    assert done["failures"] >= done["kills"] / 2
    stored = dict(zip(done["names"], done["hashes"], strict=True))
    assert len(stored) == len(done["names"])
    assert set(answers) == set(stored.items())
    assert done["ok"]
