"""Whether chains have mixed: rank-normalised split R-hat, effective sample sizes, and the gate they must pass.

Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021), arXiv 1903.08008: ArviZ's numbers to the last bit, of all
quantities at once, for an audit diagnoses every posterior again.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Floats

MOST_RHAT = 1.01
LEAST_ESS = 400.0
MOST_DIVERGENT = 0.001  # of the draws


@dataclass(frozen=True)
class Diagnosis:
    """One number per quantity: rank-normalised split R-hat, bulk and tail effective sample size."""

    names: tuple[str, ...]
    rhat: Floats
    ess_bulk: Floats
    ess_tail: Floats

    def failures(self) -> list[str]:
        """A sentence for each diagnostic that fails the gate; NaN fails it."""
        words: list[str] = []
        for what, values, worst, limit in (
            ("R-hat", self.rhat, np.argmax(np.nan_to_num(self.rhat, nan=np.inf)), f"above {MOST_RHAT}"),
            ("bulk effective sample size", self.ess_bulk, np.argmin(np.nan_to_num(self.ess_bulk)), "below 400"),
            ("tail effective sample size", self.ess_tail, np.argmin(np.nan_to_num(self.ess_tail)), "below 400"),
        ):
            passed = values <= MOST_RHAT if what == "R-hat" else values >= LEAST_ESS
            if not passed.all():
                bound, digits = (MOST_RHAT, ".3f") if what == "R-hat" else (LEAST_ESS, ".0f")
                number = digits_against(values[worst], bound, digits)
                words.append(f"{what} of {self.names[worst]} is {number}, {limit}")
        return words


def digits_against(value: float, bound: float, form: str) -> str:
    """`value` in this format, with more digits where it would otherwise print like `bound`."""
    digits, style = int(form[1:-1]), form[-1]
    while float(shown := f"{value:.{digits}{style}}") == bound != value:
        digits += 1
    return shown


def diagnose(names: Sequence[str], draws: Floats) -> Diagnosis:
    """The diagnosis of `draws`, (quantities, chains, draws); a quantity that is not finite gets NaN, and so fails."""
    found = np.full((3, draws.shape[0]), np.nan)
    at_once = max(1, MOST_AT_ONCE // max(1, draws[0].size)) if len(draws) else 1
    for start in range(0, len(draws) if draws.shape[2] >= FEWEST_DRAWS else 0, at_once):
        part = np.asarray(draws[start : start + at_once], dtype=np.float64)
        with np.errstate(all="ignore"):  # a constant quantity has no R-hat, and so fails the gate
            known = np.isfinite(part).all(axis=(1, 2))
            if known.any():
                found[:, start : start + at_once][:, known] = _diagnosed(part[known])
    if draws.shape[1] < 2:
        found[0] = np.nan
    return Diagnosis(tuple(names), *found)


FEWEST_DRAWS = 4
MOST_AT_ONCE = 1 << 14  # draws that are processed together, so that they fit in the processor's cache
TAILS = (0.05, 0.95)


def _diagnosed(draws: Floats) -> tuple[Floats, Floats, Floats]:
    """R-hat, bulk and tail effective sample sizes."""
    halves = _split(draws)
    flat = halves.reshape(len(halves), -1)
    order = np.argsort(flat, axis=1)
    ordered = np.take_along_axis(flat, order, axis=1)  # sorted: quantiles are fast, and folding gives two sorted runs
    middle = ordered.shape[1] // 2
    far = np.abs(ordered - ordered[:, middle - 1 : middle + 1].mean(axis=1, keepdims=True))
    outward = np.argsort(far, axis=1, kind="stable")
    bulk = _normal_scores(order, ordered).reshape(halves.shape)
    places, distances = np.take_along_axis(order, outward, axis=1), np.take_along_axis(far, outward, axis=1)
    folded = _normal_scores(places, distances).reshape(halves.shape)
    whole = draws.reshape(len(draws), -1) if draws.shape[2] % 2 else ordered  # halves leave an odd draw out
    low, high = (_effective(_split(draws <= at)) for at in np.quantile(whole, TAILS, axis=1)[..., None, None])
    one, other = _rhat(bulk), _rhat(folded)
    return np.where(other > one, other, one), _effective(bulk), np.where(high < low, high, low)


def _split(draws: NDArray[np.generic]) -> Floats:
    """Each chain as two: the first halves, then the last."""
    half = draws.shape[2] // 2
    return np.concatenate((draws[:, :, :half], draws[:, :, -half:]), axis=1).astype(np.float64)


def _normal_scores(order: NDArray[np.intp], ordered: Floats) -> Floats:
    """Each value's rank among those of its quantity, ties sharing theirs, as a quantile of the normal law.

    `ordered` has the values in ascending order, and `order` the place of each in the scores.
    """
    known, scores = _scores(ordered.shape[1]), np.empty_like(ordered)
    for places, values, mine in zip(order, ordered, scores, strict=True):
        ends = values[1:] != values[:-1]
        if ends.all():
            mine[places] = known[::2]
            continue
        last = np.flatnonzero(np.append(ends, True))  # of those that share a rank
        many = np.diff(last, prepend=-1)
        mine[places] = known[np.repeat(2 * last - many + 1, many)]
    return scores


@lru_cache(maxsize=8)
def _scores(count: int) -> Floats:
    """The normal scores of ranks 1, 1.5, 2, ..., `count`, with Blom's offset."""
    from scipy.special import ndtri

    ranks = 0.5 * np.arange(2, 2 * count + 1)
    found: Floats = ndtri((ranks - 3 / 8) / (count - 2 * (3 / 8) + 1))
    return found


