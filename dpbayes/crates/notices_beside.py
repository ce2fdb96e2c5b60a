"""Reads the notices next to a crate: what they say, and who signed them."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from dpbayes.crates.fetch import Fetched
from dpbayes_core.errors import DpbayesError, IntegrityFailure
from dpbayes_core.text import shown
from storage.ledger.notices import STATUSES, Notice, Status, notice_name, read_notice

LARGEST = 1 << 20  # bytes of a notice: reasons are sentences


def notices_beside(place: Path | str) -> list[Notice]:
    """The notices next to a crate in its archive; none if the crate was taken out of it.

    Raises IntegrityFailure for a file with a notice's name that is none, or that is another crate's.
    """
    return [notice for status in STATUSES if (notice := _notice_beside(place, status))]


def _notice_beside(place: Path | str, status: Status) -> Notice | None:
    crate = str(place).rstrip("/").removesuffix(".zip")
    name = notice_name(crate, status)
    data = _read(name)
    if data is None:
        return None
    notice = read_notice(data, name.rpartition("/")[2])
    if (notice.crate.rpartition("/")[2], notice.status) != (crate.rpartition("/")[2], status):
        raise IntegrityFailure(f"cannot trust {shown(name.rpartition('/')[2])}: it is the notice of another crate.")
    return notice


def _read(name: str) -> bytes | None:
    protocol, separator, rest = name.partition("://")
    if separator and protocol not in ("file", "local"):
        base, _, file = name.rpartition("/")
        try:
            return Fetched(base).read(file, LARGEST)
        except DpbayesError:  # the crate itself was read; a server may refuse other files
            return None
    path = Path(rest if separator else name).expanduser()
    try:
        with path.open("rb") as file:
            return file.read(LARGEST)
    except OSError:
        return None


def notice_records(place: Path | str, trusted: Collection[str]) -> list[dict[str, Any]]:
    """The notices next to a crate as records, with a sentence under `said`; also files that are no valid notices.

    Only what a trusted key signed is a fact, because anybody may write a notice with a key of their own.
    """
    found: list[dict[str, Any]] = []
    for status in STATUSES:
        try:
            notice = _notice_beside(place, status)
        except IntegrityFailure as failure:
            said = (
                f"a file beside {shown(str(place), 300)} that calls itself a notice was altered, or is none: {failure}"
            )
            found.append({"said": said})
            continue
        if notice is not None:
            known = notice.signed_by in trusted
            found.append({"said": _sentence(place, notice, known=known), **notice.to_record(), "trusted": known})
    return found


def _sentence(place: Path | str, notice: Notice, *, known: bool) -> str:
    crate = shown(str(place), 300)
    if known:
        return f"{crate} was {notice.words()} Signed by {notice.signed_by}."
    return (
        f"somebody says that {crate} was {notice.words()} It is signed by {notice.signed_by}, by a key that "
        "you did not name: ask the agency."
    )
