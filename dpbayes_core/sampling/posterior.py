"""Posterior draws in the user's units: their sampler, their convergence, and summaries, contrasts, probabilities."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Floats
from dpbayes_core.sampling.diagnostics import MOST_DIVERGENT, Diagnosis, diagnose, digits_against
from dpbayes_core.sampling.work_limits import beyond

if TYPE_CHECKING:
    from dpbayes_core.regression.prediction import Predictive, Rows
    from dpbayes_core.regression.schema import RegressionSchema

Draws = Mapping[str, Floats]
Statement = Callable[[Draws], NDArray[np.bool_]]


@dataclass(frozen=True)
class Estimate:
    """A number and its Monte Carlo standard error."""

    value: float
    error: float


@dataclass(frozen=True)
class Moments:
    """Posterior mean and sd of a coefficient, and the Monte Carlo standard error of the mean."""

    mean: float
    sd: float
    error: float


@dataclass(frozen=True)
class CoefficientSummary:
    """One coefficient's moments and 95% interval in the user's units, with its diagnostics."""

    name: str
    mean: float
    sd: float
    q025: float
    q975: float
    rhat: float
    ess_bulk: float
    ess_tail: float


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """Draws of every coefficient and sigma, of shape (chains, draws), and of the latent statistic as a monitor."""

    draws: Mapping[str, Floats]
    latent: Mapping[str, Floats]  # the statistic's entries in standardised units; empty where nothing is latent
    sampler: str
    choice: str  # why this sampler
    target: str
    calibrated: bool
    caveat: str
    release: str  # digest of the release that was analysed
    seed: int
    attempt: int  # 1 where divergences made a second, more careful run necessary
    divergences: int
    gradients: int
    cost: str = ""  # how the sampler's time grows
    expected: Mapping[str, tuple[Floats, Floats]] = field(default_factory=dict[str, tuple[Floats, Floats]])
    """Per draw, each coefficient's mean and variance given the latent statistic, where the sampler knows them."""

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """Diagnostics of every coefficient, then of the latent statistic."""
        monitored = {**self.draws, **self.latent}
        return diagnose(tuple(monitored), np.stack(list(monitored.values())))

    @property
    def converged(self) -> bool:
        """Whether every diagnostic passes the gate."""
        return not self.why_not

    @property
    def why_not(self) -> str:
        """The reasons why the chains have not converged, as sentences; empty when they have."""
        words = self.diagnosis.failures()
        if self.divergent:
            share = digits_against(100 * self._divergent_share, 100 * MOST_DIVERGENT, ".2g")
            words.insert(0, f"{share}% of the draws are divergent, above 0.1%")
        if words and self.exhausted:
            words.append("going on would be more work than a run may be")
        return "; ".join(words)

    @property
    def exhausted(self) -> bool:
        """Whether a run twice as long would exceed the limit on work."""
        chains, draws = next(iter(self.draws.values())).shape
        sizes = {"entries": len(self.latent), "parameters": len(self.draws)}
        return beyond(gradients=self.gradients / chains, kept=chains * draws, **sizes)

    @property
    def divergent(self) -> bool:
        """Whether more draws than the gate allows ended in a divergent trajectory."""
        return self._divergent_share > MOST_DIVERGENT

    @property
    def least_ess(self) -> float:
        """The smallest effective sample size, bulk or tail, of anything monitored; 0 where one does not exist."""
        found = self.diagnosis
        return float(np.nan_to_num(np.concatenate([found.ess_bulk, found.ess_tail])).min())

    @property
    def _divergent_share(self) -> float:
        return self.divergences / next(iter(self.draws.values())).size

    def summary(self) -> list[CoefficientSummary]:
        """One line a coefficient, sigma last."""
        found = self.diagnosis
        lines: list[CoefficientSummary] = []
        for place, (name, values) in enumerate(self.draws.items()):
            low, high = np.quantile(values, (0.025, 0.975))
            mixed = (float(x[place]) for x in (found.rhat, found.ess_bulk, found.ess_tail))
            moments = (float(values.mean()), float(values.std(ddof=1)), float(low), float(high))
            lines.append(CoefficientSummary(name, *moments, *mixed))
        return lines

    def moments(self) -> dict[str, Moments]:
        """Mean and sd by coefficient: averages of conditional moments where the sampler knows them, else of the draws.

        Rao-Blackwell: the mean is that of conditional means; the variance is the mean of conditional variances and the
        variance of conditional means. That has less Monte Carlo error than the summary.
        """
        found: dict[str, Moments] = {}
        for name, values in self.draws.items():
            means, variances = self.expected.get(name, (values, np.zeros(())))
            spread = float(means.var(ddof=1)) + float(np.mean(variances))
            found[name] = Moments(float(means.mean()), math.sqrt(spread), _error(means))
        return found

    def interval(self, name: str, level: float = 0.95) -> tuple[float, float]:
        """The equal-tailed interval of a coefficient, of this posterior probability."""
        if not 0 < level < 1:
            raise ValueError("cannot give an interval: its level is a probability between 0 and 1. Write 0.95, say.")
        low, high = np.quantile(self.contrast({name: 1.0}), ((1 - level) / 2, (1 + level) / 2))
        return float(low), float(high)

    def contrast(self, weights: Mapping[str, float]) -> Floats:
        """Draws of a weighted sum of coefficients."""
        if not weights:
            raise ValueError("cannot form a contrast: it names no coefficient. Give names and their weights.")
        self._check(*weights)
        return sum((weight * self.draws[name] for name, weight in weights.items()), np.zeros(()))

    def probability(self, statement: Statement) -> Estimate:
        """The posterior probability of a statement about draws, such as `lambda draws: draws["age"] > 0`."""
        true = np.asarray(statement(self.draws))
        if true.dtype != np.bool_ or true.shape != next(iter(self.draws.values())).shape:
            raise ValueError(
                "cannot give a probability: the statement is not true or false of every draw. Compare draws."
            )
        return estimate(true.astype(np.float64))

    def above(self, name: str, value: float) -> Estimate:
        """The posterior probability that a coefficient is larger than `value`."""
        self._check(name)
        return self.probability(lambda draws: draws[name] > value)

    def predict(self, schema: "RegressionSchema", rows: "Rows", generator: np.random.Generator) -> "Predictive":
        """Draws of the response of public rows; `schema` is the release's."""
        from dpbayes_core.regression.prediction import predict

        return predict(self.draws, schema, rows, generator)

    def _check(self, *names: str) -> None:
        for name in names:
            if name not in self.draws:
                known = ", ".join(self.draws)
                raise ValueError(f"cannot use {name}: the posterior has no such name. Choose from {known}.")


def estimate(values: Floats) -> Estimate:
    """The mean of values (chains, draws), and its error with allowance for autocorrelation."""
    return Estimate(float(values.mean()), _error(values))


def _error(values: Floats) -> float:
    """Standard error of the mean, by the effective sample size; 0 where nothing varies."""
    from arviz_stats.base.array import array_stats  # imports scipy.stats

    if np.ptp(values) == 0:
        return 0.0
    size: Any = array_stats.ess(values[None], method="mean")
    return float(values.std(ddof=1) / np.sqrt(np.asarray(size).item()))
