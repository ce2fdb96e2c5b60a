"""A release that was withdrawn or superseded says so where people find it: beside its crate, in tables, in audits."""

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbayes.analyses.crates_workspace import crates_workspace
from dpbayes.analyses.publish import publish_posterior
from dpbayes.crates.contained_releases import sources_of
from dpbayes.crates.posterior import Provenance, build_posterior_crate
from dpbayes_core.canonical import canonical_json
from storage.files.archive_paths import path_of, release_path
from storage.home.home import Home
from storage.home.signatures import Signer
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.notices import NOTICE_TYPE, write_notices
from tasks.orders import ReleaseOrder
from tasks.publish_release import publish_once
from tasks.stamp import software_versions, stamp_of
from tests.dpbayes.crates.crate_examples import analysis, drawn
from tests.support.charged import charge, publish
from tests.support.desk import PERIOD, Desk

REASON = "the source was wrong"


def posterior_of(desk: Desk) -> Path:
    """The crate of a posterior that stands on the month's release, in the archive."""
    with AnchoredLedger.open(desk.study) as anchored:
        entry = next(each for each in anchored.ledger.entries() if each.kind == "charge")
        release = anchored.archive.read_folder(release_path(entry.to_record()))
        source = Provenance(sources=sources_of(release), study_text=desk.study.read_bytes())
        random = np.random.default_rng(3)
        names = ("(intercept)", "age", "female[yes]", "region[south]", "region[east]", "sigma")
        draws = {name: 1 + random.standard_normal((4, 1000)) / 10 for name in names}
        asked = analysis(study="pay", period=PERIOD, analysis="pay-posterior")
        files = build_posterior_crate(
            asked,
            drawn(draws, source.evidence.digest),
            source,
            naive=None,
            software=software_versions(),
            signer=anchored.home.signer(),
        )
        path = path_of(json.loads(files["posterior.json"]))
        publish_posterior(anchored, source.sources[0].entry.payload["account"], path, files, stamp_of("steward"))
        return Path(anchored.archive.address(path))


