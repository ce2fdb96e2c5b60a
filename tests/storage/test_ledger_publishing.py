"""Posteriors on the chain: one entry a statement, what stood before taken over once, every forgery found."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from cli.ledger.readable import line_of
from dpbayes.audit.publications import analyses_on_record
from dpbayes_core.errors import IntegrityFailure
from storage.ledger.entries import Entry, Stamp, act_key
from storage.ledger.homes import replaced_keys
from storage.ledger.ledger import Ledger
from storage.ledger.publishing import ADOPTION, KIND, Publication, adoption_key, on_record
from storage.ledger.verify import verify
from tests.support.ledger_cases import STAMP, account, commit, laplace, new_ledger, publication, request, url
from tests.support.postgres import Server

HOME, OTHER = "SHA256:" + "c" * 64, "SHA256:" + "9" * 64
OLD = (("1", HOME), ("2", OTHER))
LATER = replace(STAMP, software={"dpbayes": "0.2.0"})


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        new_ledger(tmp_path).dispose()
        return url(tmp_path)
    server: Server = request.getfixturevalue("postgresql")
    found = server.new_schema()
    Ledger.create(found, STAMP).dispose()
    return found


@pytest.fixture
def ledger(place: str) -> Iterator[Ledger]:
    with Ledger.open(place) as opened:
        opened.open_account(account(), STAMP)
        yield opened


def flaws(entries: list[Entry]) -> str:
    return "; ".join(check.detail for check in verify(entries) if not check.ok)


def put(ledger: Ledger, one: Publication, *adopted: Publication, stamp: Stamp = STAMP) -> tuple[Entry, ...]:
    return ledger.publish("employees", one, adopted, stamp=stamp)


def following(entries: list[Entry], payload: dict[str, Any], key: str, kind: str = KIND) -> list[Entry]:
    """The ledger with one entry more, as somebody writes it who has the database."""
    return [*entries, Entry.following(entries[-1], kind=kind, key=key, payload=payload)]


def test_the_same_statement_is_on_record_once(ledger: Ledger) -> None:
    charge = commit(ledger, request(), laplace(0.4))
    first = put(ledger, publication(charge))
    assert put(ledger, publication(charge)) == first
    other = put(ledger, publication(charge, statement="e" * 64))
    assert other[0].seq == first[0].seq + 1
    assert flaws(list(ledger.entries())) == ""
    assert line_of(first[0])["what"] == "wage-posterior of 2026-01 published (converged), statement dddddddddddddddd"


def test_what_stood_before_is_taken_over_by_the_first_and_by_no_later_one(ledger: Ledger) -> None:
    charge = commit(ledger, request(), laplace(0.4))
    old = publication(charge, key="1" * 64, statement="2" * 64)
    adoption, _ = put(ledger, publication(charge), old)
    assert adoption.key == adoption_key(HOME)
    assert line_of(adoption)["what"] == "1 posterior that stood in the archive put on record"
    slipped = publication(charge, key="3" * 64, statement="4" * 64)
    assert len(put(ledger, publication(charge, statement="5" * 64), slipped)) == 1
    statements = [each.publication.statement for each in on_record(ledger.entries())]
    assert slipped.statement not in statements
    assert flaws(list(ledger.entries())) == ""


def test_each_home_takes_over_its_own_once_and_not_after_it_has_begun(ledger: Ledger) -> None:
    charge = commit(ledger, request(), laplace(0.4))
    first, second = (publication(charge, key=key * 64, statement=key * 64, signed_by=home) for key, home in OLD)
    assert len(put(ledger, publication(charge), first)) == 2
    own = publication(charge, statement="5" * 64, signed_by=OTHER)
    adoption, _ = put(ledger, own, second)
    assert adoption.payload["home"] == OTHER
    assert len(put(ledger, replace(own, statement="6" * 64), replace(second, statement="7" * 64))) == 1
    entries = list(ledger.entries())
    assert flaws(entries) == ""
    begun = {"adopts": [second.to_record()], "home": OTHER, **STAMP.to_record()}
    assert "entries had begun before" in flaws(following(entries, begun, adoption_key(OTHER)))


def test_a_home_is_the_same_whichever_key_it_has_today(ledger: Ledger) -> None:
    charge = commit(ledger, request(), laplace(0.4))
    put(ledger, publication(charge))
    newer, newest = "SHA256:" + "7" * 64, "SHA256:" + "8" * 64
    ledger.rotate_key(newer, retires=HOME, reason="yearly", stamp=STAMP)
    ledger.rotate_key(newest, retires=newer, reason="yearly", stamp=STAMP)
    slipped = publication(charge, key="3" * 64, statement="4" * 64)
    again = publication(charge, statement="5" * 64, signed_by=newest)
    assert len(put(ledger, again, slipped)) == 1  # it takes nothing over: it began under its first key
    with pytest.raises(IntegrityFailure, match="put other draws of it on record, by the same software"):
        put(ledger, replace(again, statement="6" * 64, content="0" * 64))
    entries = list(ledger.entries())
    assert flaws(entries) == ""
    for home, said in ((newest, "by a key that was not its first"), (HOME, "entries had begun before")):
        taken = {"adopts": [slipped.to_record()], "home": home, **STAMP.to_record()}
        assert said in flaws(following(entries, taken, adoption_key(home)))


def test_nothing_is_published_that_a_retired_key_signed(ledger: Ledger) -> None:
    charge = commit(ledger, request(), laplace(0.4))
    ledger.rotate_key("SHA256:" + "7" * 64, retires=HOME, reason="yearly", stamp=STAMP)
    with pytest.raises(IntegrityFailure, match="the key that signed it was retired meanwhile"):
        put(ledger, publication(charge))
    stated = {"account": "employees", **publication(charge).to_record(), **STAMP.to_record()}
    assert "what a key signed that was retired before" in flaws(
        following(list(ledger.entries()), stated, publication(charge).entry_key)
    )


def test_changes_of_key_that_no_home_makes_are_named_and_tie_no_homes(ledger: Ledger) -> None:
    """An older key put after a newer one, a key that is retired twice, and one that follows itself."""
    charge = commit(ledger, request(), laplace(0.4))
    put(ledger, publication(charge))
    newer, strange = "SHA256:" + "7" * 64, "SHA256:" + "8" * 64
    ledger.rotate_key(newer, retires=HOME, reason="yearly", stamp=STAMP)
    entries = list(ledger.entries())
    for new, old, flaw in (
        (HOME, strange, "older than it"),
        (HOME, newer, "older than it"),
        (strange, HOME, "retired before"),
        (strange, strange, "older than it"),
    ):
        change = {"public_key": new, "retires": old, "reason": "yearly", **STAMP.to_record()}
        forged = following(entries, change, act_key("key", new), kind="key")
        assert flaw in flaws(forged)
        assert replaced_keys(forged) == {newer: HOME}


def test_a_home_takes_over_nothing_that_another_signed(ledger: Ledger) -> None:
    charge = commit(ledger, request(), laplace(0.4))
    taken = {"adopts": [publication(charge).to_record()], "home": OTHER, **STAMP.to_record()}
    assert "what another home signed" in flaws(following(list(ledger.entries()), taken, adoption_key(OTHER)))


def test_other_draws_of_an_analysis_are_refused_by_the_same_software_and_named_of_another(ledger: Ledger) -> None:
    charge = commit(ledger, request(), laplace(0.4))
    put(ledger, publication(charge))
    other = publication(charge, statement="1" * 64, content="2" * 64)
    with pytest.raises(IntegrityFailure, match="other draws of it on record, by the same software"):
        put(ledger, other)
    entries = list(ledger.entries())
    forged = {"account": "employees", **other.to_record(), **STAMP.to_record()}
    assert f"other draws than entry {entries[-1].seq}" in flaws(following(entries, forged, other.entry_key))
    silent = {name: value for name, value in forged.items() if name != "content"}
    assert "does not state its content" in flaws(following(entries, silent, other.entry_key))
    (entry,) = put(ledger, other, stamp=LATER)
    assert flaws(list(ledger.entries())) == ""
    assert analyses_on_record(ledger.entries()) == (
        f"1 on record, in 2 statements; entries {entry.seq - 1}, {entry.seq} hold different draws of wage-posterior of "
        "2026-01, of other software or another home: replay it"
    )


def test_what_matters_most_of_many_is_said_first(ledger: Ledger) -> None:
    """Ten priors tried of one release are not lost behind two of each of others; and one analysis may come first."""
    charges = [commit(ledger, request(period=f"2026-0{month}"), laplace(0.1)) for month in range(1, 8)]
    for month, charge in enumerate(charges):
        for number in range(10 if month == 6 else 2):
            name = f"{month}{number}" * 32
            put(ledger, publication(charge, key=name, statement=name, prior=name))
    said = analyses_on_record(ledger.entries())
    assert said.startswith("22 on record; 10 analyses with 10 different priors of wage of 2026-07 ")
    assert said.endswith("; and of 2 more")
    assert "2 analyses with 2 different priors of wage of 2026-06 " not in said
    assert analyses_on_record(ledger.entries(), "51" * 32).startswith(
        "22 on record; 2 analyses with 2 different priors of wage of 2026-06 "
    )


def test_entries_that_state_no_content_and_no_home_are_read_as_they_were(ledger: Ledger) -> None:
    """As the first of them were written, with one adoption for a whole ledger."""
    charge = commit(ledger, request(), laplace(0.4))
    bare = publication(charge, content=None)
    taken = {"adopts": [replace(bare, key="1" * 64, statement="2" * 64).to_record()], **STAMP.to_record()}
    entries = following(list(ledger.entries()), taken, ADOPTION)
    for statement in "34":
        one = replace(bare, statement=statement * 64)
        assert "content" not in one.to_record()
        stated = {"account": "employees", **one.to_record(), **STAMP.to_record()}
        entries = following(entries, stated, one.entry_key)
    assert flaws(entries) == ""
    assert "hold the same draws of wage-posterior of 2026-01 is not said" in analyses_on_record(entries)


def test_rivals_that_publish_the_same_leave_one_entry(place: str, ledger: Ledger) -> None:
    charge = commit(ledger, request(), laplace(0.4))
    found: list[tuple[Entry, ...]] = []

    def rival() -> None:
        with Ledger.open(place) as own:
            found.append(put(own, publication(charge), publication(charge, key="1" * 64, statement="2" * 64)))

    rivals = [Thread(target=rival) for _ in range(4)]
    for each in rivals:
        each.start()
    for each in rivals:
        each.join()
    assert len({answer[-1].seq for answer in found}) == 1
    assert ledger.count("publish") == 2
    assert flaws(list(ledger.entries())) == ""


def test_charges_go_on_after_publications_and_add_up(ledger: Ledger) -> None:
    charge = commit(ledger, request(), laplace(0.4))
    put(ledger, publication(charge))
    commit(ledger, request(period="2026-02"), laplace(0.4))
    assert ledger.count("charge") == 2
    assert flaws(list(ledger.entries())) == ""


def test_a_forged_publication_is_found(ledger: Ledger) -> None:
    charge = commit(ledger, request(), laplace(0.4))
    put(ledger, publication(charge))
    entries = list(ledger.entries())
    last = entries[-1]

    def forged(**changes: Any) -> str:
        payload = {**last.payload, **changes}
        key = last.key if not {"key", "statement"} & changes.keys() else Publication.from_record(payload).entry_key
        entry = replace(last, payload=payload, key=key)
        return flaws([*entries[:-1], replace(entry, hash=entry.computed_hash)])

    assert forged() == ""
    assert "what was never released" in forged(releases=['["x","y","2026-01",null,1]'])
    assert "its account was never opened" in forged(account="strangers")
    assert "lacks what this check needs" in forged(status="splendid")
    assert "lacks what this check needs" in forged(releases=[])
    assert "its key is not the one its contents call for" in flaws(
        [*entries[:-1], replace(last, payload={**last.payload, "statement": "f" * 64})]
    )
    late = Entry.following(last, kind="publish", key=ADOPTION, payload={"adopts": [], **STAMP.to_record()})
    assert "entries had begun before" in flaws([*entries, late])


def test_how_many_priors_were_tried_of_one_release_is_said(ledger: Ledger) -> None:
    charge = commit(ledger, request(), laplace(0.4))
    assert analyses_on_record(ledger.entries()).startswith("no posterior is on record")
    for number in range(3):
        one = publication(charge, key=str(number) * 64, statement=str(number) * 64, prior=str(number) * 64)
        put(ledger, one)
    put(ledger, publication(charge, key="0" * 64, statement="7" * 64, prior="0" * 64))  # the same analysis again
    put(ledger, publication(charge, key="8" * 64, statement="8" * 64, prior="0" * 64))  # another sampler, say
    assert analyses_on_record(ledger.entries()) == (
        "4 on record, in 5 statements; 4 analyses with 3 different priors of wage of 2026-01 (study wages)"
    )
