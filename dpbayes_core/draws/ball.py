"""A Gaussian inside a ball, exactly: never a draw pulled back to its edge.

For every shift s >= 0 the density exp(-(t - mu)' L (t - mu) / 2) on |t| <= r is, up to a constant, that of a Gaussian
of precision L + s I and mean (L + s I)^-1 L mu, times exp(-s (r^2 - |t|^2) / 2) <= 1: propose the one, accept with
the other. The shift at which the proposal's expected |t|^2 is r^2 makes acceptance likely; another would be slower.
"""

import numpy as np
from scipy.special import ndtri

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.noise import NoiseSource

GRID_BITS = 28  # of the radius
FIRST_BATCH, LARGEST_BATCH = 64, 4096


def ball_gaussian(noise: NoiseSource, precision: Floats, pull: Floats, radius: float, draws: int) -> Floats:
    """(draws, d) independent draws with density exp(pull . t - t' precision t / 2) on |t| <= radius.

    Published on a public grid of multiples of 2^-28 of the radius, rounded towards zero.
    """
    if not (np.isfinite(radius) and radius > 0) or draws < 1:
        raise ValueError("cannot draw inside a ball: radius or number of draws is not positive. State positive ones.")
    values, vectors = np.linalg.eigh(precision)
    if not values[-1] > 0:
        raise ValueError("cannot draw inside a ball: the precision is not positive. State a prior with a precision.")
    turned = vectors.T @ pull
    shift = shift_for(values, turned, radius)
    mean, spread = turned / (values + shift), 1 / np.sqrt(values + shift)
    found, batch = np.empty((0, len(values))), FIRST_BATCH
    while len(found) < draws:
        uniform = noise.uniform(batch * (len(values) + 1)).reshape(batch, -1)
        batch = min(2 * batch, LARGEST_BATCH)
        proposed = mean + spread * ndtri(uniform[:, 1:])
        room = radius**2 - (proposed**2).sum(axis=1)
        kept = (room >= 0) & (np.log(uniform[:, 0]) < -shift * room / 2)
        found = np.concatenate([found, proposed[kept]])
    cell = radius * 2.0**-GRID_BITS
    return np.trunc(found[:draws] @ vectors.T / cell) * cell


def shift_for(values: Floats, turned: Floats, radius: float) -> float:
    """The root s of |mean|^2 + trace = r^2, both of the proposal; nearly 0 where the ball is wide enough without."""

    def excess(shift: float) -> float:
        return float(((turned / (values + shift)) ** 2 + 1 / (values + shift)).sum()) - radius**2

    least = max(0.0, 1e-12 * float(values[-1]) - float(values[0]))  # every shift is exact; this one can be divided by
    if excess(least) <= 0:
        return least
    low, high = least, max(1.0, least)
    while excess(high) > 0:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high
