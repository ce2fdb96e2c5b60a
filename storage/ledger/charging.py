"""What a charge writes: everything an auditor needs to price it again."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from dpbayes_core.errors import RequestChanged, StudyInvalid
from dpbayes_core.privacy.accounting import Cost
from dpbayes_core.privacy.mechanisms import Mechanism
from dpbayes_core.privacy.release import AnyRelease
from dpbayes_core.regression.release import Release
from storage.ledger.accounts import account_key, opened, total_of
from storage.ledger.caps import CONVERSION, Debit, Scope, Total, debits
from storage.ledger.entries import Entry, Stamp, act_key
from storage.ledger.exposure import COUNTING
from storage.ledger.opening import payer
from storage.ledger.periods import Period
from storage.ledger.refusal import PeriodClosed, refusal, up
from storage.ledger.request import Membership, Request, priced_under
from storage.ledger.store import Page


def matching(page: Page, known: Entry, request: Request) -> Entry:
    """The stored answer, if it answers the same question; a slip in the population is named first."""
    if known.payload["account"] != request.account.population:
        payer(page, request)
    if (known.payload["request"], known.payload["account"]) != (request.hash, request.account.population):
        raise RequestChanged(
            f"cannot release {request.name} again: what is stored under revision "
            f"{request.revision} was defined otherwise. Restore the study, or give the next --revision and --reason."
        )
    return known


@lru_cache(maxsize=256)
def covers_rows(release: AnyRelease, rows: int) -> bool:
    """Whether its noise is made for persons of so many rows."""
    return release.max_rows_per_unit is None or release.max_rows_per_unit >= rows


def closing_key(population: str, period: str) -> str:
    """The key of the entry that closes a period."""
    return act_key("close", population, period)


def look_ahead(page: Page, request: Request) -> None:
    """See at once everything that decides whether and how the request is charged."""
    account = request.account
    keys = [request.key, account_key(account.population), closing_key(account.population, request.period)]
    scopes = [
        Scope(window="lifetime", account=account.population),
        Scope(window="per-period", account=account.population, period=request.period),
    ]  # of an account that counts by the study's grain; another one's windows are asked for one by one
    if account.programme is not None:
        scopes.append(Scope(window="programme", programme=account.programme))
    page.look_ahead([*keys, *filter(None, [request.supersedes])], scopes)


def debits_of(page: Page, request: Request, mechanism: Mechanism, also: tuple[str, ...] = ()) -> tuple[Debit, ...]:
    """What the charge would do to every scope, under the caps of the open account as they stand."""
    account = payer(page, request)
    known = account.holders
    if known is not None and not {request.holder, *also} <= {None, *known.names}:
        raise StudyInvalid(
            f"cannot charge {request.name}: {account.population} was opened with other holders. They are "
            f"{', '.join(known.names)}."
        )
    return debits(
        account,
        request.period,
        _price(mechanism),
        lambda scope: total_of(page, scope),
        holder=request.holder,
        also=also,
    )


@lru_cache(maxsize=64)  # asked for by the early check and again under the lock
def _price(mechanism: Mechanism) -> Cost:
    return mechanism.cost()


def refuse(page: Page, request: Request, mechanism: Mechanism, also: tuple[str, ...] = ()) -> tuple[Debit, ...]:
    """The debits of a charge that may be made, and after it to other holders; raises where it may not."""
    _refuse_shape(page, request)
    found = debits_of(page, request, mechanism, also)
    windows = [debit.scope.period for debit in found if debit.scope.period is not None]
    if any(page.find(closing_key(request.account.population, window)) for window in windows):
        raise PeriodClosed(
            f"cannot charge {request.name} to {request.account.population}: the period was closed. "
            "Release another period."
        )
    if exceeded := refusal(request, mechanism, found):
        raise exceeded
    return found


def _refuse_shape(page: Page, request: Request) -> None:
    Period.parse(request.period, request.account.grain)
    name = f"cannot charge {request.name}, revision {request.revision}"
    if request.revision < 1:
        raise StudyInvalid(f"{name}: revisions are counted from 1. Ask for a later one.")
    if request.supersedes is not None and not (request.reason or "").strip():
        raise StudyInvalid(f"{name}: a revision needs its reason on the record. Give --reason.")
    if request.supersedes is not None and not _stands_before(page, request):
        raise StudyInvalid(f"{name}: there is no revision before it to supersede. Ask for that one first.")


def _stands_before(page: Page, request: Request) -> bool:
    """Whether there is a revision before it; one that stands at some holders only, where people move, is one."""
    if request.supersedes is not None and page.find(request.supersedes) is not None:
        return True
    account = opened(page, request.account.population)
    together = () if account is None or request.holder is None else account.released_together
    return any(page.find(request.superseded_at(holder)) is not None for holder in together)


def counting(membership: Membership, holder: str | None) -> dict[str, str]:
    """The rule by which charges to holders add up, where it says more than that they do."""
    return {"counting": COUNTING[membership]} if holder is not None or membership != "undeclared" else {}


@lru_cache(maxsize=64)
def readable_cost(cost: Cost) -> dict[str, Any]:
    """A cost in exact units, and for people."""
    readable = {"epsilon": None if cost.epsilon is None else up(cost.epsilon), "rho": up(cost.rho)}
    return Total(cost.epsilon, cost.rho).to_record() | {"readable": readable}


def is_as_defined(definition: Mapping[str, Any], release: AnyRelease) -> bool:
    """Whether a regression's release has the columns, the rows that count and the steps that its definition states.

    A definition that hides how many rows count, and a release that publishes it, would both be sound alone.
    """
    if not isinstance(release, Release) or definition.get("kind") != release.kind:
        return True
    schema = release.schema
    due = {
        "cases": schema.cases,
        "covariates": [column.name for column in schema.covariates],
        "intercept": schema.intercept,
        "response": schema.response.name,
    }
    fourth = "fourth" if release.higher and release.residuals is None else None
    steps = (definition.get("moments") == fourth, ("robust" in definition) == (release.residuals is not None))
    stated = {**due, "cases": "all", **definition}  # the first definitions stated less
    return all(stated[name] == value for name, value in due.items()) and all(steps)


def stated_epsilon(charge: Mapping[str, Any]) -> float | None:
    """The epsilon of a charge: what all its parts spend where that is pure, else what a gaussian release was asked for.

    A mechanism of several parts has in `epsilon` that of its first one.
    """
    mechanism, spent = charge["mechanism"], charge["cost"]["readable"]["epsilon"]
    return float(spent) if "beside" in mechanism and spent is not None else mechanism.get("epsilon")


def charge_payload(
    request: Request, mechanism: Mechanism, found: tuple[Debit, ...], *, digest: str, noise: str, stamp: Stamp
) -> dict[str, Any]:
    """The public record of one charge; `digest` names the noisy payload, `noise` what made the noise."""
    account, membership = request.account, found[0].membership
    return {
        "account": account.population,
        "conversion": CONVERSION,
        "cost": readable_cost(found[0].cost),
        "debits": [debit.to_record() for debit in found],
        "definition": dict(request.definition),
        "digest": digest,
        "holder": request.holder,
        "max_rows_per_unit": account.max_rows_per_unit,
        "mechanism": mechanism.to_record(),
        "neighbours": priced_under(account.neighbours, membership, request.holder),
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
        **counting(membership, request.holder),
        **stamp.to_record(),
    }
