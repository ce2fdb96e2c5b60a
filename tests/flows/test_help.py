"""What the command says of itself."""

from importlib.metadata import version

from typer.testing import CliRunner

from flows.cli import app

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
