"""Each subset's answer to a query; a subset that cannot be fitted gives the prior's answer."""

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.subsample.fits import OpenPrior, StudentLaws


def probabilities(laws: StudentLaws, place: int, threshold: float, prior: OpenPrior) -> Floats:
    """Each subset's P(coefficient <= threshold)."""
    from scipy.special import stdtr

    location, scale = laws.locations[:, place], laws.scales[:, place]
    with np.errstate(all="ignore"):
        steps = np.where(scale > 0, (threshold - location) / scale, np.where(location <= threshold, np.inf, -np.inf))
        found = np.where(np.isinf(steps), steps > 0, stdtr(np.maximum(laws.degrees, 1e-300), steps))
    sound = laws.usable & np.isfinite(found)
    return np.clip(np.where(sound, found, _prior_probability(prior, place, threshold)), 0.0, 1.0)


def _prior_probability(prior: OpenPrior, place: int, threshold: float) -> float:
    """The prior's P(coefficient <= threshold); 1/2 for an improper prior."""
    from scipy.special import stdtr

    if prior.kind != "normal-inverse-gamma":
        return 0.5
    return float(stdtr(2 * prior.noise_shape, threshold / _prior_scale(prior, place)))


def quantiles(
    laws: StudentLaws, place: int, probability: float, prior: OpenPrior, *, outer: tuple[float, float]
) -> Floats:
    """Each subset's quantile, within the outer bounds; an improper prior's quantile is their middle."""
    from scipy.special import stdtrit

    with np.errstate(all="ignore"):
        step = stdtrit(np.maximum(laws.degrees, 1e-300), probability)
        found = laws.locations[:, place] + np.where(laws.scales[:, place] > 0, step * laws.scales[:, place], 0.0)
    sound = laws.usable & np.isfinite(found)
    return np.clip(np.where(sound, found, _prior_quantile(prior, place, probability, outer)), *outer)


def _prior_quantile(prior: OpenPrior, place: int, probability: float, outer: tuple[float, float]) -> float:
    from scipy.special import stdtrit

    if prior.kind != "normal-inverse-gamma":
        return outer[0] / 2 + outer[1] / 2
    return float(stdtrit(2 * prior.noise_shape, probability)) * _prior_scale(prior, place)


def spreads(laws: StudentLaws, place: int, *, widest: float) -> Floats:
    """Each subset's posterior scale, at most `widest`, which is also the scale of subsets that cannot be fitted."""
    found = laws.scales[:, place]
    return np.where(laws.usable & np.isfinite(found), np.minimum(found, widest), widest)


def _prior_scale(prior: OpenPrior, place: int) -> float:
    width = prior.intercept_sd if place == 0 else prior.coefficient_sd
    return width * float(np.sqrt(prior.noise_scale / prior.noise_shape))
