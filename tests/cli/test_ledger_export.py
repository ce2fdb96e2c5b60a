"""An auditor with an exported ledger, or a copy of its anchors, and a fingerprint; no home, no database, no table."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage.home.signatures import Signer
from storage.ledger.offline_ledger import read_anchors, read_export
from tests.support.charged import charge
from tests.support.desk import Desk

Document = dict[str, Any]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    desk = Desk.set_up(tmp_path_factory.mktemp("agency"))
    charge(desk.study, "2026-01")
    desk.document("ledger", "raise", desk.study, "lifetime", "12", "--reason", "council décision 7")
    charge(desk.study, "2026-02")
    desk.document("ledger", "export", desk.folder / "ledger.json", desk.study)
    return desk


@pytest.fixture
def export(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file where the auditor sits."""
    monkeypatch.chdir(tmp_path)
    shutil.copyfile(desk.folder / "ledger.json", tmp_path / "ledger.json")
    return tmp_path / "ledger.json"


def key(desk: Desk) -> str:
    return Signer.load(desk.home / "keys").fingerprint


def audit(desk: Desk, place: Path, fingerprint: str | None = None) -> tuple[int, str]:
    result = desk.run("audit", "--ledger", place, "--key", fingerprint or key(desk), "--json")
    document = json.loads(result.stdout)
    if "error" in document:
        return result.exit_code, document["error"]["message"]
    flaws = "; ".join(check["detail"] for check in document["checks"] if not check["ok"])
    assert document["ok"] == (flaws == "")
    return result.exit_code, flaws


def test_an_export_is_checked_with_nothing_but_a_fingerprint(desk: Desk, export: Path) -> None:
    assert audit(desk, export) == (0, "")
    assert audit(desk, export, key(desk).removeprefix("SHA256:").upper()) == (0, "")
    assert desk.run("audit", "--ledger", export).exit_code == 2  # nobody is trusted here
    assert desk.run("audit", desk.study, "--ledger", export).exit_code == 0  # the home's own keys are


def test_anchors_alone_are_enough_too(desk: Desk, tmp_path: Path) -> None:
    shutil.copytree(desk.home / "archive" / "anchors", tmp_path / "copy" / "anchors")
    shutil.copytree(desk.home / "archive" / "keys", tmp_path / "copy" / "keys")
    assert audit(desk, tmp_path / "copy") == (0, "")
    (tmp_path / "copy" / "anchors" / "000000003.json").unlink()
    assert "entry 3 should stand here" in audit(desk, tmp_path / "copy")[1]
    shutil.rmtree(tmp_path / "copy" / "anchors")
    assert audit(desk, tmp_path / "copy")[0] == 2


def test_an_export_holds_every_entry_with_its_release_and_the_keys(desk: Desk, export: Path) -> None:
    document = json.loads(export.read_text())
    assert [entry["seq"] for entry in document["entries"]] == [1, 2, 3, 4, 5]
    assert '"values":' in document["entries"][2]["release"]
    assert "PUBLIC KEY" in document["keys"][0]
    assert "PRIVATE" not in export.read_text()
    assert len(export.read_text().splitlines()) == 7  # one entry a line
    assert read_export(export).entries == read_anchors_of(desk)


def read_anchors_of(desk: Desk) -> object:
    from storage.files.archive import Archive

    return read_anchors(Archive(str(desk.home / "archive"))).entries


@pytest.mark.slow
def test_any_changed_byte_of_an_exported_entry_is_found(desk: Desk, export: Path) -> None:
    lines = export.read_bytes().splitlines(keepends=True)
    for number in (1, 3, 5):
        line = lines[number]
        for position in range(1, len(line) - 2, 211):
            changed = line[:position] + bytes([line[position] ^ 1]) + line[position + 1 :]
            export.write_bytes(b"".join([*lines[:number], changed, *lines[number + 1 :]]))
            assert audit(desk, export)[0] == 5, (number, position)


