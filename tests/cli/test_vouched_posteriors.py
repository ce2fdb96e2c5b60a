"""Who names a key and audits a crate learns whose release and whose posterior it is, and passes nothing else."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dpbayes.crates.contained_releases import CONTAINED, sources_of
from dpbayes.crates.files import load
from dpbayes.crates.format import ATTESTATION, PUBLIC_KEY, UNSIGNED, attested, listed, pack
from dpbayes.crates.parquet import draws_parquet, read_draws
from dpbayes.crates.posterior import ONE, PREDICATE, PREDICATES, derived_files, predicate_of
from dpbayes.crates.release import PREDICATE as RELEASE_PREDICATE
from dpbayes_core.canonical import canonical_json
from storage.home.signatures import Signer
from tests.support.desk import PERIOD, Desk

pytestmark = pytest.mark.usefixtures("workers")

Files = dict[str, bytes]
VOUCHED = "the posterior is vouched for"


@dataclass(frozen=True)
class Scene:
    """An agency's release and posterior, an analyst's posterior of that release, and somebody's own key."""

    folder: Path
    agency: Desk
    key: str
    release: Files
    theirs: Files
    analysts: Files
    strangers: Files
    stranger: Signer

    def audit(self, files: Files, *more: str, keys: tuple[str, ...] | None = None, ok: bool = False) -> dict[str, Any]:
        """What an audit of the crate says to one who names these keys, by default the agency's."""
        place = self.folder / "audited.zip"
        place.write_bytes(pack(files))
        named = [word for key in keys or (self.key,) for word in ("--key", key)]
        document = self.agency.document("audit", "--crate", place, *named, *more, exit_code=0 if ok else 5)
        assert document["ok"] is ok
        return document

    def refused(self, files: Files, *more: str, keys: tuple[str, ...] | None = None) -> str:
        """What the checks that fail say."""
        found = self.audit(files, *more, keys=keys)["checks"]
        return "\n".join(check["detail"] for check in found if not check["ok"])


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    agency = Desk.set_up(tmp_path_factory.mktemp("agency"))
    agency.edit_study("draws: 500", "draws: 300\n    sampler: naive")
    done = agency.document("run", agency.study, "--period", PERIOD)
    crate, folder = Path(done["releases"][0]["crate"]), tmp_path_factory.mktemp("analyst")
    quick = ("analyse", "--from", crate, "--chains", "2", "--draws", "300", "--sampler", "naive")
    made = agency.document(*quick, "--to", folder / "out")
    agency.document(*quick, "--to", folder / "signed.zip", "--sign", folder / "keys")
    return Scene(
        folder=folder,
        agency=agency,
        key=Signer.load(agency.home / "keys").fingerprint,
        release=load(crate),
        theirs=load(Path(done["analyses"][0]["crate"])),
        analysts=load(Path(made["analyses"][0]["crate"])),
        strangers=load(folder / "signed.zip"),
        stranger=Signer.create(folder / "keys"),
    )


def bare(files: Files, *without: str) -> Files:
    """A crate without its statement."""
    return {name: data for name, data in files.items() if name not in (ATTESTATION, UNSIGNED, PUBLIC_KEY, *without)}


def stated(files: Files, **changes: Any) -> Files:
    """The same with other words in its record."""
    record = json.loads(files["posterior.json"])
    return {**files, "posterior.json": canonical_json({**record, **changes})}


def unsigned(files: Files) -> Files:
    """A crate under a statement that nobody signed."""
    record = json.loads(files["posterior.json"])
    return listed(bare(files), PREDICATES[record["schema_version"]], predicate_of(record))


def signed(files: Files, signer: Signer) -> Files:
    """A crate under somebody's statement, with the pages that go with it."""
    record, draws = json.loads(files["posterior.json"]), read_draws(files["draws.parquet"])
    given = {name: data for name, data in files.items() if "/" in name or name in ("study.yaml", *ONE)}
    software = json.loads(files["software.json"])
    pages = derived_files(record, sources_of(files), draws, given, software=software, by=signer.fingerprint)
    return attested({**bare(files), **pages}, PREDICATES[record["schema_version"]], predicate_of(record), signer)


