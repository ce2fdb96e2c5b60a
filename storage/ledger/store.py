"""The table and its transactions: whole entries in and out, on SQLite or PostgreSQL."""

import json
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeVar

from sqlalchemy import URL, Connection, Engine, inspect, make_url
from sqlalchemy.exc import ArgumentError

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import IntegrityFailure, LedgerMissing, StudyInvalid
from storage.ledger import postgresql, raw_sql, sqlite
from storage.ledger.caps import Scope
from storage.ledger.database_errors import plain_failures
from storage.ledger.entries import COPIED, Entry, act_key, hash_of
from storage.ledger.periods import overlapped
from storage.ledger.prefetch import in_sight
from storage.ledger.schema import ENTRY, METADATA

T = TypeVar("T")
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
CHUNK = 500  # entries read at a time


class Dialect(Protocol):
    """What differs between databases; each is one module."""

    @property
    def TRIGGERS(self) -> tuple[str, ...]: ...  # noqa: N802 -- a constant of each module
    def make_engine(self, url: URL, *, create: bool) -> Engine: ...
    def make_reader(self, url: URL) -> Engine: ...
    def prepare(self, engine: Engine) -> None: ...
    def founding(self, engine: Engine) -> AbstractContextManager[Connection]: ...
    def exclusive(self, engine: Engine) -> AbstractContextManager[raw_sql.Wire]: ...
    def snapshot(self, engine: Engine) -> AbstractContextManager[raw_sql.Wire]: ...


DIALECTS: Mapping[str, Dialect] = {"sqlite": sqlite, "postgresql": postgresql}


class Page:
    """The table as one transaction sees it: what it has seen stays so, but for what it writes itself."""

    def __init__(self, connection: raw_sql.Wire) -> None:
        self._connection = connection
        self._seen: dict[Hashable, Any] = {}

    def look_ahead(self, keys: Sequence[str], scopes: Sequence[Scope]) -> None:
        """See at once what deciding a charge asks for one by one."""
        found = {row[0]: _intact(row) for row in in_sight(self._connection, keys, scopes)}
        entries = [found[seq] for seq in sorted(found, reverse=True)]
        self._seen["head"] = entries[0] if entries else None
        for key in keys:
            self._seen["key", key] = next((entry for entry in entries if entry.key == key), None)
        for scope in sorted(scopes, key=lambda scope: scope.window):  # a lifetime before its windows
            if self._elsewhere(scope):
                continue  # no index ends with the last charge of all grains: `last_charge` asks for each
            charges = (entry for entry in entries if entry.kind == "charge" and scope.counts(entry.copies))
            self._seen["charge", scope] = next(charges, None)
        for name, owner in {(name, getattr(scope, name)) for scope in scopes for name in ("account", "programme")}:
            raises = [entry for entry in entries if entry.kind == "raise" and entry.copies[name] == owner]
            self._seen["kind", "raise", (name, owner)] = raises[::-1]

    def find(self, key: str) -> Entry | None:
        """The entry of that key."""
        return self._once(("key", key), lambda: self._last("key = :key", key=key))

    def at(self, seq: int) -> Entry | None:
        """The entry of that number."""
        return self._last("seq = :seq", seq=seq)

    def head(self) -> Entry | None:
        """The last entry."""
        return self._once("head", lambda: self._last("seq > 0"))

    def last_charge(self, scope: Scope) -> Entry | None:
        """The last charge that counts in a scope; it states the scope's total."""
        if names := self._elsewhere(scope):
            return self._once(("charge", scope), lambda: self._last_of(scope, names))
        copied = {name: value for name in COPIED if (value := getattr(scope, name)) is not None}
        return self._once(("charge", scope), lambda: self._last(_wanted(copied), kind="charge", **copied))

    def _elsewhere(self, scope: Scope) -> list[str]:
        """Under which periods a window's charges stand, where its account was charged by another grain, too."""
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

    def charge_of(self, study: str, account: str, *, elsewhere: bool = False) -> Entry | None:
        """The last charge of a study to an account, or to any other; walks back until it finds one."""
        start = canonical_json([study]).decode()[:-1] + ","  # how the keys of its charges begin
        same = "<>" if elsewhere else "="
        wanted = f"kind = 'charge' AND account {same} :account AND substr(key, 1, length(:start)) = :start"
        return self._once((wanted, account, start), lambda: self._last(wanted, account=account, start=start))

    def of_kind(self, kind: str, **copied: str) -> list[Entry]:
        """Every entry of a kind, in order, such as the raises of an account."""
        return self._once(("kind", kind, *copied.items()), lambda: self._all(_wanted(copied), kind=kind, **copied))

    def acts(self, kind: str, name: str) -> list[Entry]:
        """Every entry of a kind whose key begins with a name, in order."""
        start = act_key(kind, name)[: -len("]}")] + ","
        return self._all("kind = :kind AND substr(key, 1, length(:start)) = :start", kind=kind, start=start)

    def charged_periods(self, account: str) -> list[str]:
        """The periods an account was charged for, by name."""
        return sorted(row[0] for row in self._rows(PERIODS, account=account))

    def count(self, kind: str | None = None) -> int:
        """How many entries there are, of a kind or at all."""
        counting = "SELECT count(*) FROM entry"
        rows = self._rows(counting) if kind is None else self._rows(f"{counting} WHERE kind = :kind", kind=kind)
        return int(rows[0][0])

    def after(self, seq: int, most: int) -> Sequence[tuple[Any, ...]]:
        """The rows of later entries, as they stand."""
        return self._rows("SELECT * FROM entry WHERE seq > :seq ORDER BY seq LIMIT :most", seq=seq, most=most)

    def append(self, kind: str, key: str, payload: Mapping[str, Any], release: bytes | None = None) -> Entry:
        """Write the next entry; only in an exclusive transaction."""
        entry = Entry.following(self.head(), kind=kind, key=key, payload=payload, release=release)
        self.restore(entry)
        return entry

    def restore(self, entry: Entry) -> None:
        """Write an entry as it stands; the database refuses one that does not follow the last."""
        record = entry.to_record() | {"payload": entry.text} | entry.copies
        raw_sql.at_once(self._connection, INSERT, record)
        self._seen.clear()

    def _last(self, wanted: str, **named: Any) -> Entry | None:
        rows = self._rows(f"SELECT * FROM entry WHERE {wanted} ORDER BY seq DESC LIMIT 1", **named)
        return _intact(rows[0]) if rows else None

    def _all(self, wanted: str, **named: Any) -> list[Entry]:
        return [_intact(row) for row in self._rows(f"SELECT * FROM entry WHERE {wanted} ORDER BY seq", **named)]

    def _rows(self, statement: str, **named: Any) -> Sequence[tuple[Any, ...]]:
        return raw_sql.at_once(self._connection, statement, named)

    def _once(self, question: Hashable, ask: Callable[[], T]) -> T:
        if question not in self._seen:
            self._seen[question] = ask()
        return self._seen[question]


