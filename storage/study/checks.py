"""What sections say of each other: names that must exist, caps that can never be met, noise that no cap takes."""

from collections.abc import Iterator

from dpbayes_core.schema import INTERCEPT, SIGMA
from storage.study.compile import regression_schema, uses_delta
from storage.study.flaw import Flaw, Place, nearest, shown
from storage.study.models import StudyFile
from storage.study.work import ReleaseSpec


def flaws(file: StudyFile) -> Iterator[Flaw]:
    """Everything that is wrong between the sections of a file whose sections are right by themselves."""
    yield from _table(file)
    yield from _caps(file)
    for name, release in file.releases.items():
        columns = [*_response(file, name, release), *_covariates(file, name, release)]
        yield from columns
        yield from _privacy_loss(file, name, release)
        if not columns:
            yield from _schema(file, name, release)
    yield from _analyses(file)


def _table(file: StudyFile) -> Iterator[Flaw]:
    unit = file.source.unit
    if unit in file.columns:
        what = f"{shown(str(unit))} names people and is declared as a column to analyse"
        yield Flaw(("columns", str(unit)), what, "Delete it from columns")


def _caps(file: StudyFile) -> Iterator[Flaw]:
    windows = {cap.window for cap in file.privacy.caps}
    if file.period.people == "same" and windows == {"per-period"}:
        what = "nothing limits what the same people lose over all periods"
        yield Flaw(("privacy", "budget"), what, "Add lifetime, or declare people: disjoint if no person comes back")
    for cap in file.privacy.caps:
        if cap.measure == "epsilon-delta" and cap.delta is None:
            place = ("privacy", "budget", cap.window)
            yield Flaw(place, "a cap of epsilon needs a delta", "Write delta: 1e-6, say, under privacy")


def _response(file: StudyFile, name: str, release: ReleaseSpec) -> Iterator[Flaw]:
    place = ("releases", name, "response")
    if release.response not in file.columns:
        yield _undeclared(file, place, release.response)
    elif file.columns[release.response].bounds is None:
        what = f"{shown(release.response)} has levels, and a response must be bounded"
        yield Flaw(place, what, "Choose a column that has bounds")
    if release.response in release.covariates:
        yield Flaw(place, f"{shown(release.response)} is among the covariates too", "Take it out of one of them")


def _covariates(file: StudyFile, name: str, release: ReleaseSpec) -> Iterator[Flaw]:
    for index, covariate in enumerate(release.covariates):
        place = ("releases", name, "covariates", index)
        if covariate not in file.columns:
            yield _undeclared(file, place, covariate)
        elif covariate in (INTERCEPT, SIGMA):
            what = f"{covariate} is the name of another number in the results"
            yield Flaw(place, what, "Rename the column in the table")


def _undeclared(file: StudyFile, place: Place, column: str) -> Flaw:
    what = f"column {shown(column)} is not declared"
    return Flaw(place, what, nearest(column, file.columns, "Declare it under columns, which has"))


def _privacy_loss(file: StudyFile, name: str, release: ReleaseSpec) -> Iterator[Flaw]:
    if uses_delta(release) and file.privacy.delta is None:
        what = "gaussian noise of an epsilon needs a delta"
        yield Flaw(("releases", name, "mechanism"), what, "Write delta: 1e-6, say, under privacy, or use laplace")
    for cap in file.privacy.caps:
        if cap.measure == "pure-epsilon" and release.mechanism == "gaussian":
            what = f"gaussian noise has no pure epsilon, and the {shown(cap.name)} cap counts in it"
            yield Flaw(("releases", name, "mechanism"), what, "Use laplace, or state the cap in epsilon or rho")


def _schema(file: StudyFile, name: str, release: ReleaseSpec) -> Iterator[Flaw]:
    try:
        regression_schema(file, release)
    except ValueError:
        what = "these columns give two coefficients one name"
        yield Flaw(("releases", name, "covariates"), what, "Rename a column or a level")


def _analyses(file: StudyFile) -> Iterator[Flaw]:
    for name, analysis in file.analyses.items():
        if analysis.release not in file.releases:
            what = f"there is no release {shown(analysis.release)}"
            remedy = nearest(analysis.release, file.releases, "Name one of")
            yield Flaw(("analyses", name, "release"), what, remedy)
        if analysis.periods == "all" and file.period.people == "same":
            what = "periods of the same people cannot be pooled"
            yield Flaw(("analyses", name, "periods"), what, "Write this, or declare people: disjoint if it is true")
