"""A release's validation page is in the vault once its charge is on the ledger, not before: no look is unrecorded."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from storage.home.vault import Vault, VaultFailure
from storage.ledger.anchored import AnchoredLedger
from tests.support.command import ROOT, clean_environment
from tests.support.desk import PERIOD
from tests.support.killed import BOUNDARIES, CHARGED
from tests.support.ledger_cases import STAMP
from tests.support.place import Place


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name in ("DPBAYES_HOME", "DPBAYES_LEDGER_URL", "DPBAYES_ARCHIVE_URL"):
        monkeypatch.delenv(name, raising=False)
    return Place(tmp_path)


def seen(place: Place) -> list[str]:
    """What somebody may read in the vault of the table, but for what is encrypted."""
    vault = place.desk.home / "vault"
    found = (path.relative_to(vault) for path in vault.rglob("*") if path.is_file())
    return sorted(path.name for path in found if path.parts[0] != "unfinished")


PAGE = ["profile.json", "validation.html", "validation.json"]


def test_nobody_sees_the_page_of_a_release_that_is_stopped_before_its_charge(place: Place) -> None:
    def stop() -> None:
        assert seen(place) == []
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.release(stop)
    assert seen(place) == []
    assert place.digests() == []
    place.repaired([])
    assert seen(place) == PAGE


def test_nobody_sees_the_page_while_the_ledger_is_locked(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.ledger.sqlite.PATIENCE", 0.1)
    locked = sqlite3.connect(place.desk.home / "ledger.db", isolation_level=None)
    locked.execute("BEGIN IMMEDIATE")
    place.refused()
    assert seen(place) == []
    locked.close()
    place.repaired([])
    assert seen(place) == PAGE


def test_a_charge_that_is_refused_under_the_lock_shows_no_page(place: Place) -> None:
    def close() -> None:
        with AnchoredLedger.open(place.desk.folder) as anchored:
            anchored.ledger.close("staff", PERIOD, reason="published", stamp=STAMP)

    place.refused(close, exit_code=3)
    assert seen(place) == []


@pytest.mark.slow
@pytest.mark.parametrize("boundary", ["before-commit", "after-commit"])
def test_a_kill_leaves_no_page_without_a_charge_and_no_name_of_one_that_is_not_there(
    place: Place, boundary: str
) -> None:
    command = [sys.executable, "-m", "tests.support.killed", boundary, "alone", str(place.desk.study), PERIOD]
    done = subprocess.run(command, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert seen(place) == []
    charged = place.digests()
    assert len(charged) == (boundary in CHARGED)
    assert boundary in BOUNDARIES
    place.repaired(charged)
    assert seen(place) == ([] if charged else PAGE)  # a pass is not made again for its page


def test_a_vault_without_room_stops_a_release_before_its_charge(place: Place) -> None:
    vault = place.desk.home / "vault"
    (vault / "pay").write_text("a file where a folder is to be")
    assert "in the vault: " in place.refused()
    assert place.digests() == []
    (vault / "pay").unlink()
    place.repaired([])
    assert seen(place) == PAGE


def test_a_vault_that_is_full_after_the_charge_costs_the_page_and_not_the_release(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise VaultFailure("cannot keep it in the vault: No space left on device. Make the vault's folder writable.")

    with monkeypatch.context() as patch:
        patch.setattr(Vault, "write_text", full)
        status, digest = place.release()
    assert status == "released"
    assert seen(place) == []
    place.repaired([digest])


def test_the_room_for_a_page_has_no_name_and_ends_with_the_process(place: Place) -> None:
    vault = Vault(place.desk.home / "vault")
    with vault.room("pay/2026-01/r/validation.html", 100_000) as room:
        assert os.fstat(room.fileno()).st_size >= 100_000
        assert os.fstat(room.fileno()).st_nlink == 0
        assert seen(place) == []