def _wanted(copied: Mapping[str, str]) -> str:
    return " AND ".join(f"{name} = :{name}" for name in ("kind", *copied))


class Store:
    """A database that holds, or is to hold, the table."""

    def __init__(self, url: str, purpose: Literal["create", "write", "read"]) -> None:
        parsed = _parsed(url)
        self._dialect = DIALECTS[parsed.get_backend_name()]
        with plain_failures():
            if purpose == "read":
                self.engine = self._dialect.make_reader(parsed)
            else:
                self.engine = self._dialect.make_engine(parsed, create=purpose == "create")
            if purpose == "create":
                with self.disposed_on_failure():
                    self._dialect.prepare(self.engine)

    @contextmanager
    def disposed_on_failure(self) -> Generator[None]:
        """Let go of the database where opening it does not come to a good end."""
        try:
            yield
        except BaseException:
            self.engine.dispose()
            raise

    @contextmanager
    def exclusive(self) -> Generator[Page]:
        """The one lock: what is read under it is true until the commit at its end."""
        with plain_failures(), self._dialect.exclusive(self.engine) as connection:
            yield Page(connection)

    @contextmanager
    def founding(self) -> Generator[Page]:
        """Make the table and write its first entry, all or nothing; refused where a table stands."""
        with plain_failures(), self._dialect.founding(self.engine) as connection:
            if inspect(connection).has_table(ENTRY.name):
                raise StudyInvalid("cannot create the ledger: one stands there already. Use it as it is.")
            METADATA.create_all(connection)
            for statement in self._dialect.TRIGGERS:
                connection.exec_driver_sql(statement)
            yield Page(connection)

    @contextmanager
    def snapshot(self) -> Generator[Page]:
        """A consistent view for reading."""
        with plain_failures(), self._dialect.snapshot(self.engine) as connection:
            yield Page(connection)

    def has_table(self) -> bool:
        """Whether the table was ever made."""
        with plain_failures(), self.engine.connect() as connection:
            return inspect(connection).has_table(ENTRY.name)

    def require_table(self) -> None:
        """Refuse a database without the table."""
        if not self.has_table():
            raise LedgerMissing("cannot open the ledger: its table was never made. Run `dpbayes ledger create`.")

    def entries_after(self, seq: int) -> Iterator[Entry]:
        """Every later entry in order, as stored: a wrong hash is left for `verify` to name."""
        while True:
            with self.snapshot() as page:
                rows = page.after(seq, CHUNK)
            if not rows:
                return
            for row in rows:
                yield entry_of(row)
            seq = rows[-1][0]


def entry_of(row: Sequence[Any]) -> Entry:
    """The entry in a row, whatever its hash; its payload must be canonical, and its extra columns say the same."""
    payload = _parsed_payload(row)
    if canonical_json(payload).decode() != row[PAYLOAD]:
        raise _unreadable(row)
    return _entry(row, payload)


@lru_cache(maxsize=512)  # charges meet the same rows, text by text: their account, and the entries before
def _intact(row: tuple[Any, ...]) -> Entry:
    """The entry in a row whose hash is that of its text: then the text is what was written, and canonical."""
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


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError:
        parsed = None
    if parsed is None or parsed.get_backend_name() not in DIALECTS:
        raise StudyInvalid(
            "cannot open the ledger: its URL is neither sqlite nor postgresql. Correct DPBAYES_LEDGER_URL."
        )
    return parsed
