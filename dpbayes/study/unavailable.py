"""What the study file can say and this version cannot do: one line each; removing the line enables it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from dpbayes.strict_yaml.problem import Flaw, Place


@dataclass(frozen=True)
class Values:
    """Some values of a field, and how the study reference calls them."""

    said: str
    include: Callable[[object], bool]


@dataclass(frozen=True)
class Unavailable:
    """A field, the values of it that are refused, and what to do meanwhile; `*` stands for any name."""

    field: str
    values: Values
    what: str
    remedy: str


def _is(*words: object) -> Values:
    said = ", ".join(str(word).lower() if isinstance(word, bool) else str(word) for word in words)
    return Values(said, lambda value: value in words)


_GIVEN = Values("any", lambda value: value is not None)
_OTHER_SAMPLERS = _is("mcmc-ind")

UNAVAILABLE = (Unavailable("analyses.*.sampler", _OTHER_SAMPLERS, "this sampler", "Write auto"),)


def unavailable_in(data: Any) -> Iterator[Flaw]:
    """What a file asks for that is not available, before anything else is checked of it."""
    for line in UNAVAILABLE:
        for place, value in _matches(data, tuple(line.field.split(".")), ()):
            if line.values.include(value):
                yield Flaw(place, f"{line.what} is not available in this version", line.remedy)


def _matches(data: Any, pattern: tuple[str, ...], place: Place) -> Iterator[tuple[Place, object]]:
    if not pattern:
        yield place, data
    elif isinstance(data, dict):
        section = cast("Mapping[str, Any]", data)
        for key in section if pattern[0] == "*" else (pattern[0],):
            if key in section:
                yield from _matches(section[key], pattern[1:], (*place, key))
