"""Posteriors as people read them: status first, then the coefficients and what is said of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from cli.tables import fixed, grid, line, number, of_whom, origins, shortened, unconverged

Document = Mapping[str, Any]


def analyse(document: Document) -> None:
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
        coefficients(one["numbers"], one["coefficients"])
        extended(one["draws"])
        of_the_prior(one["prior_check"])
        of_the_parts(one["parts"])
        if one["clipping"]:
            line(f"  clipped: {one['clipping']}", "yellow")
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


def of_the_prior(found: Document | None) -> None:
    """What the prior decided, and whether the release contradicts it; earlier versions said the latter only."""
    if found and "dependence" in found:
        line(f"  prior:  {found['dependence']}", "yellow" if found["decides"] else None)
    if found:
        line(f"  prior:  {found['words']}", "yellow" if found["conflict"] else None)


def of_the_parts(found: Document | None) -> None:
    """Whether several releases are as the sampler takes them and as somebody declared, as far as their numbers tell."""
    for name in ("spread", "check"):
        if tried := (found or {}).get(name):
            line(f"  parts:  {tried['words']}", "yellow" if tried["alarm"] else None)


def extended(draws: Document) -> None:
    """How many draws there are of each chain, where they are more than were asked for."""
    if draws["made"] > draws["asked"]:
        line(
            f"  draws:  {draws['made']:,} of each chain, where {draws['asked']:,} were asked for: doubled while the "
            "chains had not converged"
        )


def coefficients(numbers: str, rows: Sequence[Document]) -> None:
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
