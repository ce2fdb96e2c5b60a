"""`dpbayes analyse`: chains, diagnostics, an archived posterior; of a study, or of published crates alone."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.console import Console, exit_unless_converged, guarded
from cli.environment import prepare
from cli.format import Document, fixed, grid, line, number, of_whom, origins, shortened, unconverged
from cli.launch import ANALYSES, actor, kept, ready, start
from cli.options import AsJson, Debug
from dpbayes.analyses.crates_workspace import crates_workspace
from dpbayes_core.errors import StudyInvalid
from tasks.answers import stored_answer, stored_crate
from tasks.orders import CratesOrder

PLACE = "posteriors"  # below the current folder


def _alone(help: str, *names: str) -> Any:
    """An option that goes with --from."""
    panel = "With a published crate alone: no study, no data, no home"
    return typer.Option(*names, help=help, rich_help_panel=panel)


def analyse(
    study: Annotated[Path | None, typer.Argument(help="The study file (YAML); not with --from.")] = None,
    *,
    period: Annotated[
        str | None,
        typer.Option(help="A period such as 2026-01; where an analysis pools periods, the last.", show_default=False),
    ] = None,
    crates: Annotated[
        list[str] | None, _alone("A published crate: folder, zip or URL; repeat it to pool.", "--from")
    ] = None,
    prior: Annotated[Path | None, _alone("A YAML file with what a study states under prior.")] = None,
    sampler: Annotated[str | None, _alone("The sampler; auto by default.")] = None,
    chains: Annotated[int | None, _alone("Independent chains; 4 by default.")] = None,
    draws: Annotated[
        int | None, _alone("Draws of each at first, up to 16 times as many until they converge; 1000 by default.")
    ] = None,
    seed: Annotated[int | None, _alone("By default derived from the request.")] = None,
    alike: Annotated[
        bool | None,
        _alone("People were assigned to the releases at random, so covariates have one law.", "--alike"),
    ] = None,
    to: Annotated[Path | None, _alone("A folder for the crate, or a .zip; ./posteriors by default.")] = None,
    key: Annotated[
        list[str] | None, _alone("The fingerprint of the agency you trust; may be repeated.", "--key")
    ] = None,
    sign: Annotated[Path | None, _alone("A folder with a key of your own; made if there is none.")] = None,
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
    """The posteriors of one period of a study: what is stored of all of them, or the analysis flow."""
    declared = ready(study, [period])
    if (found := stored_answer(declared, period, None, analyses=True)) is not None:
        return found
    start(declared, ANALYSES)
    from flows.analyse import analyse_study
    from flows.states import answer

    with kept(console, declared, period, show), console.progress():
        return answer(analyse_study, str(study), period, actor(), declared.sha256)


def analyse_alone(order: CratesOrder, console: Console) -> dict[str, Any]:
    """The posterior of crates, where there may be no home: the stored one, or the analysis flow."""
    if (found := stored_crate(crates_workspace(asdict(order)))) is not None:
        return found
    prepare(None, ANALYSES)
    from flows.analyse import analyse_crates
    from flows.states import answer

    with console.progress():
        return answer(analyse_crates, asdict(order))


def crate_order(study: Path | None, period: str | None, crates: Sequence[str], given: Mapping[str, Any]) -> CratesOrder:
    """The order for an analysis of crates."""
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
    """The study and period; everything else stands in the study file."""
    if study is None:
        raise StudyInvalid("cannot analyse: no study is named. Name a study file, or a crate with --from.")
    if period is None:
        raise StudyInvalid("cannot analyse: no period is named. Add --period, such as 2026-01.")
    for name in (name for name, value in given.items() if value not in (None, [])):
        raise StudyInvalid(f"cannot analyse a study with --{name}: the study file states it. Leave it out.")
    return study, period


def show(document: Document) -> None:
    """Status first, then the coefficients."""
    for one in document["analyses"]:
        which = f"{one['analysis']} for {document['period']} {of_whom(document)}"
        if one["status"] == "converged":
            line(f"{which}: converged ({one['sampler']}).", "bold")
        else:
            unconverged(which, one)
        if one["already_analysed"]:
            line("  already analysed: this is the stored crate, and nothing was drawn.")
        if "changed" in one:
            line(f"  changed: {one['changed']}.")
            line(f"  earlier: {shortened(one['earlier'])}")
        _revised(one["releases"])
        _alarms(one)
        _coefficients(one["numbers"], one["coefficients"])
        doubled(one["draws"])
        _of_the_prior(one["prior_check"])
        _of_the_parts(one["parts"])
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
    origins(document)


def _revised(releases: Sequence[Document]) -> None:
    """Which release it is about, by its revision; of many, only those that are not the first."""
    for one in releases:
        if len(releases) == 1 or one["revision"] > 1:
            at = "" if one["holder"] is None else f" at {one['holder']}"
            line(f"  of:     {one['release']}{at} of {one['period']}, revision {one['revision']}")


def _alarms(one: Document) -> None:
    """What has to be known before the numbers are read."""
    for tried in _of_several(one["parts"]):
        if tried["alarm"]:
            line(f"  parts:  {tried['words']}", "yellow")
    if (one["prior_check"] or {}).get("conflict"):
        line(f"  prior:  {one['prior_check']['words']}", "yellow")
    if one["clipping"]:
        line(f"  clipped: {one['clipping']}", "yellow")


def _of_the_prior(found: Document | None) -> None:
    """What the prior decided, and that the release does not contradict it; earlier versions said the latter only."""
    if found and "dependence" in found:
        line(f"  prior:  {found['dependence']}", "yellow" if found["decides"] else None)
    if found and not found["conflict"]:
        line(f"  prior:  {found['words']}")


def _of_the_parts(found: Document | None) -> None:
    """That several releases are as the sampler takes them and as somebody declared, as far as their numbers tell."""
    for tried in _of_several(found):
        if not tried["alarm"]:
            line(f"  parts:  {tried['words']}")


def _of_several(found: Document | None) -> list[Document]:
    """What was asked of the numbers of several releases, if anything: their residuals, and a declared split."""
    return [tried for name in ("spread", "check") if (tried := (found or {}).get(name))]


def doubled(draws: Document) -> None:
    """How many draws there are of each chain, where they are more than were asked for."""
    if draws["made"] > draws["asked"]:
        line(
            f"  draws:  {draws['made']:,} of each chain, where {draws['asked']:,} were asked for: doubled while the "
            "chains had not converged"
        )


def _coefficients(numbers: str, rows: Sequence[Document]) -> None:
    """What was drawn, a posterior or another spread, in the user's units."""
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
