"""A new signing key: what changes, what stays trusted, and what a kill in between leaves."""

import json
import os
import shutil
from pathlib import Path

import pytest

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import IntegrityFailure
from storage.files.archive import Archive
from storage.home.signatures import NEXT_KEY, Signer, enveloped, public_key_name
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.anchors import ANCHOR_TYPE, Anchors, anchor_name
from storage.ledger.ledger import Ledger
from tests.support.charged import charge, slip_in_key
from tests.support.desk import Desk

OLD_AUDIT = "every charge has its crate"  # these tests charge without publishing


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with an account and no charge."""
    return Desk.set_up(tmp_path_factory.mktemp("opened")).folder


@pytest.fixture
def desk(opened: Path, tmp_path: Path) -> Desk:
    shutil.copytree(opened, tmp_path / "desk")
    return Desk(tmp_path / "desk")


def rotate(desk: Desk, reason: str = "yearly") -> str:
    return str(desk.document("ledger", "rotate-key", desk.study, "--reason", reason)["fingerprint"])


def fingerprint(desk: Desk) -> str:
    return Signer.load(desk.home / "keys").fingerprint


def signer_of(desk: Desk, seq: int) -> str:
    envelope = json.loads((desk.home / "archive" / anchor_name(seq)).read_bytes())
    return str(envelope["signatures"][0]["keyid"])


def flaws(desk: Desk, *arguments: str | Path) -> list[str]:
    """What an audit finds, leaving out that nothing was published."""
    result = desk.run("audit", desk.study, *arguments, "--json")
    document = json.loads(result.stdout)
    return [check["detail"] for check in document["checks"] if not check["ok"] and check["check"] != OLD_AUDIT]


def test_the_old_key_signs_its_successor_and_nothing_after_it(desk: Desk) -> None:
    charge(desk.study)
    old = fingerprint(desk)
    private = (desk.home / "keys" / "signing.pem").read_bytes()
    new = rotate(desk)
    charge(desk.study, "2026-02")
    assert new == fingerprint(desk) != old
    assert [signer_of(desk, seq) for seq in range(1, 6)] == [old] * 4 + [new]
    entry = desk.document("ledger", "history", desk.study)["entries"][3]
    assert (entry["kind"], entry["reason"]) == ("key", "yearly")
    assert entry["what"] == f"{new} signs from here on"
    kept = [path.read_bytes() for path in (desk.home / "keys").iterdir() if path.is_file()]
    assert private not in kept
    assert {path.name for path in (desk.home / "archive" / "keys").iterdir()} == {
        f"{name.removeprefix('SHA256:')}.pem" for name in (old, new)
    }


def test_an_auditor_may_trust_any_key_of_the_ledger(desk: Desk, tmp_path: Path) -> None:
    names = [fingerprint(desk)]
    for month in ("2026-01", "2026-02"):
        charge(desk.study, month)
        names.append(rotate(desk))
    stranger = Signer.create(tmp_path / "stranger").fingerprint
    desk.document("ledger", "export", tmp_path / "ledger.json", desk.study)
    for name in names:
        assert flaws(desk, "--key", name) == []
        assert desk.run("audit", "--ledger", tmp_path / "ledger.json", "--key", name).exit_code == 0
        assert desk.run("audit", "--ledger", desk.home / "archive", "--key", name).exit_code == 0
    assert desk.run("audit", desk.study, "--key", stranger).exit_code == 2
    assert desk.run("audit", "--ledger", tmp_path / "ledger.json", "--key", stranger).exit_code == 5
    assert desk.run("audit", "--ledger", desk.home / "archive", "--key", stranger).exit_code == 5


def test_no_byte_of_an_anchor_with_two_signatures_is_free(desk: Desk) -> None:
    rotate(desk)
    place, archive = desk.home / "archive" / anchor_name(3), Archive(str(desk.home / "archive"))
    whole, trusted = place.read_bytes(), Signer.load(desk.home / "keys").trusted
    assert whole.count(b'"keyid"') == 2
    for position in range(0, len(whole), 3):
        place.write_bytes(whole[:position] + bytes([whole[position] ^ (1 << position % 8)]) + whole[position + 1 :])
        with pytest.raises(IntegrityFailure, match=r"anchors/000000003\.json"):
            Anchors(archive, None).read(3, trusted)
    place.write_bytes(whole)
    assert Anchors(archive, None).read(3, trusted)["kind"] == "key"


def test_a_retired_key_signs_nothing_new(desk: Desk) -> None:
    """Whoever stole the old key after it was retired cannot anchor with it."""
    thief = Signer.load(desk.home / "keys")
    rotate(desk)
    charge(desk.study)
    assert flaws(desk) == []
    place = desk.home / "archive" / anchor_name(4)
    record = Anchors(Archive(str(desk.home / "archive")), None).read(4, Signer.load(desk.home / "keys").trusted)
    place.unlink()
    place.write_bytes(canonical_json(thief.sign(ANCHOR_TYPE, canonical_json(record))))
    assert any("anchors/000000004.json" in flaw and "A retired key does not count here" in flaw for flaw in flaws(desk))
    failed = desk.document("ledger", "show", desk.study, exit_code=5)["error"]["message"]
    assert "cannot trust anchors/000000004.json: no trusted key signed it" in failed


def test_a_change_of_key_needs_the_old_keys_signature_to_be_followed(desk: Desk, tmp_path: Path) -> None:
    """An export whose change of key somebody else signed leads from the old fingerprint nowhere."""
    old = fingerprint(desk)
    rotate(desk)
    export = tmp_path / "ledger.json"
    desk.document("ledger", "export", export, desk.study)
    document = json.loads(export.read_text())
    stranger = Signer.create(tmp_path / "stranger")
    record = document["entries"][2]
    by_old, by_new = document["changes"]["3"]
    assert by_old["keyid"] == old
    for signatures in ([], [by_new], stranger.sign(ANCHOR_TYPE, canonical_json(record))["signatures"]):
        document["changes"]["3"] = signatures
        export.write_text(json.dumps(document))
        assert desk.run("audit", "--ledger", export, "--key", old).exit_code == 5


BOUNDARIES: dict[str, tuple[object, str]] = {
    "before the key is made": (Signer, "make"),
    "before it is recorded": (Ledger, "rotate_key"),
    "before its entry is anchored": (Anchors, "write"),
    "before it is published": (Anchors, "publish_key"),
    "before it takes over": (os, "replace"),
}


class Killed(BaseException):
    """Nothing after this happens."""


def dying(*_: object, **__: object) -> None:
    raise Killed


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_a_change_of_key_that_was_killed_is_finished_by_running_it_again(
    desk: Desk, boundary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, (owner, name) = fingerprint(desk), BOUNDARIES[boundary]
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, dying)
        with pytest.raises(Killed), AnchoredLedger.open(desk.study) as anchored:
            anchored.rotate_key(reason="yearly", stamp=charged_stamp())
    new = rotate(desk)
    assert new != old
    lines = desk.document("ledger", "history", desk.study)["entries"]
    assert [line["kind"] for line in lines] == ["genesis", "account", "key"]
    assert charge(desk.study).seq == 4
    assert [signer_of(desk, seq) for seq in range(1, 5)] == [old] * 3 + [new]
    assert flaws(desk) == []
    assert not (desk.home / "keys" / NEXT_KEY).exists()


@pytest.mark.parametrize("boundary", list(BOUNDARIES)[2:])
def test_any_other_command_finishes_a_recorded_change_of_key(
    desk: Desk, boundary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, (owner, name) = fingerprint(desk), BOUNDARIES[boundary]
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, dying)
        with pytest.raises(Killed), AnchoredLedger.open(desk.study) as anchored:
            anchored.rotate_key(reason="yearly", stamp=charged_stamp())
    charge(desk.study)
    assert fingerprint(desk) != old
    assert [signer_of(desk, seq) for seq in range(1, 5)] == [old] * 3 + [fingerprint(desk)]
    assert flaws(desk) == []


def charged_stamp() -> object:
    from tasks.stamp import stamp_of

    return stamp_of("tester")


def test_a_run_that_began_under_the_old_key_anchors_with_the_new_one(desk: Desk) -> None:
    with AnchoredLedger.open(desk.study) as anchored:  # as a release does, before minutes of reading
        new = rotate(desk)
        entry = anchored.ledger.note("finished", charged_stamp())
        anchored.anchor_pending()
    assert signer_of(desk, entry.seq) == new
    assert flaws(desk) == []


def test_a_keys_folder_from_before_the_change_is_refused(desk: Desk) -> None:
    keys = desk.home / "keys"
    before = (keys / "signing.pem").read_bytes()
    rotate(desk)
    (keys / "signing.pem").write_bytes(before)
    failed = desk.document("ledger", "note", "hello", desk.study, exit_code=5)["error"]["message"]
    assert "the ledger retired the key" in failed
    assert "Restore the newer keys folder" in failed


@pytest.mark.parametrize("way", ["it is to follow the home's", "it is to have come before it"])
def test_no_home_vouches_for_a_change_of_its_key_that_it_never_made(desk: Desk, tmp_path: Path, way: str) -> None:
    """Somebody who owns the database ties a key of theirs to the home's: no command signs that, and all say so."""
    own, theirs = fingerprint(desk), Signer.create(tmp_path / "theirs").fingerprint
    entry = slip_in_key(desk.home, *((theirs, own) if way.startswith("it is to follow") else (own, theirs)))
    failed = desk.document("ledger", "note", "hello", desk.study, exit_code=5)["error"]["message"]
    assert f"entry {entry.seq} ties a key of this home to one that it never had" in failed
    assert not (desk.home / "archive" / anchor_name(entry.seq)).exists()
    assert "is not anchored yet" in desk.run("audit", desk.study).output.replace("\n", " ")
    desk.document("ledger", "recover", desk.study, "--set-aside")
    desk.document("ledger", "note", "hello", desk.study)
    assert flaws(desk) == []


