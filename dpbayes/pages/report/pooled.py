"""What a report says about several releases that were analysed together: their rows, noise and price."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpbayes.kinds.counted import Counted, alike
from dpbayes.kinds.registry import texts_of
from dpbayes.markup.numbers import listed, short
from dpbayes.pages.report import texts as words
from dpbayes.pages.report.price import (
    ANALYSED,
    cap_lines,
    cap_note,
    noise_fact,
    noise_pairs,
    noise_words,
    price_fact,
    price_words,
    stated_epsilon,
)
from dpbayes.pages.views import CapLine, Fact, Pair, SourceLine

Record = Mapping[str, Any]
_MOST_PRICES = 3  # that are listed in a key figure


def pooled(releases: Sequence[Record], parts: Sequence[Any], posterior: Record) -> dict[str, Any]:
    """The rows, noise and price of several releases."""
    deviation, rows = _deviation(parts), sum(part.count for part in parts)
    what = alike(map(Counted.of, releases))
    noise = noise_fact(("Noise on a mean", f"± {short(deviation / max(rows, 1), 2)}", f"of all {what}"), posterior)
    same = len({_price(release) for release in releases}) == 1
    return {
        "facts": (words.status(posterior), _price_fact(releases), *_rows(what, parts), noise),
        "sources": tuple(_line(*each) for each in zip(releases, parts, strict=True)),
        "sources_words": _together(len(releases), posterior),
        "spent": price_words(releases[0], subject=f"Each of these {len(releases)} releases")
        if same
        else f"What each release cost stands in the table of releases. {ANALYSED}",
        "caps": _caps(releases),
        "cap_note": cap_note([cap for release in releases for cap in release["caps"]]),
        "cap_caption": "Every cap that these releases were charged to, as the ledger stood before the first of them "
        "and right after the last.",
        "noise_words": noise_words(_noise(what, parts, deviation, rows), posterior),
        "noise": _pairs(releases, parts),
    }


def _together(count: int, posterior: Record) -> str:
    aware = ", and the analysis takes each with its own noise" * posterior["sampler"]["calibrated"]
    return f"These {count} releases are taken to be of different people. Each carries noise of its own{aware}."


def _line(release: Record, part: Any) -> SourceLine:
    count = f"about {round(part.count):,}" if part.rows is None else f"{part.rows:,}"
    where = f"{release['study']}, {release['population']}, revision {release['revision']}"
    noise = texts_of(part).noise_size(part)[1]
    what = Counted.of(release).what
    return SourceLine(words.release_name(release), where, f"{count} {what}", noise, price_fact(release).value)


def _price(release: Record) -> tuple[Any, ...]:
    cost = release["cost"]["readable"]
    return cost["epsilon"], cost["rho"], stated_epsilon(release), release["mechanism"].get("delta")


def _price_fact(releases: Sequence[Record]) -> Fact:
    found = list(dict.fromkeys(price_fact(release) for release in releases))
    if len(found) == 1:
        return replace(found[0], small=f"for each release; {found[0].small}")
    values = [fact.value for fact in found]
    said = listed(values) if len(values) <= _MOST_PRICES else f"{len(values)} prices"
    return Fact("Privacy cost", said, "by release, as the table below says")


def _rows(what: str, parts: Sequence[Any]) -> tuple[Fact, ...]:
    counts = [part.rows for part in parts]
    if None in counts:
        return (Fact("Releases", str(len(parts)), "pooled"),)
    return (Fact(what.capitalize(), f"{sum(counts):,}", f"in {len(parts)} releases"),)


def _deviation(parts: Sequence[Any]) -> float:
    """Standard deviation of the noise in a sum over all parts, where it is largest."""
    each = [float(part.mechanism.deviations.max()) for part in parts]
    return math.sqrt(sum(value**2 for value in each))


def _noise(what: str, parts: Sequence[Any], deviation: float, rows: float) -> tuple[str, ...]:
    n = round(rows)
    if n < 1:
        return ("By the released numbers the tables had no rows, so what was released is noise alone.",)
    about = "about " * any(part.rows is None for part in parts)
    return (
        f"Each release holds {len(parts[0].values)} sums over columns and their products, each column mapped to the "
        f"interval from −1 to 1 by its declared bounds. Together they are of {about}{n:,} {what}.",
        f"Added up over the releases, every sum carries noise with a standard deviation of up to {short(deviation)}, "
        f"which is {short(deviation / n)} on the mean of n. Sampling moves such a sum by at most √n = "
        f"{short(math.sqrt(n))} (one standard deviation). But coefficients hang on small differences between sums, so "
        "noise can matter more to them than that comparison suggests.",
    )


def _pairs(releases: Sequence[Record], parts: Sequence[Any]) -> tuple[Pair, ...]:
    """Facts about the noise, once if all releases share it, else for each noise with the releases that have it."""
    alike: dict[tuple[Pair, ...], list[str]] = {}
    for release, part in zip(releases, parts, strict=True):
        pairs = noise_pairs(release, texts_of(part).noise_pairs(part))
        alike.setdefault(pairs, []).append(words.release_name(release))
    if len(alike) == 1:
        return next(iter(alike))
    return tuple(pair for pairs, names in alike.items() for pair in (Pair("Noise of", listed(names)), *pairs))


def _caps(releases: Sequence[Record]) -> tuple[CapLine, ...]:
    """Every cap once: before the first charge to it, and after the last."""
    found: dict[tuple[str, str, str | None], dict[str, Any]] = {}
    for release in sorted(releases, key=lambda release: release["ledger"]["seq"]):
        for cap in release["caps"]:
            place = (release["population"], cap["cap"], cap["period"])
            first: Record = found.get(place) or cap
            found[place] = {**cap, "before": first["before"]}
    lines = cap_lines({"caps": list(found.values())})
    if len({population for population, _, _ in found}) == 1:
        return lines
    return tuple(
        replace(line, words=f"{population}; {line.words}")
        for line, (population, _, _) in zip(lines, found, strict=True)
    )
