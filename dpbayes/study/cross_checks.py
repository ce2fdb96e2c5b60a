"""Checks across sections: names that must exist, caps that can never be met, noise that no cap admits."""

from collections.abc import Iterator
from pathlib import Path

from dpbayes.kinds.networks.section import NetworkSpec
from dpbayes.kinds.registry import KINDS, ReleaseSpec
from dpbayes.kinds.regression.samplers import INDEPENDENT_SAMPLERS
from dpbayes.strict_yaml.problem import Place, Problem
from dpbayes.study.analyses import AnalysisSpec
from dpbayes.study.file import StudyFile
from dpbayes.study.guesses import guess_problems
from dpbayes.study.public_paths import names_table
from dpbayes.study.requests import holders
from dpbayes_core.text import nearest, shown
from storage.ledger.periods import EXAMPLES, is_name


def problems(file: StudyFile, folder: Path) -> Iterator[Problem]:
    """The contradictions between the sections of a file, each of which is valid by itself."""
    yield from _table(file)
    found = list(_indicators(file))
    yield from found
    if found:
        return  # the columns that they indicate are not known
    yield from guess_problems(file.columns)
    yield from _public(file, folder)
    yield from _holders(file)
    yield from _caps(file)
    yield from _schedule(file)
    for name, release in file.releases.items():
        place = ("releases", name)
        yield from release.problems(file.context, place)
        yield from _privacy_loss(file, place, release)
    yield from _analyses(file)


def _table(file: StudyFile) -> Iterator[Problem]:
    unit = file.source.unit
    if unit in file.columns:
        what = f"{shown(str(unit))} names people and is declared as a column to analyse"
        yield Problem(("columns", str(unit)), what, "Delete it from columns")


def _indicators(file: StudyFile) -> Iterator[Problem]:
    """Problems of columns that indicate whether another column's value is missing."""
    for name, column in file.columns.items():
        other = None if column.missing_of is None else file.columns.get(column.missing_of)
        place = ("columns", name, "missing_of")
        if column.missing_of is not None and (other is None or other.missing_of is not None):
            yield Problem(place, f"{shown(column.missing_of)} is no column of the table", "Name a declared column")
        elif other is not None and not other.fills:
            what = f"nothing is stated of what a missing {shown(column.missing_of or '')} counts as"
            yield Problem(place, what, "Write nulls: there, or unknown: where it has levels")
        for release, spec in file.releases.items():
            if column.missing_of is not None and name in spec.uses and spec.kind != "regression":
                what = f"a {spec.kind} release takes no indicator of missing values"
                yield Problem(("releases", release), what, f"Take {shown(name)} out of it")


def _public(file: StudyFile, folder: Path) -> Iterator[Problem]:
    """Files that are declared public although their path is one of the confidential table."""
    what, remedy = "this is a place of the confidential table", "Name a public file, outside the source's paths"
    for name, analysis in file.analyses.items():
        if analysis.test is not None and names_table(file.source, folder, analysis.test.path):
            yield Problem(("analyses", name, "test", "path"), what, remedy)
    suite = file.source.expectations
    if suite is not None and names_table(file.source, folder, suite):
        yield Problem(("source", "expectations"), what, remedy)


def _holders(file: StudyFile) -> Iterator[Problem]:
    spec = file.source.holder
    if spec is None:
        return
    place = ("source", "holder", "column")
    if spec.column is not None and spec.column == file.source.unit:
        yield Problem(place, f"{shown(spec.column)} names people, not holders", "Name the column of the holders")
    if spec.column in file.columns:
        what = f"{shown(str(spec.column))} names the holders and is declared as a column to analyse"
        yield Problem(("columns", str(spec.column)), what, "Delete it from columns")
    for name, release in file.releases.items():
        if not release.by_holder:
            what = f"a {release.kind} release is not made holder by holder"
            remedy = "Release it in a study of the same population that names no holder"
            yield Problem(("releases", name, "kind"), what, remedy)


