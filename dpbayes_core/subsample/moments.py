"""Counts, means and centred scatters of subsets in doubles, from exact sums, centred before rounding."""

from dataclasses import dataclass

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.confidential import Confidential
from dpbayes_core.subsample.regressions import SubsetMoments


@dataclass(frozen=True, repr=False, eq=False)
class SubsetScatters(Confidential):
    """Each subset's rows, means and centred products of (covariates..., response); zeros for an empty one."""

    counts: Floats  # (subsets,)
    means: Floats  # (subsets, width)
    scatters: Floats  # (subsets, width, width)


def scatters(moments: SubsetMoments) -> SubsetScatters:
    """The scatters, centred in integers so that only the results are rounded."""
    from dpbayes_core.subsample.kernels import LEAST, LIMBS

    subsets, entries = moments.words.shape[:2]
    width = _width(entries)
    sums = sum(moments.words[..., k].astype(object) * (1 << (32 * k)) for k in range(LIMBS))  # in units of 2^LEAST
    sums = np.asarray(sums, dtype=object).reshape(subsets, entries)
    counts = np.maximum(moments.counts, 1).astype(object)
    means = np.array(sums[:, :width] / (counts[:, None] * (1 << -LEAST)), dtype=np.float64)
    found = np.empty((subsets, width, width))
    places = [(i, j) for i in range(width) for j in range(i, width)]
    for entry, (i, j) in enumerate(places, start=width):
        centred = counts * (sums[:, entry] * (1 << -LEAST)) - sums[:, i] * sums[:, j]
        found[:, i, j] = found[:, j, i] = (centred / (counts * (1 << (-2 * LEAST)))).astype(np.float64)
    return SubsetScatters(moments.counts.astype(np.float64), means, found)


def _width(entries: int) -> int:
    return round((np.sqrt(9 + 8 * entries) - 3) / 2)  # entries = width + width (width + 1) / 2
