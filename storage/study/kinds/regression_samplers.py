"""Which samplers a regression's release can have, and what would stop one after the release was paid for."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from storage.study.flaw import Flaw, Place, shown

if TYPE_CHECKING:
    from storage.study.kinds.regression import RegressionSpec
    from storage.study.models import StudyFile

DISTRIBUTED = ("normal-x", "normal-x-solve", "fixed-s", "fixed-s-fast", "bs-distributed")
CONTINUOUS_ONLY = ("normal-x", "normal-x-solve", "bs-distributed")


def sampler_flaws(spec: "RegressionSpec", file: "StudyFile", place: Place) -> Iterator[Flaw]:
    """Analyses by the distributed paper's samplers of what they do not take; `place` is the release's."""
    levels = [name for name in spec.covariates if name in file.columns and file.columns[name].levels is not None]
    for name, analysis in file.analyses.items():
        where = ("analyses", name, "sampler")
        if place[-1:] != (analysis.release,) or analysis.sampler not in DISTRIBUTED:
            continue
        if not spec.intercept:
            yield Flaw(where, f"{analysis.sampler} takes regressions with an intercept only", "Choose another sampler")
        elif levels and analysis.sampler in CONTINUOUS_ONLY:
            what = f"{analysis.sampler} takes columns with bounds only, and {shown(levels[0])} has levels"
            yield Flaw(where, what, "Choose another sampler, such as fixed-s")