@pytest.fixture(scope="module")
def agency(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one release, its crate and a posterior."""
    desk = Desk.set_up(tmp_path_factory.mktemp("agency"))
    charge(desk.study)
    publish(desk.study)
    posterior_of(desk)
    return desk.folder


@pytest.fixture
def desk(agency: Path, tmp_path: Path) -> Desk:
    shutil.copytree(agency, tmp_path / "agency")
    return Desk(tmp_path / "agency")


def withdraw(desk: Desk, reason: str = REASON) -> dict[str, Any]:
    named = ("pay-regression", "--period", PERIOD, "--reason", reason)
    return desk.document("ledger", "withdraw", desk.study, *named)


def crates(desk: Desk, what: str) -> list[Path]:
    return sorted(place.parent for place in (desk.home / "archive" / what).rglob("MANIFEST.json"))


def marks(desk: Desk) -> dict[str, bytes]:
    found = (desk.home / "archive").rglob("*.WITHDRAWN.*")
    return {place.relative_to(desk.home / "archive").as_posix(): place.read_bytes() for place in sorted(found)}


def audited(desk: Desk, *more: str | Path, exit_code: int = 0) -> dict[str, Any]:
    return desk.document("audit", desk.study, *more, exit_code=exit_code)


def detail(document: dict[str, Any], check: str) -> str:
    return next(each["detail"] for each in document["checks"] if each["check"] == check)


def test_a_withdrawn_release_is_marked_beside_its_crate_and_its_posteriors(desk: Desk) -> None:
    document = withdraw(desk)
    (release,), (posterior,) = crates(desk, "releases"), crates(desk, "posteriors")
    for crate in (release, posterior):
        words = (crate.parent / f"{crate.name}.WITHDRAWN.txt").read_text()
        assert REASON in words
        assert str(crate.parent / f"{crate.name}.WITHDRAWN.txt") in document["notices"]
    assert "stands on a release that was withdrawn" in words
    before = marks(desk)
    assert len(before) == 4
    assert withdraw(desk, "again, otherwise")["status"] == "already-recorded"
    assert marks(desk) == before
    assert audited(desk)["ok"] is True


@pytest.mark.slow
def test_a_notice_that_a_kill_left_unwritten_is_written_by_the_next_command(desk: Desk) -> None:
    withdraw(desk)
    before = marks(desk)
    written = sorted(before, key=lambda name: (name.startswith("releases"), name.endswith("txt")))
    for kept in range(len(written)):  # killed before the first of them, or after so many
        for name in written[kept:]:
            (desk.home / "archive" / name).unlink()
        assert "is missing" in detail(audited(desk, exit_code=5), "notices are genuine and complete")
        desk.document("ledger", "note", "a quiet day", desk.study)
        assert marks(desk) == before
    assert audited(desk)["ok"] is True


def test_a_withdrawn_release_that_is_asked_for_again_says_so(desk: Desk) -> None:
    order = ReleaseOrder(study=str(desk.study), release="pay-regression", period=PERIOD)
    (before,) = publish_once(order, ["already-released"])
    assert before["withdrawn"] is None
    withdraw(desk)
    document = desk.document("release", desk.study, "--period", PERIOD)
    (one,) = document["releases"]
    assert one["status"] == "already-released"
    assert one["digest"] == before["digest"]
    assert one["withdrawn"]["reason"] == REASON
    assert f"WITHDRAWN on {one['withdrawn']['date']}: {REASON}" in desk.run(
        "release", desk.study, "--period", PERIOD
    ).output.replace("\n", " ")


def test_one_crate_says_what_lies_beside_it_and_what_it_cannot_tell(desk: Desk, tmp_path: Path) -> None:
    (release,), (posterior,) = crates(desk, "releases"), crates(desk, "posteriors")
    for crate in (release, posterior):
        document = audited(desk, "--crate", crate)
        assert document["notices"] == []
        told = " ".join(document["cannot_tell"])
        for words in ("withdrawn or superseded since", "whether the budget was kept", "the key was retired"):
            assert words in told
        for words in ("other analyses were made", "the one on the ledger"):
            assert (words in told) == (crate is posterior)
    withdraw(desk)
    for crate in (release, posterior):
        document = audited(desk, "--crate", crate)
        assert document["ok"] is True
        (notice,) = document["notices"]
        assert (notice["status"], notice["reason"]) == ("withdrawn", REASON)
        assert "a key of this home; you named none" in detail(document, "notices beside the crate are genuine")
        shown = desk.run("audit", desk.study, "--crate", crate).output
        assert "NOTICE:" in shown
        assert "One crate cannot tell whether the budget was kept" in shown
    shutil.copytree(release, tmp_path / "alone")
    assert "there is none" in detail(
        audited(desk, "--crate", tmp_path / "alone"), "notices beside the crate are genuine"
    )


def test_predictions_say_that_their_release_was_withdrawn(desk: Desk) -> None:
    withdraw(desk)
    (posterior,) = crates(desk, "posteriors")
    at = ("--at", "age=40,female=no,region=south")
    (notice,) = desk.document("predict", posterior, *at)["notices"]
    assert notice["reason"] == REASON
    assert not notice["trusted"]
    assert "NOTICE: somebody says" in desk.run("predict", posterior, *at).output
    named = ("--key", Signer.load(desk.home / "keys").fingerprint)
    assert desk.document("predict", posterior, *at, *named)["notices"][0]["trusted"]


def test_analyses_of_a_withdrawn_crate_say_so(desk: Desk) -> None:
    withdraw(desk)
    (release,) = crates(desk, "releases")
    asked = {"keys": (), "prior": None, "sampler": "naive", "chains": 2, "draws": 100, "seed": 1, "sign": None}
    workspace = crates_workspace({"crates": (str(release),), "to": str(desk.folder / "out"), **asked})
    (notice,) = workspace.remarks({})["notices"]
    assert notice["status"] == "withdrawn"


def test_a_superseded_release_is_marked(desk: Desk) -> None:
    (release,), (posterior,) = crates(desk, "releases"), crates(desk, "posteriors")
    charge(desk.study, revision=2)
    order = ReleaseOrder(
        study=str(desk.study), release="pay-regression", period=PERIOD, revision=2, reason="the source was wrong"
    )
    publish_once(order, ["released"])
    for crate in (release, posterior):
        assert REASON in (crate.parent / f"{crate.name}.SUPERSEDED.txt").read_text()
        (notice,) = audited(desk, "--crate", crate)["notices"]
        assert notice["status"] == "superseded"
    assert audited(desk)["ok"] is True


# --- what somebody does to notices --------------------------------------------------------------------------------


def forged(desk: Desk, place: Path) -> None:
    """By a key of the forger's own, who knows what notices look like."""
    (desk.folder / "forger").mkdir()
    other = Signer.create(desk.folder / "forger" / "keys")
    with AnchoredLedger.open(desk.study) as anchored:
        by_kind = {entry.kind: entry.to_record() for entry in anchored.ledger.entries()}
        for name in (place, place.with_suffix(".txt")):
            name.unlink()
        write_notices(anchored.archive, other, by_kind["charge"], by_kind["withdraw"], "withdrawn")
        assert release_path(by_kind["charge"]) in place.as_posix()


def altered(desk: Desk, place: Path) -> None:
    place.write_bytes(place.read_bytes().replace(b'"payload":"e', b'"payload":"f', 1))


def other_words(desk: Desk, place: Path) -> None:
    place.with_suffix(".txt").write_text("All is well.\n")


def moved(desk: Desk, place: Path) -> None:
    """A genuine notice beside a crate that it does not speak of."""
    place.rename(place.parent / "pay-regression-r9-0123456789abcdef.WITHDRAWN.json")


def half(desk: Desk, place: Path) -> None:
    place.unlink()


DONE: dict[str, tuple[Callable[[Desk, Path], None], str]] = {
    "forged": (forged, "was signed by no trusted key"),
    "altered": (altered, ".WITHDRAWN.json"),
    "its words altered": (other_words, ".WITHDRAWN.txt was altered"),
    "moved": (moved, "is a notice that no act of the ledger calls for"),
    "taken away": (half, ".WITHDRAWN.json is missing"),
}


@pytest.mark.parametrize("what", DONE)
def test_a_notice_that_is_not_the_agencys_is_named(desk: Desk, what: str) -> None:
    withdraw(desk)
    change, said = DONE[what]
    (release,) = crates(desk, "releases")
    change(desk, release.parent / f"{release.name}.WITHDRAWN.json")
    assert said in detail(audited(desk, exit_code=5), "notices are genuine and complete")


@pytest.mark.parametrize("kind", ["txt", "json"])
@pytest.mark.parametrize("what", ["releases", "posteriors"])
def test_a_file_under_the_name_of_a_notice_keeps_none_from_being_written(desk: Desk, what: str, kind: str) -> None:
    """Somebody who knows that a release will be withdrawn, and puts a file there beforehand."""
    (crate,) = crates(desk, what)
    planted = crate.parent / f"{crate.name}.WITHDRAWN.{kind}"
    planted.write_text("x")
    named = ("pay-regression", "--period", PERIOD, "--reason", REASON)
    for _ in range(2):
        refused = desk.document("ledger", "withdraw", desk.study, *named, exit_code=5)["error"]["message"]
        assert planted.name in refused
        assert "Move that file away and run again" in refused
    assert len(marks(desk)) == 4  # all the others
    history = desk.document("ledger", "history", desk.study)["entries"]
    assert [entry["kind"] for entry in history].count("withdraw") == 1
    desk.document("ledger", "note", "other work goes on", desk.study)
    planted.unlink()
    assert withdraw(desk)["status"] == "already-recorded"
    assert audited(desk)["ok"] is True
    assert audited(desk, "--crate", crate)["notices"][0]["status"] == "withdrawn"


@pytest.mark.parametrize("what", ["releases", "posteriors"])
def test_every_file_of_a_notice_that_is_taken_away_is_written_again(desk: Desk, what: str) -> None:
    withdraw(desk)
    before = marks(desk)
    for name in (each for each in before if each.startswith(what)):
        (desk.home / "archive" / name).unlink()
        withdraw(desk)
        assert marks(desk) == before
    assert audited(desk)["ok"] is True


def analysed_and_audited(desk: Desk, key: str) -> list[list[dict[str, Any]]]:
    """What both commands tell of notices whoever names that key."""
    (release,) = crates(desk, "releases")
    asked = {"keys": (key,), "prior": None, "sampler": "naive", "chains": 2, "draws": 100, "seed": 1, "sign": None}
    workspace = crates_workspace({"crates": (str(release),), "to": str(desk.folder / "out"), **asked})
    audit = desk.run("audit", "--crate", release, "--key", key, "--json")
    return [list(workspace.remarks({})["notices"]), json.loads(audit.stdout)["notices"]]


def test_a_notice_of_a_key_that_nobody_named_is_no_fact(desk: Desk) -> None:
    withdraw(desk)
    (release,) = crates(desk, "releases")
    key = Home.find(desk.study).signer().fingerprint
    for (notice,) in analysed_and_audited(desk, key):
        assert notice["trusted"] is True
        assert f"{release.name} was withdrawn" in notice["said"]
        assert "did not name" not in notice["said"]
    forged(desk, release.parent / f"{release.name}.WITHDRAWN.json")
    for (notice,) in analysed_and_audited(desk, key):
        assert notice["trusted"] is False
        assert notice["said"].startswith("somebody says that ")
        assert "by a key that you did not name" in notice["said"]


def test_a_notice_whose_signature_is_broken_is_named_and_not_told(desk: Desk) -> None:
    withdraw(desk)
    (release,) = crates(desk, "releases")
    place = release.parent / f"{release.name}.WITHDRAWN.json"
    envelope = json.loads(place.read_bytes())
    first = envelope["signatures"][0]
    first["sig"] = ("A" if first["sig"][0] != "A" else "B") + first["sig"][1:]
    place.write_bytes(canonical_json(envelope))
    for (notice,) in analysed_and_audited(desk, Home.find(desk.study).signer().fingerprint):
        assert "was altered" in notice["said"]
        assert notice.keys() == {"said"}


def test_a_strangers_notice_of_another_shape_is_named(desk: Desk) -> None:
    withdraw(desk)
    (release,) = crates(desk, "releases")
    place = release.parent / f"{release.name}.WITHDRAWN.json"
    (desk.folder / "stranger").mkdir()
    stranger = Signer.create(desk.folder / "stranger" / "keys")
    said = json.loads(base64.b64decode(json.loads(place.read_bytes())["payload"]))
    said |= {"act": {"seq": ["no", "number"]}, "public_key": stranger.export_public_key().decode()}
    place.write_bytes(canonical_json(stranger.sign(NOTICE_TYPE, canonical_json(said))))
    for (notice,) in analysed_and_audited(desk, Home.find(desk.study).signer().fingerprint):
        assert "is no notice" in notice["said"]


def test_a_notice_without_an_act_is_named(desk: Desk, tmp_path: Path) -> None:
    """Somebody who wants a good release out of use, and has no more than the folder."""
    withdraw(desk)
    (release,) = crates(desk, "releases")
    kept = {place.name: place.read_bytes() for place in release.parent.glob("*.WITHDRAWN.*")}
    elsewhere = Desk.set_up(tmp_path)
    charge(elsewhere.study)
    publish(elsewhere.study)
    (other,) = crates(elsewhere, "releases")
    for name, data in kept.items():
        (other.parent / (other.name + name[name.index(".WITHDRAWN") :])).write_bytes(data)
    assert "no act of the ledger calls for" in detail(
        audited(elsewhere, exit_code=5), "notices are genuine and complete"
    )
    beside = detail(audited(elsewhere, "--crate", other, exit_code=5), "notices beside the crate are genuine")
    assert "it is the notice of another crate" in beside
    assert Home.find(elsewhere.study).folder != desk.home
