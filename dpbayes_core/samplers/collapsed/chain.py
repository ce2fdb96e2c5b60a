"""One chain of the collapsed sampler: warm-up, then draws of the statistic and of every parameter given it."""

from math import exp, sqrt
from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.compiled import compiled, inlined
from dpbayes_core.samplers.collapsed.adaptation import STEP, Adaptation, adapt
from dpbayes_core.samplers.collapsed.arrays import (
    DIFFERING,
    FREE,
    INTERCEPT,
    MOMENTS,
    RATE,
    ROOT,
    ROWS,
    SHAPE,
    SLOPES,
    UNIT_ROWS,
)
from dpbayes_core.samplers.collapsed.density import pool, root_of
from dpbayes_core.samplers.collapsed.nuts import DIVERGED, Tree, transition
from dpbayes_core.samplers.collapsed.part_terms import statistic
from dpbayes_core.samplers.collapsed.pools.density import place_parts
from dpbayes_core.samplers.collapsed.whitened_space import Space, evaluate, to_coordinates
from dpbayes_core.samplers.conjugate import describe, draw_coefficients, draw_parameters


class Chain(NamedTuple):
    """The state of one chain, and its space."""

    space: Space
    tree: Tree
    adaptation: Adaptation  # its metric is the space's
    schedule: Integers
    aim: float


class Record(NamedTuple):
    """The recorded draws; `places` and `order` map the order of the coordinates to that of the releases."""

    statistic: Floats  # (draws, entries of every part)
    parameters: Floats  # (draws, coefficients + 1): theta, sigma
    expected: Floats  # (draws, 2 coefficients): means and variances in the user's units given the statistics
    places: Integers  # (entries of every part, 3): part, row, column
    order: Integers  # coefficient of the schema at each position that has one
    units: Floats  # the factors from theta, in the coordinates' order, to the user's coefficients


@inlined
def record_draw(generator: np.random.Generator, space: Space, position: Floats, record: Record, draw: int) -> None:
    """Record the statistics at a position, and one exact draw of the parameters given them."""
    target, work = space.target, space.work
    to_coordinates(space, position)
    if target.numbers[DIFFERING] > 0.0:
        place_parts(space.coordinates, target, work)
    else:
        statistic(space.coordinates, target, work)
    for entry in range(record.places.shape[0]):
        part, row, column = record.places[entry]
        record.statistic[draw, entry] = target.parts[part, ROWS] * work[part, MOMENTS, row, column]
    rows, whole, first = pool(target, work), work[len(target.parts)], 1 - int(target.numbers[INTERCEPT])
    shape, size, root = target.numbers[SHAPE] + 0.5 * rows, record.order.size, whole[ROOT, first:, first:]
    expected, drawn = record.expected[draw], whole[SLOPES, 0]
    if target.numbers[RATE] > 0.0:
        sigma = exp(whole[FREE, 0, 0])
        root_of(sigma * sigma * target.response, first, target.response.shape[0], whole)
        describe(root, sigma * sigma / target.numbers[UNIT_ROWS], record.units, expected[:size], expected[size:])
        draw_coefficients(generator, root, sigma / sqrt(target.numbers[UNIT_ROWS]), drawn)
        drawn[size] = sigma
    else:
        root_of(target.response, first, target.response.shape[0], whole)
        scale = 0.5 * root[size, size] ** 2 / (shape - 1.0)  # mean of sigma2, over the rows that the root is divided by
        describe(root, scale, record.units, expected[:size], expected[size:])
        draw_parameters(generator, root, target.numbers[UNIT_ROWS], shape, drawn)
    for k in range(size):
        record.parameters[draw, record.order[k]] = drawn[k]
    record.parameters[draw, size] = drawn[size]


@inlined
def find_support(chain: Chain) -> None:
    """Evaluate the density at the chain's position; a start of density 0 is first moved towards the centre."""
    start = chain.tree.chosen
    evaluate(chain.space, start)
    for _ in range(60):
        if start.value[0] > -np.inf:
            break
        for i in range(start.position.size):
            start.position[i] *= 0.5
        evaluate(chain.space, start)


@compiled
def advance(
    generator: np.random.Generator, chain: Chain, record: Record, iteration: int, iterations: int
) -> tuple[int, int]:
    """Run `iterations` from `iteration` on; returns divergent transitions after warm-up, and gradients."""
    warmup, divergent, gradients, draw = chain.schedule[3], 0, 0, 0
    position = chain.tree.chosen.position
    find_support(chain)
    for now in range(iteration, iteration + iterations):
        outcome = transition(generator, chain.space, chain.tree, chain.adaptation.numbers[STEP])
        gradients += outcome.gradients
        if now < warmup:
            adapt(chain.adaptation, chain.schedule, now, position, outcome.acceptance - chain.aim)
        else:
            divergent += outcome.status == DIVERGED
            record_draw(generator, chain.space, position, record, draw)
            draw += 1
    return divergent, gradients
