"""What is asked of posterior draws: intervals, contrasts, probabilities, moments; each with its Monte Carlo error."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Floats

Draws = Mapping[str, Floats]
Statement = Callable[[Draws], NDArray[np.bool_]]


@dataclass(frozen=True)
class Estimate:
    """A number and its Monte Carlo standard error: how far another run of the same chains might be."""

    value: float
    error: float


@dataclass(frozen=True)
class Moments:
    """Posterior mean and sd of a coefficient, and the Monte Carlo standard error of the mean."""

    mean: float
    sd: float
    error: float


def interval(values: Floats, level: float = 0.95) -> tuple[float, float]:
    """The equal-tailed interval of this posterior probability."""
    if not 0 < level < 1:
        raise ValueError("cannot give an interval: its level is a probability between 0 and 1. Write 0.95, say.")
    low, high = np.quantile(values, ((1 - level) / 2, (1 + level) / 2))
    return float(low), float(high)


def contrast(draws: Draws, weights: Mapping[str, float]) -> Floats:
    """Draws of a weighted sum of coefficients."""
    if not weights:
        raise ValueError("cannot form a contrast: it names no coefficient. Give names and their weights.")
    _known(draws, weights)
    return sum((weight * draws[name] for name, weight in weights.items()), np.zeros(()))


def probability(draws: Draws, statement: Statement) -> Estimate:
    """The posterior probability of a statement about draws, such as `lambda draws: draws["age"] > 0`."""
    held = np.asarray(statement(draws))
    if held.dtype != np.bool_ or held.shape != next(iter(draws.values())).shape:
        raise ValueError("cannot give a probability: the statement is not true or false of every draw. Compare draws.")
    return estimate(held.astype(np.float64))


def above(draws: Draws, name: str, value: float) -> Estimate:
    """The posterior probability that a coefficient is larger than `value`."""
    _known(draws, [name])
    return probability(draws, lambda known: known[name] > value)


def estimate(values: Floats) -> Estimate:
    """The mean of values (chains, draws), whose chains may move slowly."""
    return Estimate(float(values.mean()), _error(values))


def moments(draws: Draws, expected: Mapping[str, tuple[Floats, Floats]]) -> dict[str, Moments]:
    """Mean and sd by coefficient: averages of conditional moments where the sampler knows them, else of the draws.

    Rao-Blackwell: the mean is that of conditional means; the variance is the mean of conditional variances and the
    variance of conditional means.
    """
    found: dict[str, Moments] = {}
    for name, values in draws.items():
        means, variances = expected.get(name, (values, np.zeros(())))
        spread = float(means.var(ddof=1)) + float(np.mean(variances))
        found[name] = Moments(float(means.mean()), math.sqrt(spread), _error(means))
    return found


def _error(values: Floats) -> float:
    """Standard error of the mean, by the effective sample size; 0 where nothing varies."""
    from arviz_stats.base.array import array_stats  # imports scipy.stats

    if np.ptp(values) == 0:
        return 0.0
    size: Any = array_stats.ess(values[None], method="mean")
    return float(values.std(ddof=1) / np.sqrt(np.asarray(size).item()))


def _known(draws: Draws, names: Any) -> None:
    for name in names:
        if name not in draws:
            raise ValueError(f"cannot use {name}: the posterior has no such name. Choose from {', '.join(draws)}.")