def moved(files: Files) -> Files:
    """A crate whose draws say something else of a coefficient, and whose summary goes along."""
    draws, record = read_draws(files["draws.parquet"]), json.loads(files["posterior.json"])
    line = next(line for line in record["coefficients"] if line["name"] == "age")
    draws["age"] = draws["age"] + line["sd"]
    for name in ("mean", "q025", "q975"):
        line[name] += line["sd"]
    return {**files, "draws.parquet": draws_parquet(draws), "posterior.json": canonical_json(record)}


@pytest.mark.slow
def test_an_agencys_crates_pass_and_say_whose_they_are(scene: Scene) -> None:
    verdict = scene.audit(scene.release, ok=True)["verdict"]
    assert verdict == f"What was released is that of {scene.key}, which you named. It holds no posterior."
    verdict = scene.audit(scene.theirs, ok=True)["verdict"]
    assert f"The posterior is that of {scene.key}, which you named" in verdict


def test_nobodys_posterior_of_an_agencys_release_passes_by_a_replay_only(scene: Scene) -> None:
    refused = scene.audit(scene.analysts)
    assert [check["check"] for check in refused["checks"] if not check["ok"]] == [VOUCHED]
    assert refused["verdict"] == (
        f"What was released is that of {scene.key}, which you named. "
        "The posterior is nobody's: it is not signed; run with --replay to draw it again."
    )
    verdict = scene.audit(scene.analysts, "--replay", ok=True)["verdict"]
    assert "The posterior is nobody's: it is not signed; a replay gave the same draws" in verdict
    place = scene.folder / "shown.zip"
    place.write_bytes(pack(scene.analysts))
    assert "nobody's" in scene.agency.run("audit", "--crate", place, "--key", scene.key).output


def test_draws_like_those_of_a_replay_are_not_called_the_same(scene: Scene) -> None:
    """As another processor draws them: last digits differ, and nothing is proven of any single draw."""
    draws = read_draws(scene.analysts["draws.parquet"])
    draws["age"] = draws["age"] * (1.0 + 1e-13)
    verdict = scene.audit(unsigned({**scene.analysts, "draws.parquet": draws_parquet(draws)}), "--replay", ok=True)[
        "verdict"
    ]
    assert "within Monte Carlo error of a replay: its means, intervals and correlations" in verdict
    assert "the same draws" not in verdict


def of_another_version(files: Files) -> Files:
    """A crate that says nothing of the program that made it, so that its pages need not be ours to the byte."""
    software = json.loads(files["software.json"])
    del software["dpbayes-source"]
    return unsigned({**files, "software.json": canonical_json(software)})


def test_pages_of_another_version_are_not_believed_for_a_replay(scene: Scene) -> None:
    """A replay stands for draws: pages that cannot be made again say what anybody wrote there."""
    page = scene.analysts["report.html"].decode().replace("</h1>", "</h1><p>Certified by the agency</p>", 1)
    found = scene.refused(of_another_version({**scene.analysts, "report.html": page.encode()}), "--replay")
    assert "do not open its pages" in found
    assert "made by another version" in found


def test_a_posterior_that_leaves_out_whether_prior_and_release_agree_is_not_believed(scene: Scene) -> None:
    record = json.loads(scene.analysts["posterior.json"])
    del record["prior_check"]
    files = of_another_version({**scene.analysts, "posterior.json": canonical_json(record)})
    checks = scene.audit(files, "--replay")["checks"]
    failed = {check["check"]: check["detail"] for check in checks if not check["ok"]}
    assert "does not say whether prior and release agree" in failed["the diagnostics are those of the draws"]


def test_a_strangers_signature_is_named_and_counts_for_those_who_name_it(scene: Scene) -> None:
    theirs = scene.strangers
    own = scene.stranger.fingerprint
    assert f"The posterior is that of {own}, which you did not name" in scene.refused(theirs)
    scene.audit(theirs, "--replay", ok=True)
    verdict = scene.audit(theirs, keys=(scene.key, own), ok=True)["verdict"]
    assert f"What was released is that of {scene.key}, which you named. The posterior is that of {own}" in verdict
    verdict = scene.audit(theirs, "--replay", keys=(own,))["verdict"]
    assert f"came with the key {scene.key}, which you did not name" in verdict