FORGERIES: dict[str, tuple[Callable[[Document], object], str]] = {
    "an entry left out": (lambda d: d["entries"].pop(3), "entry 4 should stand here"),
    "the last entry left out": (lambda d: d["entries"].pop(), "it was signed by nobody whose key is here"),
    "two entries swapped": (lambda d: d["entries"].reverse(), "entry 1 should stand here"),
    "an entry twice": (lambda d: d["entries"].append(d["entries"][-1]), "entry 6 should stand here"),
    "another head": (lambda d: d.update(head=[]), "it was signed by nobody whose key is here"),
    "no keys": (lambda d: d.update(keys=[]), "it was signed by nobody whose key is here"),
    "a later format": (lambda d: d.update(version=2), "no ledger that was exported whole"),
    "no entries": (lambda d: d.update(entries=[]), "no ledger that was exported whole"),
    "an entry of numbers": (lambda d: d["entries"].append(7), "no ledger that was exported whole"),
    "a key that is none": (lambda d: d.update(keys=["x"]), "no ledger that was exported whole"),
    "a number as text": (lambda d: d["entries"][0].update(seq="1"), "no ledger that was exported whole"),
    "a payload as text": (lambda d: d["entries"][0].update(payload="{}"), "no ledger that was exported whole"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_export_is_found_and_placed(desk: Desk, export: Path, forgery: str) -> None:
    change, named = FORGERIES[forgery]
    document = json.loads(export.read_text())
    change(document)
    export.write_text(json.dumps(document))
    code, words = audit(desk, export)
    assert code == 5
    assert named in words


def test_a_forger_with_a_key_of_their_own_is_not_believed(desk: Desk, export: Path, tmp_path: Path) -> None:
    from dpbayes_core.canonical import canonical_json
    from storage.ledger.entries import Entry
    from storage.ledger.offline_ledger import HEAD_TYPE

    forger = Signer.create(tmp_path / "keys")
    document = json.loads(export.read_text())
    chain: list[Entry] = []
    for record in document["entries"]:
        entry = Entry.from_record(record)
        stated = {**entry.payload, "actor": "mallory"}
        chain.append(
            Entry.following(
                chain[-1] if chain else None, kind=entry.kind, key=entry.key, payload=stated, release=entry.release
            )
        )
    last = canonical_json({"hash": chain[-1].hash, "seq": chain[-1].seq})
    document["entries"] = [entry.to_record() for entry in chain]
    document["head"] = forger.sign(HEAD_TYPE, last)["signatures"]
    document["keys"].append(forger.export_public_key().decode())
    export.write_text(json.dumps(document))
    assert audit(desk, export) == (5, f"it was signed by {forger.fingerprint}")


@pytest.mark.parametrize("rubbish", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"format":[]}', b"null"])
def test_rubbish_is_no_export_and_never_a_crash(desk: Desk, tmp_path: Path, rubbish: bytes) -> None:
    (tmp_path / "x.json").write_bytes(rubbish)
    code, words = audit(desk, tmp_path / "x.json")
    assert code == 5
    assert "no ledger that was exported whole" in words or "nested deeper than 64 levels" in words
    assert audit(desk, tmp_path / "nowhere.json")[0] == 2


@pytest.mark.slow
def test_an_export_that_fails_halfway_leaves_no_file(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storage.ledger.offline_ledger.Entry.to_record", lambda entry: 1 / 0)
    monkeypatch.setattr("storage.ledger.anchors.Anchors.check_newest", lambda *_: None)
    assert desk.run("ledger", "export", tmp_path / "out.json", desk.study).exit_code == 1
    assert not (tmp_path / "out.json").exists()


def test_an_overspent_ledger_does_not_pass_even_if_the_agency_signs_it(desk: Desk, export: Path) -> None:
    """The signature says who wrote it; the arithmetic is checked all the same."""
    from dpbayes_core.canonical import canonical_json
    from storage.ledger.entries import Entry
    from storage.ledger.offline_ledger import HEAD_TYPE

    document = json.loads(export.read_text())
    records = document["entries"]
    records[1]["payload"]["spec"]["caps"][0]["limit"] = "0.5"
    chain: list[Entry] = []
    for record in records:
        entry = Entry.from_record(record)
        chain.append(
            Entry.following(
                chain[-1] if chain else None,
                kind=entry.kind,
                key=entry.key,
                payload=entry.payload,
                release=entry.release,
            )
        )
    last = canonical_json({"hash": chain[-1].hash, "seq": chain[-1].seq})
    document["entries"] = [entry.to_record() for entry in chain]
    document["head"] = Signer.load(desk.home / "keys").sign(HEAD_TYPE, last)["signatures"]
    export.write_text(json.dumps(document))
    code, words = audit(desk, export)
    assert code == 5
    assert "entry 3 (charge): it exceeds the lifetime cap (epsilon 0.5 at delta 1e-6)" in words
