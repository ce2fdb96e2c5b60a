"""One move of the latent tables: slice sampling along a line of integer tables.

A move chooses some nodes T, two levels of each, and a configuration of every other node of the clusters that contain
T. Along its line these 2^|T| cells change by plus or minus the same number: one node in T moves records between two of
its levels; more nodes change an interaction and no smaller table. The line's probability of being chosen is the same
from each of its points.
"""

from math import lgamma, log
from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.compiled import compiled, inlined
from dpbayes_core.networks.posterior.model import NOISE, Layout, Model, Terms

MOST_NODES = 4  # in T


class Walk(NamedTuple):
    """The state of a chain, and its work space."""

    cells: Floats
    values: Floats  # of the terms
    change: Floats  # of the terms, along the line
    marked: Integers  # whether a term is among `found`
    found: Integers  # the terms that change along the line
    level: Integers  # of each node in the line's configuration, -1 where not yet chosen
    chosen: Integers  # T, then its first and its second levels
    weights: Floats  # scratch for choices
    bounds: Floats  # the line's ends
    corner: Integers  # one cluster's cells on the line
    before: Floats  # cells before a proposal
    counts: Floats  # of the families


@inlined
def below(generator: np.random.Generator, count: int) -> int:
    """A uniform integer in 0..count-1."""
    return min(int(generator.random() * count), count - 1)


@compiled
def weighted(generator: np.random.Generator, cumulative: Floats, count: int) -> int:
    """A random index, by its weight; `cumulative` has the cumulative weights."""
    aim = generator.random() * cumulative[count - 1]
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > aim:
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def term_value(kind: int, first: float, second: float, value: float) -> float:
    """One term of the log density."""
    if kind == NOISE:
        return -second * abs(value - first)
    return second * lgamma(first + value)


@compiled
def gain(terms: Terms, walk: Walk, count: int, distance: float) -> float:
    """The sum of the first `count` found terms at this distance along the line."""
    total = 0.0
    for place in range(count):
        term = int(walk.found[place])
        value = float(walk.values[term] + distance * walk.change[term])
        total += term_value(int(terms.kind[term]), float(terms.first[term]), float(terms.second[term]), value)
    return total


@compiled
def extend_line(terms: Terms, walk: Walk, cell: int, sign: float, count: int) -> int:
    """Add a cell, which gains `sign` a step, to the line; returns the number of terms found so far."""
    for place in range(terms.start[cell], terms.start[cell + 1]):
        term = terms.touched[place]
        if not walk.marked[term]:
            walk.marked[term] = 1
            walk.change[term] = 0.0
            walk.found[count] = term
            count += 1
        walk.change[term] += sign * terms.sign[place]
    if sign > 0:
        walk.bounds[0] = max(walk.bounds[0], -walk.cells[cell])
    else:
        walk.bounds[1] = min(walk.bounds[1], walk.cells[cell])
    return count


@compiled
def drop_constant_terms(terms: Terms, walk: Walk, count: int) -> int:
    """Drop the found terms that do not change along the line, and clear the marks; returns how many remain."""
    remaining = 0
    for place in range(count):
        term = walk.found[place]
        walk.marked[term] = 0
        if walk.change[term] != 0.0:
            walk.found[remaining] = term
            remaining += 1
    return remaining


@compiled
def slide(generator: np.random.Generator, terms: Terms, walk: Walk, count: int) -> float:
    """Slice sampling along the line: start from its whole length and shrink towards the current state."""
    low, high = walk.bounds[0], walk.bounds[1]
    floor = gain(terms, walk, count, 0.0) + log(1.0 - generator.random())
    while low < high:
        distance = low + np.floor(generator.random() * (high - low + 1.0))
        if distance == 0.0 or gain(terms, walk, count, distance) > floor:
            break
        if distance < 0.0:
            low = distance + 1.0
        else:
            high = distance - 1.0
    else:
        distance = 0.0
    for place in range(count):
        walk.values[walk.found[place]] += distance * walk.change[walk.found[place]]
    return distance


@compiled
def corners(layout: Layout, walk: Walk, cluster: int, base: int, nodes: int) -> None:
    """Fill walk.corner with one cluster's cells on the line, from the cell `base` of the other nodes' levels."""
    for bits in range(1 << nodes):
        cell = base
        for place in range(nodes):
            side = (bits >> place) & 1
            cell += walk.chosen[(1 + side) * MOST_NODES + place] * layout.stride[cluster, walk.chosen[place]]
        walk.corner[bits] = cell


@inlined
def cell_of(layout: Layout, walk: Walk, cluster: int) -> int:
    """The cluster's cell at the levels chosen so far, with first levels for nodes without a chosen one."""
    cell = layout.offset[cluster]
    for place in range(layout.size[cluster]):
        node = layout.member[cluster, place]
        if walk.level[node] > 0:
            cell += walk.level[node] * layout.stride[cluster, node]
    return cell


