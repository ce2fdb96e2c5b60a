"""Texts of the steward's page about a pass."""

import re
from collections.abc import Container
from datetime import date, timedelta

from dpbayes.secure.validation.checks import Expectation
from dpbayes.study.table_source import WIDEST, ColumnRule

HEADINGS = {
    "nulls": "missing",
    "not_a_number": "not a number",
    "out_of_bounds": "out of bounds",
    "unknown_levels": "unknown level",
}
TABLE_WORDS = {
    "rows": "rows in a batch",
    "incomplete_rows": "rows left out for a missing value",
    "null_units": "rows without a person",
    "duplicate_rows": "rows beyond those that count of a person",
    "several_holders": "people with several holders",
}

RELEASED = (
    "This page decides nothing about a release: values that break a rule became what their column states, or their "
    "rows were left out, and the release was made regardless. Holding it back because of this page would reveal "
    "something that no noise covers."
)
INSPECTED = (
    "The table was inspected and nothing was charged, which the ledger records. This page decides nothing about a "
    "release: values that break a rule become what their column states, or their rows are left out, and dpbayes makes "
    "the release regardless. Correcting the table, or holding the release back, because of this page reveals something "
    "that no noise covers: record what you did with dpbayes ledger note."
)


def declared(rule: ColumnRule, stated: Container[str] = ()) -> str:
    """The declaration of a column and what becomes of a missing value; `stated`: columns with a stated rule."""
    if rule.names_holders:
        return _domain(rule)
    codes = f" ({', '.join(code if isinstance(code, str) else f'{code:g}' for code in rule.missing)} too)"
    default_note = "" if rule.name in stated or rule.stays_missing else ", for nothing is stated"
    return f"{_domain(rule)}; missing{codes * bool(rule.missing)}: {_if_missing(rule)}{default_note}"


def _if_missing(rule: ColumnRule) -> str:
    if rule.stays_missing:
        return "the row is left out"
    if rule.bounds is None:
        return f"becomes {rule.unknown}"
    return "becomes the middle" if rule.null_value is None else f"becomes {_value(rule.null_value, rule.measure)}"


def _value(number: float, measure: str) -> str:
    return str(date(1970, 1, 1) + timedelta(days=number)) if measure == "date" else f"{number:g}"


def _domain(rule: ColumnRule) -> str:
    """The values that a column may contain."""
    if rule.bounds is None:
        levels = rule.levels or ()
        return ", ".join(levels[:6]) + (f" and {len(levels) - 6} more" if len(levels) > 6 else "")
    if rule.bounds == WIDEST:
        return "no bounds"
    if rule.measure == "date":
        return " to ".join(_value(end, rule.measure) for end in (rule.bounds.low, rule.bounds.high))
    return f"{rule.bounds.low:g} to {rule.bounds.high:g}"


def stored(kind: str) -> str:
    """A storage type in a few words."""
    values = re.fullmatch(r"dictionary<values=(\w+), .*>", kind)
    return f"dictionary of {values[1]}" if values else kind


def whose(expected: Expectation) -> str:
    """The count that an expectation is about."""
    what = HEADINGS.get(expected.count) or TABLE_WORDS.get(expected.count, expected.count)
    return f"{expected.column}, {what}" if expected.column else what


def number(count: int) -> str:
    """A count with separators between thousands."""
    return f"{count:,}".replace(",", "\u2009")


def share_of(count: int, rows: int) -> str:
    """A count as a share of all rows."""
    if not count or not rows:
        return ""
    share = 100 * count / rows
    return f"{share:.0f}%" if share >= 10 else f"{share:.1f}%" if share >= 0.1 else "below 0.1%"
