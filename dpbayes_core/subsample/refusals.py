"""Refusals from public facts alone, before any row is read: each function returns one, or None."""

import math

from dpbayes_core.errors import Refusal
from dpbayes_core.subsample.schema import OpenSchema

LEAST_ROWS = 10  # of a subset, for each coefficient
LEAST_RANKS = 30  # subsets times epsilon, below which an exponential mechanism gives noise alone


def subsets_refusal(schema: OpenSchema, *, subsets: int, rows: int) -> Refusal | None:
    """Why the declared rows cannot be split into this number of subsets."""
    if subsets < 2:
        what = f"cannot split rows into {subsets} subset: an aggregate needs two"
        return Refusal("subsets", what, "Declare more subsets")
    least = LEAST_ROWS * len(schema.coefficients)
    if rows < subsets * least:
        fits = rows // least
        advice = f"Declare {fits} or fewer" if fits >= 2 else "Use fewer covariates, or more rows"
        what = f"cannot split {rows} declared rows into {subsets} subsets: each needs {least}"
        return Refusal("subsets", what, advice)
    return None


def epsilon_refusal(epsilon: float) -> Refusal | None:
    """Why no release is possible at this epsilon."""
    if math.isfinite(epsilon) and epsilon > 0:
        return None
    return Refusal("epsilon", f"cannot release at epsilon {epsilon:g}: it must be a positive number", "State one")


def coefficient_refusal(schema: OpenSchema, coefficient: str) -> Refusal | None:
    """Why this coefficient cannot be queried."""
    if coefficient in schema.coefficients:
        return None
    known = ", ".join(schema.coefficients)
    what = f"cannot ask about {coefficient}: the regression has no such coefficient"
    return Refusal("coefficient", what, f"Choose from {known}")


def threshold_refusal(threshold: float) -> Refusal | None:
    """Why this threshold cannot be used."""
    if math.isfinite(threshold):
        return None
    return Refusal("threshold", "cannot ask about a threshold: it is not a finite number", "State one")


def least_refusal(least: float) -> Refusal | None:
    """Why Fisher's method cannot cut probabilities here."""
    if 0 < least < 0.5:
        return None
    what = f"cannot cut probabilities at p* = {least:g}: it must lie between 0 and 0.5"
    return Refusal("least", what, "Choose such a one")


def outer_refusal(outer: tuple[float, float] | None) -> Refusal | None:
    """Why these outer bounds of a quantile cannot be used."""
    if outer is None:
        what = "cannot release a quantile: no outer bounds are declared"
        return Refusal("outer", what, "State two numbers that surely enclose it")
    low, high = outer
    if math.isfinite(low) and math.isfinite(high) and math.isfinite(high - low) and low < high:
        return None
    what = "cannot release a quantile: its outer bounds are not two increasing finite numbers"
    return Refusal("outer", what, "State such bounds")


def ranks_refusal(*, subsets: int, epsilon: float) -> Refusal | None:
    """Why an exponential mechanism would give noise alone."""
    if subsets * epsilon >= LEAST_RANKS:
        return None
    need = math.ceil(LEAST_RANKS / epsilon)
    what = (
        f"cannot release a quantile from {subsets} subsets at epsilon {epsilon:g}: their product is below {LEAST_RANKS}"
    )
    return Refusal("subsets", what, f"Declare {need} subsets or more, or raise epsilon")


def quantile_refusal(probability: float) -> Refusal | None:
    """Why a quantile of this probability cannot be released."""
    if 0 < probability < 1:
        return None
    what = f"cannot release the quantile of {probability:g}: it must lie between 0 and 1"
    return Refusal("probabilities", what, "State another probability")


def noise_to_signal(*, subsets: int, epsilon: float) -> float:
    """The noise of a released mean, in standard deviations of the posterior that it estimates (at p = 1/2)."""
    return math.sqrt(4 * math.pi) / (math.sqrt(subsets) * epsilon)


def unresolvable(*, subsets: int, epsilon: float) -> bool:
    """Whether the noise exceeds the posterior's spread, so that no confident answer is possible."""
    return noise_to_signal(subsets=subsets, epsilon=epsilon) > 1
