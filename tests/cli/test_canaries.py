"""Values planted in the table appear nowhere else: not decoded, not with --debug, not in a failure."""

import base64
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.canaries import finds, forms_of, places
from tests.support.command import ROOT, clean_environment, dpbayes
from tests.support.desk import PERIOD, Desk, people

OUTLIER = 90817.26354
NAME = "Zebulon-Quirk-Canary"
LEVEL = "atlantis-canary"
CANARIES = (OUTLIER, NAME, LEVEL)


@pytest.fixture
def planted(desk: Desk) -> Desk:
    columns = people()
    columns["pay"][11] = OUTLIER
    columns["person"][12] = NAME
    columns["region"][13] = LEVEL
    desk.write_table(columns)
    return desk


def anywhere(desk: Desk) -> list[str]:
    return places(desk.folder, CANARIES, skip=[desk.table().parent])


def told(done: subprocess.CompletedProcess[str]) -> bool:
    needles = {form for value in CANARIES for form in forms_of(value)}
    return finds((done.stdout + done.stderr).encode(), needles)


@pytest.mark.slow
def test_planted_values_appear_nowhere_outside_the_table(planted: Desk) -> None:
    done = dpbayes("run", planted.study, "--period", PERIOD, "--debug", cwd=planted.folder)
    assert done.returncode in (0, 6), done.stderr
    assert not told(done)
    assert (planted.home / "prefect" / "prefect.db").exists()
    assert (planted.home / "vault").exists()
    assert anywhere(planted) == []  # the vault holds counts, so not even there


@pytest.mark.slow
def test_values_of_rows_that_are_left_out_appear_nowhere_outside_the_table(planted: Desk) -> None:
    columns = people()
    columns["pay"][11], columns["region"][11] = OUTLIER, None
    columns["person"][12], columns["pay"][12] = NAME, -200.0
    columns["region"][13] = LEVEL
    planted.write_table(columns)
    planted.edit_study("    mechanism: gaussian\n", "    mechanism: gaussian\n    rows: complete\n")
    planted.edit_study("bounds: [0, 10]}", "bounds: [0, 10], missing: [-200]}")
    done = dpbayes("run", planted.study, "--period", PERIOD, "--debug", cwd=planted.folder)
    assert done.returncode in (0, 6), done.stderr
    assert not told(done)
    (profile,) = (planted.home / "vault").rglob("profile.json")
    assert '"incomplete_rows": 3' in profile.read_text()
    assert anywhere(planted) == []


@pytest.mark.slow
def test_planted_values_appear_nowhere_when_a_table_is_inspected(planted: Desk) -> None:
    done = dpbayes("inspect", planted.study, "--period", PERIOD, "--debug", cwd=planted.folder)
    assert done.returncode == 0, done.stderr
    assert not told(done)
    assert (planted.home / "prefect" / "prefect.db").exists()
    assert list((planted.home / "vault").rglob("validation.html"))
    assert anywhere(planted) == []  # nor do exact sums, which die with the pass
    vault = [path for path in (planted.home / "vault").rglob("*") if path.is_file()]
    assert sorted(path.name for path in vault) == ["profile.json", "validation.html", "validation.json"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in [planted.home / "vault", *vault])


@pytest.mark.slow
def test_planted_values_stay_in_a_pass_that_fails(planted: Desk) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.failing", "release", planted.study, "--period", PERIOD, "--debug"],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1
    assert "ValueError stopped it" in done.stderr
    assert not told(done)
    assert anywhere(planted) == []


def test_the_search_finds_what_is_there(planted: Desk) -> None:
    assert places(planted.folder, CANARIES) == [str(planted.table().relative_to(planted.folder))]


@pytest.mark.parametrize("value", CANARIES)
def test_the_search_finds_what_is_hidden_in_a_result(tmp_path: Path, value: str | float) -> None:
    hidden = base64.b64encode(pickle.dumps({"rows": [value]})).decode()
    (tmp_path / "result").write_text(f'{{"data": "{hidden}"}}')
    assert places(tmp_path, [value]) == ["result"]
