"""Names of the indices in the collapsed density's arrays: kernels are called faster with few flat arrays."""

from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.mechanisms import noise_law

# part.numbers: rows, the law of the noise, first coordinate, columns of C that are not empty, the first free column
# (0: means are free; 1: no intercept), the transformation of C for Laplace noise, whether the number of rows is
# latent, whether C is relative to the reference's; which coordinate sigma has, whether its rows are in the
# coordinates of a prior that does not depend on sigma (wide.py), and for those a likely variance of the response and
# the first column of C that is filled after the numbers' own products (wide.py; the first number's row: none is)
ROWS, NOISE, OFFSET, COLUMNS, LOW, TRANSFORM, LATENT, RELATED, SIGMA, WIDE, BALL, EARLY = range(12)
# values of part.numbers[NOISE]; SMOOTHED: pseudo-Huber, the Laplace law's slope and curvature 1/(2 b^2)
GAUSSIAN, LAPLACE, SMOOTHED = noise_law.GAUSSIAN.code, noise_law.LAPLACE.code, 2
# values of part.numbers[TRANSFORM]: none; entries are corrected; kinks are removed, too (laplace_transform.py)
PLAIN, CORRECTING, UNKINKING = range(3)
# values of part.numbers[SIGMA]: no coordinate; its logarithm; the logarithm of its ratio to C_yy
NO_SIGMA, ABSOLUTE, RATIO = range(3)
# part.matrices: z and its noise scales (0: not released); z and the noise's standard deviations divided by the public
# number of rows
NOISY, SCALES, MEAN_NOISY, MEAN_SD = range(4)
# part.weights: the power of C_kk is FIXED_POWER + ROW_POWER * rows; the typical size of C_kk; the square of C_kk below
# which the release hardly informs the response along k; the sum of squares before C_kk at the reference (-1: of the
# row before the transformation); the unit of a row's squared length in its coordinate; precision of a slope's prior,
# precision times mean, and the square that keeps its pivot from vanishing; of a factor's rows, the unit of a rare
# level's odds in its coordinate (0: the coordinate is the logit), and in the first of them the base of the logits (0:
# the reference; else the level of that number, whose own coordinate is then the reference's)
FIXED_POWER, ROW_POWER, UNIT, FAINT, ANCHOR, SQUARE, PRECISE, AIM, LEAST, ODDS, BASE = range(11)
# columns of part.blocks, one row per factor: first row of C, number of rows, the difference that a level makes in
# its variable, weight of the summed log shares
FIRST, SIZE, STEP, SHARE = range(4)
# target.numbers: a constant, the rows that moments are divided by, the shape of sigma2's prior, the number of rows
# of factors, 1 with an intercept, twice the power of the correlations' determinant, precision of the means of
# covariates, rate of their variances, 1 where a number of rows is latent, the part whose C the others' are relative to
# (-1: none), and where sigma is not integrated out the rate of its gamma law, whose shape is that above (0: it is);
# where covariates of parts differ, the first shared coordinate (0: parts have one law, or there is one part), and the
# scale of the half-normal priors of the spreads between parts
CONSTANT, UNIT_ROWS, SHAPE, INSIDE, INTERCEPT, POWER, MEAN_PRECISION, VARIANCE_RATE, COUNTED, REFERENCE = range(10)
RATE, DIFFERING, BETWEEN = 10, 11, 12
# work of a part: C, H, M, M^-1 [U, I] and derivatives in each; C C'; shares and their slopes in row 0; C before the
# transformation, derivatives in it, and C corrected, before kinks are removed, with its residuals (transposed) in the
# other triangle; the r_j of each row
FACTOR, WITHIN, MIXING, ROTATED = range(4)
BAR, WITHIN_BAR, ROTATED_BAR, MIXING_BAR = range(4, 8)
MOMENTS, ROOT, INVERSE, SHARES, REST, SLOPES, ORIGINAL, ORIGINAL_BAR, CORRECTED, LENGTHS = range(8, 18)
# where a prior does not depend on sigma: B with softened pivots, S, the Cholesky factor of A and its inverse, and
# derivatives in S and A; vectors in their rows 0
SOFTENED, SPREAD, PRECISION, COVARIANCE, SPREAD_BAR, PRECISION_BAR = range(18, 24)
# where levels come after numbers, of late column c and row i > c: tanh w (i, c) and 1 / cosh w (c, i); r (i, c) and
# g (c, i); derivatives in the angles (i, c) and in g (c, i)
ROTATION, REACH, ROTATION_BAR = range(24, 27)
SLOTS = 27
RELATIVE, PULLED = ROOT, INVERSE  # W of a part whose C is the reference's times W, and derivatives in its head
# work of the whole, the last one: MOMENTS of all parts, ROOT and INVERSE as they come, and in PULL, derivatives in
# MOMENTS: twice those on the diagonal
PULL = FACTOR
FREE = SHARES  # log sigma where it is not integrated out, and the derivative in it, at the head of row 0
SCALED = WITHIN  # the prior's matrix times sigma2


class Part(NamedTuple):
    """One release, variables in the order of the coordinates."""

    numbers: Floats  # (12,); where the number of rows is not public, every evaluation sets it
    matrices: Floats  # (4, m+1, m+1)
    weights: Floats  # (11, m+1)
    blocks: Floats  # (factors, 4)


class Target(NamedTuple):
    """Releases and one prior as arrays."""

    numbers: Floats  # (13,)
    response: Floats  # M0 over the unit rows
    parts: Floats  # (parts, 12)
    matrices: Floats  # (parts, 4, m+1, m+1)
    weights: Floats  # (parts, 11, m+1)
    blocks: Floats  # (factors, 4)


def work_for(target: Target) -> Floats:
    """Work space: one for each part, and one for the whole."""
    size = target.response.shape[0]
    return np.zeros((len(target.parts) + 1, SLOTS, size, size))
