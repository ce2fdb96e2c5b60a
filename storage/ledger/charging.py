"""One charge: find an earlier one of the same name, check every cap, draw the noisy release, make the record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dpbayes_core.errors import DpbayesError, RequestChanged, StudyInvalid
from dpbayes_core.privacy.accounting import Cost
from dpbayes_core.privacy.mechanisms import Mechanism
from dpbayes_core.privacy.noise import NoiseSource
from dpbayes_core.privacy.release import AnyRelease, Design
from dpbayes_core.regression.release import Release
from storage.ledger.accounts import account_key, opened, payer, total_of
from storage.ledger.caps import CONVERSION, Debit, Scope, debits
from storage.ledger.entries import Entry, Stamp, act_key
from storage.ledger.exposure import COUNTING, Total
from storage.ledger.page import Page
from storage.ledger.periods import Period
from storage.ledger.refusal import PeriodClosed, refusal, up
from storage.ledger.request import Membership, Request, priced_under


@dataclass(frozen=True)
class Answer:
    """The entry under a request's name, and whether this commit wrote it."""

    entry: Entry
    made: bool


def answers(page: Page, requests: Sequence[Request]) -> tuple[Entry | None, ...]:
    """The existing charges for one release at these holders; where people move, refused unless it is all or none.

    The rows of a person who moves are bounded over all holders in one pass over the table. A release combined from
    two passes could contain more rows of that person than the charge covers.
    """
    for request in requests:
        prefetch(page, request)
    found = [page.find(request.key) for request in requests]
    stored = tuple(
        None if entry is None else matching(page, entry, request)
        for request, entry in zip(requests, found, strict=True)
    )
    together = _released_together(page, requests)
    if together and {request.holder for request in requests} != set(together):
        raise StudyInvalid(
            f"cannot release {requests[0].name}: where people move, all holders are released together. "
            f"Ask for {', '.join(together)}."
        )
    if together and len({entry is None for entry in stored}) > 1:
        made = ", ".join(entry.payload["holder"] for entry in stored if entry is not None)
        raise StudyInvalid(
            f"cannot complete {requests[0].release} of {requests[0].period}, released at {made} only: where people "
            "move, all holders are released together. Give the next --revision and --reason."
        )
    return stored


def _released_together(page: Page, requests: Sequence[Request]) -> tuple[str, ...]:
    """The holders at which the account requires this release to be made together; empty if each may be by itself."""
    if any(request.holder is None for request in requests):
        return ()
    account = requests[0].account
    return (opened(page, account.population) or account).released_together


def matching(page: Page, known: Entry, request: Request) -> Entry:
    """The stored charge, refused unless it has the request's definition; another population is reported first."""
    if known.payload["account"] != request.account.population:
        payer(page, request)
    if (known.payload["request"], known.payload["account"]) != (request.hash, request.account.population):
        raise RequestChanged(
            f"cannot release {request.name} again: what is stored under revision "
            f"{request.revision} was defined otherwise. Restore the study, or give the next --revision and --reason."
        )
    return known


def closing_key(population: str, period: str) -> str:
    """The key of the entry that closes a period."""
    return act_key("close", population, period)


def prefetch(page: Page, request: Request) -> None:
    """Read in one statement everything that decides whether and how the request is charged."""
    account = request.account
    keys = [request.key, account_key(account.population), closing_key(account.population, request.period)]
    scopes = [
        Scope(window="lifetime", account=account.population),
        Scope(window="per-period", account=account.population, period=request.period),
    ]  # for an account with the study's grain; windows of another grain are queried one by one
    if account.programme is not None:
        scopes.append(Scope(window="programme", programme=account.programme))
    page.prefetch([*keys, *filter(None, [request.supersedes])], scopes)


def debits_of(page: Page, request: Request, mechanism: Mechanism, also: tuple[str, ...] = ()) -> tuple[Debit, ...]:
    """What the charge adds to every scope, under the open account's caps with their raises."""
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


