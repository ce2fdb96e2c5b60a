"""Measures of how good an answer is: distances between laws, coverage, errors with their Monte Carlo error."""

import numpy as np

from dpbayes_core.arrays import Floats


def ks_uniform(ranks: Floats) -> float:
    """Kolmogorov-Smirnov distance of ranks in [0, 1] from the uniform law: 0 where posteriors are calibrated."""
    ordered, count = np.sort(np.ravel(ranks)), np.size(ranks)
    steps = np.arange(count + 1) / count
    return float(max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max()))


def ks_distance(first: Floats, second: Floats) -> float:
    """Kolmogorov-Smirnov distance of two samples."""
    a, b = np.sort(np.ravel(first)), np.sort(np.ravel(second))
    both = np.concatenate([a, b])
    below = [np.searchsorted(sample, both, side="right") / len(sample) for sample in (a, b)]
    return float(np.abs(below[0] - below[1]).max())


def posterior_ranks(draws: Floats, truths: Floats) -> Floats:
    """The share of each row's draws below its truth; draws (repetitions, draws), truths (repetitions,)."""
    return (draws < truths[:, None]).mean(axis=1)


def coverage(low: Floats, high: Floats, truths: Floats) -> tuple[float, float]:
    """The share of intervals that contain their truth, and its standard error."""
    covered = (low <= truths) & (truths <= high)
    share = float(covered.mean())
    return share, float(np.sqrt(max(share * (1 - share), 0.25 / covered.size) / covered.size))


def root_mean_square(errors: Floats) -> tuple[float, float]:
    """The root mean square of errors (repetitions, ...), and its standard error over repetitions."""
    squares = np.square(errors).reshape(len(errors), -1).mean(axis=1)
    whole = float(np.sqrt(squares.mean()))
    return whole, float(squares.std(ddof=1) / np.sqrt(len(squares)) / (2 * whole)) if len(squares) > 1 else np.inf


def mmd(first: Floats, second: Floats) -> float:
    """Unbiased squared maximum mean discrepancy of two samples (draws, dimensions), Gaussian kernel.

    The kernel's width is the median distance within both samples together.
    """
    both = np.concatenate([first, second])
    squared = np.square(both[:, None, :] - both[None, :, :]).sum(axis=2)
    width = np.median(squared[np.triu_indices(len(both), 1)])
    kernel = np.exp(-squared / (width if width > 0 else 1.0))
    m, n = len(first), len(second)
    within = (kernel[:m, :m].sum() - m) / (m * (m - 1)) + (kernel[m:, m:].sum() - n) / (n * (n - 1))
    return float(within - 2 * kernel[:m, m:].mean())
