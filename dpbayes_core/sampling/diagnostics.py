"""Whether chains have mixed: rank-normalised split R-hat, effective sample sizes, and the gate they must pass.

Vehtari, Gelman, Simpson, Carpenter and Buerkner (2021), arXiv 1903.08008: ArviZ's numbers to the last bit, of all
quantities at once, for an audit diagnoses every posterior again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

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
    far = np.abs(ordered - np.median(ordered, axis=1, keepdims=True))
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
    covariances = _autocovariances(chains)
    own = covariances[:, 0] * count / (count - 1.0)
    all_of_them = own * (count - 1.0) / count
    if many > 1:
        all_of_them = all_of_them + np.var(chains.mean(axis=2), axis=1, ddof=1)
    correlations = 1.0 - (own[:, None] - covariances) / all_of_them[:, None]
    found = np.array([many * count / _time(each, many * count) for each in correlations])
    still = np.ptp(chains, axis=(1, 2)) < np.finfo(float).resolution
    return np.where(still, float(many * count), found)


def _autocovariances(chains: Floats) -> Floats:
    """The autocovariance at every lag, averaged over chains: (quantities, draws)."""
    from scipy.fft import next_fast_len

    count = chains.shape[2]
    size = next_fast_len(2 * count, real=True)
    waves = np.fft.rfft(chains - chains.mean(axis=2, keepdims=True), n=size, axis=2)
    waves *= np.conjugate(waves)
    found = np.fft.irfft(waves, n=size, axis=2)[:, :, :count]
    return np.ascontiguousarray(np.swapaxes(found / count, 1, 2)).mean(axis=2)


def _time(correlations: Floats, draws: int) -> float:
    """The autocorrelation time, by Geyer's initial monotone sequence: sums of two lags, positive and falling."""
    if np.isnan(correlations[:2]).any():
        return np.nan
    at, monotone = correlations.tolist(), np.zeros(len(correlations))
    even, odd, lag = 1.0, at[1], 1
    monotone[:2] = even, odd
    while lag < len(at) - 3 and even + odd > 0.0:
        even, odd = at[lag + 1], at[lag + 2]
        if even + odd >= 0:
            monotone[lag + 1 : lag + 3] = even, odd
        lag += 2
    last = lag - 2
    if even > 0:
        monotone[last + 1] = even
    for lag in range(1, last - 1, 2):
        if monotone[lag + 1] + monotone[lag + 2] > monotone[lag - 1] + monotone[lag]:
            monotone[lag + 1 : lag + 3] = (monotone[lag - 1] + monotone[lag]) / 2.0
    time = -1.0 + 2.0 * np.sum(monotone[: last + 1]) + np.sum(monotone[last + 1 : last + 2])
    return max(float(time), 1 / np.log10(draws))
