"""Translates the validator's errors into the project's own plain sentences."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from dpbayes.strict_yaml.problem import Place, Problem
from dpbayes_core.text import nearest, shown

Sentence = tuple[str, str]  # what is wrong, what to do
Details = Mapping[str, Any]


def problems_of(error: ValidationError) -> Iterator[Problem]:
    """Every error of a validation as a Problem."""
    for details in error.errors(include_url=False):
        context = details.get("ctx", {})
        place = _place(details["loc"])
        if details["type"] == "refusal":
            key = context["key"]
            yield Problem((*place, key) if key else place, context["what"], context["remedy"])
        elif details["type"] == "union_tag_not_found":
            yield Problem((*place, "kind"), "it is missing", "Add kind: and what is released, such as regression")
        elif details["type"] == "union_tag_invalid":
            yield Problem((*place, "kind"), *_choice(context["tag"], {"expected": context["expected_tags"]}))
        elif details["type"] == "missing":
            yield Problem(place, "it is missing", f"Add {place[-1]}: and its value here")
        else:
            what, remedy = _SENTENCES.get(details["type"], _fallback)(details["input"], context)
            yield Problem(place, what, remedy)


def _place(loc: tuple[int | str, ...]) -> Place:
    """The key path in the file; the validator adds the release's kind to the path, which is no key of the file."""
    found = tuple(key for key in loc if key != "[key]")
    return (*found[:2], *found[3:]) if found[:1] == ("releases",) and len(found) > 2 else found


def _fallback(_value: object, _context: Details) -> Sentence:
    return "this is not what belongs here", "See this key in the study reference"


def _text(value: object, _context: Details) -> Sentence:
    kind = (
        "a list" if isinstance(value, tuple) else "a section" if isinstance(value, dict) else "a number or true/false"
    )
    remedy = (
        "Put quotes around it" if isinstance(value, int | float) or kind.startswith("a number") else "Write one name"
    )
    return f"text belongs here, not {kind}", remedy


def _whole(_value: object, _context: Details) -> Sentence:
    return "a whole number belongs here", "Write it in digits, such as 50000"


def _truth(_value: object, _context: Details) -> Sentence:
    return "true or false belongs here", "Write one of the two"


def _list(_value: object, _context: Details) -> Sentence:
    return "a list belongs here", "Write [first, second]"


def _section(_value: object, _context: Details) -> Sentence:
    return "a section with keys belongs here", "Write its keys below it, indented"


def _choice(value: object, context: Details) -> Sentence:
    choices = re.findall(r"'([^']*)'", str(context.get("expected", "")))
    if not isinstance(value, str):
        return "one of a few words belongs here", f"Choose one of {', '.join(choices)}"
    return f"{shown(value)} is not known here", nearest(value, choices, "Choose one of", len(choices))


def _slug(value: object, _context: Details) -> Sentence:
    what = f"{shown(str(value))} is not a name that paths and accounts can carry"
    return what, "Use lower-case letters, digits and single hyphens, such as wage-regression"


def _small(value: object, context: Details) -> Sentence:
    return f"{value} is too small", f"Write at least {context['ge']}"


def _large(value: object, context: Details) -> Sentence:
    return f"{value} is too large", f"Write at most {context['le']}"


def _long(value: object, context: Details) -> Sentence:
    what = "characters" if isinstance(value, str) else "entries"
    return "it is too long", f"Keep it within {context['max_length']} {what}"


def _none(_value: object, _context: Details) -> Sentence:
    return "it is empty", "Write at least one entry"


_SENTENCES: Mapping[str, Callable[[object, Details], Sentence]] = {
    "string_type": _text,
    "int_type": _whole,
    "bool_type": _truth,
    "tuple_type": _list,
    "dict_type": _section,
    "model_type": _section,
    "model_attributes_type": _section,
    "literal_error": _choice,
    "string_pattern_mismatch": _slug,
    "greater_than_equal": _small,
    "less_than_equal": _large,
    "string_too_long": _long,
    "too_long": _long,
    "too_short": _none,
}
