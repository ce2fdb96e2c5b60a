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


def asked(number: int) -> Request:
    """The request of the charge of that number: population by population, month by month, then again."""
    turn, which = divmod(number, POPULATIONS)
    again, month = divmod(turn, MONTHS)
    period = f"{2026 + month // 12}-{1 + month % 12:02}"
    return request(population(which), study=f"study-{which}", release=f"release-{again}", period=period)


def charge(ledger: Ledger, number: int) -> Entry:
    """Charge and release, in the one way there is."""
    return commit(ledger, asked(number), MECHANISM)


def lengthen(ledger: Ledger, entries: int) -> int:
    """Bring a new ledger to so many entries; returns the number of the charge that comes next."""
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
    """Priced, totalled and chained as the ledger does it, but all with the noise of the first."""
    totals: dict[Scope, Tally] = {}
    _debit(asked(0), totals)
    last, stated = first, first.payload
    for number in count(1):
        wanted = asked(number)
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
