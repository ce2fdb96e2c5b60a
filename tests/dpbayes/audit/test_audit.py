"""The audit passes on what was written, and names the place of any byte that was not."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbayes.audit.audit import AuditReport, audit, audit_crate
from dpbayes.crates.files import load, load_with_manifest
from dpbayes.crates.format import ATTESTATION, PUBLIC_KEY, attested, pack
from dpbayes.crates.posterior import PREDICATE as POSTERIOR_PREDICATE
from dpbayes.crates.posterior import predicate_of
from dpbayes.crates.release import PREDICATE as RELEASE_PREDICATE
from dpbayes.crates.release import build_release_crate
from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import DpbayesError
from storage.files.archive import MANIFEST, manifest
from storage.files.archive_paths import release_path
from storage.home.signatures import Signer
from storage.ledger.ledger import Ledger
from tests.dpbayes.crates.crate_examples import STUDY_TEXT, Published, charge, posterior_crate, publish, request


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    return publish(tmp_path_factory.mktemp("home"))


def run(published: Published, trusted: dict[str, bytes] | None = None) -> AuditReport:
    keys = published.signer.trusted if trusted is None else trusted
    return audit(published.entries(), published.anchors, published.archive, keys)


def failures(report: AuditReport) -> str:
    return "\n".join(check.detail for check in report.checks if not check.ok)


@contextmanager
def changed(place: Path, data: bytes | None) -> Iterator[None]:
    """The file with other bytes, or without any, for a while."""
    before = place.read_bytes() if place.exists() else None
    made = [folder for folder in place.parents if not folder.exists()]
    place.unlink(missing_ok=True)
    if data is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    try:
        yield
    finally:
        place.unlink(missing_ok=True)
        for folder in made:
            folder.rmdir()
        if before is not None:
            place.write_bytes(before)


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


def test_an_untouched_archive_passes(published: Published) -> None:
    report = run(published)
    assert report.ok, failures(report)
    assert report.to_record()["ok"] is True
    assert {check["check"] for check in report.to_record()["checks"]} >= {"caps are kept", "every file is signed for"}


@pytest.mark.slow
def test_one_flipped_byte_in_any_file_is_named(published: Published) -> None:
    generator = np.random.default_rng(20261118)
    assert len(published.files) > 30
    for place in published.files:
        data = place.read_bytes()
        position = int(generator.integers(len(data)))
        with changed(place, flipped(data, position)):
            report = run(published)
        assert not report.ok, (place, position)
        assert place.name in failures(report), (place, position, failures(report))
        assert folder_of(place, published) in failures(report), (place, position)


def folder_of(place: Path, published: Published) -> str:
    """How an audit calls the place: the crate's folder, or the folder of anchors or keys."""
    return place.relative_to(published.folder / "archive").parent.as_posix()


