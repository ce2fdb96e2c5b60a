"""The ledger's only table, read and written in whole entries within one transaction."""

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, Text

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import IntegrityFailure
from storage.ledger import raw_sql
from storage.ledger.caps import Scope
from storage.ledger.entries import COPIED, Entry, act_key, hash_of
from storage.ledger.periods import overlapped

T = TypeVar("T")
METADATA = MetaData()

ENTRY = Table(
    "entry",
    METADATA,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False, unique=True),
    Column("payload", Text, nullable=False),  # canonical JSON
    Column("release", Text),  # canonical JSON
    Column("prev_hash", Text, nullable=False),
    Column("hash", Text, nullable=False),
    # copies of payload fields, so that the last totals are found by index however long the ledger is
    Column("account", Text),
    Column("period", Text),
    Column("programme", Text),
    sqlite_strict=True,
)

Index("entry_by_account", ENTRY.c.kind, ENTRY.c.account, ENTRY.c.seq)
Index("entry_by_period", ENTRY.c.kind, ENTRY.c.account, ENTRY.c.period, ENTRY.c.seq)
Index("entry_by_programme", ENTRY.c.kind, ENTRY.c.programme, ENTRY.c.seq)

COLUMNS = list(ENTRY.c.keys())
INSERT = f"INSERT INTO entry ({', '.join(COLUMNS)}) VALUES ({', '.join(f':{name}' for name in COLUMNS)})"
PAYLOAD = COLUMNS.index("payload")
LAST_OF = """
SELECT * FROM entry WHERE seq = (SELECT max(last) FROM (
    SELECT (
        SELECT seq FROM entry WHERE kind = 'charge' AND account = :account AND period = names.column1
        ORDER BY seq DESC LIMIT 1
    ) AS last FROM (VALUES {}) AS names
) AS found)
"""
PERIODS = "SELECT DISTINCT period FROM entry WHERE kind = 'charge' AND account = :account"
KEYS = 4  # of the charge, its account, its period's closing and the revision it supersedes

PREFETCH = """
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


class Page:
    """The table as one transaction sees it; results are cached until the transaction writes."""

    def __init__(self, connection: raw_sql.AnyConnection) -> None:
        self._connection = connection
        self._cache: dict[Hashable, Any] = {}

    def prefetch(self, keys: Sequence[str], scopes: Sequence[Scope]) -> None:
        """Read everything that decides a charge in one statement, to save round trips to the server."""
        found = {row[0]: _intact(row) for row in self._prefetched(keys, scopes)}
        entries = [found[seq] for seq in sorted(found, reverse=True)]
        self._cache["head"] = entries[0] if entries else None
        for key in keys:
            self._cache["key", key] = next((entry for entry in entries if entry.key == key), None)
        for scope in sorted(scopes, key=lambda scope: scope.window):  # a lifetime before its windows
            if self._other_grains(scope):
                continue  # no index gives the last charge over several grains: `last_charge` queries each
            charges = (entry for entry in entries if entry.kind == "charge" and scope.counts(entry.copies))
            self._cache["charge", scope] = next(charges, None)
        for name, owner in {(name, getattr(scope, name)) for scope in scopes for name in ("account", "programme")}:
            raises = [entry for entry in entries if entry.kind == "raise" and entry.copies[name] == owner]
            self._cache["kind", "raise", (name, owner)] = raises[::-1]

    def _prefetched(self, keys: Sequence[str], scopes: Sequence[Scope]) -> set[tuple[Any, ...]]:
        """The rows of up to `KEYS` keys, the last charge of each scope, every raise of their caps, and the last row."""
        named = {f"key_{number}": keys[min(number, len(keys) - 1)] for number in range(KEYS)}
        copied = {name: next((value for scope in scopes if (value := getattr(scope, name))), None) for name in COPIED}
        return set(self._rows(PREFETCH, **named, **copied))

    def find(self, key: str) -> Entry | None:
        """The entry of that key."""
        return self._cached(("key", key), lambda: self._last("key = :key", key=key))

    def at(self, seq: int) -> Entry | None:
        """The entry of that number."""
        return self._last("seq = :seq", seq=seq)

    def head(self) -> Entry | None:
        """The last entry."""
        return self._cached("head", lambda: self._last("seq > 0"))

    def last_charge(self, scope: Scope) -> Entry | None:
        """The last charge that counts in a scope; its payload states the scope's total."""
        if names := self._other_grains(scope):
            return self._cached(("charge", scope), lambda: self._last_of(scope, names))
        copied = {name: value for name in COPIED if (value := getattr(scope, name)) is not None}
        return self._cached(("charge", scope), lambda: self._last(_conditions(copied), kind="charge", **copied))

    def _other_grains(self, scope: Scope) -> list[str]:
        """Names of periods of other grains that overlap a window, if its account was charged for such grains."""
        if scope.period is None:
            return []
        last = self.last_charge(Scope(window="lifetime", account=scope.account))
        grains = [] if last is None else last.payload["debits"][0].get("grains", [])
        return [name for grain in grains for name in overlapped(scope.period, grain)]

    def _last_of(self, scope: Scope, names: Sequence[str]) -> Entry | None:
        named = {f"name_{number}": name for number, name in enumerate([str(scope.period), *names])}
        probes = LAST_OF.format(", ".join(f"(:{name})" for name in named))
        rows = self._rows(probes, account=scope.account, **named)
        return _intact(rows[0]) if rows else None

    def charge_of(self, study: str, account: str, *, other_account: bool = False) -> Entry | None:
        """The last charge of a study to an account, or to any other account; searches back without an index."""
        start = _start_of(study)
        same = "<>" if other_account else "="
        condition = f"kind = 'charge' AND account {same} :account AND substr(key, 1, length(:start)) = :start"
        return self._cached((condition, account, start), lambda: self._last(condition, account=account, start=start))

    def charges_of(self, study: str) -> list[Entry]:
        """Every charge of a study, in order."""
        start = _start_of(study)
        return self._all("kind = 'charge' AND substr(key, 1, length(:start)) = :start", start=start)

    def of_kind(self, kind: str, **copied: str) -> list[Entry]:
        """Every entry of a kind, in order, such as the raises of an account."""
        return self._cached(
            ("kind", kind, *copied.items()), lambda: self._all(_conditions(copied), kind=kind, **copied)
        )

    def acts(self, kind: str, name: str) -> list[Entry]:
        """Every entry of a kind whose key begins with a name, in order."""
        start = act_key(kind, name)[: -len("]}")] + ","
        return self._all("kind = :kind AND substr(key, 1, length(:start)) = :start", kind=kind, start=start)

    def charged_periods(self, account: str) -> list[str]:
        """The periods an account was charged for, by name."""
        return sorted(row[0] for row in self._rows(PERIODS, account=account))

    def count(self, kind: str | None = None) -> int:
        """The number of entries, of one kind or all."""
        counting = "SELECT count(*) FROM entry"
        rows = self._rows(counting) if kind is None else self._rows(f"{counting} WHERE kind = :kind", kind=kind)
        return int(rows[0][0])

    def after(self, seq: int, most: int) -> Sequence[tuple[Any, ...]]:
        """The rows of later entries, unchecked."""
        return self._rows("SELECT * FROM entry WHERE seq > :seq ORDER BY seq LIMIT :most", seq=seq, most=most)

    def append(self, kind: str, key: str, payload: Mapping[str, Any], release: bytes | None = None) -> Entry:
        """Write the next entry; only in an exclusive transaction."""
        entry = Entry.following(self.head(), kind=kind, key=key, payload=payload, release=release)
        self.restore(entry)
        return entry

    def restore(self, entry: Entry) -> None:
        """Write a complete entry; the database refuses one that does not follow the last."""
        record = entry.to_record() | {"payload": entry.text} | entry.copies
        raw_sql.execute(self._connection, INSERT, record)
        self._cache.clear()

    def _last(self, condition: str, **named: Any) -> Entry | None:
        rows = self._rows(f"SELECT * FROM entry WHERE {condition} ORDER BY seq DESC LIMIT 1", **named)
        return _intact(rows[0]) if rows else None

    def _all(self, condition: str, **named: Any) -> list[Entry]:
        return [_intact(row) for row in self._rows(f"SELECT * FROM entry WHERE {condition} ORDER BY seq", **named)]

    def _rows(self, statement: str, **named: Any) -> Sequence[tuple[Any, ...]]:
        return raw_sql.execute(self._connection, statement, named)

    def _cached(self, query: Hashable, read: Callable[[], T]) -> T:
        """The cached result of a query, or the result of `read`, which is then cached."""
        if query not in self._cache:
            self._cache[query] = read()
        return self._cache[query]


