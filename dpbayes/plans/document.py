"""A plan as a JSON document: each cap in the one measure in which it is stated."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dpbayes.kinds.registry import KINDS
from dpbayes.plans.cautions import missing_words, query_words, unstated_words
from dpbayes.plans.plan import ComingPeriod, Plan, PlannedRelease
from dpbayes.plans.precision import predict_release
from dpbayes.study.study import Study
from dpbayes_core.arrays import Floats
from dpbayes_core.canonical import canonical_json
from dpbayes_core.privacy.accounting import analytic_gaussian_scale, from_units, gaussian_cost
from storage.ledger.cap_document import CapState, cap_document, measure_words
from storage.ledger.reading import AccountSnapshot
from storage.ledger.refusal import Quote
from storage.ledger.request import CapSpec, decimal_text

Document = Mapping[str, Any]

NEAR = 10.0
"""The largest factor between the study's own epsilon and those shown to people."""

_CLOSED = 3
"""How many closed periods a verdict names."""

MOST_ROWS = 24
"""A year of more periods is shown as runs of equal verdicts."""


def plan_document(study: Study, snapshot: AccountSnapshot, plan: Plan) -> dict[str, Any]:
    """The whole plan; its numbers are for reading, while the ledger decides by its own integers."""
    head = snapshot.head
    return {
        "study": study.study,
        "population": study.population,
        "period": plan.period.name,
        "account": "open" if snapshot.opened else "as stated",
        "known_accounts": list(snapshot.accounts),
        "ledger": None if head is None else {"seq": head.seq, "hash": head.hash},
        "schedule": None if study.schedule is None else study.schedule.model_dump(exclude_none=True),
        "fits": plan.year[0].status in ("fits", "charged"),
        "releases": [_release(study, plan, release) for release in plan.releases],
        "year": _year(plan),
        "verdict": verdict(plan),
        "public_count": query_words(study),
        "missing": unstated_words(study),
    }


def verdict(plan: Plan) -> str:
    """One sentence about coming periods that are closed, and one about the first that the budget refuses."""
    closed = [one.period.name for one in plan.year if one.status == "closed"]
    more = f" and {len(closed) - _CLOSED} more" if len(closed) > _CLOSED else ""
    were, takes = ("was", "takes") if len(closed) == 1 else ("were", "take")
    named = f"{', '.join(closed[:_CLOSED])}{more} {were} closed and {takes} no further charges. "
    return f"{named if closed else ''}{_refused(plan, 'Nothing else' if closed else 'Nothing')}"


def _refused(plan: Plan, nothing: str) -> str:
    refused = next((one for one in plan.year if one.status == "refused"), None)
    if refused is None:
        first, last = plan.year[0].period.name, plan.year[-1].period.name
        return f"{nothing} from {first} to {last} would be refused."
    caps = " and ".join(_cap_words(cap) for cap in refused.refused_by)
    which = f", at its release {refused.release}" if len(plan.releases) > 1 else ""
    return f"{refused.period.name} would be refused by {caps}{which}."


def _cap_words(cap: CapSpec) -> str:
    """A cap's name with its limit."""
    at = "" if cap.delta is None else f"{float(cap.delta):g}"
    return f"{cap.name} ({measure_words(cap.measure, decimal_text(cap.limit), at)})"


def runs(year: Sequence[Document]) -> list[list[Document]]:
    """The periods of a document's year, where refusals in a row that leave every cap unchanged are one run.

    In a long year, all periods in a row with the same verdict are one run.
    """
    long = len(year) > MOST_ROWS
    found: list[list[Document]] = []
    for one in year:
        same = found and run_verdict(found[-1]) == run_verdict([one])
        if same and (long or (one["status"] == "refused" and one["caps"] == found[-1][-1]["caps"])):
            found[-1].append(one)
        else:
            found.append([one])
    return found


def run_ends(run: Sequence[Document]) -> tuple[str, ...]:
    """The only period of a run, or its first and its last."""
    first, last = run[0]["period"], run[-1]["period"]
    return (first,) if first == last else (first, last)


def run_verdict(run: Sequence[Document]) -> str:
    """The verdict on the periods of a run."""
    one = run[-1]
    return f"refused by {one['refused_by']}" if one["status"] == "refused" else one["status"]


