"""Finds the ledger entries of a study's releases: the newest revision, of every holder."""

from collections.abc import Mapping
from dataclasses import replace
from shlex import quote

from dpbayes.study.study import Study
from dpbayes_core.errors import StudyInvalid
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.entries import Entry
from storage.ledger.periods import Period, is_name
from storage.ledger.request import Request


def newest_releases(study: Study, release: str, period: Period | str, anchored: AnchoredLedger) -> tuple[Entry, ...]:
    """The entries of the highest revision, one a holder in the declared order; one where the study has no holders.

    Refused where a holder's is missing, of another revision than the others', or withdrawn.
    """
    wanted = [study.request(release, period, holder=holder) for holder in study.holders]
    newest = [_newest(request, anchored) for request in wanted]
    highest = max(request.revision for request in newest)
    found = [anchored.ledger.known(request) for request in newest]
    entries: list[Entry] = []
    for request, entry in zip(newest, found, strict=True):
        if entry is None or request.revision < highest:
            revision = "" if highest == 1 else f", revision {highest}"
            again = "" if highest == 1 else f" with --revision {highest}"
            raise StudyInvalid(
                f"cannot analyse {request.name}{revision}: nothing was released under that name. Run `dpbayes release`"
                f"{again} first."
            )
        if anchored.ledger.withdrawn(entry.key):
            raise _withdrawn(study, request)
        entries.append(entry)
    return tuple(entries)


def newest_complete(study: Study, release: str, period: str, anchored: AnchoredLedger) -> tuple[int, str | None]:
    """The highest revision that is stored at every holder, with its reason; the first where there is no later one."""
    requests, revision, reason = [study.request(release, period, holder=one) for one in study.holders], 1, None
    while all(found := [anchored.ledger.find(replace(one, revision=revision + 1).key) for one in requests]):
        revision, reason = revision + 1, next(entry.payload["reason"] for entry in found if entry is not None)
    return revision, reason


def _withdrawn(study: Study, request: Request) -> StudyInvalid:
    command = (
        f"dpbayes release {quote(str(study.path))} --period {request.period} --revision {request.revision + 1} "
        '--reason "WHY"'
    )
    return StudyInvalid(
        f"cannot analyse {request.name}: its newest revision was withdrawn, revision {request.revision}. Release the "
        f"next one: `{command}`."
    )


def _newest(request: Request, anchored: AnchoredLedger) -> Request:
    """The request of the highest revision that is stored; unchanged if none is."""
    while anchored.ledger.find((later := replace(request, revision=request.revision + 1)).key):
        request = later
    return request


def releases_until(study: Study, release: str, period: Period | str, anchored: AnchoredLedger) -> tuple[Entry, ...]:
    """Every release of the period, as in `newest_releases`, and those of earlier periods that were not withdrawn.

    Of an earlier period the newest revision counts, as it was released then; one that was withdrawn does not.
    """
    last = study.parse_period(str(period))
    found = newest_releases(study, release, last, anchored)
    newest: dict[tuple[str, str | None], Entry] = {}
    for entry in anchored.ledger.entries():
        stated = entry.payload
        mine = entry.kind == "charge" and (stated["study"], stated["release"]) == (study.study, release)
        if mine and stated["account"] == study.population and study.parse_period(stated["period"]) < last:
            newest[stated["period"], stated["holder"]] = _newer(entry, newest.get((stated["period"], stated["holder"])))
    return (*(entry for entry in newest.values() if not anchored.ledger.withdrawn(entry.key)), *found)


def stored_periods(study: Study, release: str, anchored: AnchoredLedger) -> tuple[str, ...]:
    """The periods whose newest revision is stored at every holder and was not withdrawn, oldest first."""
    found: dict[Period, dict[str | None, Entry]] = {}
    for entry in anchored.ledger.charges_of(study.study):
        stated = entry.payload
        if stated["release"] == release and is_name(stated["period"], study.period.grain):
            period = found.setdefault(study.parse_period(stated["period"]), {})
            period[stated["holder"]] = _newer(entry, period.get(stated["holder"]))
    return tuple(period.name for period in sorted(found) if _usable(study, found[period], anchored))


def _usable(study: Study, newest: Mapping[str | None, Entry], anchored: AnchoredLedger) -> bool:
    """Whether every holder has the same revision, and none of them was withdrawn."""
    revisions = {entry.payload["revision"] for entry in newest.values()}
    whole = set(newest) == set(study.holders) and len(revisions) == 1
    return whole and not any(anchored.ledger.withdrawn(entry.key) for entry in newest.values())


def _newer(entry: Entry, known: Entry | None) -> Entry:
    return entry if known is None or entry.payload["revision"] > known.payload["revision"] else known
