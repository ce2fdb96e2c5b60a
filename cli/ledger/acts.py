"""The changes people make to the ledger by hand: each is one entry with its actor and reason, anchored at once."""

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.console import guarded
from cli.format import Document, line, shortened, study_and_account
from cli.launch import actor
from cli.ledger.document import ledger_document
from cli.ledger.readable import line_of
from cli.options import AsJson, Debug, Near, PeriodName, StudyFile
from dpbayes.study.load import load_study
from dpbayes.study.study import Study
from dpbayes_core.errors import StudyInvalid
from storage.home.home import Home
from storage.home.signatures import pending_key
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.entries import Entry, Stamp
from storage.ledger.notices import crates_to_mark, notice_name
from storage.ledger.recovery import move as record_move
from storage.ledger.request import release_key
from tasks.stamp import stamp_of

SMALLEST, LARGEST = Decimal("1e-9"), Decimal("1e6")
Reason = Annotated[str, typer.Option(help="Why; recorded for ever.", show_default=False)]


def raise_(
    study: StudyFile,
    cap: Annotated[str, typer.Argument(help="lifetime, per-period, or 'programme NAME'.", show_default=False)],
    limit: Annotated[str, typer.Argument(help="The new limit, in the cap's own measure.", show_default=False)],
    reason: Reason,
    *,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Raise a cap of the study's population for every later charge; a cap never goes down."""
    with guarded(json, debug) as console:
        console.show(raise_cap(study, cap, limit, reason), show)


def raise_cap(study: Path, cap: str, limit: str, reason: str) -> dict[str, Any]:
    """Raise a cap of the study's population for every later charge."""
    declared, amount = load_study(study), _amount(limit)
    return _act(
        study,
        lambda anchored, stamp: anchored.ledger.raise_cap(declared.population, cap, amount, reason=reason, stamp=stamp),
        _about(declared),
        reason,
    )


def _amount(text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not (amount.is_finite() and SMALLEST <= amount <= LARGEST):
        raise StudyInvalid("cannot raise the cap: the limit is no privacy loss. Write a number from 1e-9 to 1e6.")
    return amount


def close(study: StudyFile, period: PeriodName, reason: Reason, *, json: AsJson = False, debug: Debug = False) -> None:
    """Refuse every further charge for a period of the study's population, permanently; its releases stay."""
    with guarded(json, debug) as console:
        console.show(close_period(study, period, reason), show)


def close_period(study: Path, period: str, reason: str) -> dict[str, Any]:
    """Refuse every further charge for a period of the study's population."""
    declared = load_study(study)
    name = declared.parse_period(period).name
    return _act(
        study,
        lambda anchored, stamp: anchored.ledger.close(declared.population, name, reason=reason, stamp=stamp),
        _about(declared, name),
        reason,
    )


def withdraw(
    study: StudyFile,
    release: Annotated[str, typer.Argument(help="The release's name in the study.", show_default=False)],
    period: PeriodName,
    reason: Reason,
    *,
    revision: Annotated[int, typer.Option(help="Which revision.")] = 1,
    holder: Annotated[str | None, typer.Option(help="The holder, where the table has several.")] = None,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Mark a release as withdrawn; what it spent stays spent."""
    with guarded(json, debug) as console:
        document = withdraw_release(study, release, period, reason, revision=revision, holder=holder)
        console.show(document, show)


def withdraw_release(
    study: Path, release: str, period: str, reason: str, *, revision: int = 1, holder: str | None = None
) -> dict[str, Any]:
    """Mark a release of the study as withdrawn, also one that the study file no longer names."""
    declared = load_study(study)
    period = declared.parse_period(period).name
    if holder is None and declared.source.holder is not None:
        raise StudyInvalid(
            f"cannot withdraw {release} of {period}: every holder has one of its own. Add --holder and one of "
            f"{', '.join(declared.source.holder.names)}."
        )
    key = release_key(declared.study, release, period, holder, revision)

    def act(anchored: AnchoredLedger, stamp: Stamp) -> Entry:
        if anchored.ledger.find(key) is None:
            raise StudyInvalid(
                f"cannot withdraw {release} of {period}, revision {revision}: nothing was released under "
                f"that name in the study {declared.study}. Check release, period and revision."
            )
        return anchored.ledger.withdraw(key, reason=reason, stamp=stamp)

    document = _act(study, act, _about(declared, period), reason)
    return {**document, "notices": _write_notices(study, key)}


def _write_notices(near: Path, release: str) -> list[str]:
    """Write a withdrawal's notices next to the release's crate and posteriors drawn from it; return their addresses."""
    with AnchoredLedger.open(near) as anchored:
        charge = anchored.ledger.find(release)
        act = anchored.ledger.withdrawn(release)
        if act is not None:
            anchored.mark(act, release, "withdrawn")
        crates = [] if charge is None else crates_to_mark(anchored.archive, charge.to_record())
        return [anchored.archive.address(notice_name(crate, "withdrawn", "txt")) for crate in crates]


def note(
    text: Annotated[str, typer.Argument(help="What happened.", show_default=False)],
    near: Near = Path(),
    *,
    json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Record something that auditors should know, such as a release that was withheld."""
    with guarded(json, debug) as console:
        console.show(write_note(near, text), show)


def write_note(near: Path, text: str) -> dict[str, Any]:
    """Write a note; it names the study if `near` is a study file."""
    about = _about(load_study(near)) if near.is_file() else {}

    def act(anchored: AnchoredLedger, stamp: Stamp) -> Entry:
        return anchored.ledger.note(text, stamp, {name: value for name, value in about.items() if value is not None})

    return _act(near, act, about)


def rotate_key(reason: Reason, near: Near = Path(), *, json: AsJson = False, debug: Debug = False) -> None:
    """Sign with a new key from now on; the old one stays trusted for what it signed."""
    with guarded(json, debug) as console:
        console.show(change_key(near, reason), show)


def change_key(near: Path, reason: str) -> dict[str, Any]:
    """Sign with a new key; the old one stays trusted for what it signed."""
    pending = pending_key(Home.find(near).keys)

    def act(anchored: AnchoredLedger, stamp: Stamp) -> Entry:
        # opening the ledger has completed an interrupted change of key: then there is nothing left to do
        completed = pending and anchored.ledger.key_entry(pending)
        return completed or anchored.rotate_key(reason=reason, stamp=stamp)

    document = _act(near, act)
    return {**document, "fingerprint": Home.find(near).signer().fingerprint}


def move(reason: Reason, near: Near = Path(), *, json: AsJson = False, debug: Debug = False) -> None:
    """Record that ledger and archive were copied to the places that the environment names."""
    with guarded(json, debug) as console:
        console.show(move_home(near, reason), show)


def move_home(near: Path, reason: str) -> dict[str, Any]:
    """Record that ledger or archive are now where the environment says."""
    recorded = record_move(near, _reason(reason), stamp_of(actor()))
    moved = [{"part": part, "from": before, "to": after} for part, (before, after) in recorded.changed.items()]
    with AnchoredLedger.open(near) as anchored:
        document = {"status": "recorded", "entry": line_of(recorded.entry), **ledger_document(anchored), "moved": moved}
        return {**document, **anchored.home.places}


def _reason(text: str) -> str:
    if not text.strip():
        raise StudyInvalid("cannot write to the ledger: no reason is given. Give --reason.")
    return text


def _about(study: Study, period: str | None = None) -> dict[str, Any]:
    return {"study": study.study, "account": study.population, "period": period}


def _act(
    near: Path,
    act: Callable[[AnchoredLedger, Stamp], Entry],
    about: dict[str, Any] | None = None,
    reason: str | None = None,
) -> dict[str, Any]:
    with AnchoredLedger.open(near) as anchored:
        before = anchored.ledger.head.seq
        entry = act(anchored, stamp_of(actor()))
        anchored.anchor_pending()
        status = "recorded" if entry.seq > before else "already-recorded"
        stored_reason = {} if reason is None else {"reason_recorded": entry.payload["reason"] == reason}
        return {
            **(about or {}),
            "status": status,
            **stored_reason,
            "entry": line_of(entry),
            **ledger_document(anchored),
        }


def show(document: Document) -> None:
    """Print the entry that was written, or was there already."""
    entry = document["entry"]
    fresh = document["status"] == "recorded"
    whose = f" {study_and_account(document)}" if "study" in document else ""
    line(f"Entry {entry['seq']}: {entry['what']}{whose}.", "bold")
    if not fresh:
        line(f"  It is on record already, since {entry['date']}: {entry['reason']}")
    if not document.get("reason_recorded", True):
        line("  The reason given now was not recorded: to add it, use `dpbayes ledger note`.", "yellow")
    for one in document.get("moved", ()):
        line(f"  the {one['part']} moved from {one['from']} to {one['to']}")
    for notice in document.get("notices", ()):
        line(f"  notice for readers of the crate: {shortened(notice)}")
    if "fingerprint" in document:
        line(f"Give auditors the new fingerprint: {document['fingerprint']}")