def test_a_key_that_somebody_wrote_into_the_database_counts_for_nobody(desk: Desk, tmp_path: Path) -> None:
    """It retires nobody's, so that the next command anchors it as another home's: that does not vouch for it."""
    own, theirs = fingerprint(desk), Signer.create(tmp_path / "theirs")
    slip_in_key(desk.home, theirs.fingerprint, "SHA256:" + "0" * 64)
    charge(desk.study)
    place = desk.home / "archive" / "keys" / public_key_name(theirs.fingerprint)
    place.write_bytes(theirs.export_public_key())
    expected = f"keys/{place.name} is not a trusted key"
    assert flaws(desk) == flaws(desk, "--key", own) == [expected]
    assert desk.run("audit", "--ledger", desk.home / "archive", "--key", own).exit_code == 0
    assert desk.run("audit", "--ledger", desk.home / "archive", "--key", theirs.fingerprint).exit_code == 5


def test_a_home_with_other_keys_cannot_use_the_ledger(desk: Desk, tmp_path: Path) -> None:
    """Somebody who lost the keys and made new ones by hand."""
    charge(desk.study)
    Signer.create(tmp_path / "other")
    for path in (desk.home / "keys").rglob("*.pem"):
        path.unlink()
    for path in (tmp_path / "other").rglob("*.pem"):
        (desk.home / "keys" / path.relative_to(tmp_path / "other")).write_bytes(path.read_bytes())
        (desk.home / "keys" / path.relative_to(tmp_path / "other")).chmod(0o600)
    for command in (("show",), ("note", "hello"), ("recover",)):
        failed = desk.document("ledger", *command, desk.study, exit_code=5)["error"]["message"]
        assert "no trusted key signed it" in failed, command


def test_an_envelope_made_of_parts_is_the_one_that_was_signed(tmp_path: Path) -> None:
    signer = Signer.create(tmp_path / "keys")
    signed = signer.sign(ANCHOR_TYPE, b"{}")
    assert enveloped(ANCHOR_TYPE, b"{}", signed["signatures"]) == signed
