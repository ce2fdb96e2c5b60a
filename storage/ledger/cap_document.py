"""Accounts as programs and people read them: each cap in the one measure it is stated in."""

from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from dpbayes_core.privacy.accounting import from_units
from storage.ledger.accounts import AccountState, CapState
from storage.ledger.periods import overlapped
from storage.ledger.remains import remains

TWELVE_DIGITS_UP = Context(prec=12, rounding=ROUND_CEILING)


def account_document(account: AccountState, period: str | None = None) -> dict[str, Any]:
    """An account with its caps; with a period, only the windows that it falls in."""
    windows = () if period is None else overlapped(period, account.spec.grain)
    caps = [cap for cap in account.caps if period is None or cap.period in (None, *windows)]
    return {
        "account": account.spec.population,
        "caps": [cap_document(cap) for cap in caps],
        "holders": None if account.spec.holders is None else account.spec.holders.to_record(),
        "neighbours": account.spec.neighbours,
        "unit": account.spec.unit,
    }


def cap_document(state: CapState) -> dict[str, Any]:
    """Limit, spent and remaining in the cap's own measure; `totals` are the sums that are really kept."""
    record = state.to_record()
    cap = state.cap
    return {
        "cap": cap.name,
        "delta": None if cap.delta is None else float(cap.delta),
        "limit": float(cap.limit),
        "measure": cap.measure,
        "period": state.period,
        "remaining": float(remains(state.cap, state.spent)),
        "spent": _spent(state),
        "totals": {"limit": record["limit"], "remaining": record["remaining"], "spent": record["spent"]},
        "window": cap.window,
    }


def _spent(state: CapState) -> float | None:
    if state.cap.measure == "rho":
        return float(from_units(state.spent.rho))
    if state.cap.measure == "pure-epsilon":
        return None if state.spent.epsilon is None else float(from_units(state.spent.epsilon))
    epsilon = state.epsilon_at_delta
    return None if epsilon is None else float(TWELVE_DIGITS_UP.create_decimal(Decimal(epsilon)))
