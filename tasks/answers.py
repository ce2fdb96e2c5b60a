"""The documents that commands answer with; stored results need neither Prefect, Dask nor the confidential table."""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from dpbayes.analyses.prepare import prepare_analysis
from dpbayes.analyses.public_records import refuse_table
from dpbayes.analyses.publish import finish_posteriors
from dpbayes.analyses.stored_releases import newest_complete
from dpbayes.analyses.workspace import StudyWorkspace, Workspace
from dpbayes.crates import release as crates
from dpbayes.crates.posterior import REPORT
from dpbayes.kinds.counted import Counted
from dpbayes.kinds.registry import KINDS, texts_of
from dpbayes.kinds.regression.clipping import clipping_alarm
from dpbayes.kinds.regression.facts import facts
from dpbayes.kinds.regression.pooled_parts import parts_record
from dpbayes.kinds.regression.texts import missing_caveat
from dpbayes.markup.convergence_advice import advice
from dpbayes.pages.report.price import stated_epsilon
from dpbayes.study.study import Study
from dpbayes_core.errors import IntegrityFailure
from dpbayes_core.privacy.accounting import from_units
from dpbayes_core.regression.pool import parts_of
from dpbayes_core.releases import release_from_record
from dpbayes_core.samplers.registry import SAMPLERS
from storage.files.archive import MANIFEST
from storage.files.archive_paths import POSTERIOR, links_of, place, plain, release_path
from storage.home.home import Home
from storage.home.vault import VALIDATION_PAGE
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.cap_document import account_document
from storage.ledger.entries import Entry
from storage.ledger.request import Request
from tasks.orders import ReleaseOrder
from tasks.progress import report

if TYPE_CHECKING:
    from dpbayes.analyses.crates_workspace import CratesWorkspace
    from dpbayes_core.regression.pool import Evidence

Document = dict[str, Any]
STORED = "already-released"


class Which(NamedTuple):
    """Which revision of a study's releases is asked for, at which holder; by default the newest, at all holders."""

    revision: int | None = None
    reason: str | None = None
    holder: str | None = None


class NotStored(Exception):
    """A release or posterior that was asked for is not stored completely."""


def stored_answer(
    study: Study,
    period: str,
    releases: Which | None,
    *,
    analyses: bool = False,
    opened: AnchoredLedger | None = None,
) -> Document | None:
    """The flows' document if everything in it is stored; None if anything is missing or fails: the flow reports it.

    `opened` is the ledger of the study's home, where the caller has opened it.
    """
    found: Document = {"study": study.study, "account": study.population, "period": period}
    try:
        with AnchoredLedger.open(study.path) if opened is None else nullcontext(opened) as anchored:
            if releases is not None:
                found["releases"] = _releases(study, period, releases, anchored)
            if analyses:
                found["analyses"] = _analyses(study, period, anchored)
    except Exception:
        return None
    return found


def stored_crate(workspace: "CratesWorkspace") -> Document | None:
    """The flow's document if this analysis of crates is stored at its target address, else None."""
    files = workspace.stored()
    if files is None:
        return None
    found = crates_answer(found_posterior(files, workspace))
    workspace.tidy()
    return found


def _releases(study: Study, period: str, which: Which, anchored: AnchoredLedger) -> list[Document]:
    refuse_table(study)
    found: list[Document] = []
    for name in study.releases:
        revision, reason, holder = which
        if revision is None:
            revision, reason = newest_complete(study, name, period, anchored)
        order = ReleaseOrder(
            study=str(study.path), release=name, period=period, revision=revision, reason=reason, holder=holder
        )
        requests = requests_of(study, order)
        entries = [entry for entry in anchored.ledger.stored(requests) if entry is not None]
        archived = [anchored.archive.exists(f"{release_path(entry.to_record())}/{MANIFEST}") for entry in entries]
        key = replace(requests[0], holder=None).key
        if archived != [True] * len(requests) or anchored.home.open_vault().has_unfinished(key, anchored.home.keys):
            raise NotStored
        found += published(study, order, [STORED] * len(requests), anchored)
    return found


def _analyses(study: Study, period: str, anchored: AnchoredLedger) -> list[Document]:
    finish_posteriors(anchored)
    found: list[Document] = []
    for name in study.analyses:
        if not anchored.archive.list(f"posteriors/{place(study.study, period)}"):
            raise NotStored
        workspace = StudyWorkspace(prepare_analysis(study, name, period, anchored), study, anchored)
        if (files := workspace.stored()) is None:
            raise NotStored
        found.append(found_posterior(files, workspace))
    return found


def found_posterior(files: Mapping[str, bytes], workspace: Workspace) -> Document:
    """The document of a posterior that was archived before."""
    return posterior_document(files, workspace, found=True, sampling=0.0, total=0.0)


def crates_answer(found: Document) -> Document:
    """The document of an analysis of crates: its study, account, period and sources, then the analysis."""
    about = ("study", "account", "period", "sources", "notices", "not_verified", "signed_by")
    rest = {name: value for name, value in found.items() if name not in about}
    return {**{name: found[name] for name in about}, "analyses": [rest]}


def requests_of(study: Study, order: ReleaseOrder) -> list[Request]:
    """The requests to the ledger: one for each holder, in the declared order."""
    named = (order.release, order.period, order.revision, order.reason)
    return [study.request(*named, holder=holder) for holder in study.only(order.holder)]


