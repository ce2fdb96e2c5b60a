"""Sentences about what a release does to missing values, from its definition."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

from dpbayes.kinds.texts import Declared
from dpbayes.markup.numbers import listed, short

Record = Mapping[str, Any]

_LEFT_OUT = "the row is left out"
FIRST_DAY, LAST_DAY = (day.toordinal() - date(1970, 1, 1).toordinal() for day in (date.min, date.max))


def becomes(definition: Record) -> dict[str, str]:
    """What a missing value becomes, for each column of a release."""
    complete = definition.get("cases") == "complete"
    columns: Mapping[str, Record] = definition.get("columns", {})
    indicated = {column.get("missing_of") for column in columns.values()}
    return {name: _text(column, complete=complete and name not in indicated) for name, column in columns.items()}


def with_missing(columns: Sequence[Declared], definitions: Sequence[Record]) -> tuple[Declared, ...]:
    """The columns of a page, extended by what missing values became in all of these releases."""
    found = [becomes(definition) for definition in definitions]
    indicators = {name for name, column in definitions[0].get("columns", {}).items() if "missing_of" in column}
    return tuple(
        _with_missing(column, [words.get(column.name) for words in found], indicator=column.name in indicators)
        for column in columns
    )


def _with_missing(column: Declared, found: Sequence[str | None], *, indicator: bool) -> Declared:
    if found[0] is None or None in found:
        return column
    same = indicator or len(set(found)) == 1
    becoming = found[0] if same else "what the release says, which differs"
    return replace(column, enters=f"{column.enters}; {'' if indicator else 'if missing, '}{becoming}")


def _text(column: Record, *, complete: bool) -> str:
    if "missing_of" in column:
        return f"is never missing: it indicates where {column['missing_of']} is missing"
    dates = column.get("measure") == "date"
    codes = [code if isinstance(code, str) else _value(code, dates=dates) for code in column.get("missing", ())]
    counts = f" ({listed(codes)} {'counts' if len(codes) == 1 else 'count'} as missing)" if codes else ""
    return _replacement_text(column, complete=complete, dates=dates) + counts


def _replacement_text(column: Record, *, complete: bool, dates: bool) -> str:
    if "levels" not in column:
        return _LEFT_OUT if complete else f"becomes {_value(column.get('nulls'), dates=dates)}"
    other = column.get("unknown")
    if not complete:
        return f"becomes {other}, as does what is no level"
    return f"{_LEFT_OUT}; what is no level {'is left out too' if other is None else f'becomes {other}'}"


def _value(number: float | None, *, dates: bool) -> str:
    if dates and number is not None and FIRST_DAY <= number <= LAST_DAY:
        return str(date(1970, 1, 1) + timedelta(days=number))
    return short(number)
