"""What an auditor asks of the ledger entry in a crate, with no other at hand: its price, protection and totals."""

from collections.abc import Mapping
from typing import Any

from dpbayes.crates.contained_releases import Source
from storage.ledger.cap_document import limit_text
from storage.ledger.caps import Scope, admits
from storage.ledger.check import Problem
from storage.ledger.exposure import Tally, Total
from storage.ledger.periods import Period, overlapped
from storage.ledger.request import CapSpec
from storage.ledger.verify import verify_charge

Record = Mapping[str, Any]

PRICED = "the charge is priced and protects"
CAPPED = "the charge keeps its caps"


def priced(source: Source) -> Problem:
    """The laws of the ledger that one entry keeps or breaks by itself."""
    return verify_charge(source.entry)


def capped(source: Source) -> Problem:
    """Totals that are at least the charge, in the scopes where it counts, and within every cap that they state."""
    stated = source.entry.payload
    cost = Total.from_record(stated["cost"])
    if not any(debit["cap"] for debit in stated["debits"]):
        return "it is charged to no cap"
    if len({str(debit["scope"]) for debit in stated["debits"]}) != len(stated["debits"]):
        return "it debits a scope twice"
    return next(filter(None, (_debit(debit, stated, cost) for debit in stated["debits"])), None)


def _debit(debit: Record, stated: Record, cost: Total) -> Problem:
    scope, after = Scope(**debit["scope"]), Tally.from_record(debit)
    if not _counts(scope, stated):
        return f"its {scope.window} total is of another account or period"
    if after.most.to_record() != debit["total"] or not _at_least(after.most, cost):
        return f"its {scope.window} total is less than what it charges, or not the sum of its parts"
    cap = None if debit["cap"] is None else CapSpec.from_record(debit["cap"])
    if cap is not None and cap.window != scope.window:
        return f"its {scope.window} total is held against another cap"
    return None if cap is None or admits(cap, after) else f"it exceeds the {cap.name} cap ({limit_text(cap)})"


def _counts(scope: Scope, stated: Record) -> bool:
    """Whether the charge counts in the scope."""
    if scope.window == "programme":
        return scope.programme is not None and scope.programme == stated["programme"]
    if scope.account != stated["account"] or scope.programme is not None:
        return False
    if scope.window == "lifetime":
        return scope.period is None
    return scope.period in overlapped(stated["period"], Period.named(scope.period or "").grain)


def _at_least(total: Total, cost: Total) -> bool:
    """Whether a total can hold the charge: once a charge had no pure epsilon, no total has."""
    if total.epsilon is not None and (cost.epsilon is None or total.epsilon < cost.epsilon):
        return False
    return total.rho >= cost.rho
