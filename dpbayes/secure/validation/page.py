"""The steward's page about a pass: which rules of the study were applied, column by column and batch by batch.

Confidential, for the vault only: it contains counts of the table, but no value, level or person.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dpbayes.markup.svg import tag
from dpbayes.markup.template import set_page
from dpbayes.secure.profile import COUNTS, GroupProfile, Profile
from dpbayes.secure.validation.checks import OF_TABLE, Expectation, ValidationResult, foreseen_by
from dpbayes.secure.validation.messages import (
    HEADINGS,
    RELEASED,
    TABLE_WORDS,
    declared,
    number,
    share_of,
    stored,
    whose,
)
from dpbayes.study.table_source import ColumnRule, TableSource
from dpbayes_core.confidential import Confidential
from storage.home.vault import VALIDATION_PAGE, Vault, readable

_WORST = 20  # batches that are listed
_STRIPES = 120  # at most, in the picture of all batches
WIDTH, HEIGHT = 240, 14


@dataclass(frozen=True, repr=False)
class Cell(Confidential):
    """One count of one column; `met` is empty if nothing was expected of it."""

    count: str
    share: str
    met: str  # "yes", "no" or nothing


@dataclass(frozen=True, repr=False)
class ColumnLine(Confidential):
    """One column: what was declared, and what was found."""

    name: str
    declared: str
    stored: str
    cells: tuple[Cell, ...]
    stripes: Markup


@dataclass(frozen=True, repr=False)
class BatchLine(Confidential):
    """One batch, and the rules that were applied to it."""

    file: str
    place: str
    rows: str
    found: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class ExpectationLine(Confidential):
    """One expectation and its result."""

    words: str
    most: str
    met: bool


@dataclass(frozen=True, repr=False)
class OwnLine(Confidential):
    """One expectation of the steward's own suite and its result."""

    words: str
    outcome: str  # "met", "not met" or "not computed"


@dataclass(frozen=True, repr=False, kw_only=True)
class Page(Confidential):
    """Everything that the page shows; the template only formats it."""

    title: str
    about: tuple[tuple[str, str], ...]  # study, account, period, release
    lede: str
    alarm: bool
    facts: tuple[tuple[str, str], ...]
    headings: tuple[str, ...]
    columns: tuple[ColumnLine, ...]
    expectations: tuple[ExpectationLine, ...]
    own: tuple[OwnLine, ...]
    batches: tuple[BatchLine, ...]
    more_batches: str
    foreseen: tuple[str, ...]  # counted, and no alarm: the study says what becomes of it
    decides: str


@dataclass(frozen=True, repr=False)
class Validation(Confidential):
    """The page and its JSON, kept in memory until they may be stored."""

    place: str  # in the vault
    files: Mapping[str, str]

    @property
    def name(self) -> str:
        """The page's name in the vault."""
        return f"{self.place}/{VALIDATION_PAGE}"

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return sum(len(text.encode()) for text in self.files.values())

    def keep(self, vault: Vault) -> Path:
        """Store both in the vault, the page last, and return the page's path."""
        return [vault.write_text(f"{self.place}/{name}", text) for name, text in self.files.items()][-1]


def validation_of(
    profile: Profile,
    source: TableSource,
    result: ValidationResult,
    *,
    place: str,
    about: Mapping[str, str],
    decides: str = RELEASED,
) -> Validation:
    """The result of a pass as JSON for programs and as a page for people; `about` identifies the release."""
    files = {"profile.json": readable(profile.to_record()), "validation.json": readable(result.to_record())}
    shown = render(profile, source, result, title=place, about=about, decides=decides)
    return Validation(place, files | {VALIDATION_PAGE: shown})


def render(profile: Profile, source: TableSource, result: ValidationResult, **words: Any) -> str:
    """The page, self-contained; the same input gives the same bytes."""
    return set_page("dpbayes.secure.validation/page.html.j2", page(profile, source, result, **words))


def page(
    profile: Profile,
    source: TableSource,
    result: ValidationResult,
    *,
    title: str,
    about: Mapping[str, str],
    decides: str = RELEASED,
) -> Page:
    """Everything the page shows."""
    found = [(group, tuple(_findings(group))) for group in profile.groups]
    worst = sorted((one for one in found if one[1]), key=lambda one: -sum(count for _, _, count in one[1]))
    return Page(
        title=title,
        about=tuple(about.items()),
        lede=_lede(result),
        alarm=not result.success,
        facts=tuple(_facts(profile)),
        headings=tuple(HEADINGS.values()),
        columns=tuple(_column(profile, rule, result, source.stated) for rule in source.columns),
        expectations=tuple(_expectation(profile, expected, met) for expected, met in result.met),
        own=tuple(OwnLine(one.words, _OUTCOMES[met]) for one, met in result.own),
        batches=tuple(_batch(group, findings) for group, findings in worst[:_WORST]),
        more_batches=f"{number(len(worst) - _WORST)} more are in profile.json." if len(worst) > _WORST else "",
        foreseen=tuple(whose(one) for one in foreseen_by(source)),
        decides=decides,
    )


