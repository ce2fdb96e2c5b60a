"""A release without the orchestrator: public facts and the ledger decide it, neither a clock nor a table does."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

import tasks.stamp
from storage.home.home import Home
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.ledger import Ledger
from tests.support.desk import PERIOD, people
from tests.support.ledger_cases import STAMP
from tests.support.place import Place
from tests.support.postgres import Server

NEXT = "2026-02"


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    for name in ("DPBAYES_HOME", "DPBAYES_LEDGER_URL", "DPBAYES_ARCHIVE_URL"):
        monkeypatch.delenv(name, raising=False)
    if request.param == "postgresql":
        server: Server = request.getfixturevalue("postgresql")
        monkeypatch.setenv("DPBAYES_LEDGER_URL", server.new_schema())
    return Place(tmp_path)


def set_clock(monkeypatch: pytest.MonkeyPatch, day: date) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime(day.year, day.month, day.day, tzinfo=UTC)

    monkeypatch.setattr(tasks.stamp, "datetime", Clock)


def test_a_clock_set_back_changes_no_order_and_no_total(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.desk.write_table(people(200), NEXT)
    set_clock(monkeypatch, date(2026, 11, 18))
    place.release()
    set_clock(monkeypatch, date(2025, 1, 1))
    place.release(period=NEXT)
    first, second = place.charges()
    assert [first.payload["period"], second.payload["period"]] == [PERIOD, NEXT]
    assert second.payload["date"] == "2025-01-01" < first.payload["date"]
    lifetime = [int(charge.payload["debits"][0]["total"]["rho"]) for charge in (first, second)]
    assert lifetime[1] == 2 * lifetime[0]
    with AnchoredLedger.open(place.desk.folder) as anchored:  # refused, were the last entry not the one last anchored
        assert anchored.ledger.head == second
        assert anchored.anchors.newest() == second.seq
    assert place.release() == ("already-released", first.payload["digest"])


def test_a_closed_period_is_refused_before_anything_is_read(place: Place) -> None:
    with AnchoredLedger.open(place.desk.folder) as anchored:
        anchored.ledger.close("staff", PERIOD, reason="published", stamp=STAMP)
    place.desk.table().unlink()
    assert "the period was closed" in place.refused(exit_code=3)
    assert place.charges() == []


def test_a_study_edited_under_the_same_name_is_refused_before_anything_is_read(place: Place) -> None:
    _, digest = place.release()
    place.desk.table().unlink()
    place.desk.edit_study("age: {bounds: [16, 80]}", "age: {bounds: [16, 90]}")
    assert "was defined otherwise" in place.refused(exit_code=2)
    place.desk.edit_study("age: {bounds: [16, 90]}", "age: {bounds: [16, 80]}")
    assert place.release() == ("already-released", digest)


def test_a_second_study_of_the_same_people_pays_from_the_same_account(place: Place) -> None:
    place.desk.edit_study("epsilon: 1\n", "epsilon: 2\n")
    place.release()
    place.desk.edit_study("study: pay", "study: earnings")
    place.desk.table().unlink()
    assert "to the per-period cap of staff" in place.refused(exit_code=3)
    place.desk.edit_study("lifetime: {epsilon: 8}", "lifetime: {epsilon: 9}")
    assert "it was opened with another lifetime cap" in place.refused(exit_code=2)
    with Ledger.open(Home.find(place.desk.folder).ledger_url) as ledger:
        assert [state.spec.population for state in ledger.accounts()] == ["staff"]
    assert len(place.charges()) == 1
