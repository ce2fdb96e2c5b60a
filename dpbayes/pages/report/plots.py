"""The report's plots as inline SVG, whose text has the same size at every width: intervals, chains, budget bars."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from markupsafe import Markup

from dpbayes.markup.numbers import tick_labels, ticks
from dpbayes.markup.svg import figure, line, short_number, short_numbers, tag, text
from dpbayes_core.arrays import Floats

MARK = 17  # height of one series in a forest row, in px
AXIS = 24  # height of the tick labels
_PAD = 8  # keeps the outermost marks inside the picture, in percent
REACH = 4.0  # an axis grows to zero, or to the naive series, at most this many times beyond the noise-aware one
_TRACE_POINTS = 160
_RANK_BINS = 20
_CHAIN_CLASSES = 4
MOST_CHAINS = 8  # drawn in one picture


@dataclass(frozen=True)
class Caption:
    """The description of a picture for those who do not see it; `number` distinguishes pictures on a page."""

    title: str
    words: str
    number: int


@dataclass(frozen=True)
class Interval:
    """A mean with its 95% interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class ForestRow:
    """One coefficient: the noise-aware interval, the naive one if there is one, and a description."""

    name: str
    aware: Interval
    naive: Interval | None
    words: str


@dataclass(frozen=True)
class Axis:
    """The range of a forest row, and where zero is."""

    low: float
    high: float
    zero: str  # "inside", "left" or "right" of the picture, or "none" where zero means nothing

    def place(self, value: float) -> float:
        """The position in percent of the width."""
        return _PAD + (100 - 2 * _PAD) * (value - self.low) / (self.high - self.low)


def axis_for(rows: Sequence[ForestRow], *, zero: bool) -> Axis:
    """An axis that shows every noise-aware interval whole, and zero and naive intervals as far as they fit."""
    low, high = min(r.aware.low for r in rows), max(r.aware.high for r in rows)
    span = (high - low) or abs(high) or 1.0
    least, most = low - REACH * span, high + REACH * span
    for row in rows:
        if row.naive is not None:
            low, high = min(low, max(row.naive.low, least)), max(high, min(row.naive.high, most))
    where = "none"
    if zero:
        where = "inside" if least <= 0 <= most else ("left" if most > 0 else "right")
        if where == "inside":
            low, high = min(low, 0.0), max(high, 0.0)
    if high <= low:
        low, high = low - span / 2, high + span / 2
    return Axis(low, high, where)


def forest_row(row: ForestRow, axis: Axis, *, number: int, labels: bool) -> Markup:
    """One coefficient on its axis; `labels` prints the tick labels below."""
    series = [("aware", row.aware)] + ([("naive", row.naive)] if row.naive is not None else [])
    body = MARK * len(series) + 10
    parts = [_grid(axis, body, labels=labels)]
    for k, (kind, interval) in enumerate(series):
        parts.append(_mark(kind, interval, axis, 5 + MARK * (k + 0.5)))
    return _drawn("forest-row", body + (AXIS if labels else 0), Caption(row.name, row.words, number), parts)


@lru_cache(maxsize=64)  # coefficients that share an axis follow each other
def _grid(axis: Axis, body: float, *, labels: bool) -> Markup:
    lines = ticks(axis.low, axis.high)
    parts = [_line(axis.place(t), 0, axis.place(t), body, "grid") for t in lines]
    if axis.zero == "inside":
        parts.append(_line(axis.place(0), 0, axis.place(0), body, "zero"))
    elif axis.zero != "none":
        left = axis.zero == "left"
        parts.append(_text(0 if left else 100, 13, "◂ 0" if left else "0 ▸", "off", "start" if left else "end"))
    if labels:
        for value, label in zip(lines, tick_labels(lines), strict=True):
            x = axis.place(value)
            anchor = "start" if x < 8 else "end" if x > 92 else "middle"
            x = 0 if anchor == "start" else 100 if anchor == "end" else x
            parts.append(_text(x, body + 15, label, "tick", anchor))
    return Markup("".join(parts))


def _mark(kind: str, interval: Interval, axis: Axis, y: float) -> Markup:
    low, high = axis.place(interval.low), axis.place(interval.high)
    if high < 0 or low > 100:  # wholly off this axis: say where, the table has the numbers
        left = high < 0
        arrow = "◂ naive is off this axis" if left else "naive is off this axis ▸"
        return _text(0 if left else 100, y + 4, arrow, "off", "start" if left else "end")
    parts = [_line(max(low, 0), y, min(high, 100), y, kind)]
    parts += [_line(x, y - 4, x, y + 4, kind) for x in (low, high) if 0 <= x <= 100]
    x = axis.place(interval.mean)
    if 0 <= x <= 100:
        parts.append(tag("circle", class_=kind, cx=_percent(x), cy=short_number(y), r=4))
    if low < 0:
        parts.append(_text(0, y - 4, "◂", "off", "start"))
    if high > 100:
        parts.append(_text(100, y - 4, "▸", "off", "end"))
    return Markup("".join(parts))


