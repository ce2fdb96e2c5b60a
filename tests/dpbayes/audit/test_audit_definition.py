"""A lying steward has the signing key: what a study file, a ledger entry and a release say of each other must agree."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from dpbayes.audit import crate as audit_of_crates
from dpbayes.audit import definition as audit_definition
from dpbayes.audit.audit import audit_crate
from dpbayes.crates.format import ATTESTATION, PUBLIC_KEY, attested
from dpbayes.crates.release import ENTRY, PREDICATE, build_release_crate
from dpbayes_core.canonical import canonical_json, digest
from dpbayes_core.privacy.mechanisms import GaussianMechanism
from storage.home.signatures import Signer
from storage.ledger.entries import Entry
from tests.dpbayes.crates.crate_examples import STUDY_TEXT, mechanism, posterior_crate, small_entry

Record = dict[str, Any]


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer.create(tmp_path_factory.mktemp("agency"))


@pytest.fixture(scope="module")
def entry(tmp_path_factory: pytest.TempPathFactory) -> Record:
    return small_entry(tmp_path_factory.mktemp("gaussian"))


@pytest.fixture(scope="module")
def laplace(tmp_path_factory: pytest.TempPathFactory) -> Record:
    return small_entry(tmp_path_factory.mktemp("laplace"), "laplace")


def failures(files: Mapping[str, bytes], signer: Signer) -> dict[str, str]:
    """What an audit of the crate alone finds, by the agency's genuine key."""
    return {check.check: check.detail for check in audit_crate(files, [signer.fingerprint]).checks if not check.ok}


def test_a_crate_that_agrees_with_its_study_passes(entry: Record, laplace: Record, signer: Signer) -> None:
    for each in (entry, laplace):
        crate = build_release_crate(each, STUDY_TEXT, signer)
        assert not failures(crate, signer)
    assert not failures(posterior_crate(build_release_crate(entry, STUDY_TEXT, signer), signer), signer)


def test_an_entry_that_python_takes_for_another_gets_a_verdict_of_its_own(entry: Record, signer: Signer) -> None:
    crate = build_release_crate(entry, STUDY_TEXT, signer)
    forged = {**crate, ENTRY: crate[ENTRY].replace(b'"max_rows_per_unit":1', b'"max_rows_per_unit":true')}
    assert json.loads(forged[ENTRY]) == json.loads(crate[ENTRY])
    assert audit_of_crates.contents(crate, {})[audit_definition.STATED] is None
    said = audit_of_crates.contents(forged, {})[audit_definition.STATED]
    assert said == "study.yaml states something otherwise than the entry's definition"


# --- the study file says otherwise --------------------------------------------------------------------------------

STUDIES: dict[str, tuple[str, str, str]] = {
    "epsilon": ("gaussian\n    epsilon: 0.5", "gaussian\n    epsilon: 0.1", "states mechanism.epsilon otherwise"),
    "delta": ("delta: 1e-6", "delta: 1e-9", "states mechanism.delta otherwise"),
    "bounds": ("age: {bounds: [16, 80]}", "age: {bounds: [16, 60]}", "states columns.age.bounds otherwise"),
    "nulls": ("[0, 40]}", "[0, 40], nulls: 3}", "states columns.tenure.nulls otherwise"),
    "levels": ("levels: [no, yes]", "levels: [no, yes, other]", "states columns.female.levels otherwise"),
    "level of reference": ("levels: [no, yes]", "levels: [yes, no]", "states columns.female.levels otherwise"),
    "unit": ("unit: person_id", "unit: household_id", "states unit otherwise"),
    "no unit": (", unit: person_id", "", "states unit otherwise"),
    "rows of a person": (
        "unit: person_id",
        "unit: person_id, max_rows_per_unit: 2",
        "states max_rows_per_unit otherwise",
    ),
    "neighbours": ("neighbours: replace-one", "neighbours: add-remove", "states neighbours otherwise"),
    "population": ("population: employees", "population: everybody", "states population otherwise"),
    "study": ("study: wages", "study: prices", "states study otherwise"),
    "covariates": ("[age, tenure, female, region]", "[age, tenure, female]", "states columns.region otherwise"),
    "order of covariates": ("[age, tenure,", "[tenure, age,", "states covariates otherwise"),
    "response": ("response: log_wage", "response: tenure", "cannot regress tenure on itself"),
    "intercept": ("response: log_wage", "response: log_wage\n    intercept: false", "without intercept"),
    "mechanism": ("mechanism: gaussian", "mechanism: laplace", "otherwise"),
    "source": ("data/wages-{period}", "data/others-{period}", "states source.path otherwise"),
    "another release": ("wage-regression:", "another-regression:", "cannot be compiled by this version"),
    "another grain": ("grain: month", "grain: quarter", "it lacks what this check needs"),
    "no study at all": ("study: wages", "stdy: wages", "cannot be compiled by this version"),
}


