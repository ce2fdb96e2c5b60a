"""What people do to the ledger by hand: each act is one more entry with its actor and reason, anchored at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from cli.documents import ledger_document
from cli.launch import actor
from dpbayes.study.load import load_study
from dpbayes.study.study import Study
from dpbayes_core.errors import StudyInvalid
from storage.home.home import Home
from storage.home.key_rotation import pending_key
from storage.home.places import rewrite_places
from storage.ledger.anchored import Books
from storage.ledger.entries import Entry, Stamp
from storage.ledger.export import export
from storage.ledger.moving import home_to_recover, move
from storage.ledger.notices import marked, notice_name
from storage.ledger.readable import line_of
from storage.ledger.reading import keys_of, look
from storage.ledger.recovery import recover
from storage.ledger.request import release_key
from tasks.software import stamp_of

Document = dict[str, Any]
SMALLEST, LARGEST = Decimal("1e-9"), Decimal("1e6")


def raise_cap(study: Path, cap: str, limit: str, reason: str) -> Document:
    """Lift a cap of the study's population for every later charge."""
    declared, amount = load_study(study), _amount(limit)
    return _act(
        study,
        lambda books, stamp: books.ledger.raise_cap(declared.population, cap, amount, reason=reason, stamp=stamp),
        _about(declared),
        reason,
    )


def close_period(study: Path, period: str, reason: str) -> Document:
    """Take no further charge for a period of the study's population."""
    declared = load_study(study)
    name = declared.parse_period(period).name
    return _act(
        study,
        lambda books, stamp: books.ledger.close(declared.population, name, reason=reason, stamp=stamp),
        _about(declared, name),
        reason,
    )


@dataclass(frozen=True)
class Named:
    """What a person calls a release of a study."""

    release: str
    period: str
    revision: int = 1
    holder: str | None = None


def withdraw_release(study: Path, named: Named, reason: str) -> Document:
    """Mark a release of the study as withdrawn, also one that the study file no longer names."""
    declared = load_study(study)
    period = declared.parse_period(named.period).name
    if named.holder is None and declared.source.holder is not None:
        raise StudyInvalid(
            f"cannot withdraw {named.release} of {period}: every holder has one of its own. Add --holder and one of "
            f"{', '.join(declared.source.holder.names)}."
        )
    key = release_key(declared.study, named.release, period, named.holder, named.revision)

    def withdraw(books: Books, stamp: Stamp) -> Entry:
        if books.ledger.find(key) is None:
            raise StudyInvalid(
                f"cannot withdraw {named.release} of {period}, revision {named.revision}: nothing was released under "
                f"that name in the study {declared.study}. Check release, period and revision."
            )
        return books.ledger.withdraw(key, reason=reason, stamp=stamp)

    document = _act(study, withdraw, _about(declared, period), reason)
    return {**document, "notices": _marked(study, key)}


def _marked(near: Path, release: str) -> list[str]:
    """Where people find that a release was withdrawn: beside its crate and beside those that stand on it."""
    with Books.open(near) as books:
        charge = books.ledger.find(release)
        act = books.ledger.withdrawn(release)
        if act is not None:
            books.mark(act, release, "withdrawn")
        crates = [] if charge is None else marked(books.archive, charge.to_record())
        return [books.archive.address(notice_name(crate, "withdrawn", "txt")) for crate in crates]


def write_note(near: Path, text: str) -> Document:
    """Write down something that happened; about a study, where its file is named."""
    about = _about(load_study(near)) if near.is_file() else {}

    def note(books: Books, stamp: Stamp) -> Entry:
        return books.ledger.note(text, stamp, {name: value for name, value in about.items() if value is not None})

    return _act(near, note, about)


def move_home(near: Path, reason: str) -> Document:
    """Put on record that ledger or archive are where the environment says now."""
    done = move(near, _reason(reason), stamp_of(actor()))
    moved = [{"part": part, "from": before, "to": after} for part, (before, after) in done.changed.items()]
    with Books.open(near) as books:
        document = {"status": "recorded", "entry": line_of(done.entry), **ledger_document(books), "moved": moved}
        return {**document, **books.home.places}


def _reason(text: str) -> str:
    if not text.strip():
        raise StudyInvalid("cannot write to the ledger: no reason is given. Give --reason.")
    return text


def rotate_key(near: Path, reason: str) -> Document:
    """Sign with a new key; the old one stays trusted for what it signed."""
    pending = pending_key(Home.find(near).keys)

    def rotate(books: Books, stamp: Stamp) -> Entry:
        # opening the books has finished a change that was killed: then there is nothing left to do
        killed = pending and books.ledger.key_entry(pending)
        return killed or books.rotate_key(reason=reason, stamp=stamp)

    document = _act(near, rotate)
    return {**document, "fingerprint": Home.find(near).signer().fingerprint}


def history(near: Path, keys: Sequence[str] = ()) -> Document:
    """Every entry in few words."""
    with look(near, keys) as reading:
        head = reading.ledger.head
        return {
            "entries": [line_of(entry) for entry in reading.ledger.entries()],
            "head": {"seq": head.seq, "hash": head.hash},
            "unanchored": list(reading.unanchored),
        }


def export_ledger(near: Path, target: Path, keys: Sequence[str] = ()) -> Document:
    """The whole ledger in one file, its head signed by whoever has the home's key."""
    if not Home.look(near).is_ours:
        with look(near, keys) as reading:
            written = export(reading, target, None)
            return {"file": str(target), "entries": written, "fingerprint": reading.signed_by}
    with Books.open(near) as books:
        if keys:
            keys_of(books.home, books.archive, keys)  # refused where the named key is not this ledger's
        signer = books.home.signer()
        return {"file": str(target), "entries": export(books, target, signer), "fingerprint": signer.fingerprint}


def recover_ledger(near: Path, *, set_aside: bool) -> Document:
    """Rebuild from the anchors what the database lost, and put that on record."""
    home = home_to_recover(near)
    done = recover(home, set_aside=set_aside)
    rewrite_places(home.folder, home.places)
    with Books.open(near) as books:
        if done.restored:
            books.ledger.note(
                f"entries {done.first} to {done.last} were lost and written again from their anchors", stamp_of(actor())
            )
            books.settle()
        return {
            "restored": done.restored,
            "first": done.first if done.restored else None,
            "last": done.last if done.restored else None,
            "set_aside": done.set_aside,
            **ledger_document(books),
        }


def _about(study: Study, period: str | None = None) -> Document:
    return {"study": study.study, "account": study.population, "period": period}


def _act(
    near: Path, act: Callable[[Books, Stamp], Entry], about: Document | None = None, reason: str | None = None
) -> Document:
    with Books.open(near) as books:
        before = books.ledger.head.seq
        entry = act(books, stamp_of(actor()))
        books.settle()
        status = "recorded" if entry.seq > before else "already-recorded"
        kept = {} if reason is None else {"reason_recorded": entry.payload["reason"] == reason}
        return {**(about or {}), "status": status, **kept, "entry": line_of(entry), **ledger_document(books)}


def _amount(text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not (amount.is_finite() and SMALLEST <= amount <= LARGEST):
        raise StudyInvalid("cannot raise the cap: the limit is no privacy loss. Write a number from 1e-9 to 1e6.")
    return amount
