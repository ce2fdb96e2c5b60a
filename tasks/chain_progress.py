"""How far running chains are: draws, diagnostics so far, and the time left, at little cost."""

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from dpbayes_core.sampling.diagnostics import LEAST_ESS, diagnose
from dpbayes_core.sampling.protocol import Sampler
from dpbayes_core.sampling.rounds import MOST_EXTENSION, ChainDraws, Round
from tasks.progress import ChainsSoFar, report, report_chains

JUDGING = 0.02  # the share of the time that diagnostics of unfinished chains may take
FEWEST = 20  # draws of each chain that are diagnosed


class ShareOfTime:
    """Allows something as long as it takes no more than a share of the time that has passed."""

    def __init__(self, share: float) -> None:
        self._share, self._begun, self._spent = share, time.monotonic(), 0.0

    @property
    def allows(self) -> bool:
        """Whether it may be done once more."""
        return self._spent <= self._share * (time.monotonic() - self._begun)

    @contextmanager
    def spent(self) -> Generator[None]:
        """Count the time of the block."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self._spent += time.monotonic() - begun


class ChainObserver:
    """Reports the progress of the chains of one posterior, round after round."""

    def __init__(self, evidence: Any, sampler: Sampler, asked: int) -> None:
        self._evidence, self._sampler, self._asked = evidence, sampler, asked
        self._judging = ShareOfTime(JUDGING)
        self._judged: tuple[int, float, float] | None = None  # draws of each chain, ESS, R-hat

    def begin(self, current: Round, chains: Sequence[ChainDraws], end: int) -> None:
        """Begin a round; `end` is the iteration at which each of its chains is finished."""
        self._round, self._end, self._begun = current, end, time.monotonic()
        self._before = _iterations(chains)
        self._judged = None

    def report(self, chains: Sequence[ChainDraws]) -> None:
        """Report how far the chains are by now."""
        done = _iterations(chains)
        report("sampling", done / (self._end * len(chains)))
        draws = min(0 if chain.made is None else len(chain.made.parameters) for chain in chains)
        if draws >= FEWEST and self._judging.allows:
            with self._judging.spent():
                self._judged = (draws, *self._diagnosed(chains, draws))
        ess, rhat = (None, None) if self._judged is None else self._judged[1:]
        left = self._seconds_left(done, len(chains)) if draws else None  # the first blocks also compile
        report_chains(ChainsSoFar(draws=draws, of=self._round.draws, ess=ess, rhat=rhat, seconds_left=left))

    def _diagnosed(self, chains: Sequence[ChainDraws], draws: int) -> tuple[float, float]:
        """The smallest effective sample size and the largest R-hat of anything that must converge."""
        made = [chain.made for chain in chains if chain.made is not None]
        named = dict(self._sampler.draws(self._evidence, np.stack([block.parameters[:draws] for block in made])))
        named |= self._sampler.monitors(self._evidence, np.stack([block.latent[:draws] for block in made]))
        found = diagnose(tuple(named), np.stack(list(named.values())))
        ess = np.nan_to_num(np.concatenate([found.ess_bulk, found.ess_tail])).min()
        return float(ess), float(np.nan_to_num(found.rhat, nan=np.inf).max())

    def _seconds_left(self, done: int, chains: int) -> float | None:
        """The seconds to the end of the round after which enough effective draws are to be expected."""
        pace = (done - self._before) / (time.monotonic() - self._begun)
        if pace <= 0:
            return None
        draws, most = self._round.draws, MOST_EXTENSION * self._asked
        if self._judged is not None:
            judged, ess, _ = self._judged
            while draws * ess < LEAST_ESS * judged and 2 * draws <= most:
                draws *= 2
        return ((self._end + draws - self._round.draws) * chains - done) / pace


def _iterations(chains: Sequence[ChainDraws]) -> int:
    return sum(chain.state.iteration for chain in chains)