def _lede(result: ValidationResult) -> str:
    if not result.ran:
        return "The expectations could not be checked. The counts below are of the pass itself and are complete."
    outcomes = [*(met for _, met in result.met), *(met for _, met in result.own)]
    unmet = sum(not met for met in outcomes)
    if not unmet:
        return f"All {len(outcomes)} expectations are met."
    return f"{unmet} of {len(outcomes)} expectations {'is' if unmet == 1 else 'are'} not met."


_OUTCOMES = {True: "met", False: "not met", None: "not computed"}


def _facts(profile: Profile) -> Iterator[tuple[str, str]]:
    yield "rows", number(profile.rows)
    yield "batches", number(len(profile.groups))
    yield "files", number(len({group.file for group in profile.groups}))
    if profile.incomplete_rows:
        yield TABLE_WORDS["incomplete_rows"], number(profile.incomplete_rows)
    if profile.duplicate_rows is not None:
        counted = profile.rows - profile.incomplete_rows - profile.duplicate_rows
        yield "rows that count of all people", number(counted)
        yield TABLE_WORDS["duplicate_rows"], number(profile.duplicate_rows)
        yield TABLE_WORDS["null_units"], number(sum(group.null_units or 0 for group in profile.groups))
    if profile.several_holders is not None:
        yield TABLE_WORDS["several_holders"], number(profile.several_holders)


def _column(profile: Profile, rule: ColumnRule, result: ValidationResult, stated: tuple[str, ...]) -> ColumnLine:
    groups = [(group.rows, group.columns[rule.name]) for group in profile.groups if rule.name in group.columns]
    outcome = {expected.count: met for expected, met in result.met if expected.column == rule.name}
    totals = {count: sum(getattr(counts, count) for _, counts in groups) for count in COUNTS}
    applies = ("nulls", "unknown_levels") if rule.bounds is None else ("nulls", "not_a_number", "out_of_bounds")
    cells = tuple(
        Cell(number(totals[count]), share_of(totals[count], profile.rows), _met(outcome.get(count)))
        if count in applies
        else Cell("", "", "")
        for count in HEADINGS
    )
    touched = [(rows, sum(getattr(counts, count) for count in COUNTS)) for rows, counts in groups]
    return ColumnLine(
        rule.name, declared(rule, stated), stored(profile.types.get(rule.name, "")), cells, _stripes(touched)
    )


def _stripes(touched: list[tuple[int, int]]) -> Markup:
    """All batches from first to last, darker where more values needed a rule."""
    bins: list[tuple[int, int]] = [(0, 0)] * min(len(touched), _STRIPES)
    for place, (rows, count) in enumerate(touched):
        at = place * len(bins) // len(touched)
        bins[at] = bins[at][0] + rows, bins[at][1] + count
    wide = WIDTH / max(len(bins), 1)
    drawn = [
        tag(
            "rect", x=f"{place * wide:.2f}", y=0, width=f"{wide:.2f}", height=HEIGHT, fill_opacity=f"{_depth(*one):.2f}"
        )
        for place, one in enumerate(bins)
        if one[1]
    ]
    attributes = {"role": "img", "aria_label": "batches from first to last"}
    return tag("svg", "", *drawn, viewBox=f"0 0 {WIDTH} {HEIGHT}", preserveAspectRatio="none", **attributes)


def _depth(rows: int, count: int) -> float:
    return 0.25 + 0.75 * min(1.0, (count / max(rows, 1)) ** 0.5)


def _findings(group: GroupProfile) -> Iterator[tuple[str, str, int]]:
    for name, counts in group.columns.items():
        for count, words in HEADINGS.items():
            if getattr(counts, count):
                yield name, words, getattr(counts, count)
    if group.null_units:
        yield "", TABLE_WORDS["null_units"], group.null_units


def _batch(group: GroupProfile, findings: tuple[tuple[str, str, int], ...]) -> BatchLine:
    worst = sorted(findings, key=lambda one: -one[2])[:6]
    words = tuple(f"{name + ': ' if name else ''}{number(count)} {what}" for name, what, count in worst)
    rest = (f"and {len(findings) - 6} more",) if len(findings) > 6 else ()
    return BatchLine(group.file, number(group.row_group), number(group.rows), words + rest)


def _expectation(profile: Profile, expected: Expectation, met: bool) -> ExpectationLine:
    limits = [f"at least {number(expected.at_least)}"] if expected.at_least else []
    if expected.at_most is not None:
        limits += [f"at most {number(expected.at_most)}" if expected.at_most else "none"]
    return ExpectationLine(f"{whose(expected)}: {' and '.join(limits) or 'any number'}", _most(profile, expected), met)


def _most(profile: Profile, expected: Expectation) -> str:
    if expected.count in OF_TABLE:
        return number(getattr(profile, expected.count) or 0)
    counted = [group if expected.column is None else group.columns.get(expected.column) for group in profile.groups]
    counts = [int(getattr(one, expected.count, 0) or 0) for one in counted]
    if not counts:
        return "no batch"
    return number(min(counts)) if expected.at_most is None else number(max(counts))


def _met(outcome: bool | None) -> str:
    return "" if outcome is None else "yes" if outcome else "no"
