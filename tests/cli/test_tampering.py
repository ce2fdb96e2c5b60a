"""Somebody owns the database, the archive or the study file: what they change is found, named, or changes nothing."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dpbayes_core.errors import BudgetExceeded, StudyInvalid
from storage.home.home import Home
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.anchors import anchor_name
from tests.support.charged import charge, publish, tamper
from tests.support.desk import STUDY, Desk

MONTHS = ("2026-01", "2026-02", "2026-03")


@pytest.fixture(scope="module")
def agency(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that passes every check: entries 3 to 5 are charges, with anchors and crates."""
    desk = Desk.set_up(tmp_path_factory.mktemp("agency"))
    for month in MONTHS:
        charge(desk.study, month)
        publish(desk.study, month)
    tamper(desk.home)  # closes the database's log, so that a copy of the file is a copy of the ledger
    return desk.folder


@pytest.fixture
def desk(agency: Path, tmp_path: Path) -> Desk:
    shutil.copytree(agency, tmp_path / "agency")
    return Desk(tmp_path / "agency")


def found(desk: Desk, *more: str) -> str:
    """Everything that an audit complains about; it must be an integrity failure."""
    result = desk.run("audit", desk.study, *more, "--json")
    assert result.exit_code == 5, result.output
    document = json.loads(result.stdout)
    if "error" in document:
        return str(document["error"]["message"])
    return "\n".join(f"{check['check']}: {check['detail']}" for check in document["checks"] if not check["ok"])


def test_an_untouched_agency_passes(desk: Desk) -> None:
    assert desk.document("audit", desk.study)["ok"] is True
    assert "The audit passed." in desk.run("audit", desk.study).output


def test_a_replay_says_where_there_is_nothing_to_replay(desk: Desk) -> None:
    said = {
        "check": "the draws are those of a replay",
        "ok": True,
        "detail": "nothing to replay: no analysis lies here",
    }
    for what in ((desk.study,), ("--crate", crates(desk)[0], desk.study)):
        assert desk.document("audit", *what, "--replay")["checks"][-1] == said
        assert said not in desk.document("audit", *what)["checks"]


# --- the database -----------------------------------------------------------------------------------------------------

