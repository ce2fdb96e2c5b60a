"""Opening an account is an act: a charge opens none, and a study stays with the people it is known for."""

from collections.abc import Sequence

from dpbayes_core.errors import AccountMissing, StudyInvalid
from storage.ledger.accounts import account_key, admit
from storage.ledger.caps import Scope
from storage.ledger.entries import Entry, Stamp
from storage.ledger.request import AccountSpec, Request
from storage.ledger.store import Page

_SHOWN = 5


def payer(page: Page, request: Request) -> AccountSpec:
    """The open account that pays, caps as they stand now; refused where there is none, or the study is another's."""
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
    """Open the account for these studies, or find it as it stands; refused if it, or a study of them, is another's."""
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
    """Refuse a study whose name the ledger knows under another population, and not under this one."""
    own = page.find(account_key(population))
    if own is not None and study in own.payload.get("studies", ()):
        return
    last = page.last_charge(Scope(window="lifetime", account=population))
    if last is not None and (last.payload["study"] == study or page.charge_of(study, population)):
        return  # seen with all else that decides a charge, unless studies take turns
    other = page.charge_of(study, population, elsewhere=True)
    accounts = page.of_kind("account")
    opened = next((one.payload["account"] for one in accounts if study in one.payload.get("studies", ())), None)
    known = opened if other is None else other.payload["account"]
    if known is not None:
        raise StudyInvalid(
            f"cannot use the study {study} with the population {population}: the ledger knows it under the "
            f"population {known}. State that one, or give the study a new name."
        )


def account_names(page: Page) -> tuple[str, ...]:
    """The populations that have an account, by name."""
    return tuple(sorted(entry.payload["account"] for entry in page.of_kind("account")))


def known_accounts(page: Page) -> str:
    """Which accounts the ledger has, in few words."""
    names = account_names(page)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"it has accounts of {', '.join(names[:_SHOWN])}{more}" if names else "it has no account yet"
