"""The page of a comparison: what changed between two versions of an analysis, and how far the results moved."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from dpbayes.kinds.registry import texts_of
from dpbayes.kinds.texts import Texts
from dpbayes.markup.numbers import decimals_for, fixed, listed, short
from dpbayes.markup.template import COMMON_STYLE, set_page
from dpbayes.pages.report.plots import Axis, ForestRow, Interval, forest_row
from dpbayes.pages.report.texts import prior_words
from dpbayes.pages.views import Fact, Pair
from dpbayes_core.privacy.release import AnyRelease

Record = Mapping[str, Any]

FAR = 2.0
"""Old standard deviations; a mean that moved farther left the range that the old version gave it."""
MOST_NAMED = 6  # releases in a sentence


@dataclass(frozen=True)
class Estimate:
    """A coefficient of one version, rounded; dashes if the version does not have it."""

    mean: str
    sd: str
    low: str
    high: str


NONE = Estimate("–", "–", "–", "–")


@dataclass(frozen=True)
class Line:
    """A coefficient in both versions, and how far it moved."""

    name: str
    words: str
    new: Estimate
    old: Estimate
    moved: str
    width: str
    far: bool
    svg: Markup


@dataclass(frozen=True, kw_only=True)
class ComparisonPage:
    """The whole page; every string is plain text, which the template escapes."""

    study: str
    analysis: str
    title: str
    lede: str
    alarm: str  # empty where both versions converged
    facts: tuple[Fact, ...]
    parameter: str
    parameters: str
    changes: tuple[Pair, ...]
    reading: str
    lines: tuple[Line, ...]
    diagnostics: tuple[tuple[str, str, str], ...]
    versions: tuple[tuple[str, str, str], ...]
    verify: str
    footer: str


def render(record: Record, releases: Sequence[AnyRelease], priors: Sequence[Record]) -> str:
    """The page of a comparison's record; `releases` and `priors` are the new version's and the old one's."""
    shown = page(record, releases, priors)
    return set_page("dpbayes.pages.comparison/comparison.html.j2", shown, COMMON_STYLE)


def page(record: Record, releases: Sequence[AnyRelease], priors: Sequence[Record]) -> ComparisonPage:
    """Everything that the page shows."""
    texts = texts_of(releases[0])
    lines = record["coefficients"]
    meanings = texts.meanings(releases[0])
    return ComparisonPage(
        study=record["study"],
        analysis=record["analysis"],
        title=f"What changed in {record['analysis']}",
        lede=f"{_made_of(record)} {_moved(lines, texts)}",
        alarm=_alarm(record),
        facts=_facts(record),
        parameter=texts.parameter,
        parameters=texts.parameters,
        changes=_changes(record, releases, priors),
        reading=f"{_reading(texts)}{_by_chance(record)}",
        lines=tuple(_line(line, meanings.get(line["name"], ""), number) for number, line in enumerate(lines)),
        diagnostics=_diagnostics(record),
        versions=_versions(record),
        verify=(
            "dpbayes audit makes this page again from the two crates and compares every byte. A notice that a release "
            "was withdrawn or superseded later is next to the crates, not on this page."
        ),
        footer=f"Made by dpbayes {record['software']['dpbayes']}. This page loads nothing and runs no script.",
    )


def _made_of(record: Record) -> str:
    """What made the new version another one, in a sentence."""
    changed = record["changed"]
    releases = changed["releases"]
    causes = [
        *(f"{_counted(len(releases[name]), 'release')} {words}" for name, words in CAUSES if releases[name]),
        *(f"the {name} is another one" for name in ("prior", "sampler") if changed[name] is not None),
        *(["more or fewer draws were asked for"] if {"chains", "draws"} & changed["request"].keys() else []),
    ]
    since = f"Since the version of {record['old']['period']} was archived"
    if not causes:
        return f"{since}, releases, prior and sampler stayed the same; what changed otherwise is below."
    return f"{since}, {listed(causes)}. The analysis was made again without any charge."


