"""The check of notices in an archive: each follows from the ledger, and none that is due is missing."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dpbayes.crates.own_source import SOURCE
from storage.files.archive import Archive
from storage.files.archive_paths import release_path
from storage.ledger.history import MALFORMED
from storage.ledger.homes import retirements
from storage.ledger.notices import STATUSES, Status, drawn_from, notice_body, notice_flaw, notice_name, plain_words

Record = Mapping[str, Any]

NOTICED = "notices are genuine and complete"


@dataclass(frozen=True)
class Due:
    """A notice that the ledger calls for."""

    said: Record
    required: bool  # earlier versions wrote none

    @property
    def files(self) -> tuple[str, str]:
        """The signed notice, and the same in words."""
        return notice_name(self.said["crate"], self.said["status"]), self._words

    @property
    def _words(self) -> str:
        return notice_name(self.said["crate"], self.said["status"], "txt")


def due_notices(records: Sequence[Record], crates: Collection[str], read: Callable[[str], bytes]) -> list[Due]:
    """Every notice that the acts of a ledger call for, of releases and of the posteriors drawn from them."""
    charges: dict[str, Record] = {record["key"]: record for record in records if record["kind"] == "charge"}
    acts = list(_acts(records, charges))
    drawn = drawn_from({charge["seq"] for _, charge, _ in acts}, crates, read) if acts else {}
    found: list[Due] = []
    for status, charge, act in acts:
        with suppress(*MALFORMED):
            required = SOURCE in act["payload"]["software"]
            for crate in (release_path(charge), *drawn.get(charge["seq"], ())):
                found.append(Due(notice_body(crate, status, charge["key"], act), required))
    return found


def _acts(records: Sequence[Record], charges: Mapping[str, Record]) -> Iterator[tuple[Status, Record, Record]]:
    for record in records:
        with suppress(*MALFORMED):
            if record["kind"] == "withdraw" and record["payload"]["withdraws"] in charges:
                yield "withdrawn", charges[record["payload"]["withdraws"]], record
            elif record["kind"] == "charge" and record["payload"]["supersedes"] in charges:
                yield "superseded", charges[record["payload"]["supersedes"]], record


def is_notice(name: str) -> bool:
    """Whether a file has the name of a notice."""
    return any(name.endswith(notice_name("", status, kind)) for status in STATUSES for kind in ("json", "txt"))


def notice_flaws(
    archive: Archive,
    names: Collection[str],
    due: Sequence[Due],
    trusted: Mapping[str, bytes],
    records: Sequence[Record],
) -> list[str]:
    """Notices that are missing, forged, or that nothing calls for; `names` are those in the archive."""
    wanted = {name: each for each in due for name in each.files}
    found = [f"{name} is a notice that no act of the ledger calls for" for name in names if name not in wanted]
    retired = retirements(records)
    for each in due:
        notice, words = each.files
        missing = [name for name in each.files if name not in names]
        if missing:
            again = (
                "`dpbayes ledger withdraw` for it again"
                if each.said["status"] == "withdrawn"
                else "`dpbayes release` for its revision again"
            )
            found += [f"{name} is missing: run {again}" for name in missing[:1] if each.required]
        if notice in names and (flaw := notice_flaw(archive.read(notice), notice, each.said, trusted, retired)):
            found.append(flaw)
        if words in names and archive.read(words) != plain_words(each.said):
            found.append(f"{words} was altered")
    return found
