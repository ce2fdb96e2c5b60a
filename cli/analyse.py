"""`dpbayes analyse`: draw, diagnose and archive posteriors of a study, or one of published crates alone."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.console import Console, exit_unless_converged, guarded
from cli.environment import prepare
from cli.format import Document, fixed, grid, line, number, origins, shortened, study_and_account, unconverged
from cli.launch import ANALYSES, actor, partial_on_failure, ready, start
from cli.options import AnyStudyFile, AsJson, Debug
from dpbayes.analyses.crates_workspace import crates_workspace
from dpbayes_core.errors import StudyInvalid
from tasks.answers import stored_answer, stored_crate
from tasks.orders import CratesOrder

PLACE = "posteriors"  # below the current folder


def _crates_option(help: str, *names: str) -> Any:
    """An option that may only be used together with --from."""
    panel = "With a published crate alone: no study, no data, no home"
    return typer.Option(*names, help=help, rich_help_panel=panel)


def analyse(
    study: AnyStudyFile = None,
    *,
    period: Annotated[
        str | None,
        typer.Option(help="A period such as 2026-01; where an analysis pools periods, the last.", show_default=False),
    ] = None,
    crates: Annotated[
        list[str] | None, _crates_option("A published crate: folder, zip or URL; repeat it to pool.", "--from")
    ] = None,
    prior: Annotated[Path | None, _crates_option("A YAML file with what a study states under prior.")] = None,
    sampler: Annotated[str | None, _crates_option("The sampler; auto by default.")] = None,
    chains: Annotated[int | None, _crates_option("Independent chains; 4 by default.")] = None,
    draws: Annotated[
        int | None,
        _crates_option("Draws of each at first, up to 16 times as many until they converge; 1000 by default."),
    ] = None,
    seed: Annotated[int | None, _crates_option("By default derived from the request.")] = None,
    alike: Annotated[
        bool | None,
        _crates_option("People were assigned to the releases at random, so covariates have one law.", "--alike"),
    ] = None,
    to: Annotated[Path | None, _crates_option("A folder for the crate, or a .zip; ./posteriors by default.")] = None,
    key: Annotated[
        list[str] | None, _crates_option("The fingerprint of the agency you trust; may be repeated.", "--key")
    ] = None,
    sign: Annotated[Path | None, _crates_option("A folder with a key of your own; made if there is none.")] = None,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Draw, diagnose and archive a posterior; spends nothing; the same request returns the stored crate."""
    with guarded(json, debug) as console:
        given = {"prior": prior, "sampler": sampler, "chains": chains, "draws": draws, "seed": seed, "to": to}
        given |= {"key": key, "sign": sign, "alike": alike}
        if crates:
            document = analyse_alone(crate_order(study, period, crates, given), console)
        else:
            document = analyse_period(*only_a_study(study, period, given), console)
        console.show(document, show)
        exit_unless_converged(document["analyses"])


def analyse_period(study: Path, period: str, console: Console) -> dict[str, Any]:
    """The posteriors of one period of a study: the stored ones if none is missing, else from the analysis flow."""
    declared = ready(study, [period])
    if (found := stored_answer(declared, period, None, analyses=True)) is not None:
        return found
    start(declared, ANALYSES)
    from flows.analyse import analyse_study
    from flows.states import answer

    with partial_on_failure(console, declared, period, show), console.progress():
        return answer(analyse_study, str(study), period, actor(), declared.sha256)


def analyse_alone(order: CratesOrder, console: Console) -> dict[str, Any]:
    """The posterior of published crates, which needs no home: the stored one, else from the analysis flow."""
    if (found := stored_crate(crates_workspace(asdict(order)))) is not None:
        return found
    prepare(None, ANALYSES)
    from flows.analyse import analyse_crates
    from flows.states import answer

    with console.progress():
        return answer(analyse_crates, asdict(order))


def crate_order(study: Path | None, period: str | None, crates: Sequence[str], given: Mapping[str, Any]) -> CratesOrder:
    """Check that no study or period is named with --from, and put the options into an order for the flow."""
    if study is not None or period is not None:
        raise StudyInvalid("cannot analyse crates in a study: --from needs no study and no period. Leave them out.")
    return CratesOrder(
        crates=list(crates),
        keys=list(given["key"] or ()),
        to=str(given["to"] or PLACE),
        prior=given["prior"] and str(given["prior"]),
        sign=given["sign"] and str(given["sign"]),
        **{name: given[name] for name in ("sampler", "chains", "draws", "seed", "alike")},
    )


