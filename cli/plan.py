"""`dpbayes plan`: what releases would cost and how long the budget lasts, before anything is spent or read."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Context, Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.console import guarded
from cli.format import (
    Document,
    cost,
    counted,
    grid,
    known_accounts,
    line,
    measured,
    missing_values_note,
    number,
    public_count_note,
    remaining,
    shortened,
    study_and_account,
)
from cli.options import AsJson, Debug, StudyFile, Trusted
from dpbayes.markup.numbers import percent
from dpbayes.plans.document import noisy_numbers, plan_document, run_ends, run_verdict, runs, shown_epsilons
from dpbayes.plans.plan import period_to_plan
from dpbayes.plans.plan import plan as planned
from dpbayes.study.load import load_study
from dpbayes_core.errors import DpbayesError, StudyInvalid
from dpbayes_core.regression.planning.relations import HIGH_CORRELATION
from storage.home.home import Home
from storage.ledger.cap_document import measure_words
from storage.ledger.reading import AccountSnapshot

LARGEST = ("largest_epsilon", "largest_epsilon_for_year")
FOUR_DIGITS_UP = Context(prec=4, rounding=ROUND_CEILING)


def plan(
    study: StudyFile,
    *,
    period: Annotated[
        str | None,
        typer.Option(
            help="A period such as 2026-01; by default the one after the last that the study was charged for.",
            show_default=False,
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a web page with the budget runway as a plot.")] = None,
    key: Trusted = None,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show what releases would cost, what would remain, and which coming period the budget refuses; reads no table."""
    with guarded(json, debug) as console:
        console.show(plan_study(study, period, html, key or []), show)


def plan_study(path: Path, period: str | None, page: Path | None, keys: Sequence[str] = ()) -> dict[str, Any]:
    """The plan of a period, by default the one after the last charged; with `page` also written as a web page."""
    if page is not None and page.suffix != ".html":
        raise StudyInvalid(f"cannot write the plan to {page}: its name does not end in .html. Choose one that does.")
    study = load_study(path)
    named = None if period is None else study.parse_period(period)
    with AccountSnapshot.near(study.path, study.account(), study.study, keys) as snapshot:
        chosen = named or period_to_plan(study, snapshot, datetime.now(UTC))
        document = plan_document(study, snapshot, planned(study, snapshot, chosen))
    if page is not None:
        _write(page, document)
    return document | {"home": Home.looked_in(study.path), "page": None if page is None else str(page)}


def _write(page: Path, document: dict[str, Any]) -> None:
    from dpbayes.pages.plan.page import render

    try:
        page.write_text(render(document), encoding="utf-8")
    except OSError as error:
        raise DpbayesError(f"cannot write the plan to {page}: {error.strerror}. Choose another file.") from error


def show(document: Document) -> None:
    """Print what each release would cost and leave, and how long the budget lasts."""
    whose = study_and_account({"study": document["study"], "account": document["population"]})
    line(f"Plan for {document['period']} {whose}. The table is not read, and nothing is spent.", "bold")
    if document["account"] != "open":
        line(f"The account {document['population']} is not open yet: its caps are those that the study states.")
        known = known_accounts(document["known_accounts"])
        line(f"{known} Open it with `dpbayes ledger create STUDY`: releases need it.")
        line(f"Looked in: {document['home']}.")
    public_count_note(document)
    missing_values_note(document)
    for release in document["releases"]:
        _release(release)
    _year(document["year"])
    line(document["verdict"], "bold" if document["fits"] else "bold red")
    if document["page"] is not None:
        line(f"page: {shortened(document['page'])}")


def _release(release: Document) -> None:
    line("")
    line(f"{release['name']}: {_mechanism(release)}.{_status(release)}", "bold")
    line(f"  cost:        {cost(release['cost'])}")
    if release["holders"]:
        line(f"  holders:     {', '.join(release['holders'])}: a charge of that cost for each; below, all of them")
    if release["analytic"] is not None:
        line(f"  analytic:    {_analytic(release)}")
    line(f"  sensitivity: {number(release['sensitivity'])} in {release['norm']}, {release['neighbours']}")
    if release["kind"] == "regression":
        line(f"  scale:       {_scale(release['scale'])}, in standardised units")
    for one in release["foreseen"]:
        line(f"  {one['term'].lower()}: {one['value']}")
    if release["predicted"]:
        _blocks(release)
        _predicted(release)
    grid(
        "  caps",
        ("cap", "period", "limit", "spent", "remaining", "after", "largest epsilon", "fits"),
        [
            (
                *(cap["cap"], cap["period"] or "", measured(cap), number(cap["spent"]), remaining(cap["remaining"])),
                *(_total_after(cap["after"], cap["fits"]), number(cap["largest_epsilon"]), _fits(release, cap)),
            )
            for cap in release["caps"]
        ],
        names=2,
    )
    now, year = (number(release[key]) if release[key] else "none" for key in LARGEST)
    line(f"  largest epsilon that fits: {now} now, {year} in every period below")


