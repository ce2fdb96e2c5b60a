"""YAML 1.2 core schema as plain data with line numbers: no tags, no aliases, every key once, numbers exact."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)
from ruamel.yaml.reader import ReaderError

from dpbayes.strict_yaml.problem import Place, Problem
from dpbayes_core.text import shown

Value = str | int | bool | Decimal | tuple[Any, ...] | dict[str, Any]

DEEPEST = 12
MOST_NODES = 20_000
_LONGEST_NUMBER = 40
_LARGEST_EXPONENT = 300

# The core schema of YAML 1.2, chapter 10.3. ruamel's own constructor also knows dates, octal without the o,
# underscores, merge keys and `=`, so only its parser is used.
_NULL = re.compile(r"null|Null|NULL|~|")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_WHOLE = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


@dataclass
class Document:
    """A parsed file: plain data, and the line number of every key and item."""

    value: Value
    lines: dict[Place, int] = field(default_factory=dict[Place, int])

    def line(self, place: Place) -> int | None:
        """The line of a key, or of the nearest enclosing key that is in the file."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place)


def parse(text: str, *, if_empty: str = "Write a study into it, or make one with dpbayes init") -> Document:
    """The one document in `text`; raises Problem, with the remedy `if_empty` if the text is empty."""
    return _Composer(_events(text)).document(if_empty)


def _events(text: str) -> Iterator[Event]:
    try:
        yield from YAML(typ="safe", pure=True).parse(text)
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise Problem((), "it holds a character that no text file should", "Delete it", line) from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = f"this is not YAML ({shown(error.problem or 'it cannot be read', 100)})"
        remedy = "Look for indentation, a colon, a bracket or a quote that is wrong here or just above"
        raise Problem((), what, remedy, mark.line + 1 if mark else None) from None
    except (YAMLError, ValueError, RecursionError):
        raise Problem((), "this is not YAML", "Write it as in the study reference") from None


class _Composer:
    """Builds plain data from events; never follows an alias, so no file can grow while it is read."""

    def __init__(self, events: Iterator[Event]) -> None:
        self._events = events
        self._lines: dict[Place, int] = {}
        self._nodes = 0

    def document(self, if_empty: str) -> Document:
        next(self._events)  # the stream's start
        start = next(self._events)
        if isinstance(start, StreamEndEvent):
            raise Problem((), "the file is empty", if_empty)
        if isinstance(start, DocumentStartEvent) and (start.version or start.tags):
            raise Problem((), "it starts with a % directive", "Delete that line: study files are YAML 1.2", 1)
        value = self._node(next(self._events), ())
        next(self._events)  # the document's end
        if isinstance(after := next(self._events), DocumentStartEvent):
            raise Problem((), "a second document starts here", "Keep one study per file", _line(after))
        return Document(value, self._lines)

    def _node(self, event: Event, place: Place) -> Value:
        self._nodes += 1
        self._lines.setdefault(place, _line(event))
        if self._nodes > MOST_NODES or len(place) > DEEPEST:
            raise Problem((), "the file is larger or deeper than any study", "Check what it is", _line(event))
        if isinstance(event, AliasEvent) or (isinstance(event, NodeEvent) and event.anchor):
            raise Problem(place, "anchors (&) and aliases (*) are not read", "Write the value out", _line(event))
        if isinstance(event, ScalarEvent):
            return self._scalar(event, place)
        _refuse_tag(event, place)
        return self._mapping(place) if isinstance(event, MappingStartEvent) else self._sequence(place)

    def _sequence(self, place: Place) -> tuple[Value, ...]:
        items: list[Value] = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            items.append(self._node(event, (*place, len(items))))
        return tuple(items)

    def _mapping(self, place: Place) -> dict[str, Value]:
        entries: dict[str, Value] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            key = self._key(event, place)
            if key in entries:
                first = self._lines[(*place, key)]
                what = f"{shown(key)} is given twice (first in line {first})"
                raise Problem((*place, key), what, "Keep one of them", _line(event))
            self._lines[(*place, key)] = _line(event)
            entries[key] = self._node(next(self._events), (*place, key))
        return entries

    def _key(self, event: Event, place: Place) -> str:
        # a key is the text as written: a column may be called no, 2026 or 1e3
        if not isinstance(event, ScalarEvent) or event.anchor or not event.value:
            raise Problem(place, "a key here is not a plain name", "Write a name before the colon", _line(event))
        _refuse_tag(event, place)
        return event.value

    def _scalar(self, event: ScalarEvent, place: Place) -> Value:
        _refuse_tag(event, place)
        if not event.implicit[0]:  # quoted or block text
            return event.value
        # an empty value is an event of the next line: the key's own line is where it is missing
        return _resolve(event.value, place, self._lines[place])


def _line(event: Event) -> int:
    mark: Any = event.start_mark
    return int(mark.line) + 1


def _refuse_tag(event: Event, place: Place) -> None:
    # every node passes here; !!str is refused too, since quotes mean the same
    if isinstance(event, ScalarEvent | MappingStartEvent | SequenceStartEvent) and event.tag:
        raise Problem(place, "tags (!) are not read", "Delete the tag; put quotes around text", _line(event))


def _resolve(text: str, place: Place, line: int) -> Value:
    if _NULL.fullmatch(text):
        what = "it has no value" if text in ("", "~") else f"{text} is not a value here"
        raise Problem(
            place, what, "Write one, or leave the whole key out; text that looks like null needs quotes", line
        )
    if _TRUE.fullmatch(text):
        return True
    if _FALSE.fullmatch(text):
        return False
    if _SPECIAL.fullmatch(text):
        return Decimal(text.replace(".", "", 1))
    for pattern, base in ((_WHOLE, 10), (_OCTAL, 8), (_HEXADECIMAL, 16)):
        if pattern.fullmatch(text):
            _refuse_length(text, place, line)
            return int(text if base == 10 else text[2:], base)
    return _decimal(text, place, line) if _FLOAT.fullmatch(text) else text


def _decimal(text: str, place: Place, line: int) -> Decimal:
    _refuse_length(text, place, line)
    try:
        number = Decimal(text)
    except InvalidOperation:  # an exponent beyond even Decimal's
        number = Decimal("Infinity")
    if number == 0:
        return Decimal(0)  # 0e99999 would be written out in full somewhere
    if abs(number.adjusted()) > _LARGEST_EXPONENT or number.is_infinite():
        what = f"{text} is outside what can be computed with"
        raise Problem(place, what, f"Keep numbers between 1e-{_LARGEST_EXPONENT} and 1e{_LARGEST_EXPONENT}", line)
    return number


def _refuse_length(text: str, place: Place, line: int) -> None:
    if len(text) > _LONGEST_NUMBER:
        raise Problem(place, "this number has too many digits", f"Use at most {_LONGEST_NUMBER} characters", line)
