"""Posterior draws in the user's units, what drew them, and whether they may be believed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.sampling import posterior_functions as functions
from dpbayes_core.sampling.diagnostics import MOST_DIVERGENT, Diagnosis, diagnose, shown_beside
from dpbayes_core.sampling.work_limits import beyond

if TYPE_CHECKING:
    from dpbayes_core.regression.prediction import Predictive, Rows
    from dpbayes_core.regression.schema import RegressionSchema


@dataclass(frozen=True)
class CoefficientSummary:
    """One line of a result: moments and the 95% interval in the user's units, and how well the chains mixed."""

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
    attempt: int  # 1 where divergences asked for a second, more careful run
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
        """What misses the gate, in words; empty when converged."""
        words = self.diagnosis.failures()
        if self.divergent:
            share = shown_beside(100 * self._divergent_share, 100 * MOST_DIVERGENT, ".2g")
            words.insert(0, f"{share}% of the draws are divergent, above 0.1%")
        if words and self.exhausted:
            words.append("going on would be more work than a run may be")
        return "; ".join(words)

    @property
    def exhausted(self) -> bool:
        """Whether a run twice as long would be more work than a run may be."""
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

    def moments(self) -> dict[str, functions.Moments]:
        """Mean and sd of each coefficient, with less Monte Carlo error than the summary where the sampler allows it."""
        return functions.moments(self.draws, self.expected)

    def interval(self, name: str, level: float = 0.95) -> tuple[float, float]:
        """The equal-tailed interval of a coefficient."""
        return functions.interval(self.contrast({name: 1.0}), level)

    def contrast(self, weights: Mapping[str, float]) -> Floats:
        """Draws of a weighted sum of coefficients."""
        return functions.contrast(self.draws, weights)

    def probability(self, statement: functions.Statement) -> functions.Estimate:
        """The posterior probability of a statement about draws, such as `lambda draws: draws["age"] > 0`."""
        return functions.probability(self.draws, statement)

    def above(self, name: str, value: float) -> functions.Estimate:
        """The posterior probability that a coefficient is larger than `value`."""
        return functions.above(self.draws, name, value)

    def predict(self, schema: "RegressionSchema", rows: "Rows", generator: np.random.Generator) -> "Predictive":
        """Draws of the response of public rows; `schema` is the release's."""
        from dpbayes_core.regression.prediction import predict

        return predict(self.draws, schema, rows, generator)
