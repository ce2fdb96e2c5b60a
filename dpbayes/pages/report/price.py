"""What the release cost and how much noise it has, in words for readers who do not know mechanisms."""

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from dpbayes.markup.numbers import short
from dpbayes.pages.report.plots import budget_bar
from dpbayes.pages.views import CapLine, Fact, Pair
from storage.ledger.cap_document import CapState, remains, rounded_down, spent_of
from storage.ledger.caps import capacity
from storage.ledger.exposure import Total
from storage.ledger.request import CapSpec

Record = Mapping[str, Any]

NEIGHBOURS: Mapping[str, str] = {
    "replace-one": "Two tables are neighbours when one {unit} was replaced by another that is not in the table, with "
    "any values that the declared columns allow. The number of them is the same in both, and public.",
    "add-remove": "Two tables are neighbours when one {unit} was added or taken away.",
}

OF_COMPLETE = (
    "Two tables are neighbours when one {unit} was replaced by another, with any values that the declared columns "
    "allow, or with some missing: then it does not count, so that how many count is one of the noisy numbers."
)
"""Where only rows without a missing value count and one is replaced by another."""


_IN_LETTERS = {"epsilon-delta": "ε", "pure-epsilon": "pure ε", "rho": "ρ"}
ANALYSED = "The analysis on this page cost nothing: it read the noisy statistics and never the table."


def price_words(record: Record, *, analysed: bool = True, subject: str = "This release") -> str:
    """The price of the release in its own measure, and what that means."""
    cost, mechanism = record["cost"]["readable"], record["mechanism"]
    rho = f"ρ = {short(Decimal(cost['rho']))}"
    if cost["epsilon"] is not None:
        priced = f"{subject} cost ε = {short(Decimal(cost['epsilon']))} of pure differential privacy ({rho} as zCDP)."
    elif mechanism.get("epsilon") is not None:
        delta = short(mechanism["delta"])
        priced = f"{subject} cost {rho} of zero-concentrated differential privacy, what a cap of ε = "
        priced += f"{short(mechanism['epsilon'])} at δ = {delta} would just admit. "
        priced += f"Taken alone it satisfies ε = {short(mechanism['exact_epsilon'])} at δ = {delta}."
    else:
        priced = f"{subject} cost {rho} of zero-concentrated differential privacy."
    if not analysed:
        return f"{priced} Reading this page costs nothing."
    return f"{priced} {ANALYSED}"


def price_fact(record: Record) -> Fact:
    """The price as a key figure."""
    cost, mechanism = record["cost"]["readable"], record["mechanism"]
    rho = f"ρ {short(Decimal(cost['rho']), 3)}"
    if cost["epsilon"] is not None:
        return Fact("Privacy cost", f"ε {short(Decimal(cost['epsilon']), 3)}", f"pure; {rho}")
    if mechanism.get("epsilon") is not None:
        return Fact("Privacy cost", f"ε {short(mechanism['epsilon'], 3)}", f"at δ {short(mechanism['delta'])}; {rho}")
    return Fact("Privacy cost", rho, "zCDP")


def cap_lines(record: Record) -> tuple[CapLine, ...]:
    """Every cap before and after the release."""
    return tuple(_cap_line(cap, number) for number, cap in enumerate(record["caps"]))


def cap_note(caps: Sequence[Record]) -> str:
    """How to read the table of caps."""
    if any(cap["measure"] == "epsilon-delta" for cap in caps):
        return (
            "For caps of ε at δ, “before” and “after” are the ε that everything charged so far guarantees at that δ, "
            "and “remains” is the largest further release that would fit. The ledger adds up ρ and pure ε, so these ε "
            "do not add up by themselves. Nothing that was spent is ever refunded."
        )
    return "Nothing that was spent is ever refunded."


