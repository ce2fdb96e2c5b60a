"""Names for the places in the collapsed density's arrays: a few flat ones are fast to pass between kernels."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# target.numbers
ROWS, MEAN_WEIGHT, SCATTER, DEGREES, SHAPE, NOISE, CONSTANT = range(7)
# values of target.numbers[NOISE]; SMOOTHED: pseudo-Huber, the Laplace law's slope and curvature 1/(2 b^2)
GAUSSIAN, LAPLACE, SMOOTHED = range(3)
# target.matrices: Q; z and its noise scales (0: not released); K0 / n; M0 / n; row 0: weights of log C_kk
REFERENCE, NOISY, SCALES, NORMAL_PRIOR, RESPONSE_PRIOR, POWERS = range(6)
# columns of target.blocks, one row per factor: first row of C, number of rows, step of its variables when a level
# is switched on, weight of the summed log shares, weight of the flattening determinant
FIRST, SIZE, STEP, SHARE, FLATTEN = range(5)
# work: C, T, H, M, M^-1 [U, I] and what is derived in them; R / n; scratch; shares and their slopes in row 0
FACTOR, FREE, WITHIN, MIXING, ROTATED = range(5)
BAR, FREE_BAR, WITHIN_BAR, ROTATED_BAR, MIXING_BAR = range(5, 10)
MOMENTS, ROOT, INVERSE, PRODUCT, SHARES, REST, SLOPES = range(10, 17)
SLOTS = 17


class Target(NamedTuple):
    """One release and one prior, variables in the order of the coordinates."""

    numbers: Floats
    matrices: Floats  # (6, m+1, m+1)
    blocks: Floats  # (factors, 5)


def work_for(target: Target) -> Floats:
    """Fresh work space."""
    return np.zeros((SLOTS, *target.matrices.shape[1:]))
