"""Predicted posterior standard deviations against epsilon, as inline SVG: one small picture for each coefficient."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dpbayes.markup.numbers import short
from dpbayes.markup.svg import figure, points, short_number, tag, text

WIDTH, HEIGHT = 220, 128
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 10, 22
MARGIN = 0.08  # of a picture's height, above and below its curve


@dataclass(frozen=True)
class Curve:
    """One coefficient's sd at each epsilon, and at the study's own epsilon if there is one."""

    name: str
    points: tuple[tuple[float, float], ...]
    own: tuple[float, float] | None

    @property
    def decades(self) -> float:
        """The powers of ten that its sds span."""
        values = [sd for _, sd in self.points]
        return math.log10(max(values) / min(values))


def pictures(curves: Sequence[Curve], *, number: int) -> list[tuple[str, Markup]]:
    """Each coefficient's name and picture; all span the same powers of ten, so that slopes compare."""
    decades = max(0.5, *(curve.decades for curve in curves)) if curves else 1.0
    return [(curve.name, _picture(curve, decades, f"{number}-{place}")) for place, curve in enumerate(curves)]


@dataclass(frozen=True)
class _Scale:
    first: float  # log10 of the least and the greatest epsilon
    last: float
    top: float  # log10 of the sd at the upper edge
    decades: float

    def x(self, epsilon: float) -> float:
        """Px from the left."""
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(epsilon) - self.first) / (self.last - self.first)

    def y(self, sd: float) -> float:
        """Px from above."""
        return TOP + (HEIGHT - TOP - BOTTOM) * (MARGIN + (1 - 2 * MARGIN) * (self.top - math.log10(sd)) / self.decades)


def _picture(curve: Curve, decades: float, number: str) -> Markup:
    epsilons = [epsilon for epsilon, _ in curve.points]
    largest, least = max(sd for _, sd in curve.points), min(sd for _, sd in curve.points)
    middle = (math.log10(largest) + math.log10(least)) / 2
    scale = _Scale(math.log10(epsilons[0]), math.log10(epsilons[-1]), middle + decades / 2, decades)
    path = points((short_number(scale.x(epsilon)), short_number(scale.y(sd))) for epsilon, sd in curve.points)
    parts = [_axis(scale), tag("polyline", class_="curve", points=path)]
    for sd, shift in ((largest, 4), (least, 4)):
        parts.append(_text(LEFT - 6, scale.y(sd) + shift, short(sd, 2), "end"))
    parts += [_text(scale.x(epsilon), HEIGHT - 6, f"{epsilon:g}", "middle") for epsilon in _ticks(epsilons)]
    words = f"from {short(largest, 3)} at epsilon {epsilons[0]:g} to {short(least, 3)} at epsilon {epsilons[-1]:g}"
    if curve.own is not None:
        epsilon, sd = curve.own
        hint = f"{short(sd, 3)} at the study’s epsilon of {epsilon:g}"
        if epsilons[0] <= epsilon <= epsilons[-1]:
            place = {"cx": short_number(scale.x(epsilon)), "cy": short_number(scale.y(sd))}
            parts.append(tag("circle", tag("title", hint), class_="own", **place, r=4))
        words += f"; {hint}"
    title = f"Predicted sd of {curve.name}"
    return figure(f"width-{number}", title, words, parts, kind="width", viewBox=f"0 0 {WIDTH} {HEIGHT}")


def _axis(scale: _Scale) -> Markup:
    bottom = HEIGHT - BOTTOM
    across = tag("line", class_="base", x1=LEFT, x2=WIDTH - RIGHT, y1=bottom, y2=bottom)
    return across + tag("line", class_="base", x1=LEFT, x2=LEFT, y1=TOP, y2=bottom)


def _ticks(epsilons: Sequence[float]) -> list[float]:
    return [epsilon for epsilon in epsilons if abs(math.log10(epsilon) - round(math.log10(epsilon))) < 1e-9]


def _text(x: float, y: float, words: str, anchor: str) -> Markup:
    return text(words, short_number(x), short_number(y), anchor, class_="tick")
