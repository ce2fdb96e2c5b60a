"""How results and errors reach people and programs: tables, or one JSON document; all else goes to stderr."""

import json as jsonlib
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer

from dpbayes_core.errors import DpbayesError
from flows import plan_table, tables
from storage.visible import visible, visible_json

NOT_CONVERGED = 6
INTEGRITY = 5


class Console:
    """Prints one result; the same document is what `--json` shows."""

    def __init__(self, json: bool) -> None:
        self.json = json

    @contextmanager
    def progress(self) -> Iterator[None]:
        """Show what tasks report on stderr: bars to a person at a terminal, else a line where each step begins."""
        from tasks import progress as reports

        if not tables.errors.is_terminal:
            with _lines(reports):
                yield
            return
        with tables.progress_bar() as bar:
            steps: dict[str, Any] = {}
            waiting = bar.add_task("starting Prefect", total=None)

            def advance(step: str, share: float) -> None:
                bar.update(waiting, visible=False)
                if step not in steps:
                    steps[step] = bar.add_task(visible(step), total=1.0)
                bar.update(steps[step], completed=share)

            reports.listen(advance)
            try:
                yield
            finally:
                reports.silence()

    def show(self, document: Mapping[str, Any], view: Any) -> None:
        """Print `document` as JSON, or through its `view` for people."""
        if self.json:
            typer.echo(visible_json(document))
        else:
            view(document)

    def show_init(self, document: Mapping[str, Any]) -> None:
        self.show(document, tables.init)

    def show_check(self, document: Mapping[str, Any]) -> None:
        self.show(document, tables.check)

    def show_plan(self, document: Mapping[str, Any]) -> None:
        self.show(document, plan_table.plan)

    def show_release(self, document: Mapping[str, Any]) -> None:
        self.show(document, tables.release)

    def show_analyse(self, document: Mapping[str, Any]) -> None:
        self.show(document, tables.analyse)
        _exit_unless_converged(document["analyses"])

    def show_run(self, document: Mapping[str, Any]) -> None:
        self.show(document, tables.run)
        runs = document.get("runs", [document])
        _exit_unless_converged([analysis for one in runs for analysis in one["analyses"]])

    def show_audit(self, document: Mapping[str, Any]) -> None:
        self.show(document, tables.audit)
        if not document["ok"]:
            raise typer.Exit(INTEGRITY)


@contextmanager
def _lines(reports: Any) -> Iterator[None]:
    begun: str | None = None

    def say(step: str, _: float) -> None:
        nonlocal begun
        if step != begun:
            typer.echo(visible(step), err=True)
        begun = step

    reports.listen(say)
    try:
        yield
    finally:
        reports.silence()


def _exit_unless_converged(analyses: list[Mapping[str, Any]]) -> None:
    if any(analysis["status"] != "converged" for analysis in analyses):
        raise typer.Exit(NOT_CONVERGED)


@contextmanager
def guarded(console: Console, debug: bool) -> Iterator[Console]:
    """Turn every failure into one or two sentences and its exit code."""
    try:
        yield console
    except DpbayesError as error:
        _tell(console, error.kind, str(error))
        _trace(debug)
        raise typer.Exit(error.exit_code) from None
    except (typer.Exit, typer.Abort, KeyboardInterrupt):
        raise
    except Exception as error:
        kind = type(error).__name__
        _tell(console, "unforeseen", f"cannot go on: an unforeseen {kind}. Run again with --debug and report it.")
        _trace(debug)
        raise typer.Exit(1) from None


def _tell(console: Console, kind: str, message: str) -> None:
    if console.json:
        typer.echo(jsonlib.dumps({"error": {"kind": kind, "message": message}}, ensure_ascii=False))
    else:
        tables.failure(message)


def _trace(debug: bool) -> None:
    if debug:
        typer.echo(visible(traceback.format_exc(), keep="\n"), err=True)
