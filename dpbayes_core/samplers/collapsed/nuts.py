"""No-U-turn transitions in whitened coordinates: multinomial trees, generalised U-turn criterion, diagonal metric.

Hoffman & Gelman 2014, Betancourt 2017; the tree is grown leaf by leaf with log2 checkpoints instead of recursion.
"""

from math import exp, log, log1p, sqrt
from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled, inlined
from dpbayes_core.samplers.collapsed.whitened_space import Point, Space, evaluate, new_point
from dpbayes_core.sampling.work_limits import MOST_DEPTH

DIVERGENCE = 1000.0
GROWN, TURNED, DIVERGED = range(3)


class Tree(NamedTuple):
    """Ends, proposals and checkpoints of the trajectory being grown."""

    left: Point
    right: Point
    chosen: Point
    candidate: Point
    total: Floats  # sum of momenta over the tree
    part: Floats  # the same over the new half
    span: Floats  # the same over a finished subtree of the new half
    momenta: Floats  # checkpoints (depth, dimension)
    totals: Floats


class Half(NamedTuple):
    """A new half of the tree to grow."""

    forward: bool
    leaves: int
    step: float
    energy: float  # of the trajectory's start


class Outcome(NamedTuple):
    """The result of growing a half, or of a whole transition."""

    status: int
    weight: float
    acceptance: float
    gradients: int


def new_tree(size: int, depth: int = MOST_DEPTH) -> Tree:
    """An empty tree of at most `depth` doublings."""
    left, right, chosen, candidate = (new_point(size) for _ in range(4))
    return Tree(left, right, chosen, candidate, *np.zeros((3, size)), *np.zeros((2, depth, size)))


@compiled
def copy_point(source: Point, target: Point) -> None:
    """Copy a point's position, gradient and value, not its momentum."""
    target.position[:] = source.position
    target.gradient[:] = source.gradient
    target.value[0] = source.value[0]


@inlined
def leapfrog(space: Space, point: Point, step: float) -> None:
    """One step of Hamilton's equations."""
    for i in range(space.metric.size):
        point.momentum[i] += 0.5 * step * point.gradient[i]
        point.position[i] += step * space.metric[i] * point.momentum[i]
    evaluate(space, point)
    for i in range(space.metric.size):
        point.momentum[i] += 0.5 * step * point.gradient[i]


@compiled
def kinetic(momentum: Floats, metric: Floats) -> float:
    """Kinetic energy."""
    total = 0.0
    for i in range(metric.size):
        total += metric[i] * momentum[i] * momentum[i]
    return 0.5 * total


@compiled
def turning(first: Floats, last: Floats, total: Floats, metric: Floats) -> bool:
    """Whether the trajectory with these end momenta and this sum of momenta starts to turn back."""
    at_first, at_last = 0.0, 0.0
    for i in range(metric.size):
        inner = metric[i] * (total[i] - 0.5 * (first[i] + last[i]))
        at_first += inner * first[i]
        at_last += inner * last[i]
    return at_first <= 0.0 or at_last <= 0.0


@compiled
def turning_within(tree: Tree, momentum: Floats, leaf: int, metric: Floats) -> bool:
    """Whether a subtree that this leaf completes turns; an even leaf starts new subtrees and is stored."""
    highest, bits = 0, leaf >> 1
    while bits:
        highest += bits & 1
        bits >>= 1
    if leaf % 2 == 0:
        tree.momenta[highest] = momentum
        tree.totals[highest] = tree.part
        return False
    slot = highest
    while leaf & 1:
        for i in range(metric.size):
            tree.span[i] = tree.part[i] - tree.totals[slot, i] + tree.momenta[slot, i]
        if turning(tree.momenta[slot], momentum, tree.span, metric):
            return True
        slot -= 1
        leaf >>= 1
    return False


@compiled
def log_sum(first: float, second: float) -> float:
    """log(exp(first) + exp(second)), the second finite."""
    return max(first, second) + log1p(exp(-abs(first - second)))


@inlined
def grow(generator: np.random.Generator, space: Space, tree: Tree, half: Half) -> Outcome:
    """Double the tree on one side, a candidate drawn from the new half by its weights."""
    end = tree.right if half.forward else tree.left
    step = half.step if half.forward else -half.step
    tree.part[:] = 0.0
    weight, acceptance = -np.inf, 0.0
    for leaf in range(half.leaves):
        leapfrog(space, end, step)
        gain = half.energy - kinetic(end.momentum, space.metric) + end.value[0]
        if not gain > -DIVERGENCE:
            return Outcome(DIVERGED, weight, acceptance, leaf + 1)
        acceptance += min(1.0, exp(min(gain, 0.0)))
        tree.part[:] += end.momentum
        weight = log_sum(weight, gain)
        if log(generator.random()) < gain - weight:
            copy_point(end, tree.candidate)
        if turning_within(tree, end.momentum, leaf, space.metric):
            return Outcome(TURNED, weight, acceptance, leaf + 1)
    return Outcome(GROWN, weight, acceptance, half.leaves)


@inlined
def transition(generator: np.random.Generator, space: Space, tree: Tree, step: float) -> Outcome:
    """Move tree.chosen to the next draw of the chain; the outcome's acceptance is the mean over the trajectory."""
    start, metric = tree.chosen, space.metric
    for i in range(metric.size):
        start.momentum[i] = generator.standard_normal() / sqrt(metric[i])
    for end in (tree.left, tree.right):
        copy_point(start, end)
        end.momentum[:] = start.momentum
    tree.total[:] = start.momentum
    energy = kinetic(start.momentum, metric) - start.value[0]
    status, weight, acceptance, gradients = GROWN, 0.0, 0.0, 0
    for depth in range(tree.momenta.shape[0]):
        new = grow(generator, space, tree, Half(generator.random() < 0.5, 1 << depth, step, energy))
        status, acceptance, gradients = new.status, acceptance + new.acceptance, gradients + new.gradients
        if status != GROWN:
            break
        if log(generator.random()) < new.weight - weight:
            copy_point(tree.candidate, tree.chosen)
        weight = log_sum(weight, new.weight)
        tree.total[:] += tree.part
        if turning(tree.left.momentum, tree.right.momentum, tree.total, metric):
            break
    return Outcome(status, weight, acceptance / gradients, gradients)
