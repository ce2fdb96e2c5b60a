"""The interface of an experiment: cells, a pure function of a cell and a seed, rows, and figures of rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Cell = Mapping[str, Any]  # plain data: the varied parameters; `table` names a public table to pass in `columns`
Row = Mapping[str, Any]  # plain data: one row of the result


@dataclass(frozen=True)
class Box:
    """Five quantiles (5, 25, 50, 75, 95%) of an estimate at one place of the axis, and its true value."""

    place: str
    quantiles: tuple[float, float, float, float, float]
    truth: float | None


@dataclass(frozen=True)
class Panel:
    """Boxes side by side."""

    title: str
    boxes: tuple[Box, ...]


@dataclass(frozen=True)
class Figure:
    """Panels with one vertical axis."""

    name: str  # of its file
    title: str
    words: str  # a description, for readers who cannot see the figure
    axis: str
    limits: tuple[float, float]
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Experiment:
    """One entry of the registry."""

    name: str
    title: str
    columns: tuple[str, ...]  # of the table, keys of a row
    cells: Callable[[bool], tuple[Cell, ...]]  # the argument: whether a quick run is wanted
    run: Callable[[Cell, int], list[Row]]  # pure; the seed is the cell's own
    figures: Callable[[Sequence[Row]], tuple[Figure, ...]]
    notes: tuple[str, ...]  # the published results, and those found here


def cell_seeds(seed: int, count: int) -> list[int]:
    """A seed for each cell, independent of the worker that runs it."""
    children = np.random.SeedSequence(seed).spawn(count)
    return [int(child.generate_state(1, np.uint64)[0] >> np.uint64(1)) for child in children]
