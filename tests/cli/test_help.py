"""What the command says of itself."""

import json
import re
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from cli.commands import app
from tests.support.command import ROOT

RUNNER = CliRunner()


def test_the_version_is_that_of_the_installed_package() -> None:
    told = RUNNER.invoke(app, ["--version"])
    assert (told.exit_code, told.stdout) == (0, f"dpbayes {version('dpbayes')}\n")


def test_help_tells_what_it_is_for_and_every_exit_code() -> None:
    told = RUNNER.invoke(app, ["--help"], env={"COLUMNS": "200"})
    assert "differentially private Bayesian analyses" in told.stdout
    assert all(f"{code} " in told.stdout for code in range(7))


def test_the_help_of_analyse_says_that_draws_are_a_beginning() -> None:
    told = RUNNER.invoke(app, ["analyse", "--help"], env={"COLUMNS": "200"})
    assert "at first, up to 16 times as many" in told.stdout


def test_no_command_at_all_shows_the_help() -> None:
    assert "Usage: dpbayes" in RUNNER.invoke(app, []).output


def test_every_command_of_the_readme_is_one_and_every_command_has_a_sentence() -> None:
    from typer.main import get_command

    commands = get_command(app).commands  # type: ignore[attr-defined]
    text = (ROOT / "README.md").read_text().split("## In use")[1].split("## What it promises")[0]
    shown = set(re.findall(r"^dpbayes (\w+)", text, re.MULTILINE))
    assert {"init", "check", "plan", "inspect", "run", "ledger", "audit"} <= shown <= commands.keys()
    told = RUNNER.invoke(app, ["--help"], env={"COLUMNS": "200"}).stdout
    assert all((command.help or command.imported().help) in told for command in commands.values())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("release", "--json"), "Missing argument 'study'."),
        (("release", "study.yaml", "--json"), "Missing option '--period'."),
        (("release", "study.yaml", "--json", "--period"), "Option '--period' requires an argument."),
        (("releese", "--json"), "No such command 'releese'"),
        (("ledger", "raise", "--json"), "Missing argument 'study'."),
        (("--json",), "No such option: --json"),
    ],
)
def test_a_slip_in_the_words_is_one_json_document_where_that_was_asked_for(words: tuple[str, ...], said: str) -> None:
    told = RUNNER.invoke(app, words)
    error = json.loads(told.stdout)["error"]
    assert (told.exit_code, error["kind"]) == (2, "usage")
    assert said in error["message"]
    assert "Error" in told.stderr
    assert RUNNER.invoke(app, [word for word in words if word != "--json"] or ["--jsn"]).stdout == ""
