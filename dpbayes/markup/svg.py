"""SVG elements as escaped text, without scripts or external files; the pictures themselves are in the pages."""

from collections.abc import Iterable

from markupsafe import Markup

Value = str | float


def tag(name: str, *inside: str, **attributes: Value) -> Markup:
    """An element; in names of attributes `_` becomes a hyphen, and is dropped at the end."""
    stated = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items()
    )
    if not inside:
        return Markup("<{}{}/>").format(name, stated)
    return Markup("<{0}{1}>{2}</{0}>").format(name, stated, Markup("").join(inside))


def figure(key: str, title: str, words: str, body: Iterable[Markup], *, kind: str | None, **size: Value) -> Markup:
    """A picture with a title and a description; `key` identifies it on the page.

    `kind` is its class; None if the picture is a file by itself.
    """
    first = {"xmlns": "http://www.w3.org/2000/svg"} if kind is None else {"class": kind}
    said = tag("title", title, id=f"{key}-t"), tag("desc", words, id=f"{key}-d")
    return tag("svg", *said, *body, **first, role="img", **size, aria_labelledby=f"{key}-t {key}-d")


def line(kind: str, x1: Value, y1: Value, x2: Value, y2: Value) -> Markup:
    """A line from one place to another."""
    return tag("line", class_=kind, x1=x1, y1=y1, x2=x2, y2=y2)


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
