"""Which samplers a regression's release can have, and what would stop one after the release was paid for."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dpbayes.strict_yaml.problem import Flaw, Place
from dpbayes_core.text import shown

if TYPE_CHECKING:
    from dpbayes.kinds.regression.section import RegressionSpec
    from dpbayes.study.file import StudyFile

GIBBS = ("gibbs-ss-prior", "gibbs-ss-update", "gibbs-ss-exact")
DISTRIBUTED = ("normal-x", "normal-x-solve", "fixed-s", "fixed-s-fast", "bs-distributed")
CONTINUOUS_ONLY = ("normal-x", "normal-x-solve", "bs-distributed")


ROBUST = "robust"


def robust_flaws(spec: "RegressionSpec", file: "StudyFile", place: Place) -> Iterator[Flaw]:
    """What does not go with a second step over the rows; `place` is the release's."""
    if not spec.robust:
        return
    where = (*place, "robust")
    if spec.moments is not None:
        yield Flaw(where, "it does not go with moments: the loss is shared with one of them", "Delete one of them")
    if not spec.intercept or spec.norm is not None:
        yield Flaw(where, "it goes with an intercept and without a norm", "Delete robust")
    if file.source.holder is not None:
        yield Flaw(where, "it takes a table without holders", "Delete robust")
    for name, analysis in file.analyses.items():
        if place[-1:] == (analysis.release,) and analysis.sampler == ROBUST and analysis.periods == "all":
            what = f"{ROBUST} takes one period at a time"
            yield Flaw(("analyses", name, "sampler"), what, "Write periods: this, or sampler: collapsed")


def sampler_flaws(spec: "RegressionSpec", file: "StudyFile", place: Place) -> Iterator[Flaw]:
    """Analyses by the papers' samplers of what they do not take; `place` is the release's."""
    levels = [name for name in spec.covariates if name in file.columns and file.columns[name].levels is not None]
    for name, analysis in file.analyses.items():
        where = ("analyses", name, "sampler")
        if place[-1:] != (analysis.release,) or analysis.sampler not in (*GIBBS, *DISTRIBUTED):
            continue
        if spec.complete:
            what = f"{analysis.sampler} needs a public number of rows, and that of complete rows is not"
            yield Flaw(where, what, "Choose collapsed, or leave sampler out")
        elif analysis.sampler in GIBBS:
            continue
        elif not spec.intercept:
            yield Flaw(where, f"{analysis.sampler} takes regressions with an intercept only", "Choose another sampler")
        elif levels and analysis.sampler in CONTINUOUS_ONLY:
            what = f"{analysis.sampler} takes columns with bounds only, and {shown(levels[0])} has levels"
            yield Flaw(where, what, "Choose another sampler, such as fixed-s")
