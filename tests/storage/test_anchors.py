import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import DpbayesError, IntegrityFailure
from storage.files.archive import Archive
from storage.home.signatures import Signer, public_key_name
from storage.ledger.anchors import Anchors, Check, anchor_name


class Entry:
    def __init__(self, record: dict[str, Any]) -> None:
        self.record = record

    def to_record(self) -> dict[str, Any]:
        return self.record


def ledger(length: int, *, note: str = "") -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for seq in range(1, length + 1):
        prev_hash = entries[-1]["hash"] if entries else "0" * 64
        body: dict[str, Any] = {
            "seq": seq,
            "kind": "charge",
            "key": f"wages/{seq}",
            "payload": {"cost": seq / 7, "note": note},
            "release": '{"values":[0.25]}' if seq % 2 else None,
            "prev_hash": prev_hash,
        }
        entries.append({**body, "hash": hashlib.sha256(canonical_json(body)).hexdigest()})
    return entries


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer.create(tmp_path_factory.mktemp("home") / "keys")


@pytest.fixture
def anchors(tmp_path: Path, signer: Signer) -> Anchors:
    return Anchors(Archive(str(tmp_path)), signer)


def anchor(anchors: Anchors, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for entry in entries:
        anchors.write(entry)
    return entries


def failed(checks: list[Check]) -> str:
    return " | ".join(check.detail for check in checks if not check.ok)


def test_anchored_entries_read_back_in_order_and_pass_every_check(anchors: Anchors, signer: Signer) -> None:
    entries = anchor(anchors, ledger(5))
    assert anchors.read_all(signer.trusted) == entries
    assert anchors.newest() == 5
    assert anchors.unanchored(5) == []
    checks = anchors.check(entries, signer.trusted)
    assert len(checks) == 3
    assert all(check.ok for check in checks)


def test_nothing_anchored_is_nothing_found(anchors: Anchors, signer: Signer) -> None:
    assert anchors.read_all(signer.trusted) == []
    assert anchors.newest() == 0
    assert all(check.ok for check in anchors.check([], signer.trusted))


def test_the_same_entry_is_anchored_twice_without_harm_and_another_is_refused(anchors: Anchors) -> None:
    entries = anchor(anchors, ledger(3))
    anchors.write(entries[2])
    with pytest.raises(IntegrityFailure, match=r"anchors/000000003\.json"):
        anchors.write(ledger(3, note="rewritten")[2])


def test_an_entry_anchored_by_a_past_key_may_be_written_again(tmp_path: Path) -> None:
    archive, record = Archive(str(tmp_path / "archive")), ledger(1)[0]
    past = Signer.create(tmp_path / "past")
    Anchors(archive, past).write(record)
    present = Signer.create(tmp_path / "present")
    with pytest.raises(IntegrityFailure, match="no trusted key"):
        Anchors(archive, present).write(record)
    public = tmp_path / "present" / "public" / public_key_name(past.fingerprint)
    public.write_bytes(past.export_public_key())
    Anchors(archive, Signer.load(tmp_path / "present")).write(record)


@pytest.mark.slow
def test_any_changed_byte_of_an_anchor_is_found_and_its_place_named(
    anchors: Anchors, signer: Signer, tmp_path: Path
) -> None:
    entries = anchor(anchors, ledger(4))
    path = tmp_path / anchor_name(3)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        with pytest.raises(IntegrityFailure, match=r"anchors/000000003\.json"):
            anchors.read_all(signer.trusted)
    assert "anchors/000000003.json" in failed(anchors.check(entries, signer.trusted))


def test_an_anchor_moved_to_another_number_is_found(anchors: Anchors, signer: Signer, tmp_path: Path) -> None:
    entries = anchor(anchors, ledger(4))
    (tmp_path / anchor_name(2)).write_bytes((tmp_path / anchor_name(3)).read_bytes())
    assert r"anchors/000000002.json" in failed(anchors.check(entries, signer.trusted))


def test_a_signed_file_that_is_no_anchor_is_found(anchors: Anchors, signer: Signer, tmp_path: Path) -> None:
    (tmp_path / "anchors").mkdir()
    for kind, payload in (("application/other", b'{"seq":1}'), ("application/vnd.dpbayes.ledger-entry+json", b"[1]")):
        (tmp_path / anchor_name(1)).write_bytes(canonical_json(signer.sign(kind, payload)))
        with pytest.raises(IntegrityFailure, match=r"anchors/000000001\.json"):
            anchors.read_all(signer.trusted)


def test_a_stranger_cannot_anchor(tmp_path: Path, signer: Signer) -> None:
    archive, entries = Archive(str(tmp_path / "archive")), ledger(6)
    anchor(Anchors(archive, Signer.create(tmp_path / "keys")), entries)
    detail = failed(Anchors(archive, None).check(entries, signer.trusted))
    assert "anchors/000000001.json" in detail
    assert "3 more" in detail


def test_a_ledger_restored_from_a_backup_is_found(anchors: Anchors, signer: Signer) -> None:
    entries = anchor(anchors, ledger(4))
    detail = failed(anchors.check(entries[:2], signer.trusted))
    assert "lacks entry 3, 4" in detail
    assert "backup" in detail


def test_a_rewritten_ledger_is_found(anchors: Anchors, signer: Signer) -> None:
    entries = anchor(anchors, ledger(4))
    rewritten = [*entries[:2], *ledger(4, note="rewritten")[2:]]
    assert "entry 3, 4 is not the one that was anchored" in failed(anchors.check(rewritten, signer.trusted))
    edited = [*entries[:3], {**entries[3], "payload": {}}]  # under its old hash
    assert "entry 4 is not the one" in failed(anchors.check(edited, signer.trusted))


def test_a_run_killed_before_anchoring_is_no_failure_and_is_made_good(anchors: Anchors, signer: Signer) -> None:
    entries = ledger(4)
    anchor(anchors, entries[:3])
    checks = anchors.check(entries, signer.trusted)
    assert all(check.ok for check in checks)
    assert any("entry 4 is not anchored yet" in check.detail for check in checks)
    assert anchors.unanchored(4) == [4]
    assert anchors.exists(3)
    assert not anchors.exists(4)


@pytest.mark.parametrize("gone", [[2], [3, 4], [1, 2, 3, 4]])
def test_anchors_taken_away_are_found(anchors: Anchors, signer: Signer, tmp_path: Path, gone: list[int]) -> None:
    entries = anchor(anchors, ledger(4))
    for seq in gone:
        (tmp_path / anchor_name(seq)).unlink()
    assert f"entry {gone[0]}" in failed(anchors.check(entries, signer.trusted))
    assert anchors.unanchored(4) == gone


def test_a_gap_left_by_one_of_two_workers_is_named(anchors: Anchors) -> None:
    entries = ledger(5)
    anchor(anchors, [entries[0], entries[2]])
    assert anchors.unanchored(5) == [2, 4, 5]
    assert anchors.unanchored(0) == []


def test_the_newest_anchor_must_be_in_the_ledger(anchors: Anchors) -> None:
    entries = ledger(3)
    anchors.check_newest(lambda seq: None)  # nothing was ever anchored
    anchor(anchors, entries)
    anchors.check_newest(lambda seq: Entry(entries[seq - 1]))
    with pytest.raises(IntegrityFailure, match=r"anchors/000000003\.json.*lacks.*backup"):
        anchors.check_newest(lambda seq: None)
    with pytest.raises(IntegrityFailure, match=r"anchors/000000003\.json.*another entry"):
        anchors.check_newest(lambda seq: Entry(ledger(3, note="rewritten")[seq - 1]))


def test_half_written_and_foreign_files_are_no_anchors(anchors: Anchors, signer: Signer, tmp_path: Path) -> None:
    entries = anchor(anchors, ledger(2))
    for name in ("anchors/notes.txt", "anchors/3.json", ".tmp/00.part", "anchors/deep/000000009.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert anchors.read_all(signer.trusted) == entries


def test_anchors_without_a_key_only_read(tmp_path: Path) -> None:
    with pytest.raises(DpbayesError, match="without a key"):
        Anchors(Archive(str(tmp_path)), None).write(ledger(1)[0])


def test_an_auditor_needs_the_archive_and_a_fingerprint_only(anchors: Anchors, signer: Signer, tmp_path: Path) -> None:
    entries = anchor(anchors, ledger(3))
    anchors.publish_key()
    anchors.publish_key()
    auditor = Anchors(Archive(str(tmp_path)), None)
    published = auditor.published_keys()
    trusted = {name: key for name, key in published.items() if name == signer.fingerprint}
    assert all(check.ok for check in auditor.check(entries, trusted))
    other = Signer.create(tmp_path / "keys-of-a-stranger")
    (tmp_path / "keys" / public_key_name(signer.fingerprint)).write_bytes(other.export_public_key())
    assert set(auditor.published_keys()) == {other.fingerprint}  # a swapped file changes its own name only


def test_an_anchor_is_a_dsse_envelope_of_the_record(anchors: Anchors, tmp_path: Path) -> None:
    anchor(anchors, ledger(1))
    envelope = json.loads((tmp_path / "anchors" / "000000001.json").read_bytes())
    assert set(envelope) == {"payload", "payloadType", "signatures"}
    assert envelope["payloadType"] == "application/vnd.dpbayes.ledger-entry+json"
