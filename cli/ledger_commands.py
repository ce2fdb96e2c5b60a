"""`dpbayes ledger ...`: the budget, opened, looked at and changed on the record."""

from pathlib import Path
from typing import Annotated

import typer

from cli import ledger_table, options
from cli.console import Console, guarded

ledger_app = typer.Typer(
    no_args_is_help=True, help="The privacy budget: open it, look at it, change it on the record. Nothing is refunded."
)

StudyFile = Annotated[Path, typer.Argument(help="The study file (YAML).", show_default=False)]
Near = Annotated[Path, typer.Argument(help="A study file or folder near the home.", show_default="here")]
PeriodName = Annotated[str, typer.Option("--period", help="A period such as 2026-01.", show_default=False)]
Reason = Annotated[str, typer.Option(help="Why; recorded for ever.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an unforeseen failure.")]


@ledger_app.command("create")
def create(study: StudyFile, json: AsJson = False, debug: Debug = False) -> None:
    """Open the account of the study's population; where there is no home yet, make one with keys and a ledger."""
    with guarded(Console(json), debug) as console:
        from cli.scaffold import create_ledger

        console.show(create_ledger(study), ledger_table.opened)


@ledger_app.command("show")
def show(near: Near = Path(), key: options.Trusted = None, json: AsJson = False, debug: Debug = False) -> None:
    """Accounts, caps, what was spent and what remains."""
    with guarded(Console(json), debug) as console:
        from cli.check import show_ledger

        console.show(show_ledger(near, key or []), ledger_table.ledger)


@ledger_app.command("history")
def history(near: Near = Path(), key: options.Trusted = None, json: AsJson = False, debug: Debug = False) -> None:
    """Every entry: who did what, when, at what cost and why."""
    with guarded(Console(json), debug) as console:
        from cli import ledger

        console.show(ledger.history(near, key or []), ledger_table.history)


@ledger_app.command("export")
def export(
    file: Annotated[Path, typer.Argument(help="A new file: .json for auditors, .csv for spreadsheets.")],
    near: Near = Path(),
    key: options.Trusted = None,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write the whole ledger to one file; auditors check the JSON with nothing else but a fingerprint."""
    with guarded(Console(json), debug) as console:
        from cli import ledger

        console.show(ledger.export_ledger(near, file, key or []), ledger_table.exported)


@ledger_app.command("raise")
def raise_cap(
    study: StudyFile,
    cap: Annotated[str, typer.Argument(help="lifetime, per-period, or 'programme NAME'.", show_default=False)],
    limit: Annotated[str, typer.Argument(help="The new limit, in the cap's own measure.", show_default=False)],
    reason: Reason,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Raise a cap of the study's population for every later charge; a cap never goes down."""
    with guarded(Console(json), debug) as console:
        from cli import ledger

        console.show(ledger.raise_cap(study, cap, limit, reason), ledger_table.act)


@ledger_app.command("close")
def close(study: StudyFile, period: PeriodName, reason: Reason, json: AsJson = False, debug: Debug = False) -> None:
    """Take no further charge for a period of the study's population, for good; what was released stays."""
    with guarded(Console(json), debug) as console:
        from cli import ledger

        console.show(ledger.close_period(study, period, reason), ledger_table.act)


@ledger_app.command("withdraw")
def withdraw(
    study: StudyFile,
    release: Annotated[str, typer.Argument(help="The release's name in the study.", show_default=False)],
    period: PeriodName,
    reason: Reason,
    revision: Annotated[int, typer.Option(help="Which revision.")] = 1,
    holder: Annotated[str | None, typer.Option(help="Whose, where the table has several holders.")] = None,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Mark a release as withdrawn; what it spent stays spent."""
    with guarded(Console(json), debug) as console:
        from cli import ledger

        named = ledger.Named(release, period, revision, holder)
        document = ledger.withdraw_release(study, named, reason)
        console.show(document, ledger_table.act)


@ledger_app.command("note")
def note(
    text: Annotated[str, typer.Argument(help="What happened.", show_default=False)],
    near: Near = Path(),
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write down something that auditors should know, such as a release that was held by hand."""
    with guarded(Console(json), debug) as console:
        from cli import ledger

        console.show(ledger.write_note(near, text), ledger_table.act)


@ledger_app.command("recover")
def recover(
    near: Near = Path(),
    set_aside: Annotated[
        bool, typer.Option("--set-aside", help="Move a damaged or altered database away first, and keep it.")
    ] = False,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Rebuild lost entries, or a whole lost database, from the signed anchors; refused where the two disagree."""
    with guarded(Console(json), debug) as console:
        from cli import ledger

        console.show(ledger.recover_ledger(near, set_aside=set_aside), ledger_table.recovered)


@ledger_app.command("rotate-key")
def rotate_key(reason: Reason, near: Near = Path(), json: AsJson = False, debug: Debug = False) -> None:
    """Sign with a new key from here on; the old one stays trusted for what it signed."""
    with guarded(Console(json), debug) as console:
        from cli import ledger

        console.show(ledger.rotate_key(near, reason), ledger_table.act)


@ledger_app.command("move")
def move(reason: Reason, near: Near = Path(), json: AsJson = False, debug: Debug = False) -> None:
    """Use the ledger and archive that the environment names from here on, once they were copied there."""
    with guarded(Console(json), debug) as console:
        from cli import ledger

        console.show(ledger.move_home(near, reason), ledger_table.act)
