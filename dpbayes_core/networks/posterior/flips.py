"""Two moves of many records at once: a flip of one node, and a renewal of whole records.

A flip chooses random records with one configuration of the node's parents and one level of the node. One by one it
gives them another level and draws their descendants given all other records. For any number of records this leaves
the collapsed prior invariant, so the acceptance ratio is that of the noise and of the node's own row. It moves totals
of many cells, which moves along single lines change slowly.

A renewal removes random records, draws new ones given those that remain, or both. Under the collapsed prior with n
uniform on its range, each is the other's reverse, so only the noise enters the acceptance ratio. It helps
where the noisy sums are hardly informative.
"""

from math import exp, log

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.networks.posterior.kernel import Walk, below, cell_of, fill, term_value, weighted
from dpbayes_core.networks.posterior.model import NOISE, Flips, Layout, Model, Output, Terms


@compiled
def family_counts(layout: Layout, output: Output, cells: Floats, counts: Floats) -> None:
    """The counts of every family, one family after the other."""
    counts[:] = 0.0
    for family in range(output.owner.size):
        base, first = layout.offset[output.owner[family]], output.start[family]
        for place in range(first, output.start[family + 1]):
            counts[output.first[family] + output.place[place]] += cells[base + place - first]


@compiled
def row_of(output: Output, flips: Flips, walk: Walk, family: int) -> int:
    """The index where the family's row starts, for the parents' levels in `walk`."""
    row = 0
    for place in range(flips.parents.shape[1]):
        parent = flips.parents[family, place]
        if parent >= 0:
            row = row * output.levels[parent] + walk.level[parent]
    return output.first[family] + row * output.levels[family]


@compiled
def shift(model: Model, walk: Walk, node: int, amount: float) -> None:
    """Add or remove a record in all clusters connected to the node's, and in families of the node and descendants."""
    flips = model.flips
    for place in range(flips.clusters.shape[1]):
        cluster = flips.clusters[node, place]
        if cluster >= 0:
            walk.cells[cell_of(model.layout, walk, cluster)] += amount
    for place in range(flips.below.shape[1]):
        family = flips.below[node, place]
        if family >= 0:
            walk.counts[row_of(model.output, flips, walk, family) + walk.level[family]] += amount


@compiled
def draw_descendants(generator: np.random.Generator, model: Model, walk: Walk, node: int) -> None:
    """Draw the levels of the node's descendants, each given its parents and all other records."""
    output = model.output
    for place in range(1, model.flips.below.shape[1]):
        family = model.flips.below[node, place]
        if family >= 0:
            row, total = row_of(output, model.flips, walk, family), 0.0
            for level in range(output.levels[family]):
                total += output.concentration[family] + walk.counts[row + level]
                walk.weights[level] = total
            walk.level[family] = weighted(generator, walk.weights, int(output.levels[family]))


@compiled
def choose_record(generator: np.random.Generator, model: Model, walk: Walk, node: int, place: int) -> None:
    """Choose uniformly one of the records in this cell of the node's table."""
    output, flips = model.output, model.flips
    rest = (place - output.first[node]) // output.levels[node]
    walk.level[:] = -1
    walk.level[node] = (place - output.first[node]) % output.levels[node]
    for back in range(flips.parents.shape[1] - 1, -1, -1):
        parent = flips.parents[node, back]
        if parent >= 0:
            walk.level[parent] = rest % output.levels[parent]
            rest //= output.levels[parent]
    for back in range(flips.clusters.shape[1]):
        if flips.clusters[node, back] >= 0:
            fill(generator, model.layout, walk, flips.clusters[node, back], (0, False))


@compiled
def noise_gain(terms: Terms, walk: Walk) -> float:
    """The change in the log density of the noise; the terms' new values are written to `walk.change`."""
    fresh, total = walk.change, 0.0
    fresh[:] = 0.0
    for cell in range(walk.cells.size):
        for place in range(terms.start[cell], terms.start[cell + 1]):
            fresh[terms.touched[place]] += terms.sign[place] * walk.cells[cell]
    for term in range(fresh.size):
        if terms.kind[term] == NOISE:
            total += term_value(NOISE, terms.first[term], terms.second[term], fresh[term])
            total -= term_value(NOISE, terms.first[term], terms.second[term], walk.values[term])
    return total