def _release(study: Study, plan: Plan, release: PlannedRelease) -> dict[str, Any]:
    mechanism, kind = release.mechanism, study.release(release.name).kind
    missing = ("Missing values", missing_words(study, release.name))
    lines = (missing, *KINDS[kind].texts.foresight(study.design(release.name), study.source.rows))
    predicted = predict_release(study, release.name)
    stated, cost = mechanism.to_record(), mechanism.cost()
    closed = plan.year[0].status == "closed" and not release.stored
    caps = [_cap(quote, stored=release.stored, closed=closed) for quote in release.quotes]
    return {
        "name": release.name,
        "status": "already-released" if release.stored else "period-closed" if closed else "planned",
        "kind": kind,
        "mechanism": mechanism.name,
        "neighbours": study.design(release.name).neighbours,  # of a holder's release, where there are holders
        "holders": [holder for holder in study.holders if holder is not None],
        "norm": mechanism.norm,
        "sensitivity": mechanism.sensitivity,
        "scale": _numbers(mechanism.scales),
        "entries": len(mechanism.scales),
        "cost": {
            "epsilon": stated.get("epsilon") if cost.epsilon is None else float(from_units(cost.epsilon)),
            "rho": float(from_units(cost.rho)),
            "delta": stated.get("delta"),
        },
        "analytic": _analytic(stated),
        "caps": caps,
        "largest_epsilon": min(cap["largest_epsilon"] for cap in caps),
        "largest_epsilon_for_year": float(release.largest_epsilon_for_year),
        "foreseen": [{"term": term, "value": value} for term, value in (*lines, *predicted.sentences)],
        **predicted.document(),
    }


def shown_epsilons(release: Document) -> list[float]:
    """The values of epsilon in a release's grid that people see: those near the epsilon it asks for."""
    known = [float(point["epsilon"]) for point in release["grid"]]
    own = release["cost"]["epsilon"]
    near = [one for one in known if own is None or own / NEAR <= one <= own * NEAR]
    return near or known


def noisy_numbers(release: Document) -> int:
    """How many released numbers have noise, third and fourth moments included."""
    return max(release["entries"], sum(block["numbers"] for block in release.get("blocks", ())))


def _numbers(scales: Floats) -> float | list[float]:
    """One number if all entries have the same; an empty list if nothing is added."""
    found: list[float] = scales.tolist()
    return found[0] if len(set(found)) == 1 else found


def _analytic(stated: dict[str, Any]) -> dict[str, Any] | None:
    """Figures by Balle and Wang (2018) for Gaussian noise that is stated by an epsilon; no cap is charged by them."""
    epsilon, delta = stated.get("epsilon"), stated.get("delta")
    if delta is None or epsilon is None:
        return None
    scale = analytic_gaussian_scale(stated["sensitivity"], epsilon, delta)
    return {
        "epsilon": stated["exact_epsilon"],  # of the planned noise, taken alone
        "scale": _numbers(scale / np.array(stated["weights"])),  # the least noise of the epsilon asked for, taken alone
        "rho": float(from_units(gaussian_cost(stated["sensitivity"], scale).rho)),  # what that would cost
    }


def _cap(quote: Quote, *, stored: bool, closed: bool) -> dict[str, Any]:
    debit = quote.debit
    now = cap_document(CapState(quote.cap, debit.scope.period, debit.before))
    after = now if stored or closed else cap_document(CapState(quote.cap, debit.scope.period, debit.after))
    return {
        "cap": now["cap"],
        "window": now["window"],
        "measure": now["measure"],
        "period": now["period"],
        "delta": now["delta"],
        "limit": now["limit"],
        "spent": now["spent"],
        "after": after["spent"],
        "remaining": now["remaining"],
        "remaining_after": after["remaining"],
        "largest_epsilon": 0.0 if closed else float(quote.largest_epsilon),
        "fits": stored or (debit.fits and not closed),
    }


def _year(plan: Plan) -> list[dict[str, Any]]:
    known: dict[tuple[CapSpec, bytes], Document] = {}

    def documented(state: CapState) -> Document:
        """Caches documents, since a year of days repeats the same few totals."""
        key = state.cap, canonical_json(state.spent.to_record())
        if key not in known:
            known[key] = cap_document(state)
        return known[key]

    return [_period(one, documented) for one in plan.year]


def _period(one: ComingPeriod, documented: Callable[[CapState], Document]) -> dict[str, Any]:
    names = [cap.name for cap in one.refused_by]
    return {
        "period": one.period.name,
        "status": one.status,
        "fits": one.status in ("fits", "charged"),
        "refused_by": " and ".join(names) or ("closed period" if one.status == "closed" else None),
        "release": one.release,
        "caps": [
            _year_cap(documented(after), documented(asked), names)
            for after, asked in zip(one.after, one.asked, strict=True)
        ],
    }


def _year_cap(after: Document, asked: Document, refusing: list[str]) -> dict[str, Any]:
    return {
        "cap": after["cap"],
        "window": after["window"],
        "measure": after["measure"],
        "delta": after["delta"],
        "limit": after["limit"],
        "after": after["spent"],
        "asked": asked["spent"],
        "fits": after["cap"] not in refusing,
    }
