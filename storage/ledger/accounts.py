"""Accounts: a population, its privacy unit and its caps, as an entry opened them and later entries raised caps."""

from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache

from dpbayes_core.errors import AccountMissing, StudyInvalid
from storage.ledger.cap_document import AccountState, CapState, limit_text
from storage.ledger.caps import Scope, total_in, with_limits
from storage.ledger.entries import Entry, Stamp, act_key
from storage.ledger.exposure import NOTHING, Tally
from storage.ledger.page import Page
from storage.ledger.periods import overlapped
from storage.ledger.request import AccountSpec, CapSpec, Request

FIXED = {
    "unit": "unit of privacy",
    "neighbours": "neighbour relation",
    "people": "declaration of people",
}  # grain and row bound may differ between studies: the account's grain is that of its per-period windows

_SHOWN = 5  # accounts named in a message


def account_key(population: str) -> str:
    """The key of the entry that opens an account."""
    return act_key("account", population)


def opened(page: Page, population: str) -> AccountSpec | None:
    """The account as it was opened, if it was."""
    entry = page.find(account_key(population))
    return None if entry is None else spec_of(entry)


@lru_cache(maxsize=256)  # every charge needs it; an entry never changes
def spec_of(entry: Entry) -> AccountSpec:
    """The account that an entry opened."""
    return AccountSpec.from_record(entry.payload["spec"])


def raised_limits(page: Page, spec: AccountSpec) -> dict[str, Decimal]:
    """Cap name to its limit after the last raise, for the caps raised since the account was opened."""
    raises = page.of_kind("raise", account=spec.population)
    if spec.programme is not None:
        raises += page.of_kind("raise", programme=spec.programme)
    return {entry.payload["cap"]: Decimal(entry.payload["limit"]) for entry in sorted(raises, key=lambda e: e.seq)}


def with_raises(page: Page, spec: AccountSpec) -> AccountSpec:
    """The account with its raised caps."""
    return with_limits(spec, raised_limits(page, spec))


def admit(page: Page, stated: AccountSpec) -> AccountSpec | None:
    """The opened account with its raised caps, None if it is not open; refused if the stated terms differ."""
    if (known := opened(page, stated.population)) is not None:
        now = with_raises(page, known)
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
    stated_caps = {cap.name: cap for cap in stated.caps}
    for name in sorted(stated_caps.keys() | opened_caps.keys()):
        if stated_caps.get(name) not in (opened_caps.get(name), current.get(name)):
            known_cap = current.get(name)
            named.append(f"{name} cap" + (f" ({limit_text(known_cap)} stands)" if known_cap is not None else ""))
    if stated.holders is not None and not _same_split(stated, known):
        named.append("split over holders")
    if len(stated_caps) != len(stated.caps):
        named.append("list of caps, without any twice")
    if named:
        raise StudyInvalid(
            f"cannot charge the account {stated.population}: it was opened with another {' and '.join(named)}. "
            "State the same, or record a raised cap with `dpbayes ledger raise`."
        )


def _same_split(stated: AccountSpec, known: AccountSpec) -> bool:
    """Whether both split the people over holders alike: under different splits, one person would count as two."""
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
    """Refuse a cap or neighbour relation that differs from those of the programme's other accounts."""
    others = page.of_kind("account", programme=str(stated.programme))
    if not others:
        return
    first = spec_of(others[0])
    name, caps = f"programme {stated.programme}", (_programme_cap(first), _programme_cap(with_raises(page, first)))
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


def payer(page: Page, request: Request) -> AccountSpec:
    """The open account to charge, with its raised caps; refused if there is none, or the study belongs to another."""
    stated = request.account
    account = admit(page, stated)
    refuse_other_population(page, request.study, stated.population)
    if account is None:
        raise AccountMissing(
            f"cannot release {request.name}: the population {stated.population} has no account in this ledger "
            f"({known_accounts(page)}). Correct the study file, or open an account with `dpbayes ledger create STUDY`."
        )
    return account


def open_account(page: Page, spec: AccountSpec, stamp: Stamp, studies: Sequence[str] = ()) -> Entry:
    """Open the account for these studies, or return its entry; refused if terms differ or a study has another one."""
    known = admit(page, spec)
    for study in studies:
        refuse_other_population(page, study, spec.population)
    key = account_key(spec.population)
    if known is None:
        payload = {"account": spec.population, "programme": spec.programme, "spec": spec.to_record()}
        named = {"studies": sorted(set(studies))} if studies else {}
        return page.append("account", key, payload | named | stamp.to_record())
    found = page.find(key)
    assert found is not None
    return found


def refuse_other_population(page: Page, study: str, population: str) -> None:
    """Refuse a study that the ledger knows under another population and never under this one."""
    own = page.find(account_key(population))
    if own is not None and study in own.payload.get("studies", ()):
        return
    last = page.last_charge(Scope(window="lifetime", account=population))
    if last is not None and (last.payload["study"] == study or page.charge_of(study, population)):
        return  # the last charge is prefetched, so the first condition needs no query
    other = page.charge_of(study, population, other_account=True)
    accounts = page.of_kind("account")
    stated = next((one.payload["account"] for one in accounts if study in one.payload.get("studies", ())), None)
    known = stated if other is None else other.payload["account"]
    if known is not None:
        raise StudyInvalid(
            f"cannot use the study {study} with the population {population}: the ledger knows it under the "
            f"population {known}. State that one, or give the study a new name."
        )


def account_names(page: Page) -> tuple[str, ...]:
    """The populations that have an account, sorted."""
    return tuple(sorted(entry.payload["account"] for entry in page.of_kind("account")))


def known_accounts(page: Page) -> str:
    """Which accounts the ledger has, in words."""
    names = account_names(page)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"it has accounts of {', '.join(names[:_SHOWN])}{more}" if names else "it has no account yet"


def total_of(page: Page, scope: Scope) -> Tally:
    """The total of all charges in a scope, as the last of them records it."""
    last = page.last_charge(scope)
    return NOTHING if last is None else total_in(last.payload, scope)


def state_of(page: Page, entry: Entry) -> AccountState:
    """The account that an entry opened, with what was spent of each cap."""
    spec = with_raises(page, spec_of(entry))
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
    """Every account, with what was spent of each cap."""
    return [state_of(page, entry) for entry in page.of_kind("account")]
