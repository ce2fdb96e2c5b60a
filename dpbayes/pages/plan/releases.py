"""One release on the page of a plan: its price, its noise, its predicted precision, and the caps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from dpbayes.markup.numbers import percent, short
from dpbayes.pages.plan.precision_plot import Curve, pictures
from dpbayes.pages.views import Pair
from dpbayes.plans.document import noisy_numbers, shown_epsilons
from dpbayes_core.regression.planning.relations import HIGH_CORRELATION
from storage.ledger.cap_document import measure_words, rounded_down

Document = Mapping[str, Any]

_MOST_DRAWN = 24
"""Coefficients that have a picture each."""


@dataclass(frozen=True)
class CapLine:
    """The effect of one release on one cap."""

    name: str
    words: str
    limit: str
    spent: str
    remaining: str
    after: str
    fits: bool
    largest: str


@dataclass(frozen=True)
class WidthLine:
    """One coefficient's predicted precision, at the study's own epsilon and nearby."""

    name: str
    rough: bool
    sd: str
    half_width: str
    others: tuple[str, ...]
    comparisons: tuple[
        str, ...
    ]  # half widths: worse case, prior, without noise; then the least effect that can be distinguished from 0


@dataclass(frozen=True)
class Widths:
    """The predicted posterior of one release; `more` says which coefficients have no picture."""

    high: str  # correlation, of the worse case
    epsilons: tuple[str, ...]
    lines: tuple[WidthLine, ...]
    pictures: tuple[tuple[str, Markup], ...]
    more: str


@dataclass(frozen=True)
class BlockLine:
    """The noise on one kind of released number, relative to what that number measures."""

    name: str
    numbers: str
    noise: str
    measures: str
    ratio: str


@dataclass(frozen=True)
class ReleasePart:
    """One release: its price, its noise, its precision, its caps."""

    name: str
    words: str
    facts: tuple[Pair, ...]
    widths: Widths | None
    blocks: tuple[BlockLine, ...]
    caps: tuple[CapLine, ...]


def release_part(release: Document, number: int) -> ReleasePart:
    """Everything the page says about a release; `number` distinguishes its pictures from those of others."""
    facts = [Pair("Cost", _cost(release["cost"]))]
    if release["analytic"] is not None:
        facts.append(Pair("Analytic Gaussian", _analytic(release)))
    if release["holders"]:
        facts.append(Pair("Holders", f"{', '.join(release['holders'])}: a charge of that cost for each"))
    facts += [
        Pair("Neighbour relation", release["neighbours"]),
        *_noise(release),
        *(Pair(one["term"], one["value"]) for one in release["foreseen"]),
        Pair("Largest that fits", _largest(release)),
    ]
    words = {
        "planned": "Not released yet.",
        "already-released": "Released already: running it again answers the same and costs nothing.",
        "period-closed": "The period is closed and takes no charge.",
    }[release["status"]]
    caps = tuple(_cap(cap) for cap in release["caps"])
    blocks = tuple(
        BlockLine(
            one["block"],
            str(one["numbers"]),
            short(one["noise"], 2),
            short(one["measures"], 2),
            percent(one["ratio"]),
        )
        for one in release.get("blocks", ())
    )
    return ReleasePart(release["name"], words, tuple(facts), _widths(release, number), blocks, caps)


def _widths(release: Document, number: int) -> Widths | None:
    predicted: Sequence[Document] = release["predicted"]
    if not predicted:
        return None
    known = {point["epsilon"]: point["sd"] for point in release["grid"]}
    shown, own = shown_epsilons(release), release["cost"]["epsilon"]
    lines = tuple(
        WidthLine(
            one["coefficient"],
            one["rough"],
            short(one["sd"], 3),
            short(one["interval95"], 3),
            tuple(short(known[epsilon][place], 2) for epsilon in shown),
            (
                short((one["high_correlation"] or {}).get("interval95"), 3),
                short(one["prior_interval95"], 3),
                short(one["without_noise"]["interval95"], 3),
                short(one["told_from_zero"], 2),
            ),
        )
        for place, one in enumerate(predicted)
    )
    curves = [
        Curve(
            one["coefficient"],
            tuple((epsilon, sds[place]) for epsilon, sds in known.items()),
            None if own is None else (own, one["sd"]),
        )
        for place, one in enumerate(predicted[:_MOST_DRAWN])
    ]
    more = f"Drawn are the first {_MOST_DRAWN} of {len(predicted)}." if len(predicted) > _MOST_DRAWN else ""
    epsilons = tuple(f"{epsilon:g}" for epsilon in shown)
    return Widths(short(HIGH_CORRELATION), epsilons, lines, tuple(pictures(curves, number=number)), more)


def _noise(release: Document) -> list[Pair]:
    units = ", in standardised units" if release["kind"] == "regression" else ""
    pairs = [Pair("Sensitivity", f"{short(release['sensitivity'])} in {release['norm']}{units}")]
    if release["entries"]:
        pairs.insert(0, Pair("Noise", f"{release['mechanism']} on {noisy_numbers(release)} numbers"))
    if release["kind"] == "regression":
        pairs.append(Pair("Noise scale", _scale(release["scale"])))
    return pairs


def _cost(cost: Document) -> str:
    rho = f"rho {short(cost['rho'])}"
    if cost["epsilon"] is None:
        return rho
    return f"{measure_words('epsilon-delta', short(cost['epsilon']), _delta(cost))}, {rho}"


def _largest(release: Document) -> str:
    now, year = release["largest_epsilon"], release["largest_epsilon_for_year"]
    return f"{epsilon_words(now)} now; {epsilon_words(year)} for every period above, with any other release as it is"


def _analytic(release: Document) -> str:
    analytic, cost = release["analytic"], release["cost"]
    return (
        f"Taken alone, this noise satisfies epsilon {short(analytic['epsilon'])} at delta {cost['delta']:g}. Noise "
        f"just enough for epsilon {short(cost['epsilon'])} alone would have scale {_scale(analytic['scale'])}, and "
        f"cost rho {short(analytic['rho'])}. These figures do not add up over releases, so no cap is charged by them."
    )


def _scale(scale: float | list[float]) -> str:
    if not isinstance(scale, list):
        return short(scale)
    return f"{short(max(scale))}, and {short(min(scale))} on squares of columns"


def _cap(cap: Document) -> CapLine:
    where = f"period {cap['period']}" if cap["period"] else "all periods"
    return CapLine(
        name=cap["cap"],
        words=f"{where}, {_measure(cap)}",
        limit=short(cap["limit"]),
        spent=short(cap["spent"]),
        remaining=short(rounded_down(cap["remaining"])),
        after=short(cap["after"]),
        fits=cap["fits"],
        largest=short(cap["largest_epsilon"]),
    )


def _measure(cap: Document) -> str:
    return measure_words(cap["measure"], delta=_delta(cap))


def measured(cap: Document) -> str:
    """A cap's limit in its own measure."""
    return measure_words(cap["measure"], short(cap["limit"]), _delta(cap))


def _delta(record: Document) -> str:
    return "" if record["delta"] is None else f"{record['delta']:g}"


def epsilon_words(value: float) -> str:
    """An epsilon as text, or "none"."""
    return f"epsilon {short(value)}" if value else "none"
