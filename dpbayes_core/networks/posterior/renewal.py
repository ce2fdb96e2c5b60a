"""One move of whole records: some are taken out at random, others drawn given those that are left, or both.

Under the collapsed prior a record taken out at random and one drawn given all others are each other's reverse, whether
n stays or, uniform on its range, changes with them: only the noise decides. It mixes what the noise hardly tells.
"""

from math import exp, log

import numpy as np

from dpbayes_core.compiled import compiled
from dpbayes_core.networks.posterior.flips import family_counts, noise_gain, row_of
from dpbayes_core.networks.posterior.kernel import Walk, below, cell_of, fill, weighted
from dpbayes_core.networks.posterior.model import Model


@compiled
def change(model: Model, walk: Walk, amount: float) -> None:
    """Add or take away a record of the chosen levels, everywhere."""
    for cluster in range(model.layout.size.size):
        walk.cells[cell_of(model.layout, walk, cluster)] += amount
    for family in range(model.output.owner.size):
        walk.counts[row_of(model.output, model.flips, walk, family) + walk.level[family]] += amount


@compiled
def take_out(generator: np.random.Generator, model: Model, walk: Walk) -> None:
    """Remove one record, all alike: a cell of each cluster that agrees with the clusters before."""
    walk.level[:] = -1
    for cluster in range(model.layout.size.size):
        fill(generator, model.layout, walk, cluster, (0, False))
    change(model, walk, -1.0)


@compiled
def draw_anew(generator: np.random.Generator, model: Model, walk: Walk) -> None:
    """Add one record from its law given all others."""
    output = model.output
    for family in model.flips.order:
        row, total = row_of(output, model.flips, walk, family), 0.0
        for level in range(output.levels[family]):
            total += output.concentration[family] + walk.counts[row + level]
            walk.weights[level] = total
        walk.level[family] = weighted(generator, walk.weights, int(output.levels[family]))
    change(model, walk, 1.0)


@compiled
def renew(generator: np.random.Generator, model: Model, walk: Walk) -> None:
    """Take out some records, draw some, or both, a few more often than many; keep it if the noise allows."""
    count = int(min(exp(generator.random() * log(model.flips.most + 1.0)), model.flips.most))
    rows = walk.cells[: model.layout.offset[1]].sum()
    way = below(generator, 3) if model.most_rows > 0 else 0  # both, out, in
    if (way != 2 and rows < count) or (way == 2 and rows + count > model.most_rows):
        return
    walk.before[:] = walk.cells
    family_counts(model.layout, model.output, walk.cells, walk.counts)
    if way != 2:
        for _ in range(count):
            take_out(generator, model, walk)
    if way != 1:
        for _ in range(count):
            draw_anew(generator, model, walk)
    if noise_gain(model.terms, walk) >= log(1.0 - generator.random()):
        walk.values[:] = walk.change
    else:
        walk.cells[:] = walk.before
