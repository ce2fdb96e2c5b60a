"""The crate of a release: the ledger's charge and its noisy statistics, readable and signed, with nothing added."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from dpbayes.crates.deployments_registry import registry_yaml
from dpbayes.crates.format import METADATA, attested, metadata
from dpbayes.crates.parquet import noisy_parquet
from dpbayes.kinds.registry import texts_of
from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import IntegrityFailure
from dpbayes_core.privacy.accounting import from_units
from dpbayes_core.privacy.release import AnyRelease
from dpbayes_core.releases import release_from_record
from storage.home.signatures import Signer
from storage.ledger.entries import Entry
from storage.ledger.exposure import Total
from storage.ledger.request import CapSpec

SCHEMA_VERSION = 1  # of release.json; builders of every older version are kept, for audits rebuild what they read
PREDICATE = "urn:dpbayes:attestation:release:1"

RECORD = "release.json"
NOISY = "noisy.parquet"
ENTRY = "entry.json"
STUDY = "study.yaml"
SOFTWARE = "software.json"
REGISTRY = "registry.yaml"
REPORT = "report.html"

CONTENTS: Mapping[str, str] = {
    RECORD: "The release: what was asked, what it cost, the mechanism and the noisy statistics",
    NOISY: "The noisy statistics with the scale of the noise in each, in standardised units",
    ENTRY: "The ledger entry that paid for this release and holds it",
    STUDY: "The study file as it was given",
    SOFTWARE: "The software that made the release",
    REGISTRY: "A record for the Differential Privacy Deployments Registry",
}

PAGE: Mapping[str, str] = {REPORT: "The release for people"}
"""The additional file of a release that is an answer by itself."""

COPIED = (
    "conversion",
    "cost",
    "date",
    "definition",
    "digest",
    "holder",
    "max_rows_per_unit",
    "mechanism",
    "neighbours",
    "noise",
    "period",
    "programme",
    "reason",
    "release",
    "request",
    "revision",
    "study",
    "supersedes",
    "unit",
)
"""What the record copies from the ledger entry."""


def build_release_crate(entry: Mapping[str, Any], study_text: bytes, signer: Signer) -> dict[str, bytes]:
    """Every file of the crate of a charge; the same entry, study and key give the same bytes, on any day."""
    release = released(entry)
    record = release_record(entry)
    files = {
        RECORD: canonical_json(record),
        NOISY: noisy_parquet(texts_of(release).lines(release)),
        ENTRY: canonical_json(dict(entry)),
        STUDY: study_text,
        **derived_files(record, release, entry["payload"]["software"], signer.fingerprint),
    }
    return attested(files, PREDICATE, {"ledger": record["ledger"], "release": record["digest"]}, signer)


def derived_files(
    record: Mapping[str, Any], release: AnyRelease, software: Mapping[str, Any], fingerprint: str
) -> dict[str, bytes]:
    """The files that follow from the record: versions, registry, description, and the page if there is one."""
    kind = texts_of(release)
    holder = "" if record["holder"] is None else f" at {record['holder']}"
    files = {
        SOFTWARE: canonical_json(dict(software)),
        REGISTRY: registry_yaml(record, release),
        METADATA: metadata(
            name=f"{record['study']} {record['period']}: {record['release']}{holder}, revision {record['revision']}",
            description=f"A differentially private release: {kind.what}, as paid for in a signed ledger.",
            day=record["date"],
            identifier=f"sha256:{record['digest']}",
            files={**CONTENTS, **PAGE} if kind.answers else CONTENTS,
            software=software,
        ),
    }
    if kind.answers:
        from dpbayes.pages.report.answer import render_answer  # imported here, because it reads crates itself

        files[REPORT] = render_answer(record, fingerprint=fingerprint).encode()
    return files


def released(entry: Mapping[str, Any]) -> AnyRelease:
    """The release in a charge's entry."""
    if entry["kind"] != "charge" or entry["release"] is None:
        raise IntegrityFailure("cannot build a crate: the ledger entry is no charge. Name the entry of a release.")
    return release_from_record(json.loads(entry["release"]))


def release_record(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The public record of a release, of the present schema version; all of it follows from the ledger entry."""
    payload: Mapping[str, Any] = entry["payload"]
    return {
        **{name: payload[name] for name in COPIED},
        "caps": [_cap(debit, Total.from_record(payload["cost"])) for debit in payload["debits"] if debit["cap"]],
        "kind": "release",
        "ledger": {"hash": entry["hash"], "seq": entry["seq"]},
        "population": payload["account"],
        "schema_version": SCHEMA_VERSION,
        "statistics": json.loads(entry["release"]),
    }


def entry_of(files: Mapping[str, bytes]) -> Entry:
    """The ledger entry in a crate."""
    return _entry(files[ENTRY])


@lru_cache(maxsize=256)  # a release is in the crate of every posterior drawn from it
def _entry(data: bytes) -> Entry:
    return Entry.from_record(json.loads(data))


def _cap(debit: Mapping[str, Any], cost: Total) -> dict[str, Any]:
    """One cap that the charge went to, with the totals around it: in units of 2^-64, and as decimals."""
    cap, after = CapSpec.from_record(debit["cap"]), Total.from_record(debit["total"])
    epsilon = None if after.epsilon is None or cost.epsilon is None else after.epsilon - cost.epsilon
    before = Total(epsilon, after.rho - cost.rho)
    if "before" in debit:  # charges to one holder do not simply add up
        before = Total.from_record(debit["before"])
    return {
        **cap.to_record(),
        "after": after.to_record(),
        "before": before.to_record(),
        "cap": cap.name,
        "period": debit["scope"]["period"],
        "readable": {"after": _readable(after), "before": _readable(before)},
    }


def _readable(total: Total) -> dict[str, str | None]:
    amounts = {"epsilon": total.epsilon, "rho": total.rho}
    return {name: None if units is None else format(from_units(units), "f") for name, units in amounts.items()}
