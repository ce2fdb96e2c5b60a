"""A home records where its ledger and archive are: a mistyped address is refused, and a move is an act."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.home.home import Home
from storage.home.places import INSIDE, RECORD, place_of
from tests.support.charged import charge, publish
from tests.support.desk import STUDY, Desk
from tests.support.postgres import OWNER

MOVE = ("ledger", "move", "--reason", "a larger disk")


@pytest.fixture
def moved(desk: Desk, tmp_path: Path) -> Path:
    """A copy of everything, as an operator makes it."""
    charge(desk.study)
    publish(desk.study)
    shutil.copytree(desk.home / "archive", tmp_path / "elsewhere" / "archive")
    shutil.copyfile(desk.home / "ledger.db", tmp_path / "elsewhere" / "ledger.db")
    return tmp_path / "elsewhere"


def point_at(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.setenv("DPBAYES_LEDGER_URL", f"sqlite:///{place / 'ledger.db'}")
    monkeypatch.setenv("DPBAYES_ARCHIVE_URL", str(place / "archive"))


@pytest.mark.parametrize("part", ["LEDGER", "ARCHIVE"])
@pytest.mark.parametrize("recorded", [True, False])
def test_a_mistyped_address_makes_no_second_ledger_or_archive(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, recorded: bool
) -> None:
    if not recorded:
        (desk.home / RECORD).unlink()  # as older versions left a home
    before = desk.document("ledger", "show", desk.study)["head"]
    slip = tmp_path / "slip"
    monkeypatch.setenv(f"DPBAYES_{part}_URL", f"sqlite:///{slip}.db" if part == "LEDGER" else str(slip))
    for command in (("ledger", "create"), ("release", "--period", "2026-01"), ("ledger", "note", "hello")):
        refused = desk.document(*command, desk.study, exit_code=2)["error"]
        assert refused["kind"] == "place-changed"
        for words in (str(slip), f"that of this home is {INSIDE} {desk.home}", "`dpbayes ledger move --reason TEXT`"):
            assert words in refused["message"]
    assert list(tmp_path.glob("slip*")) == []
    monkeypatch.delenv(f"DPBAYES_{part}_URL")
    assert desk.document("ledger", "show", desk.study)["head"] == before


def test_a_move_is_on_record_and_the_old_places_are_refused_after_it(
    desk: Desk, moved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point_at(monkeypatch, moved)
    done = desk.document(*MOVE, desk.study)
    places = {"archive": moved / "archive", "ledger": f"sqlite:///{moved / 'ledger.db'}"}
    said = "; ".join(f"the {name} from {INSIDE} to {place}" for name, place in places.items())
    assert done["entry"]["reason"] == f"moved {said}: a larger disk"
    assert json.loads((desk.home / RECORD).read_text()) == {name: done[name] for name in ("archive", "ledger")}
    assert charge(desk.study, "2026-02").seq == 5
    publish(desk.study, "2026-02")
    for name in ("LEDGER", "ARCHIVE"):
        monkeypatch.delenv(f"DPBAYES_{name}_URL")
    assert desk.document("ledger", "show", desk.study)["charges"] == 2  # without a word of it: the record leads there
    assert desk.document("audit", desk.study)["ok"]
    monkeypatch.setenv("DPBAYES_LEDGER_URL", f"sqlite:///{desk.home / 'ledger.db'}")
    refused = desk.document("ledger", "note", "x", desk.study, exit_code=2)["error"]["message"]
    assert f"cannot use the ledger at {INSIDE} {desk.home}" in refused


def test_a_move_says_from_where_to_where(desk: Desk, moved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPBAYES_ARCHIVE_URL", str(moved / "archive"))
    said = desk.run(*MOVE, desk.study).stdout
    assert f"  the archive moved from {INSIDE} to {moved / 'archive'}\n" in said
    assert "the ledger moved" not in said


Damage = Callable[[Desk, Path], object]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda desk, moved: (moved / "archive" / "anchors" / "000000003.json").unlink(), "anchors are not all there"),
        (lambda desk, moved: shutil.rmtree(moved / "archive"), "every ledger entry is anchored: entry 1, 2, 3 has no"),
        (lambda desk, moved: charge(desk.study, "2026-02"), "the old places hold entries up to 4"),
    ],
)
def test_a_move_to_less_than_was_written_is_refused(
    desk: Desk, moved: Path, monkeypatch: pytest.MonkeyPatch, damage: Damage, words: str
) -> None:
    damage(desk, moved)
    before = (desk.home / RECORD).read_bytes()
    point_at(monkeypatch, moved)
    refused = desk.document(*MOVE, desk.study, exit_code=5)["error"]["message"]
    assert words in refused
    assert (desk.home / RECORD).read_bytes() == before


def test_a_ledger_is_recovered_elsewhere_only_where_the_one_on_record_is_gone(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPBAYES_LEDGER_URL", f"sqlite:///{tmp_path / 'new.db'}")
    assert desk.document("ledger", "recover", desk.study, exit_code=2)["error"]["kind"] == "place-changed"
    assert not (tmp_path / "new.db").exists()
    (desk.home / "ledger.db").unlink()
    assert desk.document("ledger", "recover", desk.study)["restored"] == 2
    monkeypatch.delenv("DPBAYES_LEDGER_URL")
    assert desk.document("ledger", "show", desk.study)["head"]["seq"] == 3  # with the note of the recovery


def test_a_home_of_an_older_version_records_its_places_at_the_first_entry(desk: Desk) -> None:
    (desk.home / RECORD).unlink()
    desk.document("ledger", "note", "hello", desk.study)
    assert json.loads((desk.home / RECORD).read_text()) == {"archive": INSIDE, "ledger": INSIDE}
    assert "names the places on record" in desk.document(*MOVE, desk.study, exit_code=2)["error"]["message"]


def test_a_home_moved_as_a_whole_keeps_its_parts(desk: Desk, tmp_path: Path) -> None:
    shutil.copytree(desk.folder, tmp_path / "copy")
    copy = Desk(tmp_path / "copy")
    assert copy.document("ledger", "note", "hello", copy.study)["status"] == "recorded"


def test_no_secret_is_recorded_and_the_record_leads_to_postgresql(
    tmp_path: Path, postgresql: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(postgresql.new_schema())  # type: ignore[attr-defined]
    monkeypatch.setenv("DPBAYES_LEDGER_URL", place.replace(f"{OWNER}@", f"{OWNER}:very-secret@"))
    desk = Desk(tmp_path)
    desk.study.write_text(STUDY)
    desk.document("ledger", "create", desk.study)
    record = (desk.home / RECORD).read_text()
    assert "very-secret" not in record
    assert OWNER not in record
    monkeypatch.delenv("DPBAYES_LEDGER_URL")
    monkeypatch.setenv("PGUSER", OWNER)
    assert desk.document("ledger", "note", "hello", desk.study)["head"]["seq"] == 3
    assert Home.find(desk.study).places["ledger"] == json.loads(record)["ledger"]


def test_one_place_has_one_name_however_it_is_written() -> None:
    for written in ("postgresql://host/db", "postgresql+psycopg://me:secret@HOST:5432/db/", "postgresql://you@host/db"):
        assert place_of(written, "sqlite:////home/ledger.db") == "postgresql://host:5432/db"
    assert place_of("s3://Bucket/archive/", "/home/archive") == "s3://Bucket/archive"
    assert place_of("/home/./archive", "/home/archive") == INSIDE


LOOKS = (("ledger", "show"), ("ledger", "history"), ("plan",), ("audit",))


@pytest.mark.parametrize("part", ["LEDGER", "ARCHIVE"])
@pytest.mark.parametrize("recorded", [True, False])
def test_who_looks_with_a_mistyped_address_hears_of_it_and_not_of_a_loss(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, recorded: bool
) -> None:
    charge(desk.study)
    publish(desk.study)
    if not recorded:
        (desk.home / RECORD).unlink()
    slip = tmp_path / "slip"
    monkeypatch.setenv(f"DPBAYES_{part}_URL", f"sqlite:///{slip}.db" if part == "LEDGER" else str(slip))
    for command in (*LOOKS, MOVE) if part == "LEDGER" else LOOKS:
        refused = desk.document(*command, desk.study, exit_code=2)["error"]
        assert refused["kind"] == "place-changed"
        assert f"cannot use the {part.lower()} at " in refused["message"]
        assert f"that of this home is {INSIDE} {desk.home}. Correct DPBAYES_{part}_URL" in refused["message"]
    assert list(tmp_path.glob("slip*")) == []


@pytest.mark.slow
def test_a_whole_copy_elsewhere_may_be_looked_at(desk: Desk, moved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    point_at(monkeypatch, moved)
    for command in LOOKS:
        assert desk.document(*command, desk.study)


def test_a_ledger_that_is_gone_from_its_own_place_is_still_a_loss(desk: Desk, moved: Path) -> None:
    (desk.home / "ledger.db").unlink()
    for command in LOOKS:
        assert "its database is gone" in desk.document(*command, desk.study, exit_code=5)["error"]["message"]


def test_an_archive_by_an_unknown_protocol_is_a_slip(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPBAYES_ARCHIVE_URL", "s4://bucket/archive")
    refused = desk.document("ledger", "show", desk.study, exit_code=2)["error"]["message"]
    assert refused == ("cannot open the archive: s4 is no protocol known here. Correct its URL (DPBAYES_ARCHIVE_URL).")
