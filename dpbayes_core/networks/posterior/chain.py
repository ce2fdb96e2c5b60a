"""One chain over latent tables: iterations of many moves, then exact draws of every probability given the tables."""

from math import exp, log
from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.networks.posterior.flips import family_counts, flip, renew
from dpbayes_core.networks.posterior.kernel import MOST_NODES, Walk, move
from dpbayes_core.networks.posterior.model import Model, Output


class Record(NamedTuple):
    """The recorded draws."""

    parameters: Floats  # (draws, columns)
    latent: Floats  # (draws, monitors)


def walk_from(model: Model, cells: Floats) -> Walk:
    """The state and work space of a chain whose cells are these."""
    terms, layout = model.terms, model.layout
    count, widest = len(terms.kind), layout.member.shape[1]
    values = np.zeros(count)
    np.add.at(values, terms.touched, terms.sign * np.repeat(cells, np.diff(terms.start)))
    return Walk(
        cells,
        values,
        np.zeros(count),
        np.zeros(count, dtype=np.int64),
        np.zeros(count + 1, dtype=np.int64),
        np.zeros(len(layout.levels), dtype=np.int64),
        np.zeros(3 * MOST_NODES + widest, dtype=np.int64),
        np.zeros(max(int(np.diff(layout.offset).max()), int(layout.levels.max()))),
        np.zeros(2),
        np.zeros(1 << MOST_NODES, dtype=np.int64),
        np.zeros_like(cells),
        np.zeros(int(model.output.first[-1])),
    )


@compiled
def log_gamma_draw(generator: np.random.Generator, shape: float) -> float:
    """The logarithm of a gamma variate, which would underflow for small shapes."""
    if shape >= 1.0:
        return log(generator.standard_gamma(shape))
    return log(generator.standard_gamma(shape + 1.0)) + log(1.0 - generator.random()) / shape


@compiled
def draw_rows(generator: np.random.Generator, counts: Floats, concentration: float, levels: int, draw: Floats) -> None:
    """Fill `draw` with a Dirichlet draw for every row of one family's table; `counts` has its order, child fastest."""
    for row in range(0, counts.size, levels):
        top, total = -np.inf, 0.0
        for place in range(row, row + levels):
            draw[place] = log_gamma_draw(generator, counts[place] + concentration)
            top = max(top, draw[place])
        for place in range(row, row + levels):
            draw[place] = exp(draw[place] - top)
            total += draw[place]
        for place in range(row, row + levels):
            draw[place] /= total


@compiled
def record_draw(generator: np.random.Generator, model: Model, cells: Floats, latent: Floats, draw: Floats) -> None:
    """Record one draw and the monitored counts, jittered within their units so that constant ones have diagnostics."""
    output = model.output
    counts = np.zeros(draw.size)
    family_counts(model.layout, output, cells, counts)
    for monitor in range(latent.size):
        latent[monitor] = generator.random()
    for place in range(counts.size):
        latent[output.monitor[place]] += counts[place]
    for family in range(output.owner.size):
        first, last = output.first[family], output.first[family + 1]
        concentration, levels = output.concentration[family], output.levels[family]
        draw_rows(generator, counts[first:last], concentration, levels, draw[first:last])


@compiled
def advance(generator: np.random.Generator, model: Model, walk: Walk, record: Record, iterations: int) -> None:
    """Run `iterations`, and record the last ones, one for each row of `record`."""
    silent = iterations - record.parameters.shape[0]
    for now in range(iterations):
        for _ in range(model.steps):
            way = generator.random() if model.flips.share > 0.0 else 1.0
            if way < model.flips.share:
                flip(generator, model, walk)
            elif way < 2.0 * model.flips.share:
                renew(generator, model, walk)
            else:
                move(generator, model, walk)
        if now >= silent:
            draw = now - silent
            record_draw(generator, model, walk.cells, record.latent[draw], record.parameters[draw])


@compiled
def draw_exact(generator: np.random.Generator, output: Output, counts: Floats, parameters: Floats) -> None:
    """Fill `parameters` with independent draws given the families' tables."""
    for draw in range(parameters.shape[0]):
        for family in range(output.owner.size):
            first, last = output.first[family], output.first[family + 1]
            concentration, levels = output.concentration[family], output.levels[family]
            draw_rows(generator, counts[first:last], concentration, levels, parameters[draw, first:last])
