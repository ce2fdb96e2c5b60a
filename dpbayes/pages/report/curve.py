"""An answer over what was asked, with its 95% band, as inline SVG."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from dpbayes.kinds.texts import Curve
from dpbayes.markup.numbers import tick_labels, ticks
from dpbayes.markup.svg import line, points, tag, text
from dpbayes.pages.views import GraphPicture

Line = Mapping[str, Any]

WIDTH, HEIGHT = 680.0, 250.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 14.0, 12.0, 34.0


def curve_picture(curve: Curve, lines: Sequence[Line]) -> GraphPicture:
    """The posterior means with their band, on a scale from 0 to 1."""
    known = {one["name"]: one for one in lines}
    asked = sorted((x, known[name]) for x, name in curve.points if name in known)
    low, high = asked[0][0], asked[-1][0]

    def across(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (x - low) / (high - low)

    def up(y: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - y)

    band = [(across(x), up(one["q975"])) for x, one in asked]
    band += [(across(x), up(one["q025"])) for x, one in reversed(asked)]
    middle = [(across(x), up(one["mean"])) for x, one in asked]
    xs, ys = ticks(low, high), (0.0, 0.25, 0.5, 0.75, 1.0)
    parts = [line("grid", LEFT, f"{up(y):.1f}", WIDTH - RIGHT, f"{up(y):.1f}") for y in ys]
    parts += [_text(LEFT - 6, up(y) + 4, f"{y:g}", "end") for y in ys]
    parts += [
        _text(across(x), HEIGHT - BOTTOM + 18, label, "middle") for x, label in zip(xs, tick_labels(xs), strict=True)
    ]
    parts.append(tag("polygon", class_="band", points=_path(band)))
    parts.append(tag("polyline", class_="middle", points=_path(middle)))
    parts += [tag("circle", class_="middle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=3.5) for x, y in middle]
    named = {"role": "img", "aria_label": curve.title, "viewBox": f"0 0 {WIDTH:.0f} {HEIGHT:.0f}"}
    return GraphPicture(curve.title, curve.note, tag("svg", *parts, class_="curve", **named))


def _path(places: Sequence[tuple[float, float]]) -> str:
    return points((f"{x:.1f}", f"{y:.1f}") for x, y in places)


def _text(x: float, y: float, words: str, anchor: str) -> Markup:
    return text(words, f"{x:.1f}", f"{y:.1f}", anchor)
