"""Laplace noise as normal noise of random variance: the variance given the noise, drawn without cancellation."""

from math import sqrt

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.samplers.papers.gibbs.flat import LAPLACE, Noisy


@compiled
def draw_variance(generator: np.random.Generator, size: float, scale: float) -> float:
    """1 / variance ~ InverseGaussian(mean 1 / (scale size), shape 1 / scale^2), for noise of this absolute size.

    The roots of the usual two-root draw are size and its reciprocal times `long`, a sum of positive terms.
    """
    half = 0.5 * scale * generator.standard_normal() ** 2
    long = size + half + sqrt(half * (2.0 * size + half))
    if generator.random() * (size + long) <= long:
        return scale * long
    return scale * size * (size / long)


@compiled
def draw_variances(generator: np.random.Generator, noisy: Noisy, statistic: Floats, variances: Floats) -> None:
    """The variance of each entry's noise, given the statistic; 0 where the entry is known."""
    for entry in range(variances.size):
        scale = noisy.scales[entry]
        if noisy.numbers[LAPLACE] == 1.0 and scale > 0.0:
            size = abs(noisy.values[entry] - statistic[entry])
            variances[entry] = draw_variance(generator, size, scale)
        else:
            variances[entry] = scale * scale
