"""What is stored is answered without Prefect and Dask, in the same words; what is not, or is in doubt, by the flows."""

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dpbayes.study import load
from dpbayes.study.load import load_study
from dpbayes_core.errors import DpbayesError, StudyInvalid
from dpbayes_core.samplers.driver import sample
from storage.home.home import Home
from storage.ledger.anchored import AnchoredLedger
from tasks.answers import Which, requests_of, stored_answer
from tasks.archive_posterior import archive_posterior, find_posterior
from tasks.orders import AnalysisOrder, ReleaseOrder
from tests.support.command import ROOT, clean_environment
from tests.support.desk import PERIOD, Desk, people

pytestmark = pytest.mark.usefixtures("workers")

WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, *_):
        if name.partition(".")[0] in ("prefect", "dask", "distributed"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
sys.argv[0] = "dpbayes"
from cli.main import main
main()
"""
COMMANDS = ("release", "analyse", "run")
OTHER = "2026-02"


@pytest.fixture
def desk(agency: Desk, tmp_path: Path) -> Desk:
    shutil.copytree(agency.folder, tmp_path / "agency")
    return Desk(tmp_path / "agency")


def without_prefect(desk: Desk, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *map(str, arguments)],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def by_the_flow(desk: Desk, monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> str:
    with monkeypatch.context() as patched:
        for command in COMMANDS:
            patched.setattr(f"cli.{command}.stored_answer", lambda *_, **__: None)
        done = desk.run(*arguments)
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize("form", [("--json",), ()])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_stored_answer_needs_no_prefect_and_is_the_flows_to_the_byte(
    agency: Desk, command: str, form: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = (command, agency.study, "--period", PERIOD, *form)
    found = without_prefect(agency, *asked)
    assert (found.returncode, found.stderr) == (0, "")
    monkeypatch.chdir(ROOT)
    assert found.stdout == by_the_flow(agency, monkeypatch, *asked)


def test_what_is_not_stored_is_looked_for_by_the_flow(desk: Desk) -> None:
    desk.write_table(people(), OTHER)
    failed = without_prefect(desk, "run", desk.study, "--period", OTHER)
    assert failed.returncode == 1
    assert "an unforeseen ModuleNotFoundError" in failed.stderr


def test_an_analysis_of_crates_that_stands_needs_no_prefect(desk: Desk, tmp_path: Path) -> None:
    (crate,) = (desk.home / "archive" / "releases" / "pay" / PERIOD).iterdir()
    asked = ("analyse", "--from", crate, "--to", tmp_path / "out", "--sampler", "naive", "--draws", "300", "--json")
    made = desk.document(*asked[:-1])
    found = without_prefect(desk, *asked)
    assert found.returncode == 0
    assert desk.run(*asked).stdout == found.stdout
    assert made["analyses"][0]["coefficients"][0]["name"] in found.stdout


def stored(desk: Desk) -> dict[str, Any] | None:
    return stored_answer(load_study(desk.study), PERIOD, Which(), analyses=True)


def test_a_tampered_crate_is_believed_by_nobody(desk: Desk) -> None:
    assert stored(desk) is not None
    (crate,) = (desk.home / "archive" / "posteriors" / "pay" / PERIOD).iterdir()
    record = crate / "posterior.json"
    record.write_bytes(record.read_bytes().replace(b'"converged"', b'"Converged"', 1))
    assert stored(desk) is None
    for command in ("analyse", "run"):
        failed = desk.document(command, desk.study, "--period", PERIOD, exit_code=5)
        assert failed["error"]["kind"] == "integrity-failure"


def test_a_release_whose_crate_is_gone_is_published_again(desk: Desk) -> None:
    (crate,) = (desk.home / "archive" / "releases" / "pay" / PERIOD).iterdir()
    shutil.rmtree(crate)
    assert stored(desk) is None
    assert desk.release()["releases"][0]["crate"] == str(crate)
    assert crate.exists()
    assert stored(desk) is not None


def test_what_an_interrupted_pass_left_is_deleted_although_its_release_is_stored(desk: Desk) -> None:
    from dpbayes.secure.resume import PassCheckpoint

    study, home = load_study(desk.study), Home.find(desk.study)
    (request,) = requests_of(study, ReleaseOrder(study=str(desk.study), release="pay-regression", period=PERIOD))
    PassCheckpoint.open(home.open_vault(), home.keys, request.key).begin("the same facts")
    assert home.open_vault().has_unfinished(request.key, home.keys)
    assert stored(desk) is None
    desk.release()
    assert not home.open_vault().has_unfinished(request.key, home.keys)
    assert stored(desk) is not None


def test_a_run_parses_its_study_and_prepares_its_analysis_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write_table(people(), OTHER)
    counted: Counter[str] = Counter()

    def count(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def counting(*arguments: Any, **named: Any) -> Any:
            counted[name] += 1
            return original(*arguments, **named)

        monkeypatch.setattr(owner, name, counting)

    import dpbayes.analyses.prepare
    import storage.ledger.anchored

    count(load, "parse")
    count(dpbayes.analyses.prepare, "analysis_of")
    count(storage.ledger.anchored, "open_ledger")
    load._parsed.cache_clear()
    desk.document("run", desk.study, "--period", OTHER)
    assert counted == {"parse": 1, "analysis_of": 1, "open_ledger": 6}
    counted.clear()
    desk.document("run", desk.study, "--period", OTHER)
    assert counted == {"analysis_of": 1, "open_ledger": 1}


def test_a_study_that_changes_while_it_runs_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks import progress

    desk.write_table(people(), OTHER)
    original = progress.charged

    def edit_meanwhile(*arguments: Any) -> None:
        original(*arguments)
        desk.edit_study("draws: 300", "draws: 400")

    with monkeypatch.context() as patched:
        patched.setattr(progress, "charged", edit_meanwhile)
        failed = desk.document("run", desk.study, "--period", OTHER, exit_code=2)
    assert failed["error"]["message"] == (
        "cannot read study study.yaml: it was changed after this run had begun. Run again: what is released, archived "
        "or kept of chains is used."
    )
    assert desk.document("run", desk.study, "--period", OTHER)["releases"][0]["status"] == "already-released"


def test_a_digest_names_one_text_of_a_study(desk: Desk) -> None:
    before = load_study(desk.study)
    assert load_study(desk.study, before.sha256) is before
    desk.edit_study("draws: 300", "draws: 301")
    with pytest.raises(StudyInvalid, match="changed after this run had begun"):
        load_study(desk.study, before.sha256)
    assert load_study(desk.study) != before


def test_a_posterior_of_what_was_superseded_meanwhile_is_not_archived(desk: Desk) -> None:
    desk.edit_study("draws: 300", "draws: 310")
    order = AnalysisOrder(study=str(desk.study), analysis="pay-posterior", period=PERIOD)
    prepared, found = find_posterior.fn(order)
    assert found is None
    analysis = prepared.analysis
    drawn = sample(analysis.evidence, analysis.prior, sampler="naive", chains=2, draws=310, seed=analysis.request.seed)
    desk.release("--revision", "2", "--reason", "the table was corrected")
    with pytest.raises(DpbayesError, match="its releases were superseded"):
        archive_posterior.fn(order, prepared, (drawn, 0.0))
    with AnchoredLedger.open(desk.study) as anchored:
        assert len([entry for entry in anchored.ledger.entries() if entry.kind == "publish"]) == 1
