"""SVG elements as escaped text, without scripts or external files; the pictures themselves are in the pages."""

import re
from collections.abc import Iterable
from functools import cache

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from dpbayes_core.arrays import Floats

Value = str | float


def tag(name: str, *inside: str, **attributes: Value) -> Markup:
    """An element; in names of attributes `_` becomes a hyphen, and is dropped at the end."""
    stated = "".join([f' {_attribute(key)}="{_safe(value)}"' for key, value in attributes.items()])
    if not inside:
        return Markup(f"<{name}{stated}/>")
    return Markup(f"<{name}{stated}>{''.join(map(_safe, inside))}</{name}>")


@cache
def _attribute(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _safe(value: Value) -> str:
    """Escaped, where there is anything to escape: most values are numbers, or elements."""
    if isinstance(value, str):
        return value if isinstance(value, Markup) or _UNSAFE.search(value) is None else escape(value)
    return str(value)


_UNSAFE = re.compile("[&<>\"']")


def figure(key: str, title: str, words: str, body: Iterable[Markup], *, kind: str | None, **size: Value) -> Markup:
    """A picture with a title and a description; `key` identifies it on the page.

    `kind` is its class; None if the picture is a file by itself.
    """
    first = {"xmlns": "http://www.w3.org/2000/svg"} if kind is None else {"class": kind}
    description = tag("title", title, id=f"{key}-t"), tag("desc", words, id=f"{key}-d")
    return tag("svg", *description, *body, **first, role="img", **size, aria_labelledby=f"{key}-t {key}-d")


def line(kind: str, x1: Value, y1: Value, x2: Value, y2: Value) -> Markup:
    """A line from one place to another."""
    where = f'x1="{_safe(x1)}" y1="{_safe(y1)}" x2="{_safe(x2)}" y2="{_safe(y2)}"'
    return Markup(f'<line class="{_safe(kind)}" {where}/>')


def text(words: str, x: Value, y: Value, anchor: str, **look: Value) -> Markup:
    """Text that starts, ends or is centred at x."""
    return tag("text", words, **look, x=x, y=y, text_anchor=anchor)


def points(places: Iterable[tuple[Value, Value]]) -> str:
    """The points of a line, as SVG writes them."""
    return " ".join(f"{x},{y}" for x, y in places)


def short_number(value: float, decimals: int = 2) -> str:
    """A length without trailing zeros, and without a sign if it is 0."""
    shown = f"{value:.{decimals}f}".rstrip("0").rstrip(".")
    return "0" if shown in ("-0", "") else shown


def short_numbers(values: Floats) -> list[str]:
    """`short_number` of every length, to two decimals; lengths from 0 to 100 are looked up, which is faster."""
    hundredths = 100 * values
    nearest = np.rint(hundredths)
    if ((np.abs(hundredths - nearest) < _UNAMBIGUOUS) & (nearest >= 0) & (nearest <= _MOST)).all():
        return _hundredths()[nearest.astype(np.int64)].tolist()
    return [short_number(each) for each in values.tolist()]


_MOST = 10_000
_UNAMBIGUOUS = 0.5 - 1e-6  # closer to one hundredth than to the next, whatever the product was rounded to


@cache
def _hundredths() -> NDArray[np.object_]:
    return np.array([short_number(each / 100) for each in range(_MOST + 1)], dtype=object)
