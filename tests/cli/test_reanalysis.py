"""An analyst with published crates and nothing else: what they can do, what is proven, and what is refused."""

import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from dpbayes.analyses.checkpoints import Checkpoints
from dpbayes.analyses.crates_workspace import crates_workspace
from dpbayes.crates.files import load
from dpbayes.crates.format import METADATA, UNSIGNED, pack
from dpbayes_core.regression.prior import Prior
from dpbayes_core.samplers.driver import begin
from dpbayes_core.samplers.registry import SAMPLERS
from dpbayes_core.sampling.rounds import first_round, run_chain
from tasks.stamp import software_versions
from tests.support.desk import PERIOD, Desk
from tests.support.schemas import flaws_of_record

pytestmark = pytest.mark.usefixtures("workers")

QUICK = ("--chains", "2", "--draws", "300", "--sampler", "naive")


class Analyst:
    """A folder with a crate in it, far from any home."""

    def __init__(self, folder: Path, agency: Desk) -> None:
        folder.mkdir()
        self.folder = folder
        self.desk = Desk(folder)
        released = agency.release()["releases"][0]
        self.crate = folder / "crate"
        shutil.copytree(released["crate"], self.crate)
        self.key = f"SHA256:{next((agency.home / 'keys' / 'public').iterdir()).stem}"
        self.digest = released["digest"]

    def analyse(self, *more: str | Path, crate: Path | None = None, exit_code: int = 0) -> dict[str, Any]:
        """The document of an analysis of the crate."""
        place = crate or self.crate
        return self.desk.document(
            "analyse", "--from", place, "--to", self.folder / "out", *QUICK, *more, exit_code=exit_code
        )

    def audit(self, crate: Path, *more: str, exit_code: int = 0) -> dict[str, Any]:
        """What an audit of a crate says to one who trusts the agency."""
        return self.desk.document("audit", "--crate", crate, "--key", self.key, *more, exit_code=exit_code)

    def failed(self, crate: Path, *more: str) -> str:
        """The details of the checks that fail."""
        found = self.audit(crate, *more, exit_code=5)["checks"]
        return "\n".join(check["detail"] for check in found if not check["ok"])


@pytest.fixture(scope="module")
def agency(shared_desk: Desk) -> Desk:
    return shared_desk


@pytest.fixture(scope="module")
def analyst(tmp_path_factory: pytest.TempPathFactory, agency: Desk) -> Analyst:
    return Analyst(tmp_path_factory.mktemp("far") / "analyst", agency)


@pytest.fixture(scope="module")
def made(analyst: Analyst) -> Path:
    return crate_of(analyst.analyse())


def crate_of(document: dict[str, Any]) -> Path:
    return Path(document["analyses"][0]["crate"])


def means(document: dict[str, Any]) -> dict[str, float]:
    return {line["name"]: line["mean"] for line in document["analyses"][0]["coefficients"]}


@pytest.mark.slow
def test_a_crate_alone_gives_a_posterior_that_says_where_it_comes_from(analyst: Analyst, made: Path) -> None:
    record = json.loads((made / "posterior.json").read_text())
    (link,) = record["releases"]
    assert (record["origin"], link["digest"], link["period"]) == ("crates", analyst.digest, PERIOD)
    assert link["attestation"]["signed_by"] == analyst.key
    assert flaws_of_record(made) == []
    page = (made / "report.html").read_text()
    assert "made from published crates alone" in page
    assert f"--key {analyst.key} --replay" in page


def test_the_same_request_finds_the_crate_that_stands_there(analyst: Analyst, made: Path) -> None:
    again = analyst.analyse()
    assert crate_of(again) == made
    assert again["analyses"][0]["seconds"]["sampling"] == 0
    assert again["analyses"][0]["already_analysed"]


def test_nothing_is_left_but_crates(analyst: Analyst, made: Path) -> None:
    assert [each.name for each in made.parent.iterdir() if not each.name.startswith("reanalysis-")] == [".tmp"]
    assert not any(each.name == ".dpbayes" for each in analyst.folder.rglob("*"))


