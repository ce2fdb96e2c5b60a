"""What `ledger recover` brings back from the anchors, and where it refuses to touch what stands."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from dpbayes_core.errors import IntegrityFailure
from storage.home.home import Home
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.anchors import anchor_name
from storage.ledger.entries import Entry
from storage.ledger.ledger import Ledger
from storage.ledger.page import Page
from storage.ledger.recovery import recover
from storage.ledger.verify import verify
from tests.support.charged import charge, tamper
from tests.support.desk import Desk

CHARGES = ("2026-01", "2026-02", "2026-03")


@pytest.fixture(scope="module")
def charged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Entries 1 and 2 open the account, 3 to 5 charge it."""
    desk = Desk.set_up(tmp_path_factory.mktemp("charged"))
    for period in CHARGES:
        charge(desk.study, period)
    return desk.folder


@pytest.fixture
def desk(charged: Path, tmp_path: Path) -> Desk:
    shutil.copytree(charged, tmp_path / "desk")
    return Desk(tmp_path / "desk")


def entries(desk: Desk) -> list[Entry]:
    with Ledger.open(f"sqlite:///{desk.home / 'ledger.db'}") as ledger:
        return list(ledger.entries())


def recovered(desk: Desk, *options: str, exit_code: int = 0) -> dict[str, object]:
    return desk.document("ledger", "recover", desk.study, *options, exit_code=exit_code)


def remove_database(desk: Desk) -> None:
    for path in desk.home.glob("ledger.db*"):
        path.unlink()


def test_a_ledger_that_lost_nothing_is_left_alone(desk: Desk) -> None:
    before = entries(desk)
    assert recovered(desk)["restored"] == 0
    assert entries(desk) == before


@pytest.mark.parametrize("left", [4, 3, 1, 0])
def test_lost_entries_come_back_as_they_were_and_the_recovery_is_on_record(desk: Desk, left: int) -> None:
    before = entries(desk)
    tamper(desk.home, f"DELETE FROM entry WHERE seq > {left}")
    assert desk.run("ledger", "show", desk.study).exit_code == 5
    done = recovered(desk)
    assert (done["restored"], done["first"], done["last"]) == (5 - left, left + 1, 5)
    after = entries(desk)
    assert after[:5] == before
    assert after[5].payload["reason"] == f"entries {left + 1} to 5 were lost and written again from their anchors"
    assert all(check.ok for check in verify(after))
    assert charge(desk.study, "2026-01") == before[2]  # what was released is still the answer


def test_a_ledger_whose_database_is_gone_is_no_new_beginning(desk: Desk) -> None:
    before = entries(desk)
    remove_database(desk)
    for command in (("ledger", "show", desk.study), ("ledger", "create", desk.study), ("plan", desk.study)):
        failed = desk.document(*command, exit_code=5)["error"]["message"]
        assert "its database is gone and its anchors stand. Run `dpbayes ledger recover`" in failed, command
    assert not (desk.home / "ledger.db").exists()
    assert recovered(desk)["restored"] == 5
    assert entries(desk)[:5] == before
    with sqlite3.connect(desk.home / "ledger.db") as database, pytest.raises(sqlite3.Error, match="never deleted"):
        database.execute("DELETE FROM entry")
    database.close()


def test_a_backup_that_was_put_back_is_brought_up_to_date(desk: Desk, tmp_path: Path) -> None:
    shutil.copyfile(desk.home / "ledger.db", tmp_path / "backup.db")
    late = charge(desk.study, "2026-04")
    remove_database(desk)
    shutil.copyfile(tmp_path / "backup.db", desk.home / "ledger.db")
    failed = desk.document("ledger", "show", desk.study, exit_code=5)["error"]["message"]
    assert "Was it restored from a backup?" in failed
    with pytest.raises(IntegrityFailure, match="restored from a backup"):
        charge(desk.study, "2026-05")
    assert recovered(desk)["restored"] == 1
    assert charge(desk.study, "2026-04") == late


UNSOUND: dict[str, tuple[str, str]] = {
    "edited": ("UPDATE entry SET payload = replace(payload, 'tester', 'Tester') WHERE seq = 4", "entry 4 (charge)"),
    "deleted": ("DELETE FROM entry WHERE seq = 4", "entry 4 should stand here"),
    "renumbered": ("UPDATE entry SET seq = 9 WHERE seq = 5", "entry 5 should stand here"),
    "not even JSON": ("UPDATE entry SET payload = '{' WHERE seq = 4", "read ledger entry 4"),
    "not even JSON at its end": ("UPDATE entry SET payload = '{' WHERE seq = 5", "canonical JSON"),
}


