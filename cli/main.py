"""The `dpbayes` command: each command is a few lines over a flow; heavy imports wait until they are needed."""

from pathlib import Path
from typing import Annotated

import typer

from cli import options, tables
from cli.console import Console, guarded
from cli.ending import bounded
from cli.ledger_commands import ledger_app
from cli.usage import Commands

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
app.add_typer(ledger_app, name="ledger")

StudyFile = Annotated[Path, typer.Argument(help="The study file (YAML).", show_default=False)]
PeriodName = Annotated[str, typer.Option("--period", help="A period such as 2026-01.", show_default=False)]
Near = Annotated[Path, typer.Argument(help="A study file or folder near the home.", show_default="here")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an unforeseen failure.")]
Revision = Annotated[
    int, typer.Option(help="A number above 1 is a new, fully charged release that supersedes the one before.")
]
Holder = Annotated[str | None, typer.Option(help="This holder alone, where the others' tables are elsewhere.")]
Reason = Annotated[str | None, typer.Option(help="Why a revision is needed; recorded for ever.")]


def _tell_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"dpbayes {version('dpbayes')}")
        raise typer.Exit


@app.callback()
def dpbayes(
    told: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_tell_version, help="Say the version and exit.")
    ] = False,
) -> None:
    """Publish differentially private Bayesian analyses on a schedule, and let anyone verify them."""


@app.command()
def init(
    name: Annotated[Path, typer.Argument(help="The folder to make.", show_default=False)],
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Make a study folder that runs as it stands: synthetic data, its own home and ledger."""
    with guarded(Console(json), debug) as console:
        from cli.scaffold import make_study_folder

        console.show_init(make_study_folder(name))


@app.command()
def check(
    study: StudyFile,
    source: Annotated[
        bool, typer.Option("--source", help="Also compare the table's shape with the declaration.")
    ] = False,
    period: Annotated[str | None, typer.Option(help="With --source: whose table to look at.")] = None,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Validate a study file without touching data; with --source also the table's declared shape."""
    with guarded(Console(json), debug) as console:
        from cli.check import check_study

        console.show_check(check_study(study, period if source else None, look_at_source=source))


@app.command()
def plan(
    study: StudyFile,
    period: Annotated[
        str | None,
        typer.Option(
            help="A period such as 2026-01; by default the one after the last that the study was charged for.",
            show_default=False,
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a web page with the budget runway as a plot.")] = None,
    key: options.Trusted = None,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """What each release would cost, what the caps would keep, and which coming period they refuse; reads no table."""
    with guarded(Console(json), debug) as console:
        from cli.plan import plan_study

        console.show_plan(plan_study(study, period, html, key or []))


@app.command()
def inspect(
    study: StudyFile, period: PeriodName, holder: Holder = None, json: AsJson = False, debug: Debug = False
) -> None:
    """The pass without the charge: a validation page for the steward's eyes; the ledger notes that it was looked at."""
    with guarded(Console(json), debug) as console:
        from cli.launch import run_inspect

        console.show(run_inspect(study, period, holder, console), tables.inspected)


@app.command()
def release(
    study: StudyFile,
    period: PeriodName,
    revision: Revision = 1,
    reason: Reason = None,
    holder: Holder = None,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """One pass over the table, charge, release; again: the same stored answer at no cost."""
    with guarded(Console(json), debug) as console:
        from cli.launch import Asked, run_release

        console.show_release(run_release(study, period, Asked(revision, reason, holder), console))


@app.command()
def analyse(
    study: Annotated[Path | None, typer.Argument(help="The study file (YAML); none with --from.")] = None,
    period: Annotated[
        str | None,
        typer.Option(help="A period such as 2026-01; the last one where an analysis pools all.", show_default=False),
    ] = None,
    crates: options.Crates = None,
    prior: options.Prior = None,
    sampler: options.Sampler = None,
    chains: options.Chains = None,
    draws: options.Draws = None,
    seed: options.Seed = None,
    alike: options.Alike = None,
    to: options.To = None,
    key: options.Keys = None,
    sign: options.Sign = None,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Chains, diagnostics, archived posterior, report; spends nothing; the same request returns the stored crate."""
    with guarded(Console(json), debug) as console:
        from cli.launch import run_analyse, run_reanalyse
        from cli.orders import crate_order, only_a_study

        given = {"prior": prior, "sampler": sampler, "chains": chains, "draws": draws, "seed": seed, "to": to}
        given |= {"key": key, "sign": sign, "alike": alike}
        if crates:
            console.show_analyse(run_reanalyse(crate_order(study, period, crates, given), console))
        else:
            console.show_analyse(run_analyse(*only_a_study(study, period, given), console))


@app.command()
def run(
    study: StudyFile,
    period: Annotated[str, typer.Option(help="2026-01, or a range as 2026-01..2026-03.", show_default=False)],
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Where a period fails, still try those after it.")
    ] = False,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Release, then analyse; `--period 2026-01..2026-03` does one period after the other, to the first that fails."""
    with guarded(Console(json), debug) as console:
        from cli.periods import run_periods

        console.show_run(run_periods(study, period, console, keep_going=keep_going))


@app.command()
def audit(
    near: Near = Path(),
    crate: Annotated[
        str | None, typer.Option(help="Audit one crate alone, a folder, zip or URL, without ledger or home.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="Audit an exported ledger, or the anchors of an archive, without the home.")
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="The fingerprint of the public key you trust; may be repeated.")
    ] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Also draw the posteriors again and compare; takes their time.")
    ] = False,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Recompute everything offline: chain, totals against caps, anchors, release bytes, signatures, crates."""
    with guarded(Console(json), debug) as console:
        from cli.audit import audit_crate_on_ledger, audit_ledger, run_audit

        keys = key or []
        if ledger and crate:
            document = audit_crate_on_ledger(near, crate, ledger, keys, replay=replay)
        else:
            document = audit_ledger(near, ledger, keys) if ledger else run_audit(near, crate, keys, replay=replay)
        console.show_audit(document)


@app.command()
def predict(
    crate: Annotated[
        str, typer.Argument(help="A posterior's crate: a folder, a zip, or the URL of one.", show_default=False)
    ],
    rows: Annotated[
        Path | None, typer.Argument(help="CSV or Parquet of public rows, a column a covariate.", show_default=False)
    ] = None,
    at: Annotated[
        list[str] | None, typer.Option(help="One row instead of a file: age=40,female=yes.", show_default=False)
    ] = None,
    level: Annotated[float, typer.Option(help="Probability of the intervals.")] = 0.95,
    key: options.Agency = None,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """What a published posterior predicts for public rows: responses and their mean; needs no study, ledger or data."""
    with guarded(Console(json), debug) as console:
        from cli.predict import run_predict, show_predictions

        show_predictions(console, run_predict(crate, rows, at or [], level, key or []))


@app.command()
def evaluate(
    name: Annotated[
        str, typer.Argument(help="subsample, networks, coverage, pools, cirrhosis or distributed.", show_default=False)
    ],
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="A folder for JSON, CSV, plots and a page.", show_default=False)
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="A folder of public tables; by default DPBAYES_EVALUATION_DATA.", show_default=False),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few repetitions: a look, not a measurement.")] = False,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """The papers' experiments and calibration studies on public tables and synthetic data; touches no ledger."""
    with guarded(Console(json), debug) as console:
        from cli.evaluate import run_evaluation, show_evaluation

        with console.progress():
            document = run_evaluation(name, seed, quick=quick, out=out, data=data)
        console.show(document, show_evaluation)


def main() -> None:
    """Entry point of the `dpbayes` command."""
    with bounded():
        app()