CHANGES: dict[str, tuple[tuple[str, ...], str]] = {
    "edited": (("UPDATE entry SET payload = replace(payload, 'tester', 'Tester') WHERE seq = 4",), "entry 4"),
    "made cheaper": (('UPDATE entry SET payload = replace(payload, \'"rho":"\', \'"rho":"0\') WHERE seq = 4',), "4"),
    "deleted": (("DELETE FROM entry WHERE seq = 4",), "entry 4 should stand here"),
    "deleted and renumbered": (
        ("DELETE FROM entry WHERE seq = 4", "UPDATE entry SET seq = 4 WHERE seq = 5"),
        "entry 4 (charge): its hash is not that of its contents",
    ),
    "reordered": (
        tuple(f"UPDATE entry SET seq = {new} WHERE seq = {old}" for old, new in ((4, 9), (5, 4), (9, 5))),
        "entry 4 (charge): its hash is not that of its contents",
    ),
    "truncated": (("DELETE FROM entry WHERE seq > 3",), "the ledger lacks entry 4, 5: was it restored from a backup?"),
    "emptied": (("DELETE FROM entry",), "its first entry is missing"),
    "a cap raised by hand": (
        ("UPDATE entry SET payload = replace(payload, '\"8\"', '\"80\"') WHERE seq = 2",),
        "entry 2",
    ),
    "moved to another account": (("UPDATE entry SET account = 'others' WHERE seq = 4",), "entry 4: its column account"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_database_is_found_and_the_place_named(desk: Desk, change: str) -> None:
    statements, named = CHANGES[change]
    tamper(desk.home, *statements)
    assert named in found(desk)


@pytest.mark.parametrize("change", ["truncated", "emptied"])
def test_a_shortened_ledger_is_refused_before_anything_is_charged(desk: Desk, change: str) -> None:
    tamper(desk.home, *CHANGES[change][0])
    for command in (("ledger", "show", desk.study), ("ledger", "note", "hello", desk.study), ("plan", desk.study)):
        assert desk.run(*command).exit_code == 5, command


def test_a_backup_put_back_cannot_spend_again_what_was_spent(desk: Desk, tmp_path: Path) -> None:
    shutil.copyfile(desk.home / "ledger.db", tmp_path / "backup.db")
    charge(desk.study, "2026-04")
    for path in desk.home.glob("ledger.db*"):
        path.unlink()
    shutil.copyfile(tmp_path / "backup.db", desk.home / "ledger.db")
    assert "the ledger lacks entry 6: was it restored from a backup?" in found(desk)
    failed = desk.document("ledger", "show", desk.study, exit_code=5)["error"]["message"]
    assert "anchors/000000006.json was written for it and it lacks that entry" in failed


def test_a_tail_that_goes_with_its_anchors_is_seen_by_those_who_noted_the_head(desk: Desk, tmp_path: Path) -> None:
    """The limit of anchors, stated in the threat model: nothing inside the agency can tell; an exported head can."""
    desk.document("ledger", "export", tmp_path / "noted.json", desk.study)
    noted = desk.document("ledger", "show", desk.study)["head"]
    tamper(desk.home, "DELETE FROM entry WHERE seq = 5")
    (desk.home / "archive" / anchor_name(5)).unlink()
    shutil.rmtree(desk.home / "archive" / "releases" / "pay" / "2026-03")
    assert desk.run("audit", desk.study).exit_code == 0
    assert desk.document("ledger", "show", desk.study)["head"] != noted
    assert desk.run("audit", desk.study, "--ledger", tmp_path / "noted.json").exit_code == 0


# --- the archive ------------------------------------------------------------------------------------------------------


def crates(desk: Desk) -> list[Path]:
    return sorted(place.parent for place in (desk.home / "archive" / "releases").rglob("MANIFEST.json"))


def test_releases_swapped_between_crates_are_found_in_both(desk: Desk) -> None:
    one, other, *_ = crates(desk)
    for name in ("release.json", "statistics.parquet"):
        if (one / name).exists():
            first, second = (one / name).read_bytes(), (other / name).read_bytes()
            (one / name).write_bytes(second)
            (other / name).write_bytes(first)
    words = found(desk)
    assert one.name in words
    assert other.name in words


def test_whole_crates_swapped_between_periods_are_found(desk: Desk) -> None:
    one, other, *_ = crates(desk)
    aside = desk.folder / "aside"
    for source, target in ((one, aside), (other, one), (aside, other)):
        source.rename(target)
    assert found(desk).count("is no charge of the ledger that calls for it") == 2


@pytest.mark.parametrize("seq", [1, 3, 5])
def test_an_altered_anchor_is_named(desk: Desk, seq: int) -> None:
    place = desk.home / "archive" / anchor_name(seq)
    place.write_bytes(place.read_bytes().replace(b"a", b"b", 1))
    assert anchor_name(seq) in found(desk)


def test_a_wrong_key_is_not_believed(desk: Desk) -> None:
    assert desk.run("audit", desk.study, "--key", "SHA256:" + "0" * 64).exit_code == 2
    shutil.rmtree(desk.home / "keys")
    Home.create(desk.folder)
    assert "no trusted key signed it" in found(desk)
    assert desk.run("ledger", "show", desk.study).exit_code == 5


# --- other homes, paths and names: the account is the population's ----------------------------------------------------


def spent(desk: Desk) -> float:
    return float(desk.document("ledger", "show", desk.study)["accounts"][0]["caps"][0]["spent"])


MOVES: dict[str, Callable[[Desk], Path]] = {
    "a renamed study": lambda desk: rewritten(desk, desk.folder / "study.yaml", "study: pay", "study: earnings"),
    "another path": lambda desk: rewritten(desk, desk.folder / "deep" / "down" / "s.yaml", "study: pay", "study: pay"),
    "another table": lambda desk: rewritten(desk, desk.folder / "t.yaml", "data/pay-", "elsewhere/pay-"),
}


def rewritten(desk: Desk, place: Path, old: str, new: str) -> Path:
    assert old in STUDY
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(STUDY.replace(old, new).replace("pay-regression", "wage-regression"))
    return place


@pytest.mark.parametrize("move", MOVES)
def test_the_same_people_are_charged_to_the_same_account(desk: Desk, move: str) -> None:
    before, study = spent(desk), MOVES[move](desk)
    charge(study, "2026-03")
    assert spent(desk) > before
    with pytest.raises(BudgetExceeded, match="the per-period cap of staff"):
        charge_under_ever_new_names(desk)
    assert [account["account"] for account in desk.document("ledger", "show", desk.study)["accounts"]] == ["staff"]


def charge_under_ever_new_names(desk: Desk) -> None:
    for number in range(9):
        charge(rewritten(desk, desk.folder / f"{number}.yaml", "study: pay", f"study: pay-{number}"), "2026-03")


def test_the_same_people_under_other_caps_are_refused(desk: Desk) -> None:
    study = rewritten(desk, desk.folder / "generous.yaml", "lifetime: {epsilon: 8}", "lifetime: {epsilon: 80}")
    with pytest.raises(StudyInvalid, match="opened with another lifetime cap"):
        charge(study)


def test_a_second_home_at_the_same_ledger_is_charged_to_the_same_account(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = spent(desk)
    monkeypatch.setenv("DPBAYES_LEDGER_URL", f"sqlite:///{desk.home / 'ledger.db'}")
    other = second_home(desk, tmp_path)
    assert len(other.document("ledger", "show", other.study)["accounts"]) == 1
    charge(rewritten(other, other.folder / "more.yaml", "study: pay", "study: earnings"), "2026-03")
    assert spent(other) == spent(desk) > before
    assert {path.name for path in (other.home / "archive" / "anchors").iterdir()} == {
        f"{seq:09d}.json" for seq in range(1, 7)
    }  # each home keeps anchors of its own, under its own key: two witnesses of one ledger


def test_a_second_home_with_a_ledger_of_its_own_is_a_second_budget_and_knows_nothing_of_the_first(
    desk: Desk, tmp_path: Path
) -> None:
    """The other limit that the threat model states: one agency has to point its homes at one ledger."""
    other = second_home(desk, tmp_path)
    assert spent(other) == 0.0
    charge(other.study, "2026-01")
    with AnchoredLedger.open(desk.study) as first, AnchoredLedger.open(other.study) as second:
        assert first.ledger.find(second.ledger.head.key) != second.ledger.head
        assert first.home.signer().fingerprint != second.home.signer().fingerprint


def second_home(desk: Desk, tmp_path: Path) -> Desk:
    (tmp_path / "other").mkdir()
    shutil.copyfile(desk.study, tmp_path / "other" / "study.yaml")
    other = Desk(tmp_path / "other")
    assert other.run("ledger", "create", other.study).exit_code == 0
    return other