def _caps(file: StudyFile) -> Iterator[Problem]:
    windows = {cap.window for cap in file.privacy.caps}
    if file.period.people == "same" and windows == {"per-period"}:
        what = "nothing limits what the same people lose over all periods"
        yield Problem(("privacy", "budget"), what, "Add lifetime, or declare people: disjoint if no person comes back")
    for cap in file.privacy.caps:
        if cap.measure == "epsilon-delta" and cap.delta is None:
            place = ("privacy", "budget", cap.window)
            yield Problem(place, "a cap of epsilon needs a delta", "Write delta: 1e-6, say, under privacy")


def _schedule(file: StudyFile) -> Iterator[Problem]:
    first = None if file.schedule is None else file.schedule.first
    if first is not None and not is_name(first, file.period.grain):
        what = f"{shown(first)} is not the canonical name of a {file.period.grain}"
        yield Problem(("schedule", "first"), what, f"Write a real one like {EXAMPLES[file.period.grain]}")


def _privacy_loss(file: StudyFile, place: Place, release: ReleaseSpec) -> Iterator[Problem]:
    if release.needs_delta and file.privacy.delta is None:
        what = "gaussian noise of an epsilon needs a delta"
        yield Problem((*place, "mechanism"), what, "Write delta: 1e-6, say, under privacy, or use laplace")
    for cap in file.privacy.caps:
        if cap.measure == "pure-epsilon" and not release.has_pure_epsilon:
            what = f"gaussian noise has no pure epsilon, and the {shown(cap.name)} cap counts in it"
            yield Problem((*place, "mechanism"), what, "Use laplace, or state the cap in epsilon or rho")


def _analyses(file: StudyFile) -> Iterator[Problem]:
    for name, analysis in file.analyses.items():
        if analysis.release not in file.releases:
            what = f"there is no release {shown(analysis.release)}"
            remedy = nearest(analysis.release, file.releases, "Name one of")
            yield Problem(("analyses", name, "release"), what, remedy)
        elif not file.releases[analysis.release].analysed:
            what = f"{shown(analysis.release)} is an answer by itself"
            yield Problem(("analyses", name, "release"), what, "Leave the analysis out: its release has a report")
        else:
            yield from _analysis(file, analysis, ("analyses", name))
        if analysis.periods == "all" and file.period.people == "same":
            what = "periods of the same people cannot be pooled"
            yield Problem(("analyses", name, "periods"), what, "Write this, or declare people: disjoint if it is true")


def _analysis(file: StudyFile, analysis: AnalysisSpec, place: Place) -> Iterator[Problem]:
    """Every public fact that would stop the analysis after its release was paid for."""
    release, sampler = file.releases[analysis.release], analysis.sampler
    if sampler != "auto" and sampler not in release.samplers:
        what = f"{sampler} does not take a {release.kind} release"
        yield Problem((*place, "sampler"), what, nearest(sampler, ("auto", *release.samplers), "Choose one of"))
    if analysis.alike and not (release.by_holder and analysis.pools(len(holders(file)))):
        what = "one release has no parts that could be alike"
        yield Problem(
            (*place, "alike"), what, "Delete it, or analyse several: holders of a regression, or periods: all"
        )
    if analysis.prior.law == "independent" and sampler not in INDEPENDENT_SAMPLERS:
        what = f"{sampler} takes no prior with law: independent"
        yield Problem((*place, "sampler"), what, "Leave sampler out, or write law: conjugate in the prior")
    yield from _prior(file, analysis, (*place, "prior"))
    if analysis.test is not None:
        yield from _test(release, analysis.test.target, (*place, "test"))


def _prior(file: StudyFile, analysis: AnalysisSpec, place: Place) -> Iterator[Problem]:
    """Parts of the prior that belong to another kind of release, and parts that contradict this release."""
    release = file.releases[analysis.release]
    prior = KINDS[release.kind].prior
    if prior is None:
        return
    for part in prior.others(analysis.prior):
        what = f"it is no part of the prior of a {release.kind} release"
        yield Problem((*place, part), what, f"Choose from {', '.join(prior.parts)}" if prior.parts else "Delete it")
    yield from prior.problems(analysis.prior, release, file.context, place)


def _test(release: ReleaseSpec, target: str, place: Place) -> Iterator[Problem]:
    if not isinstance(release, NetworkSpec):
        yield Problem(place, "only networks are tried on public records", "Delete it")
    elif target not in release.nodes:
        yield Problem((*place, "target"), f"{shown(target)} is no node", nearest(target, release.nodes, "Name one of"))
