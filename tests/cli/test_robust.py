"""A robust release from the study file to its posterior: two steps, one charge, and intervals that allow for spread."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbayes.kinds.regression.facts import ROBUST
from storage.ledger.anchored import AnchoredLedger
from tests.support.desk import PERIOD, STUDY, Desk, people

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("workers")


def spread() -> dict[str, Any]:
    """The desk's people, whose pay is spread the more the older they are."""
    made, random = people(), np.random.default_rng(3)
    made["pay"] = 3 + 0.04 * (made["age"] - 40) + 0.4 * np.exp((made["age"] - 40) / 20) * random.normal(0, 1, 2000)
    return made


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, prefect_home: Path) -> Desk:
    desk = Desk.set_up(tmp_path_factory.mktemp("desk"))
    desk.study.write_text(STUDY.replace("    epsilon: 1\n", "    epsilon: 1\n    robust: true\n"))
    desk.write_table(spread())
    return desk


def charges(desk: Desk) -> list[Any]:
    with AnchoredLedger.open(desk.folder) as anchored:
        return [entry for entry in anchored.ledger.entries() if entry.kind == "charge"]


@pytest.mark.slow
def test_a_process_killed_between_the_steps_leaves_nothing_and_the_next_one_is_charged_once(desk: Desk) -> None:
    before = charges(desk)
    command = [sys.executable, "-m", "tests.support.dying_release", str(desk.study), "pay-regression", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert charges(desk) == before == []
    (made,) = desk.release()["releases"]
    assert made["status"] == "released"
    (again,) = desk.release()["releases"]
    assert (again["status"], again["digest"]) == ("already-released", made["digest"])
    (charge,) = charges(desk)
    assert charge.payload["digest"] == made["digest"]
    assert not [path for path in (desk.home / "vault" / "unfinished").rglob("*") if path.is_file()]


def test_it_is_planned_analysed_told_and_audited(desk: Desk) -> None:
    planned = desk.document("plan", desk.study, "--period", PERIOD)["releases"][0]
    assert "takes 10% of the rho that this release costs" in json.dumps(planned)
    assert "products weighed by squared residuals" in json.dumps(planned)
    checked = desk.document("check", desk.study)["releases"][0]
    assert checked["noisy_numbers"] > checked["entries"], "the second step's numbers are noisy, too"
    assert f"{checked['noisy_numbers']} noisy numbers" in desk.run("check", desk.study).output.replace("\n", " ")
    desk.run("run", desk.study, "--period", PERIOD)
    (found,) = desk.document("analyse", desk.study, "--period", PERIOD)["analyses"]
    assert (found["sampler"], found["calibrated"], found["status"]) == ("robust", True, "converged")
    assert ROBUST in found["facts"]
    page = Path(found["report"]).read_text()
    assert "Sums weighed by residuals" in page
    assert "each row weighed by its squared residual" in page
    report = desk.document("audit", desk.home, "--replay")
    assert report["ok"], [check for check in report["checks"] if not check["ok"]]


def test_a_robust_analysis_of_what_has_no_second_step_is_refused_by_check(desk: Desk, tmp_path: Path) -> None:
    for old, new, said in (
        ("    robust: true\n", "", "robust does not take a regression release"),
        (
            "unit: person}",
            "unit: person, holder: {column: office, values: [n, s], membership: fixed}}",
            "without holders",
        ),
        ("people: same", "people: disjoint", "robust takes one period at a time"),
    ):
        text = desk.study.read_text().replace("    draws: 500", "    draws: 500\n    sampler: robust")
        text = text.replace("    draws: 500", "    draws: 500\n    periods: all") if "disjoint" in new else text
        assert old in text
        study = tmp_path / "study.yaml"
        study.write_text(text.replace(old, new))
        refused = desk.run("check", study)
        assert refused.exit_code == 2
        assert said in refused.output.replace("\n", " ")
