"""What `dpbayes.yaml` says holds for every command that names a study in its folder."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.commands import app
from tests.support.desk import STUDY


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DPBAYES_HOME", "")  # which counts as not set, and is unset when the test ends
    (tmp_path / "project" / "pay").mkdir(parents=True)
    (tmp_path / "project" / "dpbayes.yaml").write_text("home: ../home\n")
    study = tmp_path / "project" / "pay" / "study.yaml"
    study.write_text(STUDY)
    return study


def test_a_home_that_the_file_names_is_made_and_found(study: Path, tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["ledger", "create", str(study)]).exit_code == 0
    assert (tmp_path / "home" / "keys").is_dir()
    assert not (study.parent / ".dpbayes").exists()
    shown = CliRunner().invoke(app, ["ledger", "show", str(study.parent), "--json"])
    assert [one["account"] for one in json.loads(shown.stdout)["accounts"]] == ["staff"], shown.output


def test_the_environment_wins_over_the_file(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPBAYES_HOME", str(tmp_path / "other"))
    assert CliRunner().invoke(app, ["ledger", "create", str(study)]).exit_code == 0
    assert (tmp_path / "other" / "keys").is_dir()
    assert not (tmp_path / "home").exists()


def test_a_mistake_in_the_file_stops_a_command(study: Path) -> None:
    (study.parents[1] / "dpbayes.yaml").write_text("hom: ../home\n")
    refused = CliRunner().invoke(app, ["plan", str(study), "--json"])
    assert refused.exit_code == 2
    assert (
        "line 1, hom: there is no such key here. Did you mean home?" in json.loads(refused.stdout)["error"]["message"]
    )