def _fits(release: Document, cap: Document) -> str:
    if release["status"] == "period-closed":
        return "closed"
    return "yes" if cap["fits"] else "NO"


def _predicted(release: Document) -> None:
    """Print each coefficient's predicted precision; also by the prior alone, without noise, and at other epsilon."""
    predicted: Sequence[Document] = release["predicted"]
    high = f"± if {HIGH_CORRELATION:g}"
    headers = ["coefficient", "sd", "± 95%", high, "± prior", "± no noise", "least effect"]
    rows = [
        [
            one["coefficient"] + (" (rough)" if one["rough"] else ""),
            *(number(one[key], 3) for key in ("sd", "interval95")),
            number((one["high_correlation"] or {}).get("interval95"), 3),
            *(number(value, 3) for value in (one["prior_interval95"], one["without_noise"]["interval95"])),
            number(one["told_from_zero"], 2),
        ]
        for one in predicted
    ]
    if all(one["high_correlation"] is None for one in predicted):
        headers, rows = [one for one in headers if one != high], [row[:3] + row[4:] for row in rows]
    grid("  predicted posterior, in the units of the columns (sd, halves of 95% intervals)", headers, rows)
    if high in headers:
        line(f"  {high}: where numbers of which nothing is stated are correlated by {HIGH_CORRELATION:g}")
    line("  ± prior: by the prior alone; ± no noise: by the rows alone; least effect: distinguishable from 0, -: none")
    known, shown = {point["epsilon"]: point["sd"] for point in release["grid"]}, shown_epsilons(release)
    grid(
        "  predicted sd at other epsilon",
        ("coefficient", *(f"at {epsilon:g}" for epsilon in shown)),
        [
            (one["coefficient"], *(number(known[epsilon][index], 2) for epsilon in shown))
            for index, one in enumerate(predicted)
        ],
    )


def _blocks(release: Document) -> None:
    """Print the noise on each kind of released number, relative to the size of that number."""
    grid(
        "  noise on averages over the rows, columns in -1 ... 1; of each kind the worst",
        ("released", "numbers", "noise", "measures", "noise of it"),
        [
            (
                one["block"],
                str(one["numbers"]),
                *(number(one[key], 2) for key in ("noise", "measures")),
                percent(one["ratio"]),
            )
            for one in release["blocks"]
        ],
    )


def _mechanism(release: Document) -> str:
    if not release["entries"]:
        return f"{release['kind']}, drawn exactly"
    return f"{release['mechanism']} noise on {counted(noisy_numbers(release), 'number')}"


def _status(release: Document) -> str:
    return {
        "planned": "",
        "already-released": " Already released: running it again costs nothing.",
        "period-closed": " The period is closed and takes no charge.",
    }[release["status"]]


def _analytic(release: Document) -> str:
    """Balle and Wang's analytic Gaussian figures: tighter than zCDP, but for one release, since they do not compose."""
    analytic, stated = release["analytic"], release["cost"]
    return (
        f"alone, this noise satisfies epsilon {number(analytic['epsilon'])} at delta {number(stated['delta'])}; "
        f"epsilon {number(stated['epsilon'])} alone needs scale {_scale(analytic['scale'])}, "
        f"at rho {number(analytic['rho'])}"
    )


def _scale(scale: float | Sequence[float]) -> str:
    if not isinstance(scale, Sequence):
        return number(scale)
    low, high = min(scale), max(scale)
    return f"{number(high)} ({number(low)} on {scale.count(low)} squares)"


def _total_after(value: float | None, fits: bool) -> str:
    """What would be spent of a cap; rounded up where the charge does not fit, so that it shows as above the limit."""
    if value is None or fits:
        return number(value)
    return f"{FOUR_DIGITS_UP.create_decimal(Decimal(repr(value))).normalize():f}"


def _year(year: Sequence[Document]) -> None:
    line("")
    grid(
        "If every release of every period is charged in turn: what is spent after each period",
        (
            "period",
            "verdict",
            *(f"{cap['cap']} ({measure_words(cap['measure'], number(cap['limit']))})" for cap in year[0]["caps"]),
        ),
        [
            (" to ".join(run_ends(run)), run_verdict(run), *(number(cap["after"]) for cap in run[-1]["caps"]))
            for run in runs(year)
        ],
    )
