"""Names for the places in the collapsed density's arrays: a few flat ones are fast to pass between kernels."""

from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.mechanisms import noise_law

# part.numbers: rows, the law of the noise, first coordinate, columns of C that are not empty, the first free column
# (0: means are free; 1: no intercept), what is done to C where noise is Laplace's, whether the number of rows is
# latent, whether C is relative to the reference's; what its coordinates say of sigma, whether its rows are in
# the coordinates of a prior that does not depend on sigma (wide.py), and for those a likely variance of the response
# and the first column of C that is placed after the numbers' own products (wide.py; the first number's row: none is)
ROWS, NOISE, OFFSET, COLUMNS, LOW, BENT, LATENT, RELATED, SIGMA, WIDE, BALL, EARLY = range(12)
# values of part.numbers[NOISE]; SMOOTHED: pseudo-Huber, the Laplace law's slope and curvature 1/(2 b^2)
GAUSSIAN, LAPLACE, SMOOTHED = noise_law.GAUSSIAN.code, noise_law.LAPLACE.code, 2
# values of part.numbers[BENT]: nothing; entries are corrected; kinks are removed, too (laplace_transform.py)
PLAIN, STEADIED, KINKED = range(3)
# values of part.numbers[SIGMA]: nothing; its logarithm; and that of its ratio to C_yy
ELSEWHERE, ABSOLUTE, RATIO = range(3)
# part.matrices: z and its noise scales (0: not released), and a row at the public number of rows both z and the noise's
# standard deviations
NOISY, SCALES, SEEN, HIDDEN = range(4)
# part.weights: the power of C_kk is ALONE + EACH * rows; about how large it is; the square below which the response
# is hardly known along k; the sum of squares before C_kk at the reference (-1: of the straight row); the square of a
# row's length that its coordinate is measured by; precision of a slope's prior, that times its mean, and the square
# that keeps its pivot from vanishing; of a factor's rows, the odds by which a rare level's coordinate is measured (0:
# it is the logit), and in the first of them what logits are against (0: the reference; else the level of that number,
# whose own coordinate is then the reference's)
ALONE, EACH, UNIT, FAINT, ANCHOR, SQUARE, PRECISE, AIM, LEAST, ODDS, BASE = range(11)
# columns of part.blocks, one row per factor: first row of C, number of rows, what switching a level on adds to
# its variable, weight of the summed log shares
FIRST, SIZE, STEP, SHARE = range(4)
# target.numbers: a constant, the rows that moments are divided by, the shape of sigma2's prior, the number of rows
# of factors, 1 with an intercept, twice the power of the correlations' determinant, precision of the means of
# covariates, rate of their variances, 1 where a number of rows is latent, the part whose C the others' are relative to
# (-1: none), and where sigma is not integrated out the rate of its gamma law, whose shape is that above (0: it is);
# where covariates of parts differ, the first coordinate of what they share (0: parts have one law, or are one), and the
# scale of the half-normal priors of how much they differ
CONSTANT, UNIT_ROWS, SHAPE, INSIDE, INTERCEPT, POWER, MEAN_PRECISION, VARIANCE_RATE, COUNTED, REFERENCE = range(10)
RATE, DIFFERING, APART = 10, 11, 12
# work of a part: C, H, M, M^-1 [U, I] and what is derived in them; C C'; shares and their slopes in row 0;
# C before entries are corrected, derivatives in it, and C after that, before kinks are removed, next to
# its residuals (transposed); the r_j of each row
FACTOR, WITHIN, MIXING, ROTATED = range(4)
BAR, WITHIN_BAR, ROTATED_BAR, MIXING_BAR = range(4, 8)
MOMENTS, ROOT, INVERSE, SHARES, REST, SLOPES, STRAIGHT, STRAIGHT_BAR, STEADY, LENGTHS = range(8, 18)
# where a prior does not depend on sigma: B with softened pivots, S, the Cholesky factor of A and its inverse, and what
# is derived in S and A; vectors in their rows 0
SOFTENED, SPREAD, PRECISION, COVARIANCE, SPREAD_BAR, PRECISION_BAR = range(18, 24)
# where levels come after numbers, of late column c and row i > c: tanh w (i, c) and 1 / cosh w (c, i); r (i, c) and
# g (c, i); derivatives in the angles (i, c) and in g (c, i)
TURN, REACH, TURN_BAR = range(24, 27)
SLOTS = 27
RELATIVE, PULLED = ROOT, INVERSE  # W of a part whose C is the reference's times W, and derivatives in its head
# work of the whole, the last one: MOMENTS of all parts, ROOT and INVERSE as they come, and in PULL, derivatives in
# MOMENTS: twice those on the diagonal
PULL = FACTOR
FREE = SHARES  # log sigma where it is not integrated out, and the derivative in it, at the head of row 0
SCALED = WITHIN  # the prior's matrix times sigma2


class Part(NamedTuple):
    """One release, variables in the order of the coordinates."""

    numbers: Floats  # (12,); the rows are set with every evaluation where they are not public
    matrices: Floats  # (4, m+1, m+1)
    weights: Floats  # (11, m+1)
    blocks: Floats  # (factors, 4)


class Target(NamedTuple):
    """Releases and one prior as arrays; `part` gives one release of them."""

    numbers: Floats  # (13,)
    response: Floats  # M0 over the unit rows
    parts: Floats  # (parts, 12)
    matrices: Floats  # (parts, 4, m+1, m+1)
    weights: Floats  # (parts, 11, m+1)
    blocks: Floats  # (factors, 4)


def work_for(target: Target) -> Floats:
    """Fresh work space: one for each part, and one for the whole."""
    size = target.response.shape[0]
    return np.zeros((len(target.parts) + 1, SLOTS, size, size))
