"""Compares the declared shape with what is stored: names and types only, for every source."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.types as types

from dpbayes.secure.sources.batch import Arrow
from dpbayes.study.table_source import ColumnRule, TableSource
from dpbayes_core.errors import ShapeMismatch

NUMBERS = ("integer", "float", "decimal", "boolean")
DATES = ("date",)
LEVELS = ("string", "integer", "boolean")
UNITS = ("string", "integer")
NULL = "null"  # a column without any value: allowed everywhere, else one more value would change the shape

_KINDS: tuple[tuple[str, Callable[[Any], bool]], ...] = (
    ("integer", types.is_integer),
    ("float", types.is_floating),
    ("decimal", types.is_decimal),
    ("boolean", types.is_boolean),
    ("date", types.is_date),
    ("string", types.is_string),
    ("string", types.is_large_string),
    ("string", types.is_string_view),
    (NULL, types.is_null),
)


def declared(source: TableSource) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each column that must exist, and the kinds of storage that its declaration allows."""
    for name, rule in source.stored.items():
        yield name, _allowed(rule)
    if source.unit is not None:
        yield source.unit, UNITS


def places_of(names: Iterable[str]) -> dict[str, list[int]]:
    """The positions of each name among the stored columns."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place)
    return places


def place_of(places: Mapping[str, list[int]], name: str, table: str) -> int:
    """The position of a column among the stored ones; raises `ShapeMismatch` unless it occurs exactly once."""
    found = places.get(name, [])
    if not found:
        raise ShapeMismatch(
            f"cannot read table {table}: column {name} is missing. Add it to the table, or drop it from the study."
        )
    if len(found) > 1:
        raise ShapeMismatch(f"cannot read table {table}: column {name} occurs more than once. Write each column once.")
    return found[0]


def check_kind(kind: str, spelling: str, name: str, allowed: tuple[str, ...], table: str) -> None:
    """Raise `ShapeMismatch` unless a column is stored as one of the kinds that its declaration allows."""
    if kind not in (*allowed, NULL):
        choices = " or ".join(part for part in (", ".join(allowed[:-1]), *allowed[-1:]) if part)
        raise ShapeMismatch(f"cannot read table {table}: column {name} is stored as {spelling}. Store it as {choices}.")


def kind_of(stored: Arrow) -> str:
    """The kind of an Arrow type, by the name that a declaration uses."""
    plain = stored.value_type if types.is_dictionary(stored) else stored
    return next((kind for kind, fits in _KINDS if fits(plain)), "other")


def spelling_of(stored: Arrow) -> str:
    """An Arrow type as a message may show it."""
    # the text of a nested or extension type contains names that the file's writer chose
    return (
        "a nested or extension type" if stored.num_fields or isinstance(stored, pa.BaseExtensionType) else str(stored)
    )


def _allowed(rule: ColumnRule) -> tuple[str, ...]:
    if rule.bounds is None:
        return LEVELS
    return DATES if rule.measure == "date" else NUMBERS
