"""The samplers of a regression's release, and analyses that would fail after the release was charged."""

from collections.abc import Iterator, Sequence

from dpbayes.kinds.context import ReleaseContext
from dpbayes.strict_yaml.problem import Place, Problem
from dpbayes_core.text import shown

NOISY = "gibbs-ss-noisy"
GIBBS = ("gibbs-ss-prior", "gibbs-ss-update", "gibbs-ss-exact")
DISTRIBUTED = ("normal-x", "normal-x-solve", "fixed-s", "fixed-s-fast", "bs-distributed")
_CONTINUOUS_ONLY = ("normal-x", "normal-x-solve", "bs-distributed")
ROBUST = "robust"

AUTO = "auto"


INDEPENDENT_SAMPLERS = (AUTO, "collapsed", ROBUST)
"""The samplers that support the independent law; every other sampler needs the conjugate law."""


def robust_problems(context: ReleaseContext, place: Place) -> Iterator[Problem]:
    """Analyses by the sampler robust that ask for several periods; `place` is the release's key path."""
    for name, analysis in context.analyses_of(place):
        if analysis.sampler == ROBUST and analysis.periods == "all":
            what = f"{ROBUST} takes one period at a time"
            yield Problem(("analyses", name, "sampler"), what, "Write periods: this, or sampler: collapsed")


def paper_problems(
    context: ReleaseContext, place: Place, *, levels: Sequence[str], complete: bool, intercept: bool
) -> Iterator[Problem]:
    """Analyses by the papers' samplers that they do not support; `levels` are the covariates with levels."""
    for name, analysis in context.analyses_of(place):
        where = ("analyses", name, "sampler")
        if analysis.sampler not in (*GIBBS, *DISTRIBUTED):
            continue
        if complete:
            what = f"{analysis.sampler} needs a public number of rows, and that of complete rows is not"
            yield Problem(where, what, "Choose collapsed, or leave sampler out")
        elif analysis.sampler in GIBBS:
            continue
        elif not intercept:
            yield Problem(
                where, f"{analysis.sampler} takes regressions with an intercept only", "Choose another sampler"
            )
        elif levels and analysis.sampler in _CONTINUOUS_ONLY:
            what = f"{analysis.sampler} takes columns with bounds only, and {shown(levels[0])} has levels"
            yield Problem(where, what, "Choose another sampler, such as fixed-s")