def _start_of(study: str) -> str:
    """How the keys of a study's charges begin."""
    return canonical_json([study]).decode()[:-1] + ","


def _conditions(copied: Mapping[str, str]) -> str:
    return " AND ".join(f"{name} = :{name}" for name in ("kind", *copied))


def entry_of(row: Sequence[Any]) -> Entry:
    """The entry in a row, its hash unchecked; refused if its payload is not canonical or disagrees with columns."""
    payload = _parsed_payload(row)
    if canonical_json(payload).decode() != row[PAYLOAD]:
        raise _unreadable(row)
    return _entry(row, payload)


@lru_cache(maxsize=512)  # successive charges read the same rows: their account, and the entries before
def _intact(row: tuple[Any, ...]) -> Entry:
    """The entry in a row, refused if its hash is not that of the stored text, which is then canonical."""
    entry = _entry(row, _parsed_payload(row))
    if hash_of(entry, row[PAYLOAD]) != entry.hash:
        raise IntegrityFailure(
            f"cannot trust ledger entry {entry.seq}: its hash is not that of its contents. Run `dpbayes audit`."
        )
    return entry


def _entry(row: Sequence[Any], payload: dict[str, Any]) -> Entry:
    seq, kind, key, _, release, prev_hash, hash_, *copies = row
    entry = Entry(seq, kind, key, payload, None if release is None else release.encode(), prev_hash, hash_)
    for (name, value), copied in zip(entry.copies.items(), copies, strict=True):
        if copied != value:
            raise IntegrityFailure(
                f"cannot trust ledger entry {seq}: its column {name} differs from its payload. Run `dpbayes audit`."
            )
    return entry


def _parsed_payload(row: Sequence[Any]) -> dict[str, Any]:
    try:
        payload: Any = json.loads(row[PAYLOAD])
    except ValueError:
        payload = None
    if not isinstance(payload, dict):
        raise _unreadable(row)
    return payload


def _unreadable(row: Sequence[Any]) -> IntegrityFailure:
    return IntegrityFailure(
        f"cannot read ledger entry {row[0]}: its payload is not canonical JSON. Run `dpbayes audit`."
    )
