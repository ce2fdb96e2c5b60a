"""What the ledger keeps of a study's release up to a period: every period of people who never come back."""

from dpbayes.analyses.stored_releases import newest_releases
from dpbayes.study.study import Study
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.entries import Entry
from storage.ledger.periods import Period


def releases_until(study: Study, release: str, period: Period | str, books: AnchoredLedger) -> tuple[Entry, ...]:
    """Every release of the period asked for, as `newest_releases` has it, and those of earlier periods that stand.

    Of an earlier period the newest revision counts, as it was released then; one that was withdrawn does not.
    """
    asked = study.parse_period(str(period))
    found = newest_releases(study, release, asked, books)
    newest: dict[tuple[str, str | None], Entry] = {}
    for entry in books.ledger.entries():
        stated = entry.payload
        mine = entry.kind == "charge" and (stated["study"], stated["release"]) == (study.study, release)
        if mine and stated["account"] == study.population and study.parse_period(stated["period"]) < asked:
            newest[stated["period"], stated["holder"]] = _newer(entry, newest.get((stated["period"], stated["holder"])))
    return (*(entry for entry in newest.values() if not books.ledger.withdrawn(entry.key)), *found)


def _newer(entry: Entry, known: Entry | None) -> Entry:
    return entry if known is None or entry.payload["revision"] > known.payload["revision"] else known