def test_no_byte_of_a_signed_statement_is_free(published: Published) -> None:
    place = next(each for each in published.files if each.name == "attestation.json")
    crate = load(place.parent)
    size = len(crate["attestation.json"])
    for position in (*range(0, size, size // 40), *range(size - 12, size)):
        forged = {**crate, "attestation.json": flipped(crate["attestation.json"], position)}
        assert not audit_crate(forged, [published.signer.fingerprint]).ok, position


@pytest.mark.slow
def test_one_deleted_file_is_named(published: Published) -> None:
    last = max(place for place in published.files if place.parent.name == "anchors")
    for place in published.files:
        if place == last or place.parent.name == "keys":
            continue  # the last anchor may be missing for a moment, and keys are a convenience
        with changed(place, None):
            report = run(published)
        assert not report.ok, place
        assert place.name in failures(report) or str(int(place.stem)) in failures(report), (place, failures(report))


@pytest.mark.slow
def test_one_added_file_is_named(published: Published) -> None:
    root = published.folder / "archive"
    crate = next(place.parent for place in published.files if place.name == MANIFEST)
    for place in (
        root / "stray.txt",
        root / "anchors" / "000000099.json",
        root / "keys" / "extra.pem",
        root / "releases" / "wages" / "loose.json",
        root / "releases" / "wages" / "2026-03" / "forged-r1-0123456789abcdef" / "release.json",
        crate / "extra.json",
        crate / "deeper" / "extra.json",
    ):
        with changed(place, b"{}"):
            report = run(published)
        assert not report.ok, place
        assert place.name in failures(report) or place.parent.name in failures(report), failures(report)


def test_a_missing_crate_is_named_with_what_to_do(published: Published, tmp_path: Path) -> None:
    crate = next(place.parent for place in published.files if place.name == "registry.yaml")
    crate.rename(tmp_path / "aside")
    report = run(published)
    (tmp_path / "aside").rename(crate)
    assert f"{crate.name} of entry 3 is missing: run `dpbayes release`" in failures(report)


@pytest.mark.slow
def test_a_changed_ledger_row_is_named(published: Published) -> None:
    path = published.folder / "ledger.db"
    before = path.read_bytes()
    for column in ("payload", "release", "hash", "prev_hash", "key"):
        with closing(sqlite3.connect(path)) as database, database:
            for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                database.execute(f"DROP TRIGGER {trigger}")
            (text,) = database.execute(f"SELECT {column} FROM entry WHERE seq = 3").fetchone()
            position = len(text) // 2
            swapped = text[:position] + ("1" if text[position] != "1" else "2") + text[position + 1 :]
            database.execute(f"UPDATE entry SET {column} = ? WHERE seq = 3", (swapped,))
        try:
            report = failures(run(published))
        except DpbayesError as refused:  # a row that cannot even be read
            report = str(refused)
        path.write_bytes(before)
        assert "3" in report, column


def test_crates_swapped_between_periods_are_found(published: Published) -> None:
    paths = [
        published.folder / "archive" / release_path(e.to_record()) for e in published.entries() if e.kind == "charge"
    ]
    aside = published.folder / "aside"
    for source, target in ((paths[0], aside), (paths[1], paths[0]), (aside, paths[1])):
        source.rename(target)
    report = failures(run(published))
    for source, target in ((paths[0], aside), (paths[1], paths[0]), (aside, paths[1])):
        source.rename(target)
    assert all(path.name in report for path in paths)


def test_a_crate_re_signed_by_the_agency_is_still_held_against_the_ledger(published: Published) -> None:
    """Whoever holds the key can sign anything; the release must still be the one that was charged for."""
    entry = next(e for e in published.entries() if e.kind == "charge")
    forged = re_signed(entry.to_record(), published.signer)
    folder = published.folder / "archive" / release_path(entry.to_record())
    before = load(folder)
    rewrite(folder, forged)
    report = run(published)
    rewrite(folder, before)
    assert not report.ok
    assert "release.json is not the entry's release" in failures(report)
    assert run(published).ok


def re_signed(record: dict[str, Any], signer: Signer) -> dict[str, bytes]:
    crate = build_release_crate(record, STUDY_TEXT, signer)
    crate["release.json"] = crate["release.json"].replace(b'"revision":1', b'"revision":2')
    ledger = {"hash": record["hash"], "seq": record["seq"]}
    return attested(body(crate), RELEASE_PREDICATE, {"ledger": ledger, "release": record["payload"]["digest"]}, signer)


def body(crate: dict[str, bytes]) -> dict[str, bytes]:
    """A crate without what signing adds."""
    return {name: data for name, data in crate.items() if name not in (ATTESTATION, PUBLIC_KEY)}


def rewrite(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in {**files, MANIFEST: manifest(files)}.items():
        (folder / name).write_bytes(data)


def test_nobody_elses_signature_is_accepted(published: Published, tmp_path: Path) -> None:
    other = Signer.create(tmp_path / "keys")
    report = run(published, dict(other.trusted))
    assert "no trusted key signed it" in failures(report)
    assert f"keys/{published.signer.fingerprint.removeprefix('SHA256:')}.pem is not a trusted key" in failures(report)


def test_a_charge_that_was_never_published_is_named(tmp_path: Path) -> None:
    published = publish(tmp_path)
    with Ledger.open(published.url) as ledger:
        entry = charge(ledger, request("2026-03"))
        published.anchors.write(entry.to_record())
    assert release_path(entry.to_record()) in failures(run(published))


def test_a_release_published_twice_under_one_entry_is_named(tmp_path: Path) -> None:
    published = publish(tmp_path)
    entry = next(e for e in published.entries() if e.kind == "charge")
    crate = build_release_crate(entry.to_record(), STUDY_TEXT, published.signer)
    published.archive.write_folder("releases/wages/2026-01/again-r1-0123456789abcdef", crate)
    assert "releases/wages/2026-01/again-r1-0123456789abcdef: entry.json is no charge" in failures(run(published))


def test_an_anchor_taken_away_after_publication_is_named(tmp_path: Path) -> None:
    published = publish(tmp_path)
    with Ledger.open(published.url) as ledger:
        entry = charge(ledger, request("2026-03"))
    published.archive.write_folder(
        release_path(entry.to_record()), build_release_crate(entry.to_record(), STUDY_TEXT, published.signer)
    )
    assert f"anchors/{entry.seq:09d}.json is missing" in failures(run(published))


def test_a_lone_crate_is_audited_by_a_fingerprint_alone(published: Published, tmp_path: Path) -> None:
    for place in (each.parent for each in published.files if each.name == "attestation.json"):
        files = load(place)
        assert audit_crate(files, [published.signer.fingerprint]).ok
        assert audit_crate(files, [published.signer.fingerprint.removeprefix("SHA256:").upper()]).ok
        assert not audit_crate(files, ["SHA256:" + "0" * 64]).ok
        assert not audit_crate(files, []).ok
        (tmp_path / "crate.zip").write_bytes(pack(files))
        assert audit_crate(load(tmp_path / "crate.zip"), [published.signer.fingerprint]).ok


@pytest.mark.slow
def test_a_wrong_manifest_of_a_lone_crate_is_found_and_none_is_said(published: Published, tmp_path: Path) -> None:
    def audited(files: dict[str, bytes]) -> tuple[bool, str]:
        (tmp_path / "crate.zip").write_bytes(pack(files))
        report = audit_crate(load_with_manifest(tmp_path / "crate.zip"), [published.signer.fingerprint])
        return report.ok, next(each.detail for each in report.checks if each.check == "the manifest names every file")

    for place in (each.parent for each in published.files if each.name == ATTESTATION):
        files = load_with_manifest(place)
        assert audited(files) == (True, "as written")
        assert audited(load(place)) == (True, "it has no MANIFEST.json: the statement alone names every file")
        for wrong in (
            files[MANIFEST].replace(b'"release.json"', b'"release.jsonx"'),
            flipped(files[MANIFEST], len(files[MANIFEST]) // 2),
            manifest({name: data for name, data in load(place).items() if name != ATTESTATION}),
            b"",
        ):
            assert audited({**files, MANIFEST: wrong}) == (False, "MANIFEST.json is not that of the files")


def test_draws_that_are_not_those_of_the_summary_are_found(published: Published) -> None:
    """Also where the agency signed them itself."""
    release = next(load(each.parent) for each in published.files if each.name == "registry.yaml")
    drawn = posterior_crate(release, published.signer)
    record = json.loads(drawn["posterior.json"])
    record["coefficients"][1]["mean"] += 0.01
    files = {**body(drawn), "posterior.json": canonical_json(record)}
    forged = attested(files, POSTERIOR_PREDICATE, predicate_of(record), published.signer)
    report = audit_crate(forged, [published.signer.fingerprint])
    assert "disagree on age" in failures(report)


def test_an_audit_never_raises_on_rubbish(published: Published) -> None:
    for files in ({}, {"attestation.json": b"[]"}, {"entry.json": b"\xff"}, {"posterior.json": b"[" * 9999}):
        assert not audit_crate(files, [published.signer.fingerprint]).ok
    broken = [replace(entry, payload={}) for entry in published.entries()]
    assert not audit(broken, published.anchors, published.archive, published.signer.trusted).ok


def test_every_check_is_explained_to_auditors(published: Published) -> None:
    explained = (Path(__file__).parents[3] / "docs" / "auditing.md").read_text()
    crate = next(load(each.parent) for each in published.files if each.name == "report.html")
    alone = audit_crate(crate, [published.signer.fingerprint])
    for check in (*run(published).checks, *alone.checks):
        assert f"\n| {check.check} |" in explained, check.check