@pytest.mark.parametrize("what", STUDIES)
def test_a_study_file_that_defines_another_release_is_found(entry: Record, signer: Signer, what: str) -> None:
    old, new, said = STUDIES[what]
    assert old in STUDY_TEXT.decode()
    forged = STUDY_TEXT.decode().replace(old, new).replace("release: wage-regression", "release: wage-laplace")
    crate = build_release_crate(entry, forged.encode(), signer)
    assert said in failures(crate, signer)[audit_definition.STATED]


FREE = {
    "a prior": ("{release: wage-regression}", "{release: wage-regression, prior: {coefficients: {sd: 9}}}"),
    "an analysis": ("wage-posterior: {release: wage-regression}", "other: {release: wage-laplace}"),
    "another release's epsilon": ("laplace\n    epsilon: 0.5", "laplace\n    epsilon: 0.9"),
    "a prior that is no more": ("{release: wage-regression}", "{release: wage-regression, prior: {tau: {sd: 9}}}"),
    "the number of rows": ("rows: 50000", "rows: 900000000"),
    "a raised cap": ("lifetime: {epsilon: 8}", "lifetime: {epsilon: 80}"),
    "a schedule": ("analyses:", 'schedule: {cron: "0 2 1 * *"}\nanalyses:'),
}


@pytest.mark.parametrize("what", FREE)
def test_what_no_release_is_defined_by_may_have_changed_since(entry: Record, signer: Signer, what: str) -> None:
    old, new = FREE[what]
    assert old in STUDY_TEXT.decode()
    crate = build_release_crate(entry, STUDY_TEXT.decode().replace(old, new).encode(), signer)
    assert not failures(crate, signer)


def test_a_posterior_of_an_analysis_that_its_study_does_not_ask_for_is_found(entry: Record, signer: Signer) -> None:
    for old, new, said in (
        ("wage-posterior: {release", "other-posterior: {release", "has no such analysis"),
        ("{release: wage-regression}", "{release: wage-laplace}", "analyses another release"),
    ):
        text = STUDY_TEXT.decode().replace(old, new).encode()
        release = build_release_crate(entry, STUDY_TEXT, signer)
        found = failures(posterior_crate(release, signer, study_text=text), signer)
        assert said in found[audit_definition.ASKED], old


def test_a_study_older_than_the_comparison_is_told_and_not_held_against_its_crate(
    entry: Record, signer: Signer, monkeypatch: pytest.MonkeyPatch
) -> None:
    crate = build_release_crate(entry, b"study: of another age\n", signer)
    assert "cannot be compiled" in failures(crate, signer)[audit_definition.STATED]
    monkeypatch.setattr(audit_definition, "COMPARED", 2)
    audit_of_crates._cached_check.cache_clear()  # which knows that release
    checks = {check.check: check for check in audit_crate(crate, [signer.fingerprint]).checks}
    assert checks[audit_definition.STATED].ok
    assert "cannot be compared by this version" in checks[audit_definition.STATED].detail


# --- the ledger entry says otherwise ------------------------------------------------------------------------------


def rewritten(entry: Record, change: Callable[[Record, Record], None]) -> Record:
    """The entry with another payload and release, and hashes to match: what its ledger's owner can write."""
    copy = json.loads(canonical_json(entry))
    payload, release = copy["payload"], json.loads(copy["release"])
    change(payload, release)
    payload["request"] = digest(payload["definition"])
    copy["release"] = canonical_json(release).decode()
    forged = Entry.from_record(copy)
    copy["hash"] = forged.computed_hash
    return copy


def noise(payload: Record, release: Record, **changed: Any) -> None:
    payload["mechanism"] |= changed
    release["mechanism"] |= changed


def weak(payload: Record, release: Record) -> None:
    """Sound by itself, at the same price, for statistics that move half as far."""
    due = mechanism()
    assert isinstance(due, GaussianMechanism)
    noise(payload, release, **replace(due, sensitivity=0.5 * due.sensitivity).to_record())


def cheaper(payload: Record, release: Record) -> None:
    payload["cost"] |= {"rho": "1"}
    payload["cost"]["readable"]["rho"] = "0.0000000000000000001"


def relation(payload: Record, release: Record) -> None:
    payload["neighbours"] = release["neighbours"] = "add-remove"