def _cap_line(stated: Record, number: int) -> CapLine:
    cap = CapSpec.from_record({name: stated[name] for name in ("delta", "limit", "measure", "programme", "window")})
    before, after = (Total.from_record(stated[moment]) for moment in ("before", "after"))
    spent_before, spent = _share_spent(cap, before), _share_spent(cap, after)
    spent_then, spent_now = (spent_of(CapState(cap, stated["period"], total)) for total in (before, after))
    share = f"{100 * spent:.1f}% spent"
    where = f"period {stated['period']}" if stated["period"] else "all periods"
    return CapLine(
        name=cap.name,
        words=f"{where}, {_IN_LETTERS[cap.measure]}" + ("" if cap.delta is None else f" at δ {short(cap.delta)}"),
        limit=short(cap.limit),
        before=short(spent_then),
        after=short(spent_now),
        remaining=short(rounded_down(float(remains(cap, after)))),
        bar=budget_bar(spent_before, spent - spent_before, number=number, words=f"{cap.name}: {share}"),
        share=share,
    )


def _share_spent(cap: CapSpec, spent: Total) -> float:
    """The share of the cap that is spent, by the measure that leaves more."""
    full, shares = capacity(cap), [1.0]
    if full.rho:
        shares.append(spent.rho / full.rho)
    if full.epsilon and spent.epsilon is not None:
        shares.append(spent.epsilon / full.epsilon)
    return min(shares)


_MOST_TIMES = 100  # a larger ratio is shown as more than this


def widening(posterior: Record) -> tuple[float, float] | None:
    """The least and the largest ratio of a coefficient's sd to its sd without accounting for noise."""
    naive = {line["name"]: line["sd"] for line in posterior["naive"] or ()}
    ratios = [line["sd"] / naive[line["name"]] for line in posterior["coefficients"] if naive.get(line["name"])]
    return (min(ratios), max(ratios)) if ratios else None


def noise_fact(size: tuple[str, str, str], posterior: Record) -> Fact:
    """How the noise widens the intervals, as a key figure; the noise itself where that is not known."""
    if found := widening(posterior):
        times, about = _times(found)
        return Fact("Interval width", times, f"{'roughly, ' * about}of that with exact statistics")
    return Fact(*size)


def noise_words(said: Sequence[str], posterior: Record) -> tuple[str, ...]:
    """What the noise in one released number means, and how it widens the intervals."""
    found = widening(posterior)
    if found is None:
        return tuple(said)
    times, about = _times(found)
    wider = f"{'roughly ' * about}{times} as wide"
    return (*said, f"Here it makes the intervals {wider} as if the statistics had been exact.")


def _times(found: tuple[float, float]) -> tuple[str, bool]:
    """How many times as wide, with "about" unless it is a bound."""
    low, high = (f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}" for ratio in found)
    if found[1] >= _MOST_TIMES:
        return f"more than {min(math.floor(found[0]), _MOST_TIMES):,}×", False
    return (f"{low}×" if low == high else f"{low} to {high}×"), True


def noise_pairs(record: Record, said: Sequence[tuple[str, str]]) -> tuple[Pair, ...]:
    """The mechanism, the neighbour relation, what the kind says about its noise, and the source of randomness."""
    unit = "row" if record["unit"] == "row" else f"person’s data ({record['unit']})"
    first, *rest = (Pair(term, value) for term, value in said)
    complete = record["definition"].get("cases") == "complete" and record["neighbours"] == "replace-one"
    relation = OF_COMPLETE if complete else NEIGHBOURS[record["neighbours"]]
    neighbours = Pair("Neighbour relation", relation.format(unit=unit))
    return (first, neighbours, *rest, Pair("Source of randomness", record["noise"]))


def stated_epsilon(charge: Mapping[str, Any]) -> float | None:
    """The epsilon of a charge: the total if it is pure, else the epsilon that a Gaussian release was stated by.

    A mechanism of several parts has only its first part's in `epsilon`.
    """
    mechanism, spent = charge["mechanism"], charge["cost"]["readable"]["epsilon"]
    return float(spent) if "beside" in mechanism and spent is not None else mechanism.get("epsilon")
