"""The commands in the order of the help, each imported only when it is used, and the reporting of usage errors."""

import ast
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from cli.console import guarded
from dpbayes.markup.visible import visible_json

UsageError = typer.BadParameter.__mro__[1]
"""The base class of every error in a command's arguments, for which typer has no public name."""


class LateCommand(TyperCommand):
    """A command whose function, such as `cli.run:run`, is imported only when the command is used."""

    def __init__(self, name: str, place: str) -> None:
        super().__init__(name)
        self._module, _, self._function = place.partition(":")

    def sentence(self) -> str:
        """The docstring of the command's function, read from the source so that nothing is imported."""
        spec = find_spec(self._module)
        assert spec is not None
        tree = ast.parse(Path(str(spec.origin)).read_text(encoding="utf-8"))
        functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
        return ast.get_docstring(next(node for node in functions if node.name == self._function)) or ""

    def imported(self) -> Any:
        """Import the function and return the command made from it."""
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(self.name)(getattr(import_module(self._module), self._function))
        return get_command(app)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Import the command and parse its arguments; Ctrl-C ends the import as it ends the command."""
        with guarded("--json" in args, "--debug" in args):
            command = self.imported()
        return command.make_context(info_name, args, parent, **extra)


class LateCommands(TyperGroup):
    """A group of commands that are imported only when they are used."""

    places: ClassVar[Mapping[str, str]]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.commands = {name: LateCommand(name, place) for name, place in self.places.items()} | dict(self.commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """List the commands, each with its docstring."""
        for command in self.commands.values():
            if isinstance(command, LateCommand):
                command.help = command.sentence()
        super().format_help(ctx, formatter)


class LedgerCommands(LateCommands):
    """The commands of `dpbayes ledger`."""

    places: ClassVar[Mapping[str, str]] = {
        "create": "cli.ledger.create:create",
        "show": "cli.ledger.look:show",
        "history": "cli.ledger.look:history",
        "export": "cli.ledger.look:export",
        "raise": "cli.ledger.acts:raise_",
        "close": "cli.ledger.acts:close",
        "withdraw": "cli.ledger.acts:withdraw",
        "note": "cli.ledger.acts:note",
        "recover": "cli.ledger.recover:recover",
        "rotate-key": "cli.ledger.acts:rotate_key",
        "move": "cli.ledger.acts:move",
    }


class Commands(LateCommands):
    """All commands; with `--json`, a usage error is also one JSON document on stdout."""

    places: ClassVar[Mapping[str, str]] = {
        "init": "cli.init:init",
        "check": "cli.check:check",
        "plan": "cli.plan:plan",
        "inspect": "cli.inspect_command:inspect",
        "release": "cli.release:release",
        "analyse": "cli.analyse:analyse",
        "run": "cli.run:run",
        "catch-up": "cli.catch_up:catch_up",
        "deploy": "cli.deploy:deploy",
        "status": "cli.status:status",
        "audit": "cli.audit:audit",
        "predict": "cli.predict:predict",
        "evaluate": "cli.evaluate:evaluate",
    }

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._as_json = False

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the arguments before the command's name."""
        self._as_json = "--json" in args
        with self._usage_errors_as_json():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Parse the command's own arguments, and run it."""
        with self._usage_errors_as_json():
            return super().invoke(ctx)

    @contextmanager
    def _usage_errors_as_json(self) -> Generator[None]:
        try:
            yield
        except UsageError as error:
            if self._as_json:
                message: str = error.format_message()  # type: ignore[attr-defined]
                typer.echo(visible_json({"error": {"kind": "usage", "message": message}}))
            raise  # typer prints it on stderr, with the usage, and exits with 2


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
app.add_typer(
    typer.Typer(cls=LedgerCommands, no_args_is_help=True),
    name="ledger",
    help="The privacy budget: open accounts, show them, change them on record. Nothing is refunded.",
)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"dpbayes {version('dpbayes')}")
        raise typer.Exit


@app.callback()
def dpbayes(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Publish differentially private Bayesian analyses on a schedule, and let anyone verify them."""
