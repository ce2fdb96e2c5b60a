"""The `dpbayes` command: the commands in the order of its help, and what it says of words that it cannot read."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cli import analyse, audit, check, evaluate, init, inspect_command, plan, predict, release, run
from cli.ending import bounded
from cli.ledger import ledger_app
from dpbayes.markup.visible import visible_json

UsageError = typer.BadParameter.__mro__[1]
"""What every failure to read the words of a command is; typer has no public name for it."""


class Commands(TyperGroup):
    """All commands; a failure to read their words keeps the promise of `--json`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._as_json = False

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Read the words before the command's name."""
        self._as_json = "--json" in args
        with self._telling():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Read the command's own words, and run it."""
        with self._telling():
            return super().invoke(ctx)

    @contextmanager
    def _telling(self) -> Generator[None]:
        try:
            yield
        except UsageError as error:
            if self._as_json:
                message: str = error.format_message()  # type: ignore[attr-defined]
                typer.echo(visible_json({"error": {"kind": "usage", "message": message}}))
            raise  # typer says it on stderr, with the usage, and exits with 2


app = typer.Typer(
    name="dpbayes",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 2 study or arguments wrong, 3 refused by the budget, 4 table missing or its shape "
    "differs, 5 integrity failure, 6 archived but not converged, 1 anything else.",
)
app.command()(init.init)
app.command()(check.check)
app.command()(plan.plan)
app.command()(inspect_command.inspect)
app.command()(release.release)
app.command()(analyse.analyse)
app.command()(run.run)
app.command()(audit.audit)
app.command()(predict.predict)
app.command()(evaluate.evaluate)
app.add_typer(ledger_app, name="ledger")


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"dpbayes {version('dpbayes')}")
        raise typer.Exit


@app.callback()
def dpbayes(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Say the version and exit.")
    ] = False,
) -> None:
    """Publish differentially private Bayesian analyses on a schedule, and let anyone verify them."""


def main() -> None:
    """Entry point of the `dpbayes` command."""
    with bounded():
        app()
