"""Posterior draws in the user's units, what drew them, and whether they may be believed."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.diagnostics import MOST_DIVERGENT, Diagnosis, diagnose

Floats = NDArray[np.float64]


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
            words.insert(0, f"{100 * self._divergent_share:.2g}% of the draws are divergent, above 0.1%")
        return "; ".join(words)

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
