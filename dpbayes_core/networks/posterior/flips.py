"""One move of many records at once: their level of one node changes, and what descends from it is drawn anew.

Records of one configuration of the node's parents are taken at random from one level, put in another one by one, and
given descendants drawn given all other records. Drawing them so leaves the collapsed prior as it is, whatever their
number: the noise decides, and the node's own row. It moves totals that many cells hang on, which lines move slowly.
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
    """The first place of the family's row that the parents' levels name."""
    row = 0
    for place in range(flips.parents.shape[1]):
        parent = flips.parents[family, place]
        if parent >= 0:
            row = row * output.levels[parent] + walk.level[parent]
    return output.first[family] + row * output.levels[family]


@compiled
def shift(model: Model, walk: Walk, node: int, amount: float) -> None:
    """Add or take away a record of the chosen levels in the clusters and families that the node is tied to."""
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
    """Levels of the node's descendants, each given its parents and all other records."""
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
def name_record(generator: np.random.Generator, model: Model, walk: Walk, node: int, place: int) -> None:
    """Choose, all alike, one of the records that this place of the node's table counts."""
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
    """The change in the noise terms, whose values anew are left in `change`."""
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
    """Flip so many records of one row from one level to another; the log ratio of the node's row and of the choices."""
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
        name_record(generator, model, walk, node, row + source)
        shift(model, walk, node, -1.0)
        walk.level[node] = target
        draw_descendants(generator, model, walk, node)
        shift(model, walk, node, 1.0)
        ratio += log((concentration + there) / (concentration + here - 1.0)) + log(here / (there + 1.0))
    return ratio


@compiled
def flip(generator: np.random.Generator, model: Model, walk: Walk) -> None:
    """Flip some records, a few more often than many, and keep them if row and noise allow."""
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
