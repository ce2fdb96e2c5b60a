"""Looking without running: a study against its rules, a table against its declared shape, a ledger as it stands."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli.documents import ledger_document
from dpbayes.kinds.regression.pooled_parts import planned_words
from dpbayes.kinds.regression.prior import law_words
from dpbayes.plans.missing import missing_words, unstated_words
from dpbayes.study.analyses import AnalysisSpec
from dpbayes.study.load import load_study
from dpbayes.study.public_count import query_words
from dpbayes.study.study import Study
from dpbayes_core.errors import DpbayesError, StudyInvalid
from storage.home.home import Home
from storage.ledger.periods import Period
from storage.ledger.reading import KeyNeeded, look


def check_study(path: Path, period: str | None, *, look_at_source: bool) -> dict[str, Any]:
    """Validate the study; with a period also compare its table's shape with the declaration."""
    study = load_study(path)
    if study.source.expectations is not None:
        from dpbayes.secure.validation.suites import read_expectations

        read_expectations(study)
    if any(analysis.test for analysis in study.analyses.values()):
        from dpbayes.analyses.public_records import refuse_table

        refuse_table(study)
    source = _check_source(study, period) if look_at_source else None
    return {
        "file": str(path),
        "study": study.study,
        "population": study.population,
        "account": study.population,
        "period": period,
        **_account(study),
        "home": Home.looked_in(study.path),
        "holders": [holder for holder in study.holders if holder is not None],
        "releases": [_release(study, name) for name in study.releases],
        "analyses": [_analysis(study, name) for name in study.analyses],
        "source": source,
        "schedule": None if study.schedule is None else study.schedule.model_dump(),
        "public_count": query_words(study),
        "missing": unstated_words(study),
    }


def show_ledger(near: Path, keys: Sequence[str] = ()) -> dict[str, Any]:
    """Every account of the home near `near`, and what of its ledger is not anchored yet."""
    with look(near, keys) as reading:
        return ledger_document(reading) | {"unanchored": list(reading.unanchored)}


def _account(study: Study) -> dict[str, Any]:
    """Whether the account that would pay is open; refused where it, or its study, is known otherwise."""
    from storage.ledger.account_snapshot import Position

    try:
        with Position.near(study.path, study.account(), study.study) as position:
            status = "open" if position.opened else "no ledger" if position.head is None else "not open"
            return {"account_status": status, "known_accounts": list(position.accounts), "account_detail": None}
    except StudyInvalid:
        raise
    except KeyNeeded:
        said = "the home's keys belong to another user. `dpbayes plan STUDY --key FINGERPRINT` says it."
        return {"account_status": "unknown", "known_accounts": [], "account_detail": said}
    except DpbayesError as error:  # a study may be checked where its ledger cannot be reached
        return {"account_status": "unknown", "known_accounts": [], "account_detail": str(error)}


def _check_source(study: Study, period: str | None) -> str:
    from dpbayes.secure.read_table import check_shape

    if period is None:
        raise StudyInvalid("cannot check the source: no period given. Add --period, such as --period 2026-01.")
    parsed = Period.parse(period, study.period.grain)
    for name in study.releases:
        check_shape(study.table(name, parsed))
    return ", ".join(path.replace("{period}", parsed.name) for path in study.source.places)


def _release(study: Study, name: str) -> dict[str, Any]:
    spec = study.releases[name]
    mechanism = study.design(name).mechanism
    price = ", ".join(f"{measure} {loss}" for measure, loss in spec.losses().items())
    return {
        "release": name,
        "formula": spec.formula,
        "mechanism": mechanism.name,
        "price": price,
        "entries": len(mechanism.scales),
        "kind": spec.kind,
        "chosen": spec.chosen(study.context),
        "missing": missing_words(study, name),
    }


def _parts(study: Study, spec: AnalysisSpec) -> str | None:
    """How an analysis will read several releases; of one, or of what is not pooled, nothing."""
    if not (spec.pools(len(study.holders)) and study.releases[spec.release].by_holder):
        return None
    design: Any = study.design(spec.release)
    return planned_words(spec.sampler, design.schema, alike=spec.alike)


def _analysis(study: Study, name: str) -> dict[str, Any]:
    spec = study.analyses[name]
    return {
        "analysis": name,
        "release": spec.release,
        "chains": spec.chains,
        "draws": spec.draws,
        "sampler": spec.sampler,
        "parts": _parts(study, spec),
        "prior": law_words(spec.prior),
    }
