"""The budget runway as inline SVG: what one cap has spent after each coming period, relative to its limit."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dpbayes.markup.numbers import short
from dpbayes.markup.svg import figure, short_number, tag, text

PLOT = 132  # height of the picture above its axis, in px
AXIS = 22  # height of the period names
HEADROOM = 1.16  # the limit's label is above its line
_MOST_NAMES = 5  # period names that fit on a telephone
_MOST_LONG_NAMES = 4  # days
_MOST_GAPS = 60  # more bars than this are drawn without gaps and outlines


@dataclass(frozen=True)
class Bar:
    """One coming period: the cap after it, and the level that a refused charge would have reached."""

    period: str
    kind: str  # charged, fits, refused or closed
    after: float | None  # None where no number bounds what was spent
    asked: float | None
    refusing: bool  # whether this cap is one that refuses


@dataclass(frozen=True)
class Runway:
    """One cap over the coming periods."""

    cap: str
    limit: float
    bars: tuple[Bar, ...]

    @property
    def dense(self) -> bool:
        """Whether the bars are too thin for gaps and outlines."""
        return len(self.bars) > _MOST_GAPS

    @property
    def top(self) -> float:
        """The value at the upper edge."""
        known = [value for bar in self.bars for value in (bar.after, bar.asked) if value is not None]
        return HEADROOM * max(self.limit, *known)

    def height(self, value: float | None) -> float:
        """The height of a value in px; an unbounded value fills the picture."""
        return PLOT if value is None else PLOT * value / self.top


def picture(runway: Runway, words: str, *, number: int) -> Markup:
    """The picture of one cap; its text has the same size at every width."""
    step = 100 / len(runway.bars)
    parts = [_bar(runway, bar, step * place, step) for place, bar in enumerate(runway.bars)]
    level = PLOT - runway.height(runway.limit)
    parts.append(_level(level, "limit"))
    parts.append(_text(0, level - 5, f"limit {short(runway.limit)}", "limit", "start"))
    parts.append(_level(PLOT, "base"))
    parts += _names(runway.bars, step)
    return figure(
        f"runway-{number}",
        f"Budget runway of {runway.cap}",
        words,
        parts,
        kind="runway dense" if runway.dense else "runway",
        width="100%",
        height=PLOT + AXIS,
    )


def _bar(runway: Runway, bar: Bar, left: float, step: float) -> Markup:
    gap = 0.0 if runway.dense else 0.2 * step
    x, width, after = left + gap / 2, step - gap, runway.height(bar.after)
    solid = "charged" if bar.kind == "charged" else "fits" if bar.kind == "fits" else "stays"
    parts = [_rect(solid, x, PLOT - after, width, after)]
    if bar.kind == "refused":
        asked = max(runway.height(bar.asked) - after, 2.0)  # a charge too small to see is still refused
        parts.append(_rect("refusing" if bar.refusing else "asked", x, PLOT - after - asked, width, asked))
    hint = Markup("")
    if not runway.dense:
        hint_words = f"{bar.period}: {short(bar.after)} of {short(runway.limit)} spent"
        more = f", {short(bar.asked)} asked and refused" if bar.kind == "refused" else ""
        hint = tag("title", hint_words + more)
    return tag("g", hint, *parts)


def _names(bars: Sequence[Bar], step: float) -> list[Markup]:
    long = max(len(bar.period) for bar in bars) > len("2026-01")
    every = -(-len(bars) // (_MOST_LONG_NAMES if long else _MOST_NAMES))
    names: list[Markup] = []
    for place in range(0, len(bars), every):
        centre = step * (place + 0.5)
        anchor = "start" if long or centre < 8 else "end" if centre > 92 else "middle"
        x = {"start": step * place, "middle": centre, "end": step * (place + 1)}[anchor]
        names.append(_text(x, PLOT + 16, bars[place].period, "tick", anchor))
    return names


def _rect(kind: str, x: float, y: float, width: float, height: float) -> Markup:
    across = {"x": f"{_n(x)}%", "y": _n(y), "width": f"{_n(width)}%", "height": _n(height)}
    return tag("rect", class_=kind, **across)


def _level(y: float, kind: str) -> Markup:
    return tag("line", class_=kind, x1=0, x2="100%", y1=_n(y), y2=_n(y))


def _text(x: float, y: float, words: str, kind: str, anchor: str) -> Markup:
    return text(words, f"{_n(x)}%", _n(y), anchor, class_=kind)


def _n(value: float) -> str:
    return short_number(value, 3)