@pytest.mark.slow
def test_checkpoints_that_somebody_put_beside_the_crate_are_not_believed(analyst: Analyst, made: Path) -> None:
    """Anybody who may write a shared folder could leave chains there that begin and end as they like."""
    shared = analyst.folder / "shared"
    asked = {"sampler": "naive", "chains": 2, "draws": 300, "prior": None, "seed": None, "sign": None}
    analysis = crates_workspace({"crates": [str(analyst.crate)], "keys": [], "to": str(shared), **asked}).analysis
    sampler, current = SAMPLERS["naive"], first_round(300)
    problem = sampler.prepare(analysis.evidence, Prior(intercept_sd=1e-3, coefficient_sd=1e-3))
    planted = Checkpoints(shared / ".dpbayes-work", analysis.key, software_versions())
    planted.begin(current)
    for place, chain in enumerate(begin(sampler, problem, current, chains=2, seed=666)):
        planted.keep(place, run_chain(sampler, problem, chain, current))
    document = analyst.desk.document("analyse", "--from", analyst.crate, "--to", shared, *QUICK)
    assert not document["analyses"][0]["already_analysed"]
    assert means(document) == means(analyst.analyse())


@pytest.mark.slow
def test_what_nobody_verified_is_said(analyst: Analyst) -> None:
    fresh = analyst.folder / "fresh"  # of a posterior that stood there before more is said
    unsure = analyst.analyse("--to", fresh / "unsure")
    assert [source["trusted"] for source in unsure["sources"]] == [False]
    assert analyst.key in unsure["not_verified"][0]
    assert "withdrawn or superseded" in unsure["not_verified"][-1]
    sure = analyst.analyse("--key", analyst.key, "--to", fresh / "sure")
    assert [source["trusted"] for source in sure["sources"]] == [True]
    assert len(sure["not_verified"]) == 1


def test_another_key_than_the_signers_is_refused(analyst: Analyst) -> None:
    error = analyst.analyse("--key", "SHA256:" + "0" * 64, exit_code=5)["error"]
    assert "none of those trusted; nothing in it was read. Check the fingerprint." in error["message"]


@pytest.mark.slow
def test_a_prior_of_ones_own_moves_the_posterior(analyst: Analyst, made: Path) -> None:
    prior = analyst.folder / "prior.yaml"
    prior.write_text("coefficients: {sd: 0.01}\n")
    shrunk = analyst.analyse("--prior", prior)
    assert crate_of(shrunk) != made
    assert abs(means(shrunk)["female[yes]"]) < 0.5 * abs(means(analyst.analyse())["female[yes]"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("coefficients: {sd: 0.5}\nnoise: {shape: 2, size: 1}\n", "line 2, noise.size: "),
        ("coefficients:\n  sd: -1\n", "line 2, coefficients.sd: "),
        ("named: {agee: {sd: 1}}\n", "agee is no coefficient. Did you mean age?"),
        ("prior:\n  coefficients: {sd: 1}\n", "Leave prior: out."),
        ("concentration: 2\n", "line 1, concentration: it is no part of the prior of a regression release"),
        ("", "the file is empty. Write what it believes, such as coefficients: {sd: 0.5}, or leave --prior out."),
    ],
)
def test_a_mistake_in_a_prior_is_told_with_its_line(analyst: Analyst, text: str, said: str) -> None:
    prior = analyst.folder / "wrong.yaml"
    prior.write_text(text)
    error = analyst.analyse("--prior", prior, exit_code=2)["error"]
    assert error["message"].startswith("cannot read prior wrong.yaml: ")
    assert said in error["message"]


def test_a_crate_that_was_altered_is_refused_before_anything_is_drawn(analyst: Analyst) -> None:
    altered = analyst.folder / "altered"
    shutil.copytree(analyst.crate, altered)
    record = (altered / "release.json").read_bytes()
    (altered / "release.json").write_bytes(record.replace(b'"revision":1', b'"revision":2'))
    error = analyst.analyse(crate=altered, exit_code=5)["error"]
    assert "release.json was altered" in error["message"]


def test_a_crate_with_another_manifest_is_refused_and_one_without_is_not(analyst: Analyst, made: Path) -> None:
    copied = analyst.folder / "copied"
    shutil.copytree(analyst.crate, copied)
    listing = copied / "MANIFEST.json"
    listing.write_bytes(listing.read_bytes().replace(b'"release.json"', b'"release.jsonx"'))
    said = "MANIFEST.json is not that of the files"
    assert said in analyst.analyse(crate=copied, exit_code=5)["error"]["message"]
    assert analyst.failed(copied) == said
    listing.unlink()
    assert crate_of(analyst.analyse(crate=copied)) == made


