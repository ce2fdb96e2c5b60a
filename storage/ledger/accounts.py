"""Accounts: who is protected and up to what; opened once, never restated, raised only on the record."""

from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache

from dpbayes_core.errors import StudyInvalid
from storage.ledger.cap_document import AccountState, CapState, limit_text
from storage.ledger.caps import (
    NOTHING,
    Scope,
    Tally,
    total_in,
    with_limits,
)
from storage.ledger.entries import Entry, act_key
from storage.ledger.periods import overlapped
from storage.ledger.request import AccountSpec, CapSpec
from storage.ledger.store import Page

FIXED = {
    "unit": "unit of privacy",
    "neighbours": "neighbour relation",
    "people": "declaration of people",
}  # a release's grain and its row bound are its own: the account's grain is that of its windows


def account_key(population: str) -> str:
    """The key of the entry that opens an account."""
    return act_key("account", population)


def opened(page: Page, population: str) -> AccountSpec | None:
    """The account as it was opened."""
    entry = page.find(account_key(population))
    return None if entry is None else spec_of(entry)


@lru_cache(maxsize=256)  # every charge asks; an entry never changes
def spec_of(entry: Entry) -> AccountSpec:
    """The account as an entry opened it."""
    return AccountSpec.from_record(entry.payload["spec"])


def raised_limits(page: Page, spec: AccountSpec) -> dict[str, Decimal]:
    """The limits that stand above those the account was opened with, by cap name; the last raise holds."""
    raises = page.of_kind("raise", account=spec.population)
    if spec.programme is not None:
        raises += page.of_kind("raise", programme=spec.programme)
    return {entry.payload["cap"]: Decimal(entry.payload["limit"]) for entry in sorted(raises, key=lambda e: e.seq)}


def standing(page: Page, spec: AccountSpec) -> AccountSpec:
    """The account with its caps as they stand now."""
    return with_limits(spec, raised_limits(page, spec))


def admit(page: Page, stated: AccountSpec) -> AccountSpec | None:
    """The account that pays, caps as they stand now; None where it has to be opened first; refused where it differs."""
    if (known := opened(page, stated.population)) is not None:
        now = standing(page, known)
        _refuse_differences(stated, known, now)
        return now
    _refuse_impossible(stated)
    if stated.programme is not None:
        _refuse_other_programme(page, stated)
    return None


def _refuse_differences(stated: AccountSpec, known: AccountSpec, now: AccountSpec) -> None:
    if stated == known:
        return
    named = [words for name, words in FIXED.items() if getattr(stated, name) != getattr(known, name)]
    opened_caps, current = ({cap.name: cap for cap in spec.caps} for spec in (known, now))
    asked = {cap.name: cap for cap in stated.caps}
    for name in sorted(asked.keys() | opened_caps.keys()):
        if asked.get(name) not in (opened_caps.get(name), current.get(name)):
            standing = current.get(name)
            named.append(f"{name} cap" + (f" ({limit_text(standing)} stands)" if standing is not None else ""))
    if stated.holders is not None and not _same_split(stated, known):
        named.append("split over holders")
    if len(asked) != len(stated.caps):
        named.append("list of caps, without any twice")
    if named:
        raise StudyInvalid(
            f"cannot charge the account {stated.population}: it was opened with another {' and '.join(named)}. "
            "State the same, or record a raised cap with `dpbayes ledger raise`."
        )


def _same_split(stated: AccountSpec, known: AccountSpec) -> bool:
    """A second split of the same people would count a person in two places as if they were two people."""
    return stated.holders == known.holders or stated.membership == known.membership == "undeclared"


def _refuse_impossible(spec: AccountSpec) -> None:
    faults: list[str] = []
    if not spec.caps:
        faults.append("it has no cap")
    if len({cap.window for cap in spec.caps}) != len(spec.caps):
        faults.append("it has two caps of one window")
    if spec.holders is not None and not (0 < len(spec.holders.names) == len(set(spec.holders.names))):
        faults.append("its holders are none, or one is named twice")
    for cap in spec.caps:
        if not (cap.limit.is_finite() and cap.limit > 0):
            faults.append(f"the {cap.name} cap is not positive")
        if (cap.delta is not None) != (cap.measure == "epsilon-delta") or not 0 < (cap.delta or Decimal("0.5")) < 1:
            faults.append(f"the {cap.name} cap needs a delta between 0 and 1, with epsilon only")
        if (cap.programme is not None) != (cap.window == "programme"):
            faults.append(f"the {cap.name} cap needs a programme's name, on a programme window only")
    if faults:
        raise StudyInvalid(f"cannot open the account {spec.population}: {' and '.join(faults)}. Correct its caps.")


def _refuse_other_programme(page: Page, stated: AccountSpec) -> None:
    """A programme is one promise over several populations: its limit and its neighbour relation must be one, too."""
    others = page.of_kind("account", programme=str(stated.programme))
    if not others:
        return
    first = spec_of(others[0])
    name, caps = f"programme {stated.programme}", (_programme_cap(first), _programme_cap(standing(page, first)))
    if _programme_cap(stated) not in caps:
        raise StudyInvalid(
            f"cannot open the account {stated.population}: {name} was opened with another cap. State the same one."
        )
    if stated.neighbours != first.neighbours:
        raise StudyInvalid(
            f"cannot open the account {stated.population}: {name} counts {first.neighbours} neighbours. Leave the "
            "programme, or state the same."
        )


def _programme_cap(spec: AccountSpec) -> CapSpec:
    return next(cap for cap in spec.caps if cap.programme)


def total_of(page: Page, scope: Scope) -> Tally:
    """Everything charged in a scope: what its last charge says."""
    last = page.last_charge(scope)
    return NOTHING if last is None else total_in(last.payload, scope)


def state_of(page: Page, entry: Entry) -> AccountState:
    """The account that an entry opened, as it stands."""
    spec = standing(page, spec_of(entry))
    charged = page.charged_periods(spec.population)
    periods = sorted({window for name in charged for window in overlapped(name, spec.grain)})
    caps: list[CapState] = []
    for cap in spec.caps:
        account = None if cap.programme else spec.population
        for period in (periods or [None]) if cap.window == "per-period" else [None]:
            scope = Scope(window=cap.window, account=account, period=period, programme=cap.programme)
            empty = cap.window == "per-period" and period is None
            caps.append(CapState(cap, period, NOTHING if empty else total_of(page, scope)))
    return AccountState(spec, tuple(caps))


def states(page: Page) -> Sequence[AccountState]:
    """Every account as it stands."""
    return [state_of(page, entry) for entry in page.of_kind("account")]