@compiled
def flip_records(generator: np.random.Generator, model: Model, walk: Walk, node: int, count: int) -> float:
    """Flip `count` records of one row from one level to another; returns the log ratio without the noise's."""
    output, ratio = model.output, 0.0
    first, last, levels = output.first[node], output.first[node + 1], output.levels[node]
    concentration = output.concentration[node]
    row = first + below(generator, (last - first) // levels) * levels
    source, target = below(generator, levels), below(generator, levels - 1)
    target += target >= source
    for _ in range(count):
        here, there = walk.counts[row + source], walk.counts[row + target]
        if here < 1.0:
            return -np.inf
        choose_record(generator, model, walk, node, row + source)
        shift(model, walk, node, -1.0)
        walk.level[node] = target
        draw_descendants(generator, model, walk, node)
        shift(model, walk, node, 1.0)
        ratio += log((concentration + there) / (concentration + here - 1.0)) + log(here / (there + 1.0))
    return ratio


@compiled
def flip(generator: np.random.Generator, model: Model, walk: Walk) -> None:
    """Propose to flip records, small numbers more often than large ones, and accept or reject."""
    count = int(min(exp(generator.random() * log(model.flips.most + 1.0)), model.flips.most))
    node = model.flips.nodes[below(generator, model.flips.nodes.size)]
    walk.before[:] = walk.cells
    family_counts(model.layout, model.output, walk.cells, walk.counts)
    ratio = flip_records(generator, model, walk, node, count)
    if ratio > -np.inf:
        ratio += noise_gain(model.terms, walk)
    if ratio >= log(1.0 - generator.random()):
        walk.values[:] = walk.change
    else:
        walk.cells[:] = walk.before


@compiled
def add_record(model: Model, walk: Walk, amount: float) -> None:
    """Add `amount` (1 or -1) records of the chosen levels in every cluster and family."""
    for cluster in range(model.layout.size.size):
        walk.cells[cell_of(model.layout, walk, cluster)] += amount
    for family in range(model.output.owner.size):
        walk.counts[row_of(model.output, model.flips, walk, family) + walk.level[family]] += amount


@compiled
def remove_record(generator: np.random.Generator, model: Model, walk: Walk) -> None:
    """Remove one record, chosen uniformly: cluster by cluster, a cell that agrees with the earlier clusters."""
    walk.level[:] = -1
    for cluster in range(model.layout.size.size):
        fill(generator, model.layout, walk, cluster, (0, False))
    add_record(model, walk, -1.0)


@compiled
def draw_record(generator: np.random.Generator, model: Model, walk: Walk) -> None:
    """Add one record from its law given all others."""
    output = model.output
    for family in model.flips.order:
        row, total = row_of(output, model.flips, walk, family), 0.0
        for level in range(output.levels[family]):
            total += output.concentration[family] + walk.counts[row + level]
            walk.weights[level] = total
        walk.level[family] = weighted(generator, walk.weights, int(output.levels[family]))
    add_record(model, walk, 1.0)


@compiled
def renew(generator: np.random.Generator, model: Model, walk: Walk) -> None:
    """Propose to remove records, draw new ones, or both, small numbers more often than large; accept by the noise."""
    count = int(min(exp(generator.random() * log(model.flips.most + 1.0)), model.flips.most))
    rows = walk.cells[: model.layout.offset[1]].sum()
    way = below(generator, 3) if model.most_rows > 0 else 0  # 0: both, 1: remove, 2: draw
    if (way != 2 and rows < count) or (way == 2 and rows + count > model.most_rows):
        return
    walk.before[:] = walk.cells
    family_counts(model.layout, model.output, walk.cells, walk.counts)
    if way != 2:
        for _ in range(count):
            remove_record(generator, model, walk)
    if way != 1:
        for _ in range(count):
            draw_record(generator, model, walk)
    if noise_gain(model.terms, walk) >= log(1.0 - generator.random()):
        walk.values[:] = walk.change
    else:
        walk.cells[:] = walk.before