FORGERIES: dict[str, Callable[[Scene], Files]] = {
    "draws replaced, unsigned": lambda scene: unsigned(moved(scene.analysts)),
    "draws replaced, signed by the forger": lambda scene: signed(moved(scene.analysts), scene.stranger),
    "an agency's posterior with other draws, unsigned": lambda scene: unsigned(moved(scene.theirs)),
    "the same, said to be of crates": lambda scene: unsigned(stated(moved(scene.theirs), origin="crates")),
    "the same with the agency's key laid in": lambda scene: (
        unsigned(stated(moved(scene.theirs), origin="crates")) | {PUBLIC_KEY: scene.theirs[PUBLIC_KEY]}
    ),
    "the agency's own statement beside a list": lambda scene: (
        unsigned(moved(scene.theirs)) | {name: scene.theirs[name] for name in (PUBLIC_KEY, ATTESTATION)}
    ),
    "an analyst's, said to be the study's": lambda scene: unsigned(stated(scene.analysts, origin="study")),
    "the same, signed by the forger": lambda scene: signed(stated(scene.analysts, origin="study"), scene.stranger),
    "a page slipped in": lambda scene: unsigned({**scene.analysts, "results.html": b"<p>better"}),
    "a folder slipped in": lambda scene: unsigned({**scene.analysts, "deeper/results/all.html": b"<p>better"}),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forgery_passes_neither_by_itself_nor_by_a_replay(scene: Scene, forgery: str) -> None:
    files = FORGERIES[forgery](scene)
    assert scene.refused(files)
    assert scene.refused(files, "--replay")
    assert scene.refused(files, "--replay", keys=(scene.stranger.fingerprint,)) or "signed by the forger" in forgery


def test_a_release_that_nobody_signed_is_not_believed_for_the_key_beside_it(scene: Scene) -> None:
    """A release under the agency's public key and nobody's statement: beside a posterior, and in a folder alone."""
    taken = {**bare(scene.theirs), PUBLIC_KEY: scene.theirs[PUBLIC_KEY]}
    beside = listed(taken, PREDICATE, predicate_of(json.loads(taken["posterior.json"])))
    entry = json.loads(taken["entry.json"])
    inside = {f"releases/x/{name}": taken[name] for name in (*CONTAINED, PUBLIC_KEY) if name in taken}
    ledger = {"hash": entry["hash"], "seq": entry["seq"]}
    alone = listed(inside, RELEASE_PREDICATE, {"ledger": ledger, "release": entry["payload"]["digest"]})
    for files in (beside, alone):
        assert "Nothing says whose the release" in scene.audit(files, "--replay")["verdict"]


def test_a_pooled_crate_that_says_it_is_the_studys_needs_every_key_named(scene: Scene) -> None:
    """Whoever signs a crate does not vouch for releases of others by calling themselves the agency."""
    files = signed(stated(scene.analysts, origin="study"), scene.stranger)
    assert scene.refused(files, keys=(scene.stranger.fingerprint,))
    found = scene.audit(files, keys=(scene.key, scene.stranger.fingerprint))
    assert f"What was released is that of {scene.key}" in found["verdict"]
    assert f"The posterior is that of {scene.stranger.fingerprint}" in found["verdict"]
    assert next(check for check in found["checks"] if check["check"] == VOUCHED)["ok"]
    failed = [check["check"] for check in found["checks"] if not check["ok"]]
    assert "the study file asks for the analysis" in failed  # there is none of the study inside


def test_a_crate_within_a_crate_proves_only_what_its_own_statement_names(scene: Scene) -> None:
    """An analyst's whole crate, laid into the folder of a release, is no release."""
    inner = {f"releases/inside/{name}": data for name, data in scene.analysts.items()}
    outer = {**bare(scene.analysts), **inner}
    assert scene.refused(unsigned(outer), "--replay")


@pytest.mark.slow
def test_an_unsigned_crate_still_serves_an_analyst_as_its_release_does(scene: Scene) -> None:
    place = scene.folder / "again.zip"
    place.write_bytes(pack(scene.analysts))
    shutil.rmtree(scene.folder / "third", ignore_errors=True)
    again = scene.agency.document(
        *("analyse", "--from", place, "--to", scene.folder / "third", "--key", scene.key),
        *("--chains", "2", "--draws", "300", "--sampler", "naive"),
    )
    assert again["sources"][0]["trusted"]
