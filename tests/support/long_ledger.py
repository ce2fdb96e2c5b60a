"""A ledger of any length in seconds: every entry as the ledger itself would write it, many to a transaction."""

from collections.abc import Iterator
from itertools import count, islice

from storage.ledger.caps import Debit, Scope, debits
from storage.ledger.charging import charge_payload
from storage.ledger.entries import Entry
from storage.ledger.exposure import NOTHING, Tally
from storage.ledger.ledger import Ledger
from storage.ledger.request import AccountSpec, Request
from tests.support.ledger_cases import STAMP, account, cap, commit, laplace, request

MECHANISM = laplace(0.001)
POPULATIONS, MONTHS = 10, 24
PER_TRANSACTION = 2000


def population(number: int) -> AccountSpec:
    """One of the accounts of a programme, with caps that are never reached."""
    caps = (
        cap("1000", measure="pure-epsilon"),
        cap("1000", "per-period", measure="pure-epsilon"),
        cap("10000", "programme", measure="pure-epsilon", programme="labour-statistics"),
    )
    return account(*caps, population=f"population-{number}")


def numbered_request(number: int) -> Request:
    """The request of a charge by its number: the population changes fastest, then the month."""
    turn, which = divmod(number, POPULATIONS)
    again, month = divmod(turn, MONTHS)
    period = f"{2026 + month // 12}-{1 + month % 12:02}"
    return request(population(which), study=f"study-{which}", release=f"release-{again}", period=period)


def charge(ledger: Ledger, number: int) -> Entry:
    """Charge and release by a real commit."""
    return commit(ledger, numbered_request(number), MECHANISM)


def lengthen(ledger: Ledger, entries: int) -> int:
    """Fill a new ledger up to so many entries; returns the number of the next charge."""
    for number in range(POPULATIONS):
        ledger.open_account(population(number), STAMP)
    first = charge(ledger, 0)
    missing = entries - first.seq
    charges = islice(_charges_after(first), missing)
    while part := list(islice(charges, PER_TRANSACTION)):
        with ledger._store.exclusive() as page:
            for entry in part:
                page.restore(entry)
    return 1 + missing


def _charges_after(first: Entry) -> Iterator[Entry]:
    """Charges priced, totalled and chained as by the ledger, all with the noise of the first."""
    totals: dict[Scope, Tally] = {}
    _debit(numbered_request(0), totals)
    last, stated = first, first.payload
    for number in count(1):
        wanted = numbered_request(number)
        payload = charge_payload(
            wanted, MECHANISM, _debit(wanted, totals), digest=stated["digest"], noise=stated["noise"], stamp=STAMP
        )
        last = Entry.following(last, kind="charge", key=wanted.key, payload=payload, release=first.release)
        yield last


def _debit(wanted: Request, totals: dict[Scope, Tally]) -> tuple[Debit, ...]:
    cost = MECHANISM.cost()
    found = debits(wanted.account, wanted.period, cost, lambda scope: totals.get(scope, NOTHING))
    totals |= {debit.scope: debit.after for debit in found}
    return found
