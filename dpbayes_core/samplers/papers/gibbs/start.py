"""Where chains start: the noisy values with noise once more, moved to a scatter that data could have."""

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.samplers.papers.gibbs.flat import LAPLACE, ROWS, Noisy, Work
from dpbayes_core.samplers.papers.gibbs.parameters import place_statistic
from dpbayes_core.samplers.papers.gibbs.repair import repair

LEAST_VARIANCE = 0.01  # of a standardised variable


@compiled
def disperse(generator: np.random.Generator, noisy: Noisy, work: Work, statistic: Floats) -> None:
    """Fill `statistic`; known entries keep their values."""
    for entry in range(statistic.size):
        if noisy.numbers[LAPLACE] == 1.0:
            noise = generator.standard_exponential() - generator.standard_exponential()
        else:
            noise = generator.standard_normal()
        statistic[entry] = noisy.values[entry] + noisy.scales[entry] * noise
    place_statistic(statistic, noisy, work.moments)
    repair(work.moments, work.scatter, work.vectors, work.root, LEAST_VARIANCE * noisy.numbers[ROWS])
    for entry in range(statistic.size):
        if noisy.scales[entry] > 0.0:
            statistic[entry] = work.moments[noisy.entries[entry, 0], noisy.entries[entry, 1]]
