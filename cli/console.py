"""How results and errors reach people and programs: tables, or one JSON document; all else goes to stderr."""

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer

from cli import analysis_table, audit_table, check_table, ending, plan_table, progress_table, tables
from cli.failure import Failure, failure_of
from dpbayes.markup.visible import visible, visible_json

SoFar = Callable[[], Mapping[str, Any]]
View = Callable[[Mapping[str, Any]], None]
NOT_CONVERGED = 6
INTEGRITY = 5


class Console:
    """Prints one result; the same document is what `--json` shows."""

    def __init__(self, json: bool) -> None:
        self.json = json
        self._so_far: tuple[SoFar, View] = dict, lambda document: None  # nothing yet

    def keep(self, so_far: SoFar, view: View) -> None:
        """Where a failure finds what was done before it: a document and its `view` for people."""
        self._so_far = so_far, view

    def fail(self, failure: Failure) -> None:
        """Show what was done before the failure, then the failure; one JSON document, as always."""
        so_far, view = self._so_far
        done = so_far()
        if self.json:
            typer.echo(visible_json({**done, "error": failure.to_record()}))
            return
        view(done)
        for sentence in progress_table.sentences(done, failure.message):
            tables.failure(sentence)

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
        self.show(document, check_table.check)

    def show_plan(self, document: Mapping[str, Any]) -> None:
        self.show(document, plan_table.plan)

    def show_release(self, document: Mapping[str, Any]) -> None:
        self.show(document, tables.release)

    def show_analyse(self, document: Mapping[str, Any]) -> None:
        self.show(document, analysis_table.analyse)
        _exit_unless_converged(document["analyses"])

    def show_run(self, document: Mapping[str, Any]) -> None:
        self.show(document, progress_table.run)
        runs = document.get("runs", [document])
        _exit_unless_converged([analysis for one in runs for analysis in one["analyses"]])

    def show_audit(self, document: Mapping[str, Any]) -> None:
        self.show(document, audit_table.audit)
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
    ending.let_speak(lambda failure: console.fail(failure_of(failure)))
    try:
        yield console
    except (typer.Exit, typer.Abort):
        raise
    except (Exception, KeyboardInterrupt) as error:
        failure = failure_of(ending.Stopped() if isinstance(error, KeyboardInterrupt) else error)
        if ending.speaks():
            console.fail(failure)
        _trace(debug)
        raise typer.Exit(failure.exit_code) from None


def _trace(debug: bool) -> None:
    if debug:
        typer.echo(visible(traceback.format_exc(), keep="\n"), err=True)