@pytest.mark.parametrize("change", UNSOUND)
def test_what_stands_and_is_not_sound_is_never_built_upon(desk: Desk, change: str) -> None:
    before = entries(desk)
    statement, named = UNSOUND[change]
    tamper(desk.home, statement)
    altered = (desk.home / "ledger.db").read_bytes()
    failed = recovered(desk, exit_code=5)["error"]
    assert failed["kind"] == "ledger-unsound"
    assert named in failed["message"]
    assert "--set-aside" in failed["message"]
    done = recovered(desk, "--set-aside")
    assert done["restored"] == 5
    assert Path(str(done["set_aside"])).read_bytes() == altered  # evidence
    assert entries(desk)[:5] == before
    assert desk.run("ledger", "show", desk.study).exit_code == 0


def test_another_history_that_chains_well_is_told_from_the_anchored_one(desk: Desk) -> None:
    """A forger who owns the database rewrites it from entry 4 on, every hash made good."""
    before = entries(desk)
    forged = before[:3]
    for entry in before[3:]:
        payload = {**entry.payload, "actor": "mallory"}
        forged.append(
            Entry.following(forged[-1], kind=entry.kind, key=entry.key, payload=payload, release=entry.release)
        )
    assert all(check.ok for check in verify(forged))
    remove_database(desk)
    with Ledger.create(f"sqlite:///{desk.home / 'ledger.db'}", _stamp()) as ledger:
        tamper(desk.home, "DELETE FROM entry")
        with ledger._store.exclusive() as page:
            for entry in forged:
                page.restore(entry)
    assert "holds another entry there" in desk.document("ledger", "show", desk.study, exit_code=5)["error"]["message"]
    failed = recovered(desk, exit_code=5)["error"]["message"]
    assert "entry 4 is not the one of anchors/000000004.json" in failed
    recovered(desk, "--set-aside")
    assert entries(desk)[:5] == before


def _stamp() -> object:
    from tasks.stamp import stamp_of

    return stamp_of("tester")


def test_a_damaged_file_is_told_from_a_missing_one(desk: Desk) -> None:
    before = entries(desk)
    remove_database(desk)
    (desk.home / "ledger.db").write_bytes(b"no database" * 1000)
    failed = recovered(desk, exit_code=5)["error"]
    assert (failed["kind"], "the file is damaged" in failed["message"]) == ("ledger-unsound", True), failed
    recovered(desk, "--set-aside")
    assert entries(desk)[:5] == before


def test_setting_aside_never_happens_to_a_sound_ledger(desk: Desk) -> None:
    assert recovered(desk, "--set-aside") == recovered(desk)
    assert not list(desk.home.glob("*.aside-*"))


def test_an_anchor_that_is_missing_or_altered_stops_the_recovery(desk: Desk) -> None:
    place = desk.home / "archive" / anchor_name(4)
    whole = place.read_bytes()
    tamper(desk.home, "DELETE FROM entry WHERE seq > 2")
    place.unlink()
    failed = recovered(desk, exit_code=5)["error"]["message"]
    assert "cannot recover entry 4 of the ledger: anchors/000000004.json is missing" in failed
    place.write_bytes(whole.replace(b"A", b"B", 1))
    failed = recovered(desk, exit_code=5)["error"]["message"]
    assert "anchors/000000004.json" in failed
    assert len(entries(desk)) == 2  # all or nothing
    place.write_bytes(whole)
    assert recovered(desk)["restored"] == 3


def test_without_anchors_there_is_nothing_to_recover_from(desk: Desk) -> None:
    shutil.rmtree(desk.home / "archive" / "anchors")
    assert "holds no anchor of it" in recovered(desk, exit_code=5)["error"]["message"]


def test_a_killed_recovery_has_written_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    before = entries(desk)
    remove_database(desk)
    restore: Callable[[Page, Entry], None] = Page.restore

    class Killed(BaseException):
        pass

    def dying(page: Page, entry: Entry) -> None:
        if entry.seq == 4:
            raise Killed
        restore(page, entry)

    with monkeypatch.context() as patched:
        patched.setattr(Page, "restore", dying)
        with pytest.raises(Killed):
            recover(Home.find(desk.study))
    assert recovered(desk)["restored"] == 5
    assert entries(desk)[:5] == before


def test_entries_that_were_never_anchored_are_kept(desk: Desk) -> None:
    """A run killed between commit and anchor: the ledger is ahead of its anchors, and right."""
    with AnchoredLedger.open(desk.study) as anchored:
        entry = anchored.ledger.note("killed here", _stamp())
    assert recovered(desk)["restored"] == 0
    assert (desk.home / "archive" / anchor_name(entry.seq)).exists()
    assert entries(desk)[-1] == entry


def test_a_whole_ledger_comes_back_on_another_database(desk: Desk, new_url: Callable[[], str]) -> None:
    before = entries(desk)
    home = Home.to_be_moved(desk.study, {"DPBAYES_LEDGER_URL": new_url()})
    done = recover(home)
    assert done.restored == 5
    with Ledger.open(home.ledger_url) as ledger:
        assert list(ledger.entries()) == before
    assert recover(home).restored == 0
