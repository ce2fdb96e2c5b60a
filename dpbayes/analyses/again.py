"""Which versions of an analysis are missing that its own schedule calls for."""

from dpbayes.analyses.prepare import prepare_analysis
from dpbayes.analyses.publish import finish_posteriors
from dpbayes.analyses.stored_releases import stored_periods
from dpbayes.analyses.workspace import StudyWorkspace
from dpbayes.study.study import Study
from storage.ledger.anchored import AnchoredLedger


def missing_versions(study: Study, name: str) -> tuple[str, ...]:
    """The stored periods of which an analysis is not archived as study and ledger have it now, oldest first.

    Where it pools periods, all of them are of one version, which has the name of the last.
    """
    spec = study.analysis(name)
    with AnchoredLedger.open(study.path) as anchored:
        finish_posteriors(anchored)
        stored = stored_periods(study, spec.release, anchored)
        wanted = stored[-1:] if spec.periods == "all" else stored
        analyses = {period: prepare_analysis(study, name, period, anchored) for period in wanted}
        return tuple(
            period for period, one in analyses.items() if StudyWorkspace(one, study, anchored).stored() is None
        )