CAUSES = (("added", "came in"), ("revised", "got a newer revision"), ("removed", "went out"))


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _moved(lines: Sequence[Record], texts: Texts) -> str:
    """How far the means moved, in a sentence or two."""
    both = [line for line in lines if line.get("moved") is not None]
    if not both:
        return f"The two versions have no {texts.parameter.lower()} in common."
    most = max(both, key=lambda line: abs(line["moved"]))
    far = [line["name"] for line in both if abs(line["moved"]) > FAR]
    said = f"{most['name']} moved farthest, by {_signed(most['moved'])} of its old standard deviations."
    if not far:
        return f"{said} No mean moved by more than {short(FAR)}."
    more = f" and {len(far) - MOST_NAMED} more" if len(far) > MOST_NAMED else ""
    return f"{said} More than {short(FAR)} moved: {listed(far[:MOST_NAMED])}{more}."


def _alarm(record: Record) -> str:
    failed = [name for name in ("new", "old") if record[name]["status"] != "converged"]
    if not failed:
        return ""
    which = "Neither version" if len(failed) == 2 else f"The {failed[0]} version"
    has = "has converged" if len(failed) == 2 else "has not converged"
    return f"{which} {has}, so the distances below may come from the chains and not from the data. Do not publish them."


def _facts(record: Record) -> tuple[Fact, ...]:
    both = [line for line in record["coefficients"] if line.get("moved") is not None]
    largest = max((abs(line["moved"]) for line in both), default=None)
    widths = sorted(line["width"] for line in both if line["width"] is not None)
    middle = widths[len(widths) // 2] if widths else None
    releases = record["changed"]["releases"]
    used = releases["kept"] + len(releases["added"]) + len(releases["revised"])
    before = releases["kept"] + len(releases["removed"]) + len(releases["revised"])
    new, old = record["new"], record["old"]
    return (
        Fact(
            "New version",
            new["period"],
            f"{_status(new)}; old: {old['period']}, {_status(old)}",
            bad=bool(_alarm(record)),
        ),
        Fact("Releases", str(used), f"{before} before"),
        Fact("Largest move", f"{fixed(largest, 2)} sd", "of the old version"),
        Fact("Median width", fixed(middle, 2), "of intervals, the old ones being 1"),
    )


def _status(version: Record) -> str:
    return version["status"].replace("-", " ")


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{fixed(value, 2)}"


def _changes(record: Record, releases: Sequence[AnyRelease], priors: Sequence[Record]) -> tuple[Pair, ...]:
    """What changed, term by term; what stayed the same is named, too."""
    changed = record["changed"]
    prior, before = (prior_words(texts_of(made), made, one) for made, one in zip(releases, priors, strict=True))
    return (
        Pair("Releases", _releases(changed["releases"])),
        *((Pair("Prior", "the same"),) if changed["prior"] is None else (Pair("Prior", prior), Pair("Before", before))),
        Pair("Sampler", _both(changed["sampler"])),
        *(Pair(REQUESTED[name], _both(both)) for name, both in changed["request"].items()),
        Pair("Software", _software(changed["software"])),
    )


REQUESTED: Mapping[str, str] = {
    "chains": "Chains",
    "draws": "Draws asked for",
    "parts": "Covariates of the releases",
    "seed": "Seed",
    "test": "Public test records",
}


def _both(found: Record | None) -> str:
    return "the same" if found is None else f"now {_plain(found['new'])}, {_plain(found['old'])} before"


def _plain(value: Any) -> str:
    if value is None:
        return "none stated"
    return ", ".join(f"{name} {each}" for name, each in value.items()) if isinstance(value, dict) else str(value)


def _releases(found: Record) -> str:
    """Every release that came in, changed or went out."""
    said = [f"{words}: {listed([_release(each) for each in found[name]])}" for name, words in PARTS if found[name]]
    kept = "no release is of both" if not found["kept"] else f"{_counted(found['kept'], 'release')} as before"
    return "; ".join([*said, kept])


PARTS = (("added", "new"), ("revised", "revised"), ("removed", "not used any more"))


def _release(one: Record) -> str:
    at = "" if one["holder"] is None else f" at {one['holder']}"
    revision = f", revision {one['revision']}" if one["revision"] > 1 else ""
    before = f" (revision {one['before']} before)" if "before" in one else ""
    return f"{one['release']} of {one['period']}{at}{revision}{before}"


def _software(found: Record) -> str:
    said = [f"{name} now {_plain(both['new'])}, {_plain(both['old'])} before" for name, both in found.items()]
    return "; ".join(said) if said else "the same"


def _reading(texts: Texts) -> str:
    return (
        f"Each {texts.parameter.lower()} has the new version on top and the old one below it, with 95% intervals. "
        "“Moved” is the distance between the means in standard deviations of the old version: below 1 the new mean is "
        f"well inside what the old version allowed for, above {short(FAR)} it is outside. “Width” is how wide the new "
        "interval is, the old one being 1."
    )


def estimates(record: Record) -> Iterator[tuple[str, str, str]]:
    """The name of each coefficient, with its numbers in the new and in the old version as the page's table has them."""
    for line in record["coefficients"]:
        new, old = (f"{one.mean} {one.sd} {one.low} to {one.high}" for one in _estimates(line))
        yield line["name"], new, old


def _estimates(line: Record) -> tuple[Estimate, Estimate]:
    """A coefficient in the new and in the old version, to the same number of decimals."""
    decimals = decimals_for(min(one["sd"] for one in (line["new"], line["old"]) if one is not None))
    new, old = (NONE if line[name] is None else _estimate(line[name], decimals) for name in ("new", "old"))
    return new, old


def _by_chance(record: Record) -> str:
    """How far two runs of one analysis differ because draws are random, if the effective numbers of draws are known."""
    effective = [record[name]["diagnostics"]["ess_bulk"] for name in ("new", "old")]
    if None in effective or min(effective) <= 0:
        return ""
    apart = 2 * math.sqrt(sum(1 / each for each in effective))
    return f" Draws are random: that alone may move a mean by {short(apart, 2)}, however little else changed."


def _line(line: Record, words: str, number: int) -> Line:
    new, old = _estimates(line)
    moved, width = line.get("moved"), line.get("width")
    return Line(
        name=line["name"],
        words=words,
        new=new,
        old=old,
        moved="–" if moved is None else _signed(moved),
        width=fixed(width, 2),
        far=moved is not None and abs(moved) > FAR,
        svg=_picture(line, new, old, number) if NONE not in (new, old) else Markup(""),
    )


def _estimate(one: Record, decimals: int) -> Estimate:
    return Estimate(*(fixed(one[name], decimals) for name in ("mean", "sd", "q025", "q975")))


def _picture(line: Record, new: Estimate, old: Estimate, number: int) -> Markup:
    """Both intervals on an axis that shows them whole."""
    above, below = (Interval(line[name]["mean"], line[name]["q025"], line[name]["q975"]) for name in ("new", "old"))
    low, high = min(above.low, below.low), max(above.high, below.high)
    if high <= low:
        low, high = low - 0.5, high + 0.5
    said = f"New {new.mean}, {new.low} to {new.high}. Old {old.mean}, {old.low} to {old.high}."
    row = ForestRow(line["name"], above, below, said)
    zero = "inside" if low <= 0 <= high else "none"
    return forest_row(row, Axis(low, high, zero), number=number, labels=True)


def _diagnostics(record: Record) -> tuple[tuple[str, str, str], ...]:
    """Each diagnostic in the new and in the old version."""
    new, old = record["new"], record["old"]
    after, before = (_status(one) + (f": {one['why']}" if one["why"] else "") for one in (new, old))
    rows = [("Status", after, before)]
    for name, term, decimals in TERMS:
        after, before = (fixed(one["diagnostics"][name], decimals) for one in (new, old))
        rows.append((term, after, before))
    return tuple(rows)


TERMS = (
    ("chains", "Chains", 0),
    ("draws", "Draws of each", 0),
    ("rhat", "Largest R-hat", 3),
    ("ess_bulk", "Least ESS, bulk", 0),
    ("ess_tail", "Least ESS, tail", 0),
    ("divergences", "Divergences", 0),
)


def _versions(record: Record) -> tuple[tuple[str, str, str], ...]:
    """What identifies each version."""
    new, old = record["new"], record["old"]
    return tuple((term, str(new[name]), str(old[name])) for name, term in IDENTITY)


IDENTITY = (("crate", "Crate in the archive"), ("key", "Analysis"), ("statement", "sha256 of its statement"))
