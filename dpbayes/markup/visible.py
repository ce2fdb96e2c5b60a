"""Makes text of others safe to show: nothing in it controls a terminal, reverses letters or hides."""

import json
import unicodedata
from typing import Any

_HIDDEN = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")
"""Controls (of a terminal too), marks of direction and of no width, what no font has, breaks of lines."""


def visible(text: str, keep: str = "") -> str:
    """The text with every invisible character spelled out, except those in `keep`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelled(each) if _hidden(each) and each not in keep else each for each in text)


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
