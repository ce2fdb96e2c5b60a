"""Makes text from elsewhere safe to show: nothing in it controls a terminal, reverses letters or is invisible."""

import json
import unicodedata
from typing import Any

_HIDDEN = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")
"""Unicode categories: controls, marks of direction or without width, unassigned and private characters, line breaks."""


def visible(text: str, keep: str = "") -> str:
    """The text with every invisible character spelled out, except those in `keep`."""
    rest = text
    for each in keep:
        rest = rest.replace(each, "")
    if rest.isprintable():  # whatever is hidden is not printable; some spaces are not printable either
        return text
    return text.translate({ord(each): _spelled(each) for each in set(rest) if _hidden(each)})


def visible_json(document: Any) -> str:
    """The document as JSON: the same values, with invisible characters as JSON escapes."""
    text = json.dumps(document, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(json.dumps(each)[1:-1] if _hidden(each) else each for each in text)


def visible_page(html: str) -> str:
    """A page without invisible characters, except line breaks."""
    return visible(html, keep="\n")


def _hidden(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode()
