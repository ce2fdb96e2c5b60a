"""`dpbayes check`: validate a study file, and the shape of its table against the declaration."""

from pathlib import Path
from typing import Annotated, Any

import typer

from cli.console import guarded
from cli.format import Document, known_accounts, line, missing_values_note, public_count_note
from cli.options import AsJson, Debug, StudyFile
from dpbayes.kinds.regression.pooled_parts import planned_words
from dpbayes.kinds.regression.prior import law_words
from dpbayes.plans.cautions import missing_words, query_words, unstated_words
from dpbayes.study.analyses import AnalysisSpec
from dpbayes.study.load import load_study
from dpbayes.study.study import Study
from dpbayes_core.errors import DpbayesError, StudyInvalid
from storage.home.home import Home
from storage.ledger.periods import Period
from storage.ledger.reading import KeyNeeded


def check(
    study: StudyFile,
    *,
    source: Annotated[
        bool, typer.Option("--source", help="Also compare the table's shape with the declaration.")
    ] = False,
    period: Annotated[str | None, typer.Option(help="With --source: the period of the table.")] = None,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Validate a study file without reading data; with --source also compare the table's shape with it."""
    with guarded(json, debug) as console:
        console.show(check_study(study, period if source else None, look_at_source=source), show)


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
        "schedule": None if study.schedule is None else study.schedule.model_dump(exclude_none=True),
        "public_count": query_words(study),
        "missing": unstated_words(study),
    }


def show(document: Document) -> None:
    """Print what a valid study would do."""
    line(f"{document['file']} is a valid study: {document['study']}, account {document['account']}.")
    if document["account_status"] == "unknown":
        line(f"  whether its account is open is not known: {document['account_detail']}")
    elif document["account_status"] != "open":
        line(f"  its account is not open yet. {known_accounts(document['known_accounts'])}")
        line("  Open it with `dpbayes ledger create STUDY`: releases need it.")
        line(f"  Looked in: {document['home']}.")
    if document["holders"]:
        line(f"  every release is made for each of its holders: {', '.join(document['holders'])}")
    for release in document["releases"]:
        count = release["noisy_numbers"]
        noisy = f", {count} noisy number{'s' * (count > 1)}" if count else ""
        line(
            f"  release {release['release']} ({release['kind']}): {release['formula']}; {release['mechanism']}, "
            f"{release['price']}{noisy}"
        )
        if release["chosen"] is not None:
            line(f"    {release['chosen']}")
        line(f"    missing values: {release['missing']}")
    for analysis in document["analyses"]:
        line(
            f"  analysis {analysis['analysis']} of {analysis['release']}"
            f"{', all periods together' if analysis['periods'] == 'all' else ''}: "
            f"{analysis['chains']} chains of {analysis['draws']} draws"
        )
        if analysis["prior"] is not None:
            line(f"    prior: {analysis['prior']}", "yellow")
        if analysis["parts"] is not None:
            line(f"    {analysis['parts']}")
    if document["schedule"] is not None:
        when = f"cron {document['schedule']['cron']}, {document['schedule']['timezone']}"
        line(f"  schedule: {when}. `plan` counts with it, and `deploy` has a Prefect server follow it")
    public_count_note(document)
    missing_values_note(document)
    if document["source"] is not None:
        line(f"  table {document['source']} of {document['period']}: its shape is as declared")


def _account(study: Study) -> dict[str, Any]:
    """Whether the account to be charged is open; refused where the ledger knows it, or the study, with other terms."""
    from storage.ledger.reading import AccountSnapshot

    try:
        with AccountSnapshot.near(study.path, study.account(), study.study) as snapshot:
            status = "open" if snapshot.opened else "no ledger" if snapshot.head is None else "not open"
            return {"account_status": status, "known_accounts": list(snapshot.accounts), "account_detail": None}
    except StudyInvalid:
        raise
    except KeyNeeded:
        detail = "the home's keys belong to another user. `dpbayes plan STUDY --key FINGERPRINT` says it."
        return {"account_status": "unknown", "known_accounts": [], "account_detail": detail}
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
    from dpbayes_core.privacy.mechanisms.additional_noise import additional_noise_of

    mechanism = study.design(name).mechanism
    additional = additional_noise_of(mechanism)
    price = ", ".join(f"{measure} {loss}" for measure, loss in spec.losses().items())
    return {
        "release": name,
        "formula": spec.formula,
        "mechanism": mechanism.name,
        "price": price,
        "entries": len(mechanism.scales),
        "noisy_numbers": len(mechanism.scales) + (0 if additional is None else len(additional.scales)),
        "kind": spec.kind,
        "chosen": spec.chosen(study.context),
        "missing": missing_words(study, name),
    }


def _parts(study: Study, spec: AnalysisSpec) -> str | None:
    """How an analysis will combine several releases, in words; None where it uses only one."""
    if not (spec.pools(len(study.holders)) and study.releases[spec.release].by_holder):
        return None
    design: Any = study.design(spec.release)
    return planned_words(spec.sampler, design.schema, alike=spec.alike)


def _analysis(study: Study, name: str) -> dict[str, Any]:
    spec = study.analyses[name]
    return {
        "analysis": name,
        "release": spec.release,
        "periods": spec.periods,
        "chains": spec.chains,
        "draws": spec.draws,
        "sampler": spec.sampler,
        "parts": _parts(study, spec),
        "prior": law_words(spec.prior),
    }
