"""The ledger: a charge and its release are one entry, written together or not at all."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from types import TracebackType
from typing import Any, Literal, Self

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import DpbayesError, IntegrityFailure, StudyInvalid
from dpbayes_core.privacy.mechanisms import Mechanism
from dpbayes_core.privacy.noise import NoiseSource
from dpbayes_core.privacy.release import AnyRelease, Design
from storage.ledger.accounts import known_accounts, open_account, opened, states, with_raises
from storage.ledger.cap_document import AccountState
from storage.ledger.charging import (
    Answer,
    answers,
    charge_payload,
    closing_key,
    debits_of,
    drawn,
    matching,
    prefetch,
    refuse,
    refuse_relation,
)
from storage.ledger.entries import SCHEMA_VERSION, Entry, Stamp, act_key
from storage.ledger.homes import retirements
from storage.ledger.page import Page
from storage.ledger.periods import Period, overlapped
from storage.ledger.publishing import Publication, publish
from storage.ledger.refusal import Quote, quotes
from storage.ledger.request import AccountSpec, Request, decimal_text
from storage.ledger.store import Store

GENESIS = act_key("genesis")


class Ledger:
    """An open ledger. Every entry it returns is committed; callers anchor it before they publish anything of it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @classmethod
    def create(cls, url: str, stamp: Stamp, *, public_key: str | None = None) -> "Ledger":
        """Make the table with its first entry; refused where there is a ledger already."""
        store, payload = Store(url, "create"), {"public_key": public_key, "schema_version": SCHEMA_VERSION}
        with store.disposed_on_failure():
            with store.founding() as page:
                page.append("genesis", GENESIS, payload | stamp.to_record())
            return cls(store)

    @classmethod
    def open(cls, url: str, purpose: Literal["write", "read"] = "write") -> "Ledger":
        """Open an existing ledger; to read it, no write permission is needed."""
        store = Store(url, purpose)
        with store.disposed_on_failure():
            store.require_table()
            ledger = cls(store)
            _require_version(ledger.find(GENESIS))
            return ledger

    def dispose(self) -> None:
        """Close the connections to the database."""
        self._store.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.dispose()

    @property
    def head(self) -> Entry:
        """The last entry."""
        with self._store.snapshot() as page:
            last = page.head()
        if last is None:
            raise IntegrityFailure("cannot read the ledger: it is empty. Run `dpbayes ledger recover`.")
        return last

    @contextmanager
    def snapshot(self) -> Generator[Page]:
        """One consistent view, for several questions."""
        with self._store.snapshot() as page:
            yield page

    def find(self, key: str) -> Entry | None:
        """The entry of that key."""
        with self._store.snapshot() as page:
            return page.find(key)

    def entry_at(self, seq: int) -> Entry | None:
        """The entry of that number."""
        with self._store.snapshot() as page:
            return page.at(seq)

    def entries(self) -> Iterator[Entry]:
        """Every entry, in order."""
        return self._store.entries_after(0)

    def known(self, request: Request) -> Entry | None:
        """The charge under the request's name, if any; refused if it has another definition."""
        with self._store.snapshot() as page:
            entry = page.find(request.key)
            return None if entry is None else matching(page, entry, request)

    def stored(self, requests: Sequence[Request]) -> tuple[Entry | None, ...]:
        """The existing charges for one release at several holders; refused if only some exist but all are required."""
        with self._store.snapshot() as page:
            return answers(page, requests)

    def withdrawn(self, key: str) -> Entry | None:
        """The entry that withdrew a release, if one did."""
        return self.find(act_key("withdraw", key))

    def key_entry(self, public_key: str) -> Entry | None:
        """The entry that introduced a signing key, if one did."""
        return self.find(act_key("key", public_key))

    def retirement(self, public_key: str) -> Entry | None:
        """The entry that retired a signing key, if one did."""
        return next((each for each in self.of_kind("key") if each.payload.get("retires") == public_key), None)

    def of_kind(self, kind: str) -> list[Entry]:
        """Every entry of a kind in order, such as the withdrawals, the closings or the changes of the signing key."""
        with self._store.snapshot() as page:
            return page.of_kind(kind)

    def charges_of(self, study: str) -> list[Entry]:
        """Every charge of a study, in order."""
        with self._store.snapshot() as page:
            return page.charges_of(study)

    def retirements(self) -> dict[str, int]:
        """Retired key to the number of the last entry that it may sign."""
        return retirements([entry.to_record() for entry in self.of_kind("key")])

    def count(self, kind: str) -> int:
        """The number of entries of a kind, such as charges."""
        with self._store.snapshot() as page:
            return page.count(kind)

    def accounts(self) -> tuple[AccountState, ...]:
        """Every account, with what was spent of its caps."""
        with self._store.snapshot() as page:
            return tuple(states(page))

    def check(self, request: Request, mechanism: Mechanism, also: tuple[str, ...] = ()) -> None:
        """Refuse what `commit` would refuse, for this holder and then the others in `also`; writes nothing."""
        with self._store.snapshot() as page:
            prefetch(page, request)
            refuse(page, request, mechanism, also)

    def quote(self, request: Request, mechanism: Mechanism) -> tuple[Quote, ...]:
        """What the charge would do to every cap, and the largest epsilon that would fit; writes nothing."""
        with self._store.snapshot() as page:
            prefetch(page, request)
            return quotes(debits_of(page, request, mechanism), mechanism)

    def open_account(self, spec: AccountSpec, stamp: Stamp, studies: Sequence[str] = ()) -> Entry:
        """Open the account for these studies, or return its entry; refused if it was opened with other terms."""
        with self._store.exclusive() as page:
            return open_account(page, spec, stamp, studies)

    def commit(self, request: Request, design: Design, exact: Any, noise: NoiseSource, *, stamp: Stamp) -> Entry:
        """Charge and release, or neither; `exact` is the design's exact statistic."""
        return self.commit_all(request, design, {request.holder: exact}, noise, stamp=stamp)[0].entry

    def commit_all(
        self, request: Request, design: Design, exacts: Mapping[str | None, Any], noise: NoiseSource, *, stamp: Stamp
    ) -> tuple[Answer, ...]:
        """Charge and release at each of these holders, or at none; `exacts` are the exact statistics of ONE pass.

        It is one transaction, so a crash costs nothing and a retry returns the same entries. Releases that exist are
        returned unchanged; where people move, all of them must exist or none.
        """
        requests = [replace(request, holder=holder) for holder in exacts]
        # drawn before the lock, to keep it short; unless the insert succeeds, the noise is discarded unseen
        releases = [drawn(one, design, exacts[one.holder], noise) for one in requests]
        with self._store.exclusive() as page:
            stored = answers(page, requests)
            _refuse_together(page, [one for one, entry in zip(requests, stored, strict=True) if entry is None], design)
            return tuple(
                Answer(entry or _charge(page, one, design, release, noise=noise.identity, stamp=stamp), entry is None)
                for one, release, entry in zip(requests, releases, stored, strict=True)
            )

    def raise_cap(self, population: str, cap: str, limit: Decimal, *, reason: str, stamp: Stamp) -> Entry:
        """Raise a cap, by its name, for every later charge; a programme's cap is raised for all its accounts."""
        with self._store.exclusive() as page:
            account = _existing_account(page, population)
            current = next((known for known in account.caps if known.name == cap), None)
            if current is None:
                names = ", ".join(known.name for known in account.caps)
                raise StudyInvalid(f"cannot raise {cap}: {population} has no such cap. Its caps are {names}.")
            key = act_key("raise", current.programme or population, cap, decimal_text(limit))
            if limit == current.limit and (known := page.find(key)):
                return known
            if not (limit.is_finite() and limit > current.limit):
                raise StudyInvalid(f"cannot raise {cap}: it is {current.limit} now and only goes up. State more.")
            about = {
                "account": None if current.programme else population,
                "cap": cap,
                "limit": decimal_text(limit),
                "programme": current.programme,
            }
            return page.append("raise", key, _act_payload(about, reason, stamp))

    def close(self, population: str, period: str, *, reason: str, stamp: Stamp) -> Entry:
        """Refuse further charges for a period; one of a longer grain than the account's is closed window by window."""
        with self._store.exclusive() as page:
            windows = overlapped(period, _existing_account(page, population).grain)
            if len(windows) == 1:  # a day must not close its whole month
                Period.parse(period, _existing_account(page, population).grain)
            entry: Entry | None = None
            for window in windows:
                key, about = closing_key(population, window), {"account": population, "period": window}
                entry = page.find(key) or page.append("close", key, _act_payload(about, reason, stamp))
            assert entry is not None
            return entry

    def withdraw(self, key: str, *, reason: str, stamp: Stamp) -> Entry:
        """Mark a release as withdrawn; what it spent stays spent."""
        with self._store.exclusive() as page:
            charge = page.find(key)
            if charge is None or charge.kind != "charge":
                raise StudyInvalid("cannot withdraw the release: nothing was released under that name. Check it.")
            own = act_key("withdraw", key)
            about = {"account": charge.payload["account"], "period": charge.payload["period"], "withdraws": key}
            return page.find(own) or page.append("withdraw", own, _act_payload(about, reason, stamp))

    def note(self, text: str, stamp: Stamp, about: Mapping[str, str] | None = None) -> Entry:
        """Write a note; `about` names the study, account and period that it concerns, if any."""
        if not text.strip():
            raise StudyInvalid("cannot write the note: it is empty. Say what happened.")
        with self._store.exclusive() as page:
            if account := (about or {}).get("account"):
                _existing_account(page, account, "write the note")
            last = page.head()
            key = act_key("note", str(1 if last is None else last.seq + 1))
            return page.append("note", key, _act_payload(about or {}, text, stamp))

    def publish(
        self, population: str, one: Publication, adopted: Sequence[Publication], *, stamp: Stamp
    ) -> tuple[Entry, ...]:
        """Record a posterior's crate, and before a home's first one its earlier crates; safe to repeat."""
        with self._store.exclusive() as page:
            return publish(page, population, one, adopted, stamp)

    def rotate_key(self, public_key: str, *, retires: str, reason: str, stamp: Stamp) -> Entry:
        """Record the public key that signs from now on, and the one that signs nothing after this entry."""
        with self._store.exclusive() as page:
            key = act_key("key", public_key)
            about = {"public_key": public_key, "retires": retires}
            return page.find(key) or page.append("key", key, _act_payload(about, reason, stamp))