@pytest.mark.parametrize(
    "files",
    [
        {"entry.json": b"[]"},
        {"entry.json": b"{}"},
        {"entry.json": b"\xff"},
        {"entry.json": b"[" * 9999},
        {"posterior.json": b"{}"},
        {"releases/x/entry.json": b"{}", "unsigned-statement.json": b"{}"},
    ],
)
def test_rubbish_is_refused_in_a_sentence(analyst: Analyst, tmp_path: Path, files: dict[str, bytes]) -> None:
    place = tmp_path / "rubbish.zip"
    place.write_bytes(pack({"ro-crate-metadata.json": b"{}", **files}))
    for more in ((), ("--key", analyst.key)):
        error = analyst.analyse(*more, crate=place, exit_code=5)["error"]
        assert error["message"].startswith("cannot ")


def test_a_crate_without_a_release_is_refused_by_its_name(analyst: Analyst, tmp_path: Path) -> None:
    (tmp_path / "bare.zip").write_bytes(pack({"ro-crate-metadata.json": b"{}"}))
    error = analyst.analyse(crate=tmp_path / "bare.zip", exit_code=5)["error"]
    assert error["message"].startswith(f"cannot read {tmp_path / 'bare.zip'}: it holds no release.")


def reading(analyst: Analyst, command: str, place: Path, exit_code: int) -> dict[str, Any]:
    """What a command that is given one crate says of it."""
    asked: dict[str, tuple[str | Path, ...]] = {
        "analyse": ("--to", analyst.folder / "out", *QUICK, "--from", place),
        "audit": ("--key", analyst.key, "--crate", place),
        "predict": ("--at", "age=40", place),
    }
    return analyst.desk.document(command, *asked[command], exit_code=exit_code)


COMMANDS = pytest.mark.parametrize("command", ["analyse", "audit", "predict"])


@COMMANDS
def test_what_is_no_crate_is_a_wrong_argument(analyst: Analyst, tmp_path: Path, command: str) -> None:
    text, folder, packed = (tmp_path / name for name in ("prior.yaml", "some", "some.zip"))
    text.write_text("coefficients: {sd: 0.5}\n")
    folder.mkdir()
    (folder / "notes.txt").write_text("notes")
    packed.write_bytes(pack({"some/notes.txt": b"notes"}))
    for place in (text, folder, packed, Path("/etc"), Path("/dev/null")):
        error = reading(analyst, command, place, 2)["error"]
        assert error["message"].startswith(f"cannot read {place}: it is no crate. "), error
    error = reading(analyst, command, tmp_path / "nowhere", 2)["error"]
    assert error["message"] == f"cannot read {tmp_path / 'nowhere'}: there is no such crate. Check the path."