def budget_bar(before: float, this: float, *, number: int, words: str) -> Markup:
    """How much of a cap was spent before (share), and by this release (share)."""
    before = min(max(before, 0.0), 1.0)
    this = min(max(this, 0.0), 1.0 - before)
    bars = [
        _rect(0, 100, "left"),
        _rect(0, 100 * before, "before"),
        _rect(100 * before, max(100 * this, 0.6 if this > 0 else 0), "this"),  # a sliver stays visible
    ]
    return _drawn("budget-bar", 12, Caption("Budget", words, number), bars)


def trace(name: str, draws: Floats, *, number: int) -> Markup:
    """The draws of each chain in order, thinned for size; `draws` has shape (chains, draws)."""
    thin = draws[:MOST_CHAINS, :: max(1, math.ceil(draws.shape[1] / _TRACE_POINTS))]
    low, high = float(thin.min()), float(thin.max())
    lines = _polylines(_across(thin.shape[1]), 98 - 96 * (thin - low) / ((high - low) or 1.0))
    words = f"{draws.shape[0]} chains of {draws.shape[1]} draws; overlapping lines without drift mean that they agree."
    return _plane("trace", Caption(f"Trace of {name}", words, number), lines)


def ranks(name: str, draws: Floats, *, number: int) -> Markup:
    """How often each chain has the low, middle and high ranks of all draws: level lines mean that chains agree."""
    chains, count = draws.shape
    order = np.argsort(np.sort(draws, axis=1), axis=None, kind="stable")  # which merges chains that are sorted
    binned = (order // count) * _RANK_BINS + (np.arange(draws.size) * _RANK_BINS) // draws.size
    counts = np.bincount(binned, minlength=chains * _RANK_BINS).reshape(chains, _RANK_BINS)
    expected = count / _RANK_BINS
    top = max(2 * expected, float(counts.max()))
    level = 100 - 96 * expected / top
    parts = [tag("path", class_="zero", d=f"M0 {short_number(level)}H1000")]
    heights = np.repeat(counts[:MOST_CHAINS], 2, axis=1)
    parts += _polylines(_across(_RANK_BINS + 1, 2), 100 - 96 * heights / top)
    words = f"Rank histogram of {chains} chains in {_RANK_BINS} bins, against the level expected when they agree."
    return _plane("ranks", Caption(f"Ranks of {name}", words, number), parts)


def _drawn(kind: str, height: float, caption: Caption, parts: Sequence[Markup]) -> Markup:
    key, tall = f"{kind}-{caption.number}", short_number(height)
    return figure(key, caption.title, caption.words, parts, kind=kind, width="100%", height=tall)


def _plane(kind: str, caption: Caption, parts: Sequence[Markup]) -> Markup:
    whole = {"width": "100%", "height": "100%"}
    stretched = tag("svg", *parts, viewBox="0 0 1000 100", preserveAspectRatio="none", **whole)
    return _drawn(kind, 72, caption, [stretched])


@lru_cache(maxsize=16)
def _across(count: int, repeat: int = 1) -> str:
    """Points from the left edge to the right whose heights are to be filled in, inner places `repeat` times."""
    places = [f"{round(each)},%s" for each in np.linspace(0, 1000, count).tolist() for _ in range(repeat)]
    return " ".join(places[repeat - 1 : len(places) - repeat + 1])


def _polylines(across: str, y: Floats) -> list[Markup]:
    """A line for every chain, through its heights of shape (chains, places); numbers need no escaping."""
    heights, many = tuple(short_numbers(y.ravel())), y.shape[1]
    lines = [across % heights[start : start + many] for start in range(0, len(heights), many)]
    return [
        Markup(f'<polyline class="chain chain-{chain % _CHAIN_CLASSES}" points="{line}"/>')
        for chain, line in enumerate(lines)
    ]


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return line(kind, _percent(x1), short_number(y1), _percent(x2), short_number(y2))


def _rect(x: float, width: float, kind: str) -> Markup:
    return tag("rect", class_=kind, x=_percent(x), y="0", width=_percent(width), height="100%")


def _text(x: float, y: float, words: str, kind: str, anchor: str) -> Markup:
    return text(words, _percent(x), short_number(y), anchor, class_=kind)


def _percent(share: float) -> str:
    return f"{short_number(share)}%"
