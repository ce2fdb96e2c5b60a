"""An analysis that was made before is the answer only for the very ledger entries that it was made of."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpbayes.crates.files import load
from dpbayes.crates.format import ATTESTATION, PUBLIC_KEY, attested
from dpbayes.crates.posterior import PREDICATES, predicate_of
from dpbayes.crates.release import build_release_crate
from dpbayes_core.canonical import canonical_json, digest
from storage.files.archive import Archive
from storage.home.signatures import Signer
from storage.ledger.entries import Entry
from tests.support.desk import PERIOD, Desk
from tests.support.earlier import as_version_2

pytestmark = pytest.mark.usefixtures("workers")

Files = dict[str, bytes]
QUICK = ("--chains", "2", "--draws", "300", "--sampler", "naive")


@pytest.fixture
def desk(agency: Desk, tmp_path: Path) -> Desk:
    shutil.copytree(agency.folder, tmp_path / "agency")
    return Desk(tmp_path / "agency")


def released(desk: Desk) -> Path:
    (crate,) = (desk.home / "archive" / "releases" / "pay" / PERIOD).iterdir()
    return crate


def analysed(desk: Desk) -> Path:
    (crate,) = (desk.home / "archive" / "posteriors" / "pay" / PERIOD).iterdir()
    return crate


def key(desk: Desk) -> str:
    return Signer.load(desk.home / "keys").fingerprint


def other_bounds(crate: Path, signer: Signer) -> Files:
    """A crate with the same noisy values, hence the same digest, of an age that reaches further."""
    record = json.loads((crate / "entry.json").read_text())
    payload, release = record["payload"], json.loads(record["release"])
    payload["definition"]["columns"]["age"] = {"bounds": [16.0, 144.0], "nulls": 80.0}
    payload["request"] = digest(payload["definition"])
    (age,) = (each for each in release["schema"]["covariates"] if each["name"] == "age")
    age["bounds"] = [16.0, 144.0]
    entry = Entry.from_record({**record, "payload": payload, "release": canonical_json(release).decode()})
    forged = replace(entry, hash=entry.computed_hash).to_record()
    study = (crate / "study.yaml").read_bytes().replace(b"[16, 80]", b"[16, 144]")
    return build_release_crate(forged, study, signer)


def write(folder: Path, files: Files) -> Path:
    Archive(str(folder.parent)).write_folder(folder.name, files)
    return folder


def ages(document: dict[str, Any]) -> float:
    return next(line["mean"] for line in document["analyses"][0]["coefficients"] if line["name"] == "age")


@pytest.mark.slow
def test_a_strangers_release_of_the_same_values_does_not_answer_for_the_genuine_one(desk: Desk, tmp_path: Path) -> None:
    stranger = write(tmp_path / "stranger", other_bounds(released(desk), Signer.create(tmp_path / "keys")))
    named = ("--to", tmp_path / "out", *QUICK)
    theirs = desk.document("analyse", "--from", stranger, *named)
    genuine = desk.document("analyse", "--from", released(desk), *named, "--key", key(desk))
    assert theirs["sources"][0]["digest"] == genuine["sources"][0]["digest"]
    assert not genuine["analyses"][0]["already_analysed"]
    assert ages(genuine) != pytest.approx(ages(theirs), rel=0.2)
    again = desk.document("analyse", "--from", released(desk), *named, "--key", key(desk))
    assert again["analyses"][0]["already_analysed"]
    assert ages(again) == ages(genuine)


@pytest.mark.slow
def test_a_strangers_crate_moved_to_the_genuine_ones_place_is_refused(desk: Desk, tmp_path: Path) -> None:
    stranger = write(tmp_path / "stranger", other_bounds(released(desk), Signer.create(tmp_path / "keys")))
    theirs = desk.document("analyse", "--from", stranger, "--to", tmp_path / "one.zip", *QUICK)
    assert theirs["analyses"][0]["crate"] == str(tmp_path / "one.zip")
    asked = ("analyse", "--from", released(desk), "--to", tmp_path / "one.zip", *QUICK, "--key", key(desk))
    assert "another crate stands there" in desk.document(*asked, exit_code=2)["error"]["message"]


@pytest.mark.slow
def test_who_signed_the_posterior_that_stood_there_is_said_truthfully(desk: Desk, tmp_path: Path) -> None:
    asked = ("analyse", "--from", released(desk), "--to", tmp_path / "out", *QUICK, "--key", key(desk))
    made = desk.document(*asked)
    assert made["signed_by"] is None
    assert not any("stood there before" in each for each in made["not_verified"])
    stood = desk.document(*asked)
    assert any("stood there before: nobody signed it" in each for each in stood["not_verified"])
    crate = Path(made["analyses"][0]["crate"])
    keys, elsewhere = tmp_path / "keys", tmp_path / "elsewhere"
    desk.document("analyse", "--from", released(desk), "--to", elsewhere, *QUICK, "--sign", keys)
    signer = Signer.load(keys)
    shutil.rmtree(crate)
    shutil.copytree(elsewhere / crate.name, crate)
    planted = desk.document(*asked)
    assert planted["signed_by"] == signer.fingerprint
    assert any(f"{signer.fingerprint} signed it" in each for each in planted["not_verified"])


@pytest.mark.slow
def test_an_analysis_that_an_earlier_version_archived_is_found_and_not_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk.set_up(tmp_path)
    desk.edit_study("draws: 500", "draws: 300\n    sampler: naive")
    with monkeypatch.context() as patched:  # nor did it put anything on the ledger
        patched.setattr("dpbayes.analyses.publish.put_on_record", lambda *_: None)
        desk.document("run", desk.study, "--period", PERIOD)
    new = analysed(desk)
    path, files = as_version_2(load(new), Signer.load(desk.home / "keys"))
    shutil.rmtree(new)
    Archive(str(desk.home / "archive")).write_folder(path, files)
    done = desk.document("analyse", desk.study, "--period", PERIOD)["analyses"][0]
    assert done["already_analysed"]
    assert done["crate"].endswith(path)
    assert analysed(desk).name == Path(path).name


@pytest.mark.slow
def test_an_analysis_under_the_earlier_name_of_another_entry_is_no_answer(desk: Desk, tmp_path: Path) -> None:
    """The earlier name covers values only: a crate of other bounds has it too."""
    stranger = write(tmp_path / "stranger", other_bounds(released(desk), Signer.create(tmp_path / "keys")))
    theirs = desk.document("analyse", "--from", stranger, "--to", tmp_path / "out", *QUICK)
    named = ("analyse", "--from", released(desk), "--to", tmp_path / "out", *QUICK, "--key", key(desk))
    path, files = as_version_2(load(Path(theirs["analyses"][0]["crate"])), None)
    planted = write(tmp_path / "out" / f"reanalysis-{path[-16:]}", files)
    assert not desk.document(*named)["analyses"][0]["already_analysed"]
    assert planted.exists()


def test_an_analysis_in_the_archive_that_the_home_did_not_sign_is_no_answer(desk: Desk, tmp_path: Path) -> None:
    files = load(analysed(desk))
    kept = {name: data for name, data in files.items() if name not in (ATTESTATION, PUBLIC_KEY)}
    predicate = predicate_of(json.loads(files["posterior.json"]))
    place = analysed(desk)
    shutil.rmtree(place)
    write(place, attested(kept, PREDICATES[3], predicate, Signer.create(tmp_path / "keys")))
    error = desk.document("analyse", desk.study, "--period", PERIOD, exit_code=5)["error"]
    assert "it is not this home's analysis of these ledger entries" in error["message"]
