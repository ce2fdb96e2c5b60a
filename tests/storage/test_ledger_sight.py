"""A charge asks one question, whose answer is that of the many, and which no length of the ledger makes slower."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from dpbayes_core.privacy.noise import OpenDPNoise
from storage.ledger import raw_sql
from storage.ledger.caps import Scope, scopes
from storage.ledger.charging import closing_key, prefetch
from storage.ledger.ledger import Ledger
from storage.ledger.page import Page
from storage.ledger.request import Request
from storage.ledger.verify import verify
from tests.support.ledger_cases import EXACT, STAMP, design, request
from tests.support.long_ledger import MECHANISM, charge, lengthen, numbered_request, population

RAISED, CLOSED = population(3), numbered_request(40)


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    """Three hundred entries, with raised caps, a closed period and a revision."""
    with Ledger.open(ledger_url) as opened:
        lengthen(opened, 300)
        for limit in (Decimal(2000), Decimal(3000)):
            opened.raise_cap(RAISED.population, "lifetime", limit, reason="decided", stamp=STAMP)
        opened.raise_cap("population-0", "programme labour-statistics", Decimal(20000), reason="decided", stamp=STAMP)
        opened.close(CLOSED.account.population, CLOSED.period, reason="published", stamp=STAMP)
        yield opened


def answers(page: Page, wanted: Request) -> list[object]:
    """Everything that deciding a charge asks."""
    name = wanted.account.population
    keys = (wanted.key, wanted.supersedes or wanted.key, closing_key(name, wanted.period))
    found: list[object] = [page.find(key) for key in keys]
    found += [page.last_charge(scope) for scope in scopes(wanted.account, wanted.period)]
    programme = wanted.account.programme
    raises = [page.of_kind("raise", account=name), *([page.of_kind("raise", programme=programme)] if programme else [])]
    return [*found, *raises, page.head()]


@pytest.mark.parametrize(
    "wanted",
    [
        numbered_request(0),
        numbered_request(288),
        numbered_request(10_000),
        CLOSED,
        request(RAISED, study="study-3", release="new", period="2031-01"),
        request(RAISED, study="study-3", release="release-0", revision=2, reason="the source was wrong"),
        request(release="elsewhere"),
    ],
)
def test_prefetching_sees_what_asking_one_by_one_does(
    ledger: Ledger, wanted: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ledger._store.snapshot() as page:
        apart = answers(page, wanted)
    with ledger._store.snapshot() as page:
        prefetch(page, wanted)
        monkeypatch.setattr(page, "_connection", None)  # nothing more is asked of it
        together = answers(page, wanted)
    assert together == apart


def test_what_a_transaction_writes_it_sees(ledger: Ledger) -> None:
    wanted = numbered_request(10_001)
    with ledger._store.exclusive() as page:
        prefetch(page, wanted)
        assert page.find(wanted.key) is None
        written = page.append("note", wanted.key, {"reason": "instead"})
        assert page.find(wanted.key) == written == page.head()


def test_a_lengthened_ledger_is_one_that_an_auditor_accepts(ledger: Ledger) -> None:
    assert charge(ledger, 5_000).seq == ledger.head.seq
    assert [check for check in verify(ledger.entries()) if not check.ok] == []


def test_a_charge_asks_the_database_for_one_answer(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for: list[str] = []
    monkeypatch.setattr(Page, "_last", lambda self, *wanted: asked_for.append("last"))
    monkeypatch.setattr(Page, "_all", lambda self, *wanted: asked_for.append("all"))
    ledger.commit(numbered_request(6_000), design(MECHANISM), EXACT, OpenDPNoise(), stamp=STAMP)
    assert asked_for == []


def test_every_answer_comes_from_the_end_of_an_index(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[str] = []
    with ledger._store.snapshot() as page:
        explain = "EXPLAIN QUERY PLAN" if page._connection.dialect.name == "sqlite" else "EXPLAIN"

        def explained(connection: Any, statement: str, parameters: Any) -> Any:
            plans.extend(str(row[-1]) for row in at_once(connection, f"{explain} {statement}", parameters))
            return at_once(connection, statement, parameters)

        at_once = raw_sql.execute
        monkeypatch.setattr(raw_sql, "execute", explained)
        everywhere = [Scope(window="programme", account="a", period="p", programme="x")]
        page.prefetch(["key"], everywhere)
    assert len(plans) > 6
    for line in plans:
        assert not any(slow in line for slow in ("Seq Scan", "Sort", "TEMP B-TREE", "Aggregate"))
        assert "SCAN entry" not in line or line.strip() == "SCAN entry"  # the last row, by number, and no further
