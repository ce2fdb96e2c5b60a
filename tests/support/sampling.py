"""Whether two samplers' draws agree, within the Monte Carlo error of both."""

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.sampling.diagnostics import diagnose


def bulk(draws: Floats) -> Floats:
    """Effective sample size of each column of (chains, draws, quantities)."""
    quantities = np.moveaxis(draws, 2, 0)
    return diagnose([str(k) for k in range(len(quantities))], quantities).ess_bulk


def distance(first: Floats, second: Floats) -> float:
    """Largest distance of means and of log sds, in standard errors; both (chains, draws, quantities)."""
    distances: list[Floats] = []
    for change in (lambda x: x, lambda x: (x - x.mean(axis=(0, 1))) ** 2):
        means, errors = [], []
        for draws in (first, second):
            values = change(draws)
            means.append(values.mean(axis=(0, 1)))
            errors.append(values.var(axis=(0, 1)) / bulk(values))
        distances.append(np.abs(means[0] - means[1]) / np.sqrt(errors[0] + errors[1]))
    return float(np.max(distances))


def weighted_distance(draws: Floats, sample: Floats, weights: Floats) -> float:
    """As `distance`, the second an importance sample (samples, quantities) with weights."""
    share = weights / weights.sum()
    centre = share @ sample
    distances: list[Floats] = []
    for change in (lambda x: x, lambda x: (x - centre) ** 2):
        values, own = change(draws), change(sample)
        expected = share @ own
        error = values.var(axis=(0, 1)) / bulk(values) + share**2 @ (own - expected) ** 2
        distances.append(np.abs(values.mean(axis=(0, 1)) - expected) / np.sqrt(error))
    return float(np.max(distances))
