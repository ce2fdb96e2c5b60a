"""Subsets' sufficient statistics of synthetic tables, drawn from their exact laws: microseconds for any size."""

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.subsample.moments import SubsetScatters

INTERCEPT, SLOPE = 1.0, 2.0
# the outer two are the paper's; the others reproduce its reported errors
THRESHOLDS = (1.989, 1.993, 1.996, 1.998, 2.0, 2.002, 2.004, 2.007, 2.010)


def simulated(generator: np.random.Generator, *, rows: int, subsets: int) -> SubsetScatters:
    """Subsets of y = 1 + 2 x + e with x and e standard normal, rows assigned at random.

    Means are normal, and the scatter of (x, e) is Wishart, drawn by Bartlett's decomposition.
    """
    counts = generator.multinomial(rows, np.full(subsets, 1 / subsets)).astype(np.float64)
    means = generator.standard_normal((subsets, 2)) / np.sqrt(np.maximum(counts, 1.0))[:, None]
    degrees = np.maximum(counts - 1, 0.0)
    root = np.sqrt(generator.chisquare(np.maximum(degrees, 1e-9)) * (degrees > 0))
    cross = generator.standard_normal(subsets) * (degrees > 0)
    rest = generator.chisquare(np.maximum(degrees - 1, 1e-9)) * (degrees > 1)
    xx, xe, ee = root**2, root * cross, cross**2 + rest
    return SubsetScatters(counts, *_of_response(means, xx, xe, ee))


def _of_response(means: Floats, xx: Floats, xe: Floats, ee: Floats) -> tuple[Floats, Floats]:
    """Means and scatters of (x, y) from those of (x, e)."""
    scatters = np.empty((len(xx), 2, 2))
    scatters[:, 0, 0] = xx
    scatters[:, 0, 1] = scatters[:, 1, 0] = SLOPE * xx + xe
    scatters[:, 1, 1] = SLOPE**2 * xx + 2 * SLOPE * xe + ee
    return np.stack([means[:, 0], INTERCEPT + SLOPE * means[:, 0] + means[:, 1]], axis=1), scatters


def pooled(data: SubsetScatters) -> SubsetScatters:
    """All subsets as one."""
    total = data.counts.sum()
    mean = (data.counts[:, None] * data.means).sum(axis=0) / total
    gaps = data.means - mean
    scatter = data.scatters.sum(axis=0) + np.einsum("s,si,sj->ij", data.counts, gaps, gaps)
    return SubsetScatters(np.array([total]), mean[None], scatter[None])