def _require_version(first: Entry | None) -> None:
    if first is None:
        raise IntegrityFailure("cannot open the ledger: its first entry is missing. Run `dpbayes ledger recover`.")
    if first.payload["schema_version"] > SCHEMA_VERSION:
        raise DpbayesError("cannot open the ledger: a later dpbayes wrote it. Update dpbayes.")


def _existing_account(page: Page, population: str, wish: str = "change an account") -> AccountSpec:
    known = opened(page, population)
    if known is None:
        raise StudyInvalid(
            f"cannot {wish}: {population} was never opened in this ledger ({known_accounts(page)}). Correct "
            "the study's population."
        )
    return with_raises(page, known)


def _act_payload(about: Mapping[str, Any], reason: str, stamp: Stamp) -> dict[str, Any]:
    if not reason.strip():
        raise StudyInvalid("cannot write to the ledger: no reason is given. Give --reason.")
    return {**about, "reason": reason} | stamp.to_record()


def _refuse_together(page: Page, due: Sequence[Request], design: Design) -> None:
    if len(due) > 1:  # a single one is checked when it is charged
        refuse(page, due[0], design.mechanism, tuple(one.holder for one in due[1:] if one.holder is not None))


def _charge(page: Page, request: Request, design: Design, release: AnyRelease, *, noise: str, stamp: Stamp) -> Entry:
    found = refuse(page, request, design.mechanism)
    payload = charge_payload(request, design.mechanism, found, digest=release.digest, noise=noise, stamp=stamp)
    # the opened account may state holders whose people move, where the study states none
    refuse_relation(request, design, payload["neighbours"])
    return page.append("charge", request.key, payload, canonical_json(release.to_record()))
