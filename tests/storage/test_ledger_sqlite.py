"""What only SQLite does: a file that others can open, its settings, its disk and its lock."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event

from dpbayes_core.errors import DpbayesError, IntegrityFailure, LedgerMissing, StudyInvalid
from storage.ledger.ledger import Ledger
from storage.ledger.verify import verify
from tests.support.ledger_cases import STAMP, account, commit, laplace, new_ledger, request, url


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with new_ledger(tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET payload = '{}' WHERE seq = 1",
        "UPDATE OR REPLACE entry SET seq = 9 WHERE seq = 1",
        "DELETE FROM entry",
        "DELETE FROM entry WHERE seq = 2",
        "INSERT OR REPLACE INTO entry SELECT * FROM entry WHERE seq = 2",
        "REPLACE INTO entry SELECT seq + 1, kind, key, '{}', release, hash, hash, account, period, programme "
        "FROM entry WHERE seq = 2",
        "INSERT INTO entry SELECT 9, kind, 'other', payload, release, hash, hash, account, period, programme "
        "FROM entry WHERE seq = 2",
        "INSERT INTO entry SELECT 3, kind, 'other', payload, release, 'elsewhere', hash, account, period, programme "
        "FROM entry WHERE seq = 2",
        "INSERT INTO entry SELECT NULL, kind, 'other', payload, release, hash, hash, account, period, programme "
        "FROM entry WHERE seq = 2",
    ],
)
def test_the_database_itself_refuses_to_change_an_entry(ledger: Ledger, tmp_path: Path, statement: str) -> None:
    ledger.open_account(account(), STAMP)
    before = list(ledger.entries())
    intruder = sqlite3.connect(tmp_path / "ledger.db")  # another program, without this program's settings
    with pytest.raises(sqlite3.Error, match="ledger entries"):
        intruder.execute(statement)
    intruder.close()
    assert list(ledger.entries()) == before


def test_a_ledger_is_durable_by_its_settings(ledger: Ledger) -> None:
    with ledger._store.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2


def test_a_file_that_is_no_ledger_is_told_apart(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "ledger.db").execute("CREATE TABLE other (a)").connection.close()
    with pytest.raises(LedgerMissing, match="table was never made"):
        Ledger.open(url(tmp_path))
    (tmp_path / "ledger.db").write_bytes(b"no database" * 1000)
    with pytest.raises(IntegrityFailure, match="damaged"):
        Ledger.open(url(tmp_path))
    with pytest.raises(StudyInvalid, match="in memory"):
        Ledger.open("sqlite://")


def test_a_full_disk_spends_nothing_and_a_later_run_repairs(ledger: Ledger) -> None:
    engine = ledger._store.engine
    commit(ledger, request(), laplace(0.1))
    ledger.dispose()

    def fill_disk(connection: sqlite3.Connection, record: object) -> None:
        connection.execute("PRAGMA max_page_count = 1")  # the file may not grow from here

    def commit_until_full() -> None:
        for number in range(20):
            commit(ledger, request(release=f"release-{number}"), laplace(0.01))

    event.listen(engine, "connect", fill_disk)
    with pytest.raises(DpbayesError, match="the disk is full"):
        commit_until_full()
    kept = list(ledger.entries())
    ledger.dispose()
    event.remove(engine, "connect", fill_disk)
    assert list(ledger.entries()) == kept
    assert commit(ledger, request(release="release-19"), laplace(0.01)).seq == len(kept) + 1
    assert all(check.ok for check in verify(ledger.entries()))


def test_a_ledger_that_stays_locked_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.ledger.sqlite.PATIENCE", 0.05)
    with new_ledger(tmp_path) as ledger:
        holder = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(DpbayesError, match="keeps it locked"):
            commit(ledger, request(), laplace(0.1))
        assert ledger.head.seq == 1  # reading goes on
        holder.close()
        assert commit(ledger, request(), laplace(0.1)).seq == 3
