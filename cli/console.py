"""How a command shows results and failures: tables, or one JSON document, on stdout; all else on stderr."""

import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import typer

from cli import ending, format
from cli.format import Document
from dpbayes.markup.visible import visible, visible_json
from tasks.surroundings import known

SoFar = Callable[[], Document]
View = Callable[[Document], None]
NOT_CONVERGED = 6
BETWEEN_LINES = 30.0  # seconds between two lines on the progress of chains, where there is no terminal


@dataclass(frozen=True)
class Failure:
    """A failure as a command reports it: a kind, one or two sentences, and the exit code."""

    kind: str
    message: str
    exit_code: int

    def to_record(self) -> dict[str, str]:
        """Plain data for JSON documents."""
        return {"kind": self.kind, "message": self.message}


def failure_of(error: Exception) -> Failure:
    """The failure in words; of an unexpected exception only its type, since its message may be confidential."""
    if (foreseen := known(error)) is not None:
        return Failure(foreseen.kind, str(foreseen), foreseen.exit_code)
    kind = type(error).__name__
    return Failure("unforeseen", f"cannot go on: an unforeseen {kind}. Run again with --debug and report it.", 1)


class Console:
    """Prints one result; the same document is what `--json` shows."""

    def __init__(self, json: bool) -> None:
        self.json = json
        self._so_far: tuple[SoFar, View] = dict, lambda document: None  # nothing yet

    def keep_partial(self, so_far: SoFar, view: View) -> None:
        """Register what to show if the command fails: a function that gives the document so far, and its `view`."""
        self._so_far = so_far, view

    def fail(self, failure: Failure) -> None:
        """Show what was done before the failure, then the failure; with `--json`, both in one document."""
        so_far, view = self._so_far
        done = so_far()
        if self.json:
            typer.echo(visible_json({**done, "error": failure.to_record()}))
            return
        view(done)
        for sentence in _sentences(done, failure.message):
            format.failure(sentence)

    @contextmanager
    def progress(self) -> Iterator[None]:
        """Show the tasks' progress on stderr: bars on a terminal, else lines on steps and long chains."""
        from tasks import progress as reports

        if not format.errors.is_terminal:
            with _progress_lines(reports):
                yield
            return
        with format.progress_bar() as bar:
            steps: dict[str, Any] = {}
            waiting = bar.add_task("starting Prefect", total=None)

            def advance(step: str, share: float) -> None:
                bar.update(waiting, visible=False)
                if step not in steps:
                    steps[step] = bar.add_task(visible(step), total=1.0)
                bar.update(steps[step], completed=share)

            def describe(chains: Any) -> None:
                bar.update(steps["sampling"], description=f"sampling: {chains}")

            reports.listen(advance, describe)
            try:
                yield
            finally:
                reports.silence()

    def show(self, document: Document, view: View) -> None:
        """Print `document` as JSON, or through its `view` for people."""
        if self.json:
            typer.echo(visible_json(document))
        else:
            view(document)


@contextmanager
def _progress_lines(reports: Any) -> Iterator[None]:
    current: str | None = None
    said = 0.0

    def say(step: str, _: float) -> None:
        nonlocal current, said
        if step != current:
            typer.echo(visible(step), err=True)
            said = time.monotonic()
        current = step

    def describe(chains: Any) -> None:
        nonlocal said
        if time.monotonic() - said > BETWEEN_LINES:
            typer.echo(visible(f"sampling: {chains}"), err=True)
            said = time.monotonic()

    reports.listen(say, describe)
    try:
        yield
    finally:
        reports.silence()


def _sentences(done: Document, message: str) -> Iterator[str]:
    """The sentences about a failure on stderr: each period that failed, what is stored, and how to go on."""
    failed = [one for one in done.get("runs", ()) if "error" in one]
    if failed:
        yield from (f"{one['period']}: {one['error']['message']}" for one in failed)
    else:
        yield message
    periods = done.get("runs", [done])
    if any(one.get("releases") or one.get("unpublished") for one in periods):
        yield "What is shown as released is charged and stored: the same command again shows it and spends nothing."
    if left := done.get("not_tried"):
        names = left[0] if len(left) == 1 else f"{left[0]} to {left[-1]}"
        yield f"Not tried: {names}. Run the same command again, or with --keep-going to try them whatever fails."


def exit_unless_converged(analyses: Sequence[Mapping[str, Any]]) -> None:
    """Exit with code 6 if any posterior did not converge."""
    if any(analysis["status"] != "converged" for analysis in analyses):
        raise typer.Exit(NOT_CONVERGED)


@contextmanager
def guarded(json: bool, debug: bool) -> Iterator[Console]:
    """The console of a command; any exception inside becomes one or two sentences and an exit code."""
    console = Console(json)
    ending.set_reporter(lambda failure: console.fail(failure_of(failure)))
    try:
        yield console
    except (typer.Exit, typer.Abort):
        raise
    except (Exception, KeyboardInterrupt) as error:
        failure = failure_of(ending.Stopped() if isinstance(error, KeyboardInterrupt) else error)
        if ending.claim_report():
            console.fail(failure)
        _print_traceback(debug)
        raise typer.Exit(failure.exit_code) from None


def _print_traceback(debug: bool) -> None:
    if debug:
        typer.echo(visible(traceback.format_exc(), keep="\n"), err=True)
