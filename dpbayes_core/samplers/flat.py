"""Names for the places in the collapsed density's arrays: a few flat ones are fast to pass between kernels."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# target.numbers
ROWS, NOISE, CONSTANT = range(3)
# values of target.numbers[NOISE]; SMOOTHED: pseudo-Huber, the Laplace law's slope and curvature 1/(2 b^2)
GAUSSIAN, LAPLACE, SMOOTHED = range(3)
# target.matrices: Q; z and its noise scales (0: not released); K0 / n; M0 / n
REFERENCE, NOISY, SCALES, NORMAL_PRIOR, RESPONSE_PRIOR = range(5)
# rows of target.weights: of log C_kk; of the logs of the Cholesky diagonals of K0 + R_x and of M0 + R
OF_FACTOR, OF_NORMAL, OF_RESPONSE = range(3)
# columns of target.blocks, one row per factor: first row of C, number of rows, what switching a level on adds to
# its variable, weight of the summed log shares
FIRST, SIZE, STEP, SHARE = range(4)
# work: C, T, H, M, M^-1 [U, I] and what is derived in them; R / n; scratch; shares and their slopes in row 0;
# C before the kinks of Laplace noise are taken out, its residuals in units of the noise, and exp(-|residual| / W)
FACTOR, FREE, WITHIN, MIXING, ROTATED = range(5)
BAR, FREE_BAR, WITHIN_BAR, ROTATED_BAR, MIXING_BAR = range(5, 10)
MOMENTS, ROOT, INVERSE, PRODUCT, SHARES, REST, SLOPES, STRAIGHT, RESIDUAL, NEAR = range(10, 20)
SLOTS = 20


class Target(NamedTuple):
    """One release and one prior, variables in the order of the coordinates."""

    numbers: Floats
    matrices: Floats  # (5, m+1, m+1)
    weights: Floats  # (3, m+1)
    blocks: Floats  # (factors, 4)


def work_for(target: Target) -> Floats:
    """Fresh work space."""
    return np.zeros((SLOTS, *target.matrices.shape[1:]))