@COMMANDS
def test_a_damaged_crate_is_an_integrity_failure(analyst: Analyst, made: Path, tmp_path: Path, command: str) -> None:
    whole, place = load(made), tmp_path / "crate.zip"
    place.write_bytes(pack(whole)[:-100])
    assert "nor a whole zip of one" in reading(analyst, command, place, 5)["error"]["message"]
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in whole.items():
            archive.writestr(name, data)
    deflated = bytearray(place.read_bytes())
    start = deflated.index(b"ro-crate-metadata.json") + 100
    deflated[start : start + 50] = bytes(50)
    place.write_bytes(deflated)
    assert reading(analyst, command, place, 5)["error"]["message"].startswith(f"cannot read {place}: ")
    place.write_bytes(pack({name: data for name, data in whole.items() if name != METADATA}))
    assert "ro-crate-metadata.json is missing" in str(reading(analyst, command, place, 5))
    place.write_bytes(pack({name: b"[]" if name.endswith("entry.json") else data for name, data in whole.items()}))
    reading(analyst, command, place, 5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--from", "nowhere"), "cannot read nowhere: there is no such crate"),
        (("--from", "crate/study.yaml"), "cannot read crate/study.yaml: it is no crate"),
        (("--from", "crate", "--from", "crate"), "its people would count twice"),
        (("--from", "crate", "--chains", "1"), "--chains: 1 is too small"),
        (("--from", "crate", "--key", "SHA256:12"), "it is no fingerprint"),
        (("--from", "crate", "--to", "crate/study.yaml"), "it is a file. Name a folder, or a .zip."),
        (("--from", "crate", "--sampler", "best"), "--sampler: "),
        (("--from", "crate", "--period", PERIOD), "--from needs no study and no period"),
        (("study.yaml", "--period", PERIOD, "--draws", "10"), "the study file states it"),
        (("study.yaml",), "no period is named"),
        ((), "no study is named"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    analyst: Analyst, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(analyst.folder)
    error = analyst.desk.document("analyse", *arguments, exit_code=2)["error"]
    assert said in error["message"]


def test_the_new_crate_passes_its_audit_and_its_replay(analyst: Analyst, made: Path) -> None:
    checks = {check["check"]: check for check in analyst.audit(made, "--replay")["checks"]}
    assert checks["every file is as its maker listed it"]["detail"].startswith("unsigned: ")
    assert checks["the draws are those of a replay"]["detail"] == "the same, bit for bit"
    strangers = analyst.desk.document("audit", "--crate", made, "--key", "SHA256:" + "0" * 64, exit_code=5)
    assert not strangers["checks"][0]["ok"]


@pytest.mark.slow
def test_any_file_that_was_altered_fails_the_audit(analyst: Analyst, made: Path, tmp_path: Path) -> None:
    whole = load(made)
    assert any(name.startswith("releases/") for name in whole)
    for name, data in whole.items():
        place = tmp_path / "altered.zip"
        middle = len(data) // 2
        place.write_bytes(pack({**whole, name: data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]}))
        said = analyst.failed(place)
        assert name.rpartition("/")[2] in said or (said and name == UNSIGNED), name


def test_a_forged_list_does_not_save_a_forged_release_or_forged_draws(analyst: Analyst, made: Path) -> None:
    from dpbayes.crates.format import listed
    from dpbayes.crates.parquet import draws_parquet, read_draws
    from dpbayes.crates.posterior import PREDICATE, predicate_of

    def forged(name: str, files: dict[str, bytes]) -> Path:
        record = json.loads(files["posterior.json"])
        rest = {each: data for each, data in files.items() if each != UNSIGNED}
        place = analyst.folder / name
        place.write_bytes(pack(listed(rest, PREDICATE, predicate_of(record))))
        return place

    whole = load(made)
    (entry,) = (name for name in whole if name.endswith("/entry.json"))
    other = {**whole, entry: whole[entry].replace(b'"revision":1', b'"revision":2')}
    assert "entry.json of the release" in analyst.failed(forged("release.zip", other))

    draws = read_draws(whole["draws.parquet"])
    record = json.loads(whole["posterior.json"])
    for line in record["coefficients"]:
        if line["name"] == "age":
            draws["age"] = draws["age"] + line["sd"]
            for key in ("mean", "q025", "q975"):
                line[key] += line["sd"]
    better = {
        **whole,
        "draws.parquet": draws_parquet(draws),
        "posterior.json": json.dumps(record, sort_keys=True, separators=(",", ":")).encode(),
    }
    place = forged("draws.zip", better)
    assert "run with --replay" in analyst.failed(place)
    assert "standard errors away from what is drawn today" in analyst.failed(place, "--replay")


@pytest.mark.slow
def test_a_key_of_ones_own_signs_and_vouches_for_no_more(analyst: Analyst) -> None:
    keys, place = analyst.folder / "keys", analyst.folder / "signed.zip"
    document = analyst.desk.document(
        "analyse", "--from", analyst.crate, "--to", place, "--sign", keys, *QUICK, "--seed", "3"
    )
    assert crate_of(document) == place
    own = document["signed_by"]
    checks = {check["check"]: check["detail"] for check in analyst.audit(place, exit_code=5)["checks"]}
    assert checks["every file is as its maker listed it"].startswith(f"signed by {own}, whom you did not name")
    checks = {check["check"]: check["detail"] for check in analyst.audit(place, "--key", own)["checks"]}
    assert checks["every file is as its maker listed it"] == f"signed by {own} and is trusted"
    assert not analyst.desk.document("audit", "--crate", place, "--key", own, exit_code=5)["ok"]


@pytest.mark.slow
def test_a_posteriors_crate_serves_as_its_release_does(analyst: Analyst, made: Path, agency: Desk) -> None:
    agency.edit_study("draws: 500", "draws: 300\n    sampler: naive")
    theirs = crate_of(agency.document("analyse", agency.study, "--period", PERIOD))
    agency.edit_study("draws: 300\n    sampler: naive", "draws: 500")
    copied = analyst.folder / "theirs"
    shutil.copytree(theirs, copied)
    again = analyst.analyse("--key", analyst.key, crate=copied)
    assert crate_of(again) == made  # the same release, whichever crate it came in
    fresh = analyst.analyse("--seed", "8", "--key", analyst.key, crate=copied)
    assert analyst.audit(crate_of(fresh), "--replay")["ok"]
    third = analyst.analyse("--seed", "9", "--key", analyst.key, crate=made)
    assert analyst.audit(crate_of(third), "--replay")["ok"]


def test_the_environment_needs_no_home(analyst: Analyst) -> None:
    assert "DPBAYES_HOME" not in os.environ
    error = analyst.desk.document("audit", analyst.folder, exit_code=2)["error"]
    assert "cannot find a home" in error["message"]