@lru_cache(maxsize=64)  # computed before the pass and again under the lock
def _price(mechanism: Mechanism) -> Cost:
    return mechanism.cost()


def refuse(page: Page, request: Request, mechanism: Mechanism, also: tuple[str, ...] = ()) -> tuple[Debit, ...]:
    """The debits of a charge, and of the same one to the holders in `also`; raises if it may not be made."""
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
    if request.supersedes is not None and not _has_revision_before(page, request):
        raise StudyInvalid(f"{name}: there is no revision before it to supersede. Ask for that one first.")


def _has_revision_before(page: Page, request: Request) -> bool:
    """Whether the release has an earlier revision; where people move, one at any holder is enough."""
    if request.supersedes is not None and page.find(request.supersedes) is not None:
        return True
    account = opened(page, request.account.population)
    together = () if account is None or request.holder is None else account.released_together
    return any(page.find(request.superseded_at(holder)) is not None for holder in together)


def drawn(request: Request, design: Design, exact: Any, noise: NoiseSource) -> AnyRelease:
    """Draw a noisy release; refused if the noise source is for tests, or the noise too small for the sensitivity."""
    if not noise.trusted:
        raise DpbayesError(
            f"cannot charge {request.release}: its noise source is for tests and protects nobody. Use OpenDP's noise."
        )
    account = request.account
    refuse_relation(request, design, priced_under(account.neighbours, account.membership, request.holder))
    release = design.release(noise, exact)
    sound = release.mechanism == design.mechanism and release.neighbours == design.neighbours and release.protected
    if not (sound and covers_rows(release, account.max_rows_per_unit)):
        raise DpbayesError(
            f"cannot charge {request.release}: its noise is made for less than its statistics can move. "
            "Calibrate it to the schema's sensitivity; nothing was spent."
        )
    if not is_as_defined(request.definition, release):
        raise DpbayesError(
            f"cannot charge {request.release}: it is of other columns, other rows or other steps than its request "
            "states. Nothing was spent; report this, it is a fault of the program."
        )
    return release


def refuse_relation(request: Request, design: Design, neighbours: str) -> None:
    """Refuse noise calibrated to another neighbour relation than `neighbours`, the account's."""
    if neighbours != design.neighbours:
        raise StudyInvalid(
            f"cannot charge {request.release}: its noise is made for {design.neighbours} neighbours, and its account "
            f"is kept for {neighbours}. State {neighbours} neighbours, and holders whose people do not move."
        )


@lru_cache(maxsize=256)
def covers_rows(release: AnyRelease, rows: int) -> bool:
    """Whether the noise is calibrated to so many rows of one person."""
    return release.max_rows_per_unit is None or release.max_rows_per_unit >= rows


def is_as_defined(definition: Mapping[str, Any], release: AnyRelease) -> bool:
    """Whether a regression's release has the columns, case selection and steps that its definition states.

    Without this check, a release could publish a row count that its definition declares secret.
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
    stated = {**due, "cases": "all", **definition}  # definitions of the first version stated less
    return all(stated[name] == value for name, value in due.items()) and all(steps)


def counting(membership: Membership, holder: str | None) -> dict[str, str]:
    """The rule by which charges to holders add up, as a charge records it; empty if it needs none."""
    return {"counting": COUNTING[membership]} if holder is not None or membership != "undeclared" else {}


@lru_cache(maxsize=64)
def readable_cost(cost: Cost) -> dict[str, Any]:
    """A cost in exact units and in readable decimals."""
    readable = {"epsilon": None if cost.epsilon is None else up(cost.epsilon), "rho": up(cost.rho)}
    return Total(cost.epsilon, cost.rho).to_record() | {"readable": readable}


def charge_payload(
    request: Request, mechanism: Mechanism, found: tuple[Debit, ...], *, digest: str, noise: str, stamp: Stamp
) -> dict[str, Any]:
    """The public record of one charge; `digest` is that of the release, `noise` identifies the noise source."""
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
