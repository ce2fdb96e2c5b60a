"""An answer over what was asked, with its 95% band, as inline SVG."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from dpbayes.kinds.texts import Curve
from dpbayes.markup.numbers import tick_labels, ticks
from dpbayes.pages.views import GraphPicture

Line = Mapping[str, Any]

WIDTH, HEIGHT = 680.0, 250.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 14.0, 12.0, 34.0


def curve_picture(curve: Curve, lines: Sequence[Line]) -> GraphPicture:
    """The posterior means with their band, on a scale from 0 to 1."""
    known = {line["name"]: line for line in lines}
    points = sorted((x, known[name]) for x, name in curve.points if name in known)
    low, high = points[0][0], points[-1][0]

    def across(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (x - low) / (high - low)

    def up(y: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - y)

    band = [(across(x), up(line["q975"])) for x, line in points]
    band += [(across(x), up(line["q025"])) for x, line in reversed(points)]
    middle = [(across(x), up(line["mean"])) for x, line in points]
    xs, ys = ticks(low, high), (0.0, 0.25, 0.5, 0.75, 1.0)
    parts = [_rule(LEFT, up(y), WIDTH - RIGHT, up(y)) for y in ys]
    parts += [_text(LEFT - 6, up(y) + 4, f"{y:g}", "end") for y in ys]
    parts += [
        _text(across(x), HEIGHT - BOTTOM + 18, label, "middle") for x, label in zip(xs, tick_labels(xs), strict=True)
    ]
    parts.append(Markup('<polygon class="band" points="{}"/>').format(_points(band)))
    parts.append(Markup('<polyline class="middle" points="{}"/>').format(_points(middle)))
    parts += [Markup('<circle class="middle" cx="{:.1f}" cy="{:.1f}" r="3.5"/>').format(x, y) for x, y in middle]
    svg = Markup('<svg class="curve" role="img" aria-label="{}" viewBox="0 0 {:.0f} {:.0f}">{}</svg>')
    return GraphPicture(curve.title, curve.note, svg.format(curve.title, WIDTH, HEIGHT, Markup("").join(parts)))


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _rule(x1: float, y1: float, x2: float, y2: float) -> Markup:
    return Markup('<line class="grid" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(x1, y1, x2, y2)


def _text(x: float, y: float, words: str, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, words)
