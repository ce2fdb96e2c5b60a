"""Warm-up: dual averaging of the step size, and variances over windows for the diagonal metric."""

from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.compiled import compiled

STEP, AVERAGE_STEP, ERROR, CENTRE, ROUND, COUNT = range(6)
NUMBERS = 6


class Adaptation(NamedTuple):
    """The state of warm-up, as views of one flat array: a checkpoint is a copy of that."""

    numbers: Floats
    metric: Floats  # inverse mass: variances in whitened units
    mean: Floats
    squares: Floats


@compiled
def restart(adaptation: Adaptation, step: float) -> None:
    """Restart dual averaging, shrinking towards a multiple of `step`."""
    numbers = adaptation.numbers
    numbers[STEP] = step
    numbers[AVERAGE_STEP] = log(step)
    numbers[ERROR] = 0.0
    numbers[CENTRE] = log(10.0 * step)
    numbers[ROUND] = 0.0


@compiled
def learn_step(adaptation: Adaptation, excess: float) -> None:
    """One update of dual averaging (Hoffman & Gelman 2014, section 3.2)."""
    numbers = adaptation.numbers
    numbers[ROUND] += 1.0
    count = numbers[ROUND]
    numbers[ERROR] += (-excess - numbers[ERROR]) / (count + 10.0)
    log_step = numbers[CENTRE] - numbers[ERROR] * sqrt(count) / 0.05
    numbers[AVERAGE_STEP] += (log_step - numbers[AVERAGE_STEP]) * count**-0.75
    numbers[STEP] = exp(log_step)


@compiled
def learn_metric(adaptation: Adaptation, position: Floats) -> None:
    """Add one position to the running variances."""
    adaptation.numbers[COUNT] += 1.0
    for i in range(position.size):
        change = position[i] - adaptation.mean[i]
        adaptation.mean[i] += change / adaptation.numbers[COUNT]
        adaptation.squares[i] += change * (position[i] - adaptation.mean[i])


@compiled
def close_window(adaptation: Adaptation) -> None:
    """Set the metric to the window's variances, shrunk a little towards the 1 of whitened coordinates."""
    count = adaptation.numbers[COUNT]
    for i in range(adaptation.metric.size):
        adaptation.metric[i] = (adaptation.squares[i] * count / (count - 1.0) + 5.0) / (count + 5.0)
    adaptation.numbers[COUNT] = 0.0
    adaptation.mean[:] = 0.0
    adaptation.squares[:] = 0.0
    restart(adaptation, exp(adaptation.numbers[AVERAGE_STEP]))


@compiled
def adapt(adaptation: Adaptation, schedule: Integers, iteration: int, position: Floats, excess: float) -> None:
    """One warm-up iteration; `excess` is the acceptance rate less its target."""
    learn_step(adaptation, excess)
    if schedule[0] <= iteration < schedule[2]:
        learn_metric(adaptation, position)
    if iteration + 1 == schedule[1] or iteration + 1 == schedule[2]:
        close_window(adaptation)
    if iteration + 1 == schedule[3]:
        adaptation.numbers[STEP] = exp(adaptation.numbers[AVERAGE_STEP])


def schedule_for(warmup: int) -> Integers:
    """The iterations at which phases of warm-up end; of 400: 75 for the step, 62 and 188 for the metric, 75 step."""
    return np.array([warmup * end // 400 for end in (75, 137, 325, 400)])


def fresh(size: int) -> Floats:
    """The flat array of an adaptation before its first iteration."""
    flat = np.zeros(NUMBERS + 3 * size)
    adaptation = view(flat)
    adaptation.metric[:] = 1.0
    restart(adaptation, 0.5 * size**-0.25)
    return flat


def view(flat: Floats) -> Adaptation:
    """The adaptation whose numbers a flat array contains."""
    size = (flat.size - NUMBERS) // 3
    return Adaptation(flat[:NUMBERS], *flat[NUMBERS:].reshape(3, size))