def _rhat(chains: Floats) -> Floats:
    """R-hat: the root of the variance of all draws over that within chains."""
    count = chains.shape[2]
    between = count * np.var(chains.mean(axis=2), axis=1, ddof=1)
    within = np.var(chains, axis=2, ddof=1).mean(axis=1)
    return np.sqrt((between / within + count - 1) / count)


def _effective(chains: Floats) -> Floats:
    """Effective sample sizes, from the chains' autocorrelations while these are positive."""
    _, many, count = chains.shape
    times: list[float | None] = [None]
    means, lags = chains.mean(axis=2), FIRST_LAGS
    between, covariances = np.var(means, axis=1, ddof=1), _autocovariances(chains, means)
    while None in times:
        at_first = _correlations(covariances[:, :, :lags], between, count).tolist()
        times, lags = [_time(each, count, many * count) for each in at_first], 8 * lags
    still = np.ptp(chains, axis=(1, 2)) < np.finfo(float).resolution
    return np.where(still, float(many * count), many * count / np.array(times))


FIRST_LAGS = 64
"""How many lags are tried first: most sequences end within them."""


def _autocovariances(chains: Floats, means: Floats) -> Floats:
    """Each chain's autocovariance at every lag, times the number of draws; `means` are the chains' means."""
    from scipy.fft import next_fast_len

    _, many, count = chains.shape
    size, found = cast("int", next_fast_len(2 * count, real=True)), np.empty_like(chains)
    waves, back = np.empty((many, size // 2 + 1), dtype=np.complex128), np.empty((many, size))
    for mine, each, mean in zip(found, chains, means, strict=True):  # one quantity at a time fits a processor's cache
        np.fft.rfft(each - mean[:, None], n=size, axis=1, out=waves)
        np.multiply(waves, np.conjugate(waves), out=waves)
        mine[:] = np.fft.irfft(waves, n=size, axis=1, out=back)[:, :count]
    return found


def _correlations(covariances: Floats, between: Floats, count: int) -> Floats:
    """The autocorrelation at the first lags, over all chains: (quantities, lags); `count` is the draws of a chain."""
    found = np.ascontiguousarray(np.swapaxes(covariances / count, 1, 2)).mean(axis=2)
    own = found[:, 0] * count / (count - 1.0)
    return 1.0 - (own[:, None] - found) / (own * (count - 1.0) / count + between)[:, None]


def _time(at: Sequence[float], count: int, draws: int) -> float | None:
    """The autocorrelation time, by Geyer's initial monotone sequence: sums of two lags, positive and falling.

    `at` has the autocorrelations at the first of `count` lags; None if the sequence does not end within them.
    """
    if math.isnan(at[0]) or math.isnan(at[1]):
        return math.nan
    even, odd, lag = 1.0, at[1], 1
    monotone = [even, odd, *[0.0] * (len(at) - 2)]
    while lag < count - 3 and even + odd > 0.0:
        if lag + 2 >= len(at):
            return None
        even, odd = at[lag + 1], at[lag + 2]
        if even + odd >= 0:
            monotone[lag + 1 : lag + 3] = even, odd
        lag += 2
    last = lag - 2
    if even > 0:
        monotone[last + 1] = even
    for lag in range(1, last - 1, 2):
        if monotone[lag + 1] + monotone[lag + 2] > monotone[lag - 1] + monotone[lag]:
            monotone[lag + 1 : lag + 3] = [(monotone[lag - 1] + monotone[lag]) / 2.0] * 2
    time = -1.0 + 2.0 * np.sum(monotone[: last + 1]) + monotone[last + 1]
    return max(float(time), 1 / np.log10(draws))
