"""One chain of the collapsed sampler: warm-up, then draws of the statistic and of every parameter given it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.samplers.adaptation import STEP, Adaptation, adapt
from dpbayes_core.samplers.collapsed_density import moments, posterior_root, statistic
from dpbayes_core.samplers.compiled import compiled, inlined
from dpbayes_core.samplers.conjugate import draw_parameters
from dpbayes_core.samplers.flat import MOMENTS, OF_RESPONSE, RESPONSE_PRIOR, ROOT, ROWS
from dpbayes_core.samplers.nuts import DIVERGED, Space, Tree, evaluate, to_coordinates, transition

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Chain(NamedTuple):
    """Everything one chain moves or moves through."""

    space: Space
    tree: Tree
    adaptation: Adaptation  # its metric is the space's
    schedule: Integers
    aim: float


class Record(NamedTuple):
    """Where draws go: `places` and `order` lead from the coordinates' order back to the release's."""

    statistic: Floats  # (draws, entries)
    parameters: Floats  # (draws, d + 2): theta, sigma
    places: Integers  # (entries, 2)
    order: Integers


@inlined
def record_draw(generator: np.random.Generator, space: Space, position: Floats, record: Record, draw: int) -> None:
    """The statistic at a position, and one exact draw of the parameters given it."""
    target, work = space.target, space.work
    to_coordinates(space, position)
    statistic(space.coordinates, target, work)
    moments(work)
    rows, size = target.numbers[ROWS], record.order.size
    for entry in range(record.places.shape[0]):
        record.statistic[draw, entry] = rows * work[MOMENTS, record.places[entry, 0], record.places[entry, 1]]
    posterior_root(target, RESPONSE_PRIOR, size, work)
    shape = target.weights[OF_RESPONSE, size - 1] / 2.0
    draw_parameters(generator, work[ROOT], rows, shape, space.slopes)
    for k in range(size - 1):
        record.parameters[draw, record.order[k]] = space.slopes[k]
    record.parameters[draw, size - 1] = space.slopes[size - 1]


@inlined
def settle(chain: Chain) -> None:
    """Evaluate where the chain stands; a start outside the density is first drawn towards the centre."""
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
    settle(chain)
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
