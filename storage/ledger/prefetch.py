"""Everything that decides a charge, read in one statement: a ledger is as slow as the questions it asks are many."""

from collections.abc import Sequence
from typing import Any

from storage.ledger import raw_sql
from storage.ledger.caps import Scope
from storage.ledger.entries import COPIED

KEYS = 4  # of the charge, of its account, of its period's closing and of the revision it supersedes

STATEMENT = """
SELECT * FROM entry WHERE key IN (:key_0, :key_1, :key_2, :key_3)
UNION ALL SELECT * FROM (SELECT * FROM entry ORDER BY seq DESC LIMIT 1) AS head
UNION ALL SELECT * FROM (
    SELECT * FROM entry WHERE kind = 'charge' AND account = :account
    ORDER BY seq DESC LIMIT 1) AS lifetime
UNION ALL SELECT * FROM (
    SELECT * FROM entry WHERE kind = 'charge' AND account = :account AND period = :period
    ORDER BY seq DESC LIMIT 1) AS per_period
UNION ALL SELECT * FROM (
    SELECT * FROM entry WHERE kind = 'charge' AND programme = :programme
    ORDER BY seq DESC LIMIT 1) AS programme
UNION ALL SELECT * FROM entry WHERE kind = 'raise' AND account = :account
UNION ALL SELECT * FROM entry WHERE kind = 'raise' AND programme = :programme
"""


def in_sight(connection: raw_sql.Wire, keys: Sequence[str], scopes: Sequence[Scope]) -> set[tuple[Any, ...]]:
    """The rows of up to `KEYS` keys, the last charge of each scope, every raise of their caps, and the last row."""
    named = {f"key_{number}": keys[min(number, len(keys) - 1)] for number in range(KEYS)}
    copied = {name: next((value for scope in scopes if (value := getattr(scope, name))), None) for name in COPIED}
    return set(raw_sql.at_once(connection, STATEMENT, named | copied))
