"""Tuples of arrays that kernels take, named: what was released, where a chain stands, what it records."""

from typing import NamedTuple

from dpbayes_core.arrays import Floats

FIXED, WALK, SOLVE = 0, 1, 2  # what is done to the holders' moments: nothing, a random walk, perturb and solve


class Told(NamedTuple):
    """Every holder's noisy moments of (1, x, y) and the variances of their noise, and the prior's moments and shape."""

    noisy: Floats  # (holders, m + 1, m + 1), the response last
    variances: Floats
    prior: Floats  # (m + 1, m + 1)
    shape: float


class Holder(NamedTuple):
    """One holder's noisy moments and the variances of their noise."""

    noisy: Floats
    variances: Floats


class Law(NamedTuple):
    """Parameters given which the holders' moments are independent; `spread` is a Cholesky factor."""

    theta: Floats
    variance: float
    mean: Floats
    spread: Floats


class Step(NamedTuple):
    """A move of theta at this residual variance: its reach, and whether it may come from anywhere."""

    variance: float
    reach: float
    anywhere: bool


class Place(NamedTuple):
    """Where a chain stands; `tuning` is the log variance, its log step, theta's reach, the walks' log degrees."""

    moments: Floats  # (holders, size, size)
    theta: Floats
    tuning: Floats


class Span(NamedTuple):
    """Which iterations to make, and what to do to the holders' moments in each."""

    proposal: int
    begun: int
    warmup: int
    iterations: int


class Record(NamedTuple):
    """Draws after warm-up, a row each."""

    parameters: Floats
    latent: Floats
