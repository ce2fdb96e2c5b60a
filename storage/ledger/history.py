"""The ledger's accounts and totals recomputed from its entries, to compare with the stored totals."""

import json
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from typing import Any

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import DpbayesError
from dpbayes_core.privacy.accounting import Cost
from dpbayes_core.privacy.mechanisms import mechanism_from_record
from storage.ledger.caps import Debit, Scope, debits, with_limits
from storage.ledger.entries import Entry
from storage.ledger.exposure import NOTHING, Tally
from storage.ledger.homes import key_flaw
from storage.ledger.request import AccountSpec, CapSpec, stored_decimal

MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, DpbayesError)
"""The errors that reading an edited entry or document may raise."""


@lru_cache(maxsize=256)
def price(mechanism: bytes) -> Cost:
    """The cost of a recorded mechanism; cached, since most charges use the same few."""
    return mechanism_from_record(json.loads(mechanism)).cost()


def owner_of(payload: Mapping[str, Any]) -> str:
    """The programme or account whose cap a raise changes."""
    return payload["programme"] or payload["account"]


class History:
    """What the entries so far imply, computed from mechanisms and caps, not from stored totals."""

    def __init__(self) -> None:
        self.last: Entry | None = None
        self.length = 0
        self.seq_of: dict[str, int] = {}
        self.charges: set[str] = set()
        self.published: dict[str, list[Entry]] = {}  # by the name of the analysis
        self.publishers: set[str] = set()  # the keys that signed published crates
        self.contents = False  # whether any published entry states its content's digest
        self.keys: set[str] = set()  # every signing key named so far
        self.retired: set[str] = set()
        self.replaced: dict[str, str] = {}  # which key each new key retired
        self.accounts: dict[str, AccountSpec] = {}
        self._raised: dict[str, dict[str, Decimal]] = {}
        self._totals: dict[Scope, Tally] = {}

    def add(self, entry: Entry) -> None:
        """Add an entry; an unreadable one is skipped, since the checks report it."""
        with suppress(*MALFORMED):
            self._update(entry)
        self.seq_of.setdefault(entry.key, entry.seq)
        self.last, self.length = entry, self.length + 1

    def total(self, scope: Scope) -> Tally:
        """Everything charged in a scope."""
        return self._totals.get(scope, NOTHING)

    def with_raises(self, population: str) -> AccountSpec:
        """An account with every raise of its caps so far."""
        spec = self.accounts[population]
        limits = self._raised.get(population, {}) | self._raised.get(spec.programme or "", {})
        names = {cap.name for cap in spec.caps}
        return with_limits(spec, {name: limit for name, limit in limits.items() if name in names})

    def raisable(self, payload: Mapping[str, Any]) -> list[CapSpec]:
        """The caps that a raise changes, with every earlier raise."""
        caps = [(cap.programme or name, cap) for name in self.accounts for cap in self.with_raises(name).caps]
        return [cap for owner, cap in caps if owner == owner_of(payload) and cap.name == payload["cap"]]

    def due(self, payload: Mapping[str, Any]) -> tuple[Debit, ...]:
        """The debits that a charge must record."""
        cost = price(canonical_json(payload["mechanism"]))
        account = self.with_raises(payload["account"])
        return debits(account, payload["period"], cost, self.total, holder=payload["holder"])

    def agrees(self, spec: AccountSpec) -> bool:
        """Whether a new account states its programme's cap and neighbours as the programme's other accounts do."""
        own = [cap for cap in spec.caps if cap.programme]
        others = [name for name, known in self.accounts.items() if known.programme == spec.programme]
        if not own or not others:
            return True
        first = self.accounts[others[0]]
        known = [cap for account in (first, self.with_raises(others[0])) for cap in account.caps if cap.programme]
        return own[0] in known and spec.neighbours == first.neighbours

    def _update(self, entry: Entry) -> None:
        payload = entry.payload
        if entry.kind == "genesis":
            self.keys |= {payload["public_key"]}
        elif entry.kind == "account":
            self.accounts.setdefault(payload["account"], AccountSpec.from_record(payload["spec"]))
        elif entry.kind == "raise":
            self._raised.setdefault(owner_of(payload), {})[payload["cap"]] = stored_decimal(payload["limit"])
        elif entry.kind == "charge":
            self.charges.add(entry.key)
            self._totals |= {debit.scope: debit.after for debit in self.due(payload)}
        elif entry.kind == "key":
            self._update_keys(entry)
        elif entry.kind == "publish":
            signers = {each["signed_by"] for each in payload.get("adopts", [payload])}
            self.publishers, self.keys = self.publishers | signers, self.keys | signers
            if "adopts" not in payload:
                self.published.setdefault(payload["key"], []).append(entry)
                self.contents = self.contents or "content" in payload

    def _update_keys(self, entry: Entry) -> None:
        new, old = entry.payload["public_key"], entry.payload["retires"]
        if key_flaw(entry, self.keys, self.retired) is None:
            self.replaced[new] = old
        self.keys |= {new, old}
        self.retired.add(old)
