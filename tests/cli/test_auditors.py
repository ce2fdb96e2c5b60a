"""An auditor who may read, and nothing else: another user of the machine, or a database role that may only SELECT."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from storage.home.home import Home
from storage.ledger.anchored import AnchoredLedger
from tests.support.charged import charge, publish
from tests.support.desk import STUDY, Desk
from tests.support.disks import Disk
from tests.support.ledger_cases import STAMP
from tests.support.others import as_nobody, document_as_nobody, open_folder, require_another_user
from tests.support.postgres import OWNER, Server


def tree(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Every file and folder with its mode, its time of change and its bytes."""
    return {
        str(path): (
            path.stat().st_mode,
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture(scope="module")
def audited() -> Iterator[Desk]:
    """A home with a published release, in a place that other users may enter."""
    require_another_user()
    with open_folder() as folder:
        desk = Desk.set_up(folder)
        charge(desk.study)
        publish(desk.study)
        yield desk


def key_of(desk: Desk) -> str:
    return Home.find(desk.study, {}).signer().fingerprint


def looks(desk: Desk, out: Path) -> list[tuple[str | Path, ...]]:
    """Everything that an auditor does at a home."""
    return [
        ("ledger", "show", desk.study),
        ("ledger", "history", desk.study),
        ("ledger", "export", out / "ledger.json", desk.study),
        ("ledger", "export", out / "ledger.csv", desk.study),
        ("plan", desk.study, "--period", "2026-02"),
        ("audit", desk.study),
    ]


@pytest.fixture
def out() -> Iterator[Path]:
    """A folder of the auditor's own."""
    with open_folder() as folder:
        os.chown(folder, 65534, 65534)
        yield folder


@pytest.mark.slow
def test_an_auditor_who_may_only_read_does_what_auditors_do_and_leaves_no_trace(audited: Desk, out: Path) -> None:
    before, key = tree(audited.folder), key_of(audited)
    for command in looks(audited, out):
        document_as_nobody(*command, "--key", key)
    assert tree(audited.folder) == before
    shown = document_as_nobody("ledger", "show", audited.study, "--key", key)
    assert (shown["charges"], shown["unanchored"]) == (1, [])
    assert shown["head"] == audited.document("ledger", "show", audited.study)["head"]
    assert document_as_nobody("audit", "--ledger", out / "ledger.json", "--key", key)["ok"]


@pytest.mark.slow
def test_an_auditor_without_a_fingerprint_is_asked_for_one(audited: Desk, out: Path) -> None:
    for command in looks(audited, out):
        refused = document_as_nobody(*command, exit_code=2)["error"]
        assert "belong to another user. Add --key FINGERPRINT" in refused["message"]
    assert list(out.iterdir()) == []
    stranger = document_as_nobody("ledger", "show", audited.study, "--key", "SHA256:" + "0" * 64, exit_code=2)
    assert "it signed nothing in this archive" in stranger["error"]["message"]


@pytest.mark.slow
def test_check_names_the_command_that_takes_a_fingerprint(audited: Desk) -> None:
    said = document_as_nobody("check", audited.study)
    assert said["account_status"] == "unknown"
    assert said["account_detail"] == (
        "the home's keys belong to another user. `dpbayes plan STUDY --key FINGERPRINT` says it."
    )


@pytest.mark.slow
def test_an_auditor_changes_nothing_and_sees_neither_keys_nor_vault(audited: Desk) -> None:
    before = tree(audited.folder)
    for act in (("note", "hello"), ("raise", audited.study, "lifetime", "9", "--reason", "wish")):
        near = () if act[0] == "raise" else (audited.study,)
        refused = document_as_nobody("ledger", *act, *near, exit_code=1)["error"]["message"]
        assert "belong to another user. Run as that user." in refused
    assert tree(audited.folder) == before
    closed = [audited.home / name for name in ("keys", "vault", "work", "prefect")]
    assert [path.stat().st_mode & 0o077 for path in closed] == [0] * 4


def test_what_an_unfinished_run_left_is_said_and_not_mended(audited: Desk, tmp_path: Path) -> None:
    desk = Desk(tmp_path / "unfinished")
    shutil.copytree(audited.folder, desk.folder)
    (desk.home / "archive" / "anchors" / "000000003.json").unlink()
    before = tree(desk.folder)
    assert desk.document("ledger", "show", desk.study)["unanchored"] == [3]
    assert "Not anchored yet: entry 3." in " ".join(desk.run("ledger", "history", desk.study).output.split())
    assert tree(desk.folder) == before
    with AnchoredLedger.open(desk.study):
        pass
    assert desk.document("ledger", "show", desk.study)["unanchored"] == []


@pytest.mark.slow
def test_a_writer_at_work_is_respected_and_read_up_to_its_last_commit(audited: Desk, out: Path) -> None:
    with AnchoredLedger.open(audited.study) as anchored:  # its log stands until it closes
        anchored.ledger.note("while it is open", STAMP)
        assert (audited.home / "ledger.db-wal").stat().st_size > 0
        shown = document_as_nobody("ledger", "show", audited.study, "--key", key_of(audited))
        assert shown["head"]["seq"] == anchored.ledger.head.seq
        assert shown["unanchored"] == [anchored.ledger.head.seq]
        anchored.anchor_pending()
    assert not (audited.home / "ledger.db-wal").exists()


@pytest.mark.slow
def test_a_home_on_a_read_only_disk_is_audited(audited: Desk, out: Path) -> None:
    with Disk.mounted(32) as disk:
        shutil.copytree(audited.home, disk.folder / ".dpbayes", dirs_exist_ok=True)
        shutil.copyfile(audited.study, disk.folder / "study.yaml")
        disk.folder.chmod(0o755)
        disk.make_read_only()
        desk = Desk(disk.folder)
        for command in looks(desk, out):
            if command[1] != "export":
                assert desk.document(*command)  # the steward's user
            document_as_nobody(*command, "--key", key_of(desk))
        disk.make_writable()


@pytest.mark.slow
def test_a_home_that_is_closed_altogether_says_so(audited: Desk) -> None:
    audited.home.chmod(0o700)
    try:
        said = as_nobody("ledger", "show", audited.study)
    finally:
        audited.home.chmod(0o755)
    assert said.returncode == 1
    assert "closed to this user. Ask its steward for read access." in " ".join(said.stderr.split())


@pytest.mark.slow
def test_a_database_role_that_may_only_select_is_enough(
    tmp_path: Path, postgresql: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = postgresql.new_schema()
    schema = place.partition("%3D")[2]
    monkeypatch.setenv("DPBAYES_LEDGER_URL", place)
    desk = Desk(tmp_path)
    desk.study.write_text(STUDY)
    desk.document("ledger", "create", desk.study)
    charge(desk.study)
    publish(desk.study)
    with psycopg.connect(place.partition("?")[0], autocommit=True) as connection:
        connection.execute(f"CREATE ROLE reader_{schema} LOGIN")
        connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO reader_{schema}")
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader_{schema}")
    before = tree(tmp_path)
    monkeypatch.setenv("DPBAYES_LEDGER_URL", place.replace(f"{OWNER}@", f"reader_{schema}@"))
    for command in looks(desk, tmp_path):
        if command[1] != "export":
            assert desk.document(*command)
    assert tree(tmp_path) == before
    refused = desk.document("ledger", "note", "hello", desk.study, exit_code=1)["error"]["message"]
    assert "does not let this user read or write it" in refused
