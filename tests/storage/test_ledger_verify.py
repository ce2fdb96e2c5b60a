"""An auditor finds every change, and is told where it is."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import IntegrityFailure
from storage.ledger.entries import Entry
from storage.ledger.ledger import Ledger
from storage.ledger.verify import CHECKS, verify
from tests.support.ledger_cases import STAMP, account, cap, commit, gaussian, laplace, new_ledger, url
from tests.support.ledger_cases import request as asked
from tests.support.postgres import Server

CHARGE, RAISE, REVISION, CLOSE, WITHDRAWAL = 4, 6, 8, 9, 10


def fill(ledger: Ledger) -> None:
    """One entry of every kind: 1 genesis, 2-3 accounts, 4-5 charges, 6 raise, 7-8 charges, 9 close and the rest."""
    shared = cap("4", "programme", programme="labour")
    staff = account(cap("1"), cap("0.9", "per-period"), shared)
    students = account(cap("1", measure="rho"), shared, population="students")
    ledger.open_account(staff, STAMP)
    ledger.open_account(students, STAMP)
    charge = commit(ledger, asked(staff), laplace(0.5))
    commit(ledger, asked(students, study="studies"), gaussian(0.5))
    ledger.raise_cap("employees", "lifetime", Decimal("1.5"), reason="decided", stamp=STAMP)
    commit(ledger, asked(staff, period="2026-02"), laplace(0.6))
    commit(ledger, asked(staff, revision=2, reason="source was wrong"), laplace(0.4))
    ledger.close("employees", "2026-01", reason="published", stamp=STAMP)
    ledger.withdraw(charge.key, reason="superseded", stamp=STAMP)
    ledger.note("moved to another office", STAMP)
    ledger.rotate_key("new public key", retires="old public key", reason="yearly", stamp=STAMP)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    with new_ledger(folder) as ledger:
        fill(ledger)
    return folder / "ledger.db"


@pytest.fixture(scope="module")
def honest(filled: Path) -> list[Entry]:
    with Ledger.open(url(filled.parent)) as ledger:
        return list(ledger.entries())


def failures(entries: list[Entry]) -> dict[str, str]:
    return {check.check: check.detail for check in verify(entries) if not check.ok}


def test_an_honest_ledger_passes_every_check_also_when_only_exported(honest: list[Entry]) -> None:
    records = json.loads(canonical_json([entry.to_record() for entry in honest]))
    exported = [Entry.from_record(record) for record in records]
    assert {entry.kind for entry in exported} == {
        "genesis", "account", "charge", "raise", "close", "withdraw", "note", "key",
    }  # fmt: skip
    assert [check.ok for check in verify(exported)] == [True] * (len(CHECKS) + 1)


def test_an_empty_ledger_does_not_pass() -> None:
    assert failures([]) == {"entries are readable": "there is no entry"}


@pytest.mark.parametrize("seq", range(1, 13))
def test_every_edited_entry_is_named(honest: list[Entry], seq: int) -> None:
    edited = [replace(e, payload={**e.payload, "actor": "mallory"}) if e.seq == seq else e for e in honest]
    assert failures(edited)["hashes chain"].startswith(f"entry {seq} (")


@pytest.mark.parametrize("seq", range(1, 12))
def test_every_deleted_entry_is_named(honest: list[Entry], seq: int) -> None:
    kept = [entry for entry in honest if entry.seq != seq]
    found = failures(kept)
    assert found["entries follow each other"].startswith(f"entry {seq + 1} (")
    assert f"entry {seq} should stand here" in found["entries follow each other"]
    assert found["hashes chain"].startswith(f"entry {seq + 1} (")


@pytest.mark.parametrize("seq", range(1, 12))
def test_every_reordering_is_named(honest: list[Entry], seq: int) -> None:
    swapped = list(honest)
    swapped[seq - 1], swapped[seq] = swapped[seq], swapped[seq - 1]
    assert failures(swapped)["entries follow each other"].startswith(f"entry {seq + 1} (")


def rewritten(honest: list[Entry], change: Callable[[list[dict[str, Any]]], None]) -> list[Entry]:
    """The ledger of a forger who owns the database: records changed, then every hash and number made good again."""
    records = json.loads(canonical_json([entry.to_record() for entry in honest]))
    change(records)
    last: Entry | None = None
    forged: list[Entry] = []
    for record in records:
        release = None if record["release"] is None else record["release"].encode()
        last = Entry.following(last, kind=record["kind"], key=record["key"], payload=record["payload"], release=release)
        forged.append(last)
    return forged


def payload(records: list[dict[str, Any]], seq: int) -> dict[str, Any]:
    return records[seq - 1]["payload"]


def cheaper(records: list[dict[str, Any]]) -> None:
    payload(records, CHARGE)["cost"]["epsilon"] = "1"


def lower_total(records: list[dict[str, Any]]) -> None:
    payload(records, CHARGE)["debits"][0]["total"]["rho"] = "1"


def fewer_debits(records: list[dict[str, Any]]) -> None:
    payload(records, CHARGE)["debits"].pop()


def no_raise(records: list[dict[str, Any]]) -> None:
    del records[RAISE - 1]


def lowered(records: list[dict[str, Any]]) -> None:
    payload(records, RAISE)["limit"] = "0.5"


def raise_of_nothing(records: list[dict[str, Any]]) -> None:
    payload(records, RAISE)["cap"] = "programme other"


def other_key(records: list[dict[str, Any]]) -> None:
    records[CHARGE - 1]["key"] = '["elsewhere"]'


def charged_twice(records: list[dict[str, Any]]) -> None:
    records.append(records[CHARGE - 1])


def after_closing(records: list[dict[str, Any]]) -> None:
    records.insert(REVISION - 1, records.pop(CLOSE - 1))


def no_first_revision(records: list[dict[str, Any]]) -> None:
    payload(records, REVISION)["supersedes"] = None


def no_reason(records: list[dict[str, Any]]) -> None:
    payload(records, REVISION)["reason"] = None


def other_definition(records: list[dict[str, Any]]) -> None:
    payload(records, CHARGE)["definition"]["release"] = "other"


def other_unit(records: list[dict[str, Any]]) -> None:
    payload(records, CHARGE)["unit"] = "row"


def other_release(records: list[dict[str, Any]]) -> None:
    records[CHARGE - 1]["release"] = records[REVISION - 1]["release"]


def no_release(records: list[dict[str, Any]]) -> None:
    records[CHARGE - 1]["release"] = None


def stray_release(records: list[dict[str, Any]]) -> None:
    records[CLOSE - 1]["release"] = records[CHARGE - 1]["release"]


def spaced_release(records: list[dict[str, Any]]) -> None:
    records[CHARGE - 1]["release"] += " "


def withdrawal_of_nothing(records: list[dict[str, Any]]) -> None:
    payload(records, WITHDRAWAL)["withdraws"] = "nothing"


def unknown_account(records: list[dict[str, Any]]) -> None:
    payload(records, CHARGE)["account"] = "nobody"


def other_programme_cap(records: list[dict[str, Any]]) -> None:
    payload(records, 3)["spec"]["caps"][1]["limit"] = "40"


def second_genesis(records: list[dict[str, Any]]) -> None:
    records.append(records[0])


def unknown_kind(records: list[dict[str, Any]]) -> None:
    records[-1]["kind"] = "refund"


def empty_payload(records: list[dict[str, Any]]) -> None:
    records[CHARGE - 1]["payload"] = {}


@pytest.mark.parametrize(
    ("change", "check", "place"),
    [
        (cheaper, "costs are priced", "entry 4 (charge)"),
        (lower_total, "totals add up", "entry 4 (charge)"),
        (fewer_debits, "totals add up", "entry 4 (charge)"),
        (no_raise, "caps are kept", "entry 6 (charge)"),
        (lowered, "accounts and acts stand", "entry 6 (raise)"),
        (raise_of_nothing, "accounts and acts stand", "entry 6 (raise)"),
        (other_key, "keys are unique", "entry 4 (charge)"),
        (charged_twice, "keys are unique", "entry 13 (charge)"),
        (after_closing, "requests are as hashed", "entry 9 (charge)"),
        (no_first_revision, "requests are as hashed", "entry 8 (charge)"),
        (no_reason, "requests are as hashed", "entry 8 (charge)"),
        (other_definition, "requests are as hashed", "entry 4 (charge)"),
        (other_unit, "requests are as hashed", "entry 4 (charge)"),
        (other_release, "releases are as digested", "entry 4 (charge)"),
        (no_release, "releases are as digested", "entry 4 (charge)"),
        (stray_release, "releases are as digested", "entry 9 (close)"),
        (spaced_release, "releases are as digested", "entry 4 (charge)"),
        (withdrawal_of_nothing, "accounts and acts stand", "entry 10 (withdraw)"),
        (unknown_account, "accounts and acts stand", "entry 4 (charge)"),
        (other_programme_cap, "accounts and acts stand", "entry 3 (account)"),
        (second_genesis, "entries follow each other", "entry 13 (genesis)"),
        (
            unknown_kind,
            "entries follow each other",
            "entry 12 (refund): there is no such kind of entry here: a later dpbayes wrote it",
        ),
        (empty_payload, "costs are priced", "entry 4 (charge)"),
    ],
)
def test_a_forgery_that_chains_well_is_still_found(
    honest: list[Entry], change: Callable[[list[dict[str, Any]]], None], check: str, place: str
) -> None:
    found = failures(rewritten(honest, change))
    assert found[check].startswith(place)
    assert "hashes chain" not in found


def test_rewriting_without_a_change_passes(honest: list[Entry]) -> None:
    assert rewritten(honest, lambda records: None) == honest


Tampered = tuple[Ledger, Callable[[str], object]]


@pytest.fixture
def tampered(filled: Path, tmp_path: Path) -> Iterator[Tampered]:
    """A filled ledger, and what changes it behind its back."""
    shutil.copyfile(filled, tmp_path / "ledger.db")
    with Ledger.open(url(tmp_path)) as ledger, closing(sqlite3.connect(tmp_path / "ledger.db")) as intruder:
        intruder.isolation_level = None
        for (name,) in intruder.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            intruder.execute(f"DROP TRIGGER {name}")
        yield ledger, intruder.execute


@pytest.fixture(scope="module")
def filled_on_postgresql(postgresql: Server) -> str:
    place = postgresql.new_database()
    with Ledger.create(place, STAMP) as ledger:
        fill(ledger)
    return place


@pytest.fixture
def tampered_on_postgresql(postgresql: Server, filled_on_postgresql: str) -> Iterator[Tampered]:
    place = postgresql.new_database(like=filled_on_postgresql)
    with Ledger.open(place) as ledger, psycopg.connect(place, autocommit=True) as intruder:
        intruder.execute("ALTER TABLE entry DISABLE TRIGGER ALL")
        yield ledger, intruder.execute


BOTH = pytest.mark.parametrize("on", ["tampered", "tampered_on_postgresql"])


@BOTH
@pytest.mark.parametrize(
    ("statement", "check", "place"),
    [
        ("UPDATE entry SET hash = 'x' WHERE seq = 5", "hashes chain", "entry 5 "),
        ("UPDATE entry SET prev_hash = 'x' WHERE seq = 5", "hashes chain", "entry 5 "),
        ("UPDATE entry SET release = release || ' ' WHERE seq = 5", "hashes chain", "entry 5 "),
        ("UPDATE entry SET kind = 'note' WHERE seq = 5", "hashes chain", "entry 5 "),
        ("UPDATE entry SET key = 'x' WHERE seq = 5", "hashes chain", "entry 5 "),
        ("UPDATE entry SET payload = replace(payload, 'tester', 'Tester') WHERE seq = 5", "hashes chain", "entry 5 "),
        ("UPDATE entry SET payload = ' ' || payload WHERE seq = 5", "entries are readable", "read ledger entry 5:"),
        ("UPDATE entry SET payload = substr(payload, 2) WHERE seq = 5", "entries are readable", "read ledger entry 5:"),
        ("UPDATE entry SET payload = '[]' WHERE seq = 5", "entries are readable", "read ledger entry 5:"),
        ("UPDATE entry SET account = NULL WHERE seq = 5", "entries are readable", "entry 5: its column account"),
        ("UPDATE entry SET period = 'x' WHERE seq = 5", "entries are readable", "entry 5: its column period"),
        ("UPDATE entry SET programme = 'x' WHERE seq = 5", "entries are readable", "entry 5: its column programme"),
        ("UPDATE entry SET seq = 50 WHERE seq = 5", "entries follow each other", "entry 6 "),
        ("DELETE FROM entry WHERE seq = 5", "entries follow each other", "entry 6 "),
    ],
)
def test_a_change_in_the_database_is_found_and_placed(
    request: pytest.FixtureRequest, on: str, statement: str, check: str, place: str
) -> None:
    ledger, change = request.getfixturevalue(on)
    assert failures(list(ledger.entries())) == {}
    change(statement)
    found = {c.check: c.detail for c in verify(ledger.entries()) if not c.ok}
    assert place in found[check]


def test_text_that_is_no_text_any_more_is_an_integrity_failure(tampered: Tampered) -> None:
    ledger, change = tampered
    change("UPDATE entry SET payload = CAST(x'ff22' AS TEXT) WHERE seq = 5")
    assert "damaged" in {c.check: c.detail for c in verify(ledger.entries())}["entries are readable"]


@BOTH
def test_an_edited_entry_is_neither_answered_nor_built_upon(request: pytest.FixtureRequest, on: str) -> None:
    ledger, change = request.getfixturevalue(on)
    head = ledger.head
    change(f"UPDATE entry SET payload = replace(payload, 'tester', 'Tester') WHERE seq = {head.seq}")
    with pytest.raises(IntegrityFailure, match=f"cannot trust ledger entry {head.seq}"):
        ledger.find(head.key)
    with pytest.raises(IntegrityFailure, match=f"cannot trust ledger entry {head.seq}"):
        ledger.note("nothing happened", STAMP)
