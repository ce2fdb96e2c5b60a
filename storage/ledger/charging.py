"""What a charge writes: everything an auditor needs to price it again."""

from typing import Any

from dpbayes_core.accounting import Cost
from dpbayes_core.errors import RequestChanged, StudyInvalid
from dpbayes_core.mechanisms import Mechanism
from storage.ledger.accounts import admit, standing, total_of
from storage.ledger.caps import CONVERSION, Debit, Total, debits
from storage.ledger.entries import Entry, Stamp, act_key
from storage.ledger.refusal import PeriodClosed, refusal, up
from storage.ledger.request import Request
from storage.ledger.store import Page
from storage.study.periods import Period


def matching(known: Entry, request: Request) -> Entry:
    """The stored answer, if it answers the same question."""
    if (known.payload["request"], known.payload["account"]) != (request.hash, request.account.population):
        raise RequestChanged(
            f"cannot release {request.release} of {request.period} again: what is stored under revision "
            f"{request.revision} was defined otherwise. Restore the study, or give the next --revision and --reason."
        )
    return known


def closing_key(population: str, period: str) -> str:
    """The key of the entry that closes a period."""
    return act_key("close", population, period)


def debits_of(page: Page, request: Request, mechanism: Mechanism) -> tuple[Debit, ...]:
    """What the charge would do to every scope; the caps as they stand, or as an unopened account states them."""
    account = admit(page, request.account) or standing(page, request.account)
    return debits(account, request.period, mechanism.cost(), lambda scope: total_of(page, scope))


def refuse(page: Page, request: Request, mechanism: Mechanism) -> tuple[Debit, ...]:
    """The debits of a charge that may be made; raises where it may not."""
    found = debits_of(page, request, mechanism)
    _refuse_shape(page, request)
    if page.find(closing_key(request.account.population, request.period)):
        raise PeriodClosed(
            f"cannot charge {request.release} of {request.period} to {request.account.population}: the period was "
            "closed. Release another period."
        )
    if exceeded := refusal(request, mechanism, found):
        raise exceeded
    return found


def _refuse_shape(page: Page, request: Request) -> None:
    Period.parse(request.period, request.account.grain)
    name = f"cannot charge {request.release} of {request.period}, revision {request.revision}"
    if request.revision < 1:
        raise StudyInvalid(f"{name}: revisions are counted from 1. Ask for a later one.")
    if request.supersedes is not None and not (request.reason or "").strip():
        raise StudyInvalid(f"{name}: a revision needs its reason on the record. Give --reason.")
    if request.supersedes is not None and page.find(request.supersedes) is None:
        raise StudyInvalid(f"{name}: there is no revision before it to supersede. Ask for that one first.")


def readable_cost(cost: Cost) -> dict[str, Any]:
    """A cost in exact units, and for people."""
    readable = {"epsilon": None if cost.epsilon is None else up(cost.epsilon), "rho": up(cost.rho)}
    return Total(cost.epsilon, cost.rho).to_record() | {"readable": readable}


def charge_payload(
    request: Request, mechanism: Mechanism, found: tuple[Debit, ...], *, digest: str, noise: str, stamp: Stamp
) -> dict[str, Any]:
    """The public record of one charge; `digest` names the noisy payload, `noise` what made the noise."""
    account = request.account
    return {
        "account": account.population,
        "conversion": CONVERSION,
        "cost": readable_cost(mechanism.cost()),
        "debits": [debit.to_record() for debit in found],
        "definition": dict(request.definition),
        "digest": digest,
        "holder": request.holder,
        "max_rows_per_unit": account.max_rows_per_unit,
        "mechanism": mechanism.to_record(),
        "neighbours": account.neighbours,
        "noise": noise,
        "period": request.period,
        "programme": account.programme,
        "reason": request.reason,
        "release": request.release,
        "request": request.hash,
        "revision": request.revision,
        "study": request.study,
        "supersedes": request.supersedes,
        "unit": account.unit,
    } | stamp.to_record()