def exceeded(payload: Record, release: Record) -> None:
    for debit in payload["debits"]:
        debit["total"]["rho"] = str(2**70)


def emptied(payload: Record, release: Record) -> None:
    for debit in payload["debits"]:
        debit["total"]["rho"] = "0"


def uncapped(payload: Record, release: Record) -> None:
    for debit in payload["debits"]:
        debit["cap"] = None


def other_account(payload: Record, release: Record) -> None:
    payload["debits"][0]["scope"]["account"] = "others"


def other_period(payload: Record, release: Record) -> None:
    payload["debits"][1]["scope"]["period"] = "2026-07"


def wider(payload: Record, release: Record) -> None:
    """The columns reach further than the study says: the standardised numbers then mean something else."""
    release["schema"]["covariates"][0]["bounds"] = [0, 1000]


def renamed(payload: Record, release: Record) -> None:
    release["schema"]["covariates"][0]["name"] = "height"


def stated_otherwise(payload: Record, release: Record) -> None:
    """The definition and the study say one thing, the noise another: nothing ties them but compiling again."""
    payload["definition"]["mechanism"]["epsilon"] = "0.1"


ENTRIES: dict[str, tuple[Callable[[Record, Record], None], str]] = {
    "a wrong price": (cheaper, "its cost is not the price of its mechanism"),
    "a scale that does not give its epsilon": (
        lambda payload, release: noise(payload, release, scale=0.5 * payload["mechanism"]["scale"]),
        "it lacks what this check needs",
    ),
    "a sensitivity that its scale does not fit": (
        lambda payload, release: noise(payload, release, sensitivity=0.5 * payload["mechanism"]["sensitivity"]),
        "it lacks what this check needs",
    ),
    "noise for less than neighbours move": (weak, "its noise is made for less than its statistics can move"),
    "neighbours that its sensitivity does not fit": (relation, "states neighbours otherwise"),
    "rows a person that its noise is not made for": (
        lambda payload, release: payload.update(max_rows_per_unit=3),
        "made for less than its statistics can move",
    ),
    "a conversion of its own": (lambda payload, release: payload.update(conversion="generous"), "another rule"),
    "a revision that supersedes nothing": (lambda payload, release: payload.update(revision=2), "its key is not"),
    "a total above its cap": (exceeded, "it exceeds the lifetime cap (epsilon 8 at delta 1e-6)"),
    "a total without its own charge": (emptied, "its lifetime total is less than what it charges"),
    "no cap": (uncapped, "it is charged to no cap"),
    "another account's total": (other_account, "its lifetime total is of another account"),
    "another period's total": (other_period, "its per-period total is of another account or period"),
    "no price": (lambda payload, release: payload.pop("cost"), "it lacks what this check needs"),
    "columns of another width": (wider, "the schema of the release is not what study.yaml compiles to"),
    "a column of another name": (renamed, "the schema of the release is not what study.yaml compiles to"),
    "a definition of less noise": (stated_otherwise, "states mechanism.epsilon otherwise"),
}


@pytest.mark.parametrize("what", ENTRIES)
def test_a_signed_entry_that_breaks_a_law_of_the_ledger_is_found_alone(
    entry: Record, signer: Signer, what: str
) -> None:
    change, said = ENTRIES[what]
    try:
        crate = build_release_crate(rewritten(entry, change), STUDY_TEXT, signer)
    except (KeyError, ValueError):  # this program makes no crate of it: somebody else's did
        crate = signed_by_hand(build_release_crate(entry, STUDY_TEXT, signer), rewritten(entry, change), signer)
    assert said in "; ".join(failures(crate, signer).values())


def signed_by_hand(crate: dict[str, bytes], record: Record, signer: Signer) -> dict[str, bytes]:
    files = {name: data for name, data in crate.items() if name not in (ATTESTATION, PUBLIC_KEY)}
    files["entry.json"] = canonical_json(record)
    ledger = {"hash": record["hash"], "seq": record["seq"]}
    return attested(files, PREDICATE, {"ledger": ledger, "release": record["payload"]["digest"]}, signer)


def test_a_study_that_follows_a_forged_definition_is_found_by_the_noise(entry: Record, signer: Signer) -> None:
    """Definition and study agree that epsilon .1 was asked for, and the ledger charged what was released: .5."""
    crate = build_release_crate(
        rewritten(entry, stated_otherwise),
        STUDY_TEXT.replace(b"gaussian\n    epsilon: 0.5", b"gaussian\n    epsilon: 0.1"),
        signer,
    )
    said = failures(crate, signer)[audit_definition.STATED]
    assert said == "the noise of the release is not what study.yaml compiles to"