@compiled
def weigh(layout: Layout, walk: Walk, cluster: int, nodes: int, free: int) -> int:
    """Fill walk.weights: cumulative counts of records on the line of each configuration of the free nodes."""
    names, base, count, total = walk.chosen[3 * MOST_NODES :], cell_of(layout, walk, cluster), 1, 0.0
    for place in range(free):
        count *= int(layout.levels[names[place]])
    for index in range(count):
        rest, start = index, base
        for place in range(free):
            start += (rest % layout.levels[names[place]]) * layout.stride[cluster, names[place]]
            rest //= layout.levels[names[place]]
        corners(layout, walk, cluster, start, nodes)
        for bits in range(1 << nodes):
            total += walk.cells[walk.corner[bits]]
        walk.weights[index] = total
    return count


@compiled
def fill(generator: np.random.Generator, layout: Layout, walk: Walk, cluster: int, modes: tuple[int, bool]) -> bool:
    """Choose levels of the cluster's remaining nodes, uniformly or by records; False where there are no records."""
    names, free = walk.chosen[3 * MOST_NODES :], 0
    for place in range(layout.size[cluster]):
        if walk.level[layout.member[cluster, place]] == -1:
            names[free] = layout.member[cluster, place]
            free += 1
    if modes[1]:
        for place in range(free):
            walk.level[names[place]] = below(generator, int(layout.levels[names[place]]))
        return True
    count = weigh(layout, walk, cluster, modes[0], free)
    if walk.weights[count - 1] <= 0.0:
        return False
    rest = weighted(generator, walk.weights, count)
    for place in range(free):
        walk.level[names[place]] = rest % layout.levels[names[place]]
        rest //= layout.levels[names[place]]
    return True


@compiled
def on_line(layout: Layout, walk: Walk, cluster: int, nodes: int, group: int) -> bool:
    """Whether the line has cells in the cluster: it contains T, or T is empty and the cluster is in the group."""
    if nodes == 0:
        return layout.group[cluster] == group
    missing = 0
    for place in range(nodes):
        missing += layout.stride[cluster, walk.chosen[place]] == 0
    return missing == 0


@inlined
def sign_of(bits: int, nodes: int) -> float:
    """The sign of a cell's change: plus where an even number of T's nodes is at its second level."""
    sign = 1.0
    for place in range(nodes):
        sign = -sign if (bits >> place) & 1 else sign
    return sign


@compiled
def trace(generator: np.random.Generator, model: Model, walk: Walk, nodes: int, group: int) -> int:
    """Choose the other nodes' levels and find the line's terms; a line without records gets length 0."""
    layout, count = model.layout, 0
    even = nodes == 0 or generator.random() < 0.5
    for cluster in range(layout.size.size):
        if on_line(layout, walk, cluster, nodes, group):
            if not fill(generator, layout, walk, cluster, (nodes, even)):
                walk.bounds[:] = 0.0
                break
            corners(layout, walk, cluster, cell_of(layout, walk, cluster), nodes)
            for bits in range(1 << nodes):
                count = extend_line(model.terms, walk, walk.corner[bits], sign_of(bits, nodes), count)
    return drop_constant_terms(model.terms, walk, count)


@compiled
def pick(generator: np.random.Generator, layout: Layout, walk: Walk) -> int:
    """Choose T and two levels of each of its nodes; returns the number of nodes."""
    names, nodes = walk.chosen[3 * MOST_NODES :], 1
    walk.chosen[0] = weighted(generator, layout.by_node, layout.by_node.size)
    if generator.random() < 0.4:
        cluster = weighted(generator, layout.by_cells, layout.by_cells.size)
        size = int(layout.size[cluster])
        nodes = min(size, 2)
        while nodes < min(size, MOST_NODES) and generator.random() < 0.4:
            nodes += 1
        names[:size] = layout.member[cluster, :size]
        for place in range(nodes):
            other = place + below(generator, size - place)
            names[place], names[other] = names[other], names[place]
            walk.chosen[place] = names[place]
    for place in range(nodes):
        count = int(layout.levels[walk.chosen[place]])
        first, second = below(generator, count), below(generator, count - 1)
        walk.chosen[MOST_NODES + place] = first
        walk.chosen[2 * MOST_NODES + place] = second if second < first else second + 1
    return nodes


@compiled
def move(generator: np.random.Generator, model: Model, walk: Walk) -> None:
    """Choose a line and move along it."""
    layout, nodes, group = model.layout, 0, 0
    walk.level[:] = -1
    walk.bounds[0], walk.bounds[1] = -np.inf, np.inf
    if model.most_rows > 0 and generator.random() < 0.2:
        group, rows = below(generator, int(layout.group[layout.size.size])), 0.0
        for cluster in range(layout.size.size - 1, -1, -1):
            if layout.group[cluster] == group:
                rows = walk.cells[layout.offset[cluster] : layout.offset[cluster + 1]].sum()
        walk.bounds[1] = model.most_rows - rows
    else:
        nodes = pick(generator, layout, walk)
        for place in range(nodes):
            walk.level[walk.chosen[place]] = -2
    count = trace(generator, model, walk, nodes, group)
    if walk.bounds[0] < walk.bounds[1]:
        distance = slide(generator, model.terms, walk, count)
        if distance != 0.0:
            for cluster in range(layout.size.size):
                if on_line(layout, walk, cluster, nodes, group):
                    corners(layout, walk, cluster, cell_of(layout, walk, cluster), nodes)
                    for bits in range(1 << nodes):
                        walk.cells[walk.corner[bits]] += distance * sign_of(bits, nodes)
