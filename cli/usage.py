"""Words of a command that cannot be read: said on stderr, and in the one JSON document that `--json` promises."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from dpbayes.markup.visible import visible_json

UsageError = typer.BadParameter.__mro__[1]
"""What every such failure is; typer has no public name for it."""


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
