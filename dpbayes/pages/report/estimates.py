"""Coefficients and diagnostics of the report: rounded to their uncertainty, drawn on axes that suit them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpbayes.kinds.texts import Group, Spread
from dpbayes.markup.numbers import decimals_for, fixed
from dpbayes.pages.report.plots import ForestRow, Interval, axis_for, forest_row, ranks, trace
from dpbayes.pages.views import ChainsLine, CoefficientLine, DiagnosticLine, ForestGroup, ForestLine, Shown
from dpbayes_core.arrays import Floats

Line = Mapping[str, Any]

MOST_PICTURED = 24  # parameters whose chains are drawn


def coefficient_lines(words: Mapping[str, str], aware: Sequence[Line], naive: Sequence[Line]) -> list[CoefficientLine]:
    """Both estimates of every parameter, to the same number of decimals; `words` has their meanings."""
    naive_lines = {line["name"]: line for line in naive}
    lines: list[CoefficientLine] = []
    for line in aware:
        name: str = line["name"]
        decimals = decimals_for(line["sd"])
        other = _shown(naive_lines[name], decimals) if name in naive_lines else None
        lines.append(CoefficientLine(name, words.get(name, ""), _shown(line, decimals), other))
    return lines


def _shown(line: Line, decimals: int) -> Shown:
    mean, sd, low, high = (fixed(line[name], decimals) for name in ("mean", "sd", "q025", "q975"))
    return Shown(mean, sd, low, high)


def forest(
    wanted: Sequence[Group], aware: Sequence[Line], naive: Sequence[Line], spread: Spread
) -> tuple[ForestGroup, ...]:
    """A picture of every group of parameters; parameters without draws are left out."""
    naive_lines = {line["name"]: line for line in naive}
    rows = {line["name"]: _row(line, naive_lines.get(line["name"]), spread) for line in aware}
    groups: list[ForestGroup] = []
    start = 0
    for group in wanted:
        labels = dict(zip(group.names, group.labels or group.names, strict=True))
        chosen = [replace(rows[name], name=labels[name]) for name in group.names if name in rows]
        if chosen:
            pictures = _pictures(chosen, shared=group.shared, zero=group.zero, start=start)
            groups.append(ForestGroup(group.title, group.note, group.shared, pictures))
            start += len(chosen)
    return tuple(groups)


def _pictures(rows: Sequence[ForestRow], *, shared: bool, zero: bool, start: int) -> tuple[ForestLine, ...]:
    common = axis_for(rows, zero=zero)
    lines: list[ForestLine] = []
    for k, row in enumerate(rows):
        axis = common if shared else axis_for([row], zero=zero)
        labels = not shared or k == len(rows) - 1
        lines.append(ForestLine(row.name, forest_row(row, axis, number=start + k, labels=labels)))
    return tuple(lines)


def _row(line: Line, other: Line | None, spread: Spread) -> ForestRow:
    decimals = decimals_for(line["sd"])
    words = f"{spread.centre} {_interval_words(line, decimals, spread)}."
    if other is not None:
        words += f" Naive mean {_interval_words(other, decimals, spread)}."
    return ForestRow(line["name"], _interval(line), None if other is None else _interval(other), words)


def _interval_words(line: Line, decimals: int, spread: Spread) -> str:
    shown = _shown(line, decimals)
    return f"{shown.mean}, {spread.interval} {shown.interval}"


def _interval(line: Line) -> Interval:
    return Interval(line["mean"], line["q025"], line["q975"])


def diagnostic_lines(aware: Sequence[Line], latent: Line | None) -> tuple[DiagnosticLine, ...]:
    """How well the chains agree on each parameter, and on the worst of the latent statistics."""
    worst: list[Line] = [{"name": f"worst of {latent['count']} latent statistics", **latent}] if latent else []
    return tuple(
        DiagnosticLine(line["name"], fixed(line["rhat"], 3), fixed(line["ess_bulk"], 0), fixed(line["ess_tail"], 0))
        for line in (*aware, *worst)
    )


def pictured(aware: Sequence[Line]) -> list[str]:
    """The parameters whose chains are drawn: all of them, or the worst if they are many."""
    if len(aware) <= MOST_PICTURED:
        return [line["name"] for line in aware]
    worst = sorted(aware, key=lambda line: -(line["rhat"] or math.inf))[:MOST_PICTURED]
    return [line["name"] for line in worst]


def chains_lines(names: Sequence[str], draws: Mapping[str, Floats]) -> tuple[ChainsLine, ...]:
    """The pictures of their chains."""
    return tuple(
        ChainsLine(name, trace(name, draws[name], number=k), ranks(name, draws[name], number=k))
        for k, name in enumerate(names)
    )
