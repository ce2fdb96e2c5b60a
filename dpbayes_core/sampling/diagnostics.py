"""Whether chains have mixed: R-hat and effective sample sizes by ArviZ's array layer, and the gate they must pass."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
        """The diagnostics that miss the gate, in words; one that is not a number misses it."""
        words: list[str] = []
        for what, values, worst, limit in (
            ("R-hat", self.rhat, np.argmax(np.nan_to_num(self.rhat, nan=np.inf)), f"above {MOST_RHAT}"),
            ("bulk effective sample size", self.ess_bulk, np.argmin(np.nan_to_num(self.ess_bulk)), "below 400"),
            ("tail effective sample size", self.ess_tail, np.argmin(np.nan_to_num(self.ess_tail)), "below 400"),
        ):
            passed = values <= MOST_RHAT if what == "R-hat" else values >= LEAST_ESS
            if not passed.all():
                bound, digits = (MOST_RHAT, ".3f") if what == "R-hat" else (LEAST_ESS, ".0f")
                words.append(f"{what} of {self.names[worst]} is {shown_beside(values[worst], bound, digits)}, {limit}")
        return words


def shown_beside(value: float, bound: float, form: str) -> str:
    """`value` in this form, and with as many more digits as show on which side of `bound` it is."""
    digits, style = int(form[1:-1]), form[-1]
    while float(shown := f"{value:.{digits}{style}}") == bound != value:
        digits += 1
    return shown


def diagnose(names: Sequence[str], draws: Floats) -> Diagnosis:
    """The diagnosis of `draws`, of shape (quantities, chains, draws): chains and draws where ArviZ expects them."""
    from arviz_stats.base.array import array_stats  # imports scipy.stats: only where chains are judged

    with np.errstate(divide="ignore", invalid="ignore"):  # a constant quantity has no R-hat, and so fails the gate
        return Diagnosis(
            names=tuple(names),
            rhat=np.asarray(array_stats.rhat(draws, method="rank"), dtype=np.float64),
            ess_bulk=np.asarray(array_stats.ess(draws, method="bulk"), dtype=np.float64),
            ess_tail=np.asarray(array_stats.ess(draws, method="tail", prob=(0.05, 0.95)), dtype=np.float64),
        )
