"""Posterior probabilities and quantiles of regressions without usable bounds, by subsample and aggregate."""

from dpbayes_core.subsample.fits import OpenPrior
from dpbayes_core.subsample.probability import (
    ProbabilityDesign,
    ProbabilityQuery,
    ProbabilityRelease,
    ProbabilityTerms,
    probability_design,
)
from dpbayes_core.subsample.quantile import QuantileDesign, QuantileRelease, QuantileTerms, quantile_design
from dpbayes_core.subsample.regressions import SubsetMoments, SubsetRegressions
from dpbayes_core.subsample.schema import OpenSchema, Unbounded

__all__ = [
    "OpenPrior",
    "OpenSchema",
    "ProbabilityDesign",
    "ProbabilityQuery",
    "ProbabilityRelease",
    "ProbabilityTerms",
    "QuantileDesign",
    "QuantileRelease",
    "QuantileTerms",
    "SubsetMoments",
    "SubsetRegressions",
    "Unbounded",
    "probability_design",
    "quantile_design",
]