def only_a_study(study: Path | None, period: str | None, given: Mapping[str, Any]) -> tuple[Path, str]:
    """The study and period; any other option is refused, because the study file states it."""
    if study is None:
        raise StudyInvalid("cannot analyse: no study is named. Name a study file, or a crate with --from.")
    if period is None:
        raise StudyInvalid("cannot analyse: no period is named. Add --period, such as 2026-01.")
    for name in (name for name, value in given.items() if value not in (None, [])):
        raise StudyInvalid(f"cannot analyse a study with --{name}: the study file states it. Leave it out.")
    return study, period


def show(document: Document) -> None:
    """Print each analysis: status, warnings, coefficients, then the checks and where the crate is."""
    for one in document["analyses"]:
        which = f"{one['analysis']} for {document['period']} {study_and_account(document)}"
        if one["status"] == "converged":
            line(f"{which}: converged ({one['sampler']}).", "bold")
        else:
            unconverged(which, one)
        if one["already_analysed"]:
            line("  already analysed: this is the stored crate, and nothing was drawn.")
        if "changed" in one:
            line(f"  changed: {one['changed']}.")
            line(f"  earlier: {shortened(one['earlier'])}")
        _show_releases(one["releases"])
        _show_warnings(one)
        _show_coefficients(one["numbers"], one["coefficients"])
        doubled(one["draws"])
        _show_prior_check(one["prior_check"])
        _show_parts(one["parts"])
        if one["missing"]:
            line(f"  missing: {one['missing']}")
        line(f"  law:    {one['target']} ({'calibrated' if one['calibrated'] else 'NOT calibrated'}; {one['choice']})")
        if one["cost"]:
            line(f"  time:   {one['cost']}")
        if one["caveat"]:
            line(f"  caveat: {one['caveat']}")
        for fact in one["facts"]:
            line(f"  fact:   {fact}")
        line(f"  crate:  {shortened(one['crate'])}")
        line(f"  report: {shortened(one['report'] if one['report'] != one['crate'] else 'report.html in it')}")
        if "comparison" in one:
            line(f"  changes since the version before: {shortened(one['comparison'])}")
    origins(document)


def _show_releases(releases: Sequence[Document]) -> None:
    """Print the release and revision analysed; of several releases, only those with a revision above 1."""
    for one in releases:
        if len(releases) == 1 or one["revision"] > 1:
            at = "" if one["holder"] is None else f" at {one['holder']}"
            line(f"  of:     {one['release']}{at} of {one['period']}, revision {one['revision']}")


def _show_warnings(one: Document) -> None:
    """Print the warnings that a reader needs before the coefficients."""
    for check in _checks_of_parts(one["parts"]):
        if check["alarm"]:
            line(f"  parts:  {check['words']}", "yellow")
    if (one["prior_check"] or {}).get("conflict"):
        line(f"  prior:  {one['prior_check']['words']}", "yellow")
    if one["clipping"]:
        line(f"  clipped: {one['clipping']}", "yellow")


def _show_prior_check(found: Document | None) -> None:
    """Print how much the result depends on the prior, and that the release does not contradict it.

    Records of earlier versions have the second part only.
    """
    if found and "dependence" in found:
        line(f"  prior:  {found['dependence']}", "yellow" if found["decides"] else None)
    if found and not found["conflict"]:
        line(f"  prior:  {found['words']}")


def _show_parts(found: Document | None) -> None:
    """Print the checks that several releases passed: they are as alike as the sampler assumes and the study states."""
    for check in _checks_of_parts(found):
        if not check["alarm"]:
            line(f"  parts:  {check['words']}")


def _checks_of_parts(found: Document | None) -> list[Document]:
    """The checks of several releases against each other, if any: of their residuals, and of a declared random split."""
    return [check for name in ("spread", "check") if (check := (found or {}).get(name))]


def doubled(draws: Document) -> None:
    """Print the number of draws of each chain where it was increased until the chains converged."""
    if draws["made"] > draws["asked"]:
        line(
            f"  draws:  {draws['made']:,} of each chain, where {draws['asked']:,} were asked for: doubled while the "
            "chains had not converged"
        )


def _show_coefficients(numbers: str, rows: Sequence[Document]) -> None:
    """Print a summary of the draws of each coefficient, in the units of the data."""
    grid(
        f"  {numbers}",
        ("coefficient", "mean", "sd", "2.5%", "97.5%", "R-hat", "ESS bulk", "ESS tail"),
        [
            (
                row["name"],
                *(number(row[key]) for key in ("mean", "sd", "q025", "q975")),
                fixed(row["rhat"], 3),
                fixed(row["ess_bulk"], 0),
                fixed(row["ess_tail"], 0),
            )
            for row in rows
        ],
    )
