"""Small tables with given subsets, summed by the pass's own kernels."""

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Floats
from dpbayes_core.subsample.kernels import LIMBS, add_rows
from dpbayes_core.subsample.moments import SubsetScatters, scatters
from dpbayes_core.subsample.regressions import SubsetMoments


def dealt(rows: Floats, numbers: NDArray[np.int64], subsets: int) -> SubsetScatters:
    """Scatters of rows (covariates..., response); `numbers` has the subset of each."""
    width = rows.shape[1]
    counts, words = np.zeros(subsets, np.int64), np.zeros((subsets, width + width * (width + 1) // 2, LIMBS), np.int64)
    flat = words.reshape(-1)
    add_rows(np.ascontiguousarray(rows), numbers, counts, flat)
    return scatters(SubsetMoments(counts, words))