def published(study: Study, order: ReleaseOrder, statuses: Sequence[str], anchored: AnchoredLedger) -> list[Document]:
    """Write the crates that are missing, and return the document of each release, one for each holder."""
    requests = requests_of(study, order)
    entries = [_stored_entry(anchored, request) for request in requests]
    places = [store_crate(anchored, entry, study) for entry in entries]
    for entry in entries:
        if entry.payload["supersedes"] is not None:
            anchored.mark(entry, entry.payload["supersedes"], "superseded")
    account = next(one for one in anchored.ledger.accounts() if one.spec.population == study.population)
    caps = account_document(account, order.period)["caps"]
    documents = [_document(*one) | {"caps": caps} for one in zip(entries, statuses, places, strict=True)]
    pages = [validation_page(anchored.home, request) for request in requests]
    found = [None if page is None else str(page) for page in pages]
    more = zip(documents, found, [_withdrawn(anchored, entry) for entry in entries], strict=True)
    return [one | {"validation": page, "withdrawn": withdrawal} for one, page, withdrawal in more]


def _withdrawn(anchored: AnchoredLedger, entry: Entry) -> dict[str, str] | None:
    """The date and reason of the release's withdrawal, if it was withdrawn."""
    found = anchored.ledger.withdrawn(entry.key)
    return None if found is None else {name: found.payload[name] for name in ("date", "reason")}


def _stored_entry(anchored: AnchoredLedger, request: Request) -> Entry:
    entry = anchored.ledger.known(request)
    if entry is None:
        raise IntegrityFailure(f"cannot publish {request.name}: the ledger lacks it. Release it.")
    return entry


def store_crate(anchored: AnchoredLedger, entry: Entry, study: Study) -> str:
    """The address of the release's crate, which is written now if it does not exist."""
    path = release_path(entry.to_record())
    if not anchored.archive.exists(f"{path}/{MANIFEST}"):
        report("writing the crate", 0.0)
        anchored.archive.write_folder(
            path, crates.build_release_crate(entry.to_record(), study.text, anchored.home.signer())
        )
        report("writing the crate", 1.0)
    return anchored.archive.address(path)


def _document(entry: Entry, status: str, place: str) -> dict[str, Any]:
    payload = entry.payload
    mechanism = payload["mechanism"]
    release = release_from_record(json.loads(entry.release or b""))
    rows = getattr(release, "rows", None)
    return {
        "release": payload["release"],
        "holder": payload["holder"],
        "revision": payload["revision"],
        "status": status,
        "digest": payload["digest"],
        "cost": {
            "epsilon": stated_epsilon(payload),
            "rho": float(from_units(int(payload["cost"]["rho"]))),
            "delta": mechanism.get("delta"),
        },
        "mechanism": mechanism["name"],
        "neighbours": payload["neighbours"],
        "numbers": len(texts_of(release).lines(release)),
        "rows": rows,
        "counted": None if rows is None else Counted.of(payload).words(f"{rows:,}"),
        "limits": texts_of(release).limits(release) or None,
        "crate": place,
        "report": f"{place}/{crates.REPORT}" if texts_of(release).answers else None,
    }


def validation_page(home: Home, request: Request) -> Path | None:
    """The validation page of a release, of its holder's table or of all holders' together, if this home has one."""
    for holder in dict.fromkeys((request.holder, None)):
        page = home.vault / validation_place(request, holder) / VALIDATION_PAGE
        with suppress(OSError):  # a user who may not read the vault gets no page
            if page.is_file():
                return page
    return None


def validation_place(request: Request, holder: str | None) -> str:
    """The path in the vault of a release's validation."""
    return f"{table_place(request, holder)}-r{request.revision}"


def table_place(request: Request, holder: str | None) -> str:
    """The beginning of the vault's paths about a release's table."""
    at_holder = "" if holder is None else f"-at-{plain(holder)}"
    return f"{request.study}/{request.period}/{request.release}{at_holder}"


def posterior_document(
    files: Mapping[str, bytes], workspace: Workspace, *, found: bool, sampling: float, total: float
) -> dict[str, Any]:
    """The document of a posterior, drawn now or found in the archive; the times are in seconds."""
    analysis, record = workspace.analysis, json.loads(files[POSTERIOR])
    evidence = analysis.evidence
    parts = parts_record(evidence, analysis.request, declared=analysis.alike)
    record |= {} if parts is None else {"parts": parts}  # `alike` may have been declared since
    return {
        "analysis": record["analysis"],
        "status": record["status"],
        "why": record["why"],
        "advice": advice(record),
        "already_analysed": found,
        "calibrated": record["sampler"]["calibrated"],
        "caveat": _caveat(record["sampler"]),
        "facts": list(facts(_parts(evidence), record, [entry.payload for entry in analysis.entries])),
        "sampler": record["sampler"]["name"],
        **{part: record["sampler"].get(part, "") for part in ("target", "choice", "cost")},
        "numbers": KINDS[evidence.kind].texts.spread.numbers,
        "coefficients": record["coefficients"],
        "draws": {"asked": record["request"]["draws"], "made": record["diagnostics"]["draws"]},
        "prior_check": record.get("prior_check"),
        "parts": parts,
        "clipping": clipping_alarm(cast("Evidence", evidence)) if evidence.kind == "regression" else "",
        "missing": missing_caveat(cast("Evidence", evidence).schema) if evidence.kind == "regression" else "",
        "releases": links_of(record),
        "seconds": {"sampling": round(sampling, 3), "total": round(total, 3)},
        "crate": workspace.address(),
        "report": workspace.address(REPORT),
        **workspace.remarks(files),
    }


def _caveat(sampler: Mapping[str, Any]) -> str:
    """The sampler's caveat as of today: the recorded one may be out of date."""
    known = SAMPLERS.get(sampler["name"])
    return known.caveat if known else sampler["caveat"]


def _parts(evidence: Any) -> tuple[Any, ...]:
    return parts_of(evidence) if evidence.kind == "regression" else (evidence,)
