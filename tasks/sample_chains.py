"""Run chains on Dask in blocks, with checkpoints after them, until they converge or reach the limit of draws."""

import time
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from dpbayes.analyses.checkpoints import Checkpoints
from dpbayes.analyses.prepare import Analysis
from dpbayes.analyses.workspace import Workspace
from dpbayes_core.errors import DpbayesError
from dpbayes_core.samplers.driver import choose, run_rounds
from dpbayes_core.samplers.registry import SAMPLERS
from dpbayes_core.sampling.posterior import Posterior
from dpbayes_core.sampling.protocol import Block, ChainState
from dpbayes_core.sampling.rounds import ChainDraws, Round
from storage.files.durable import make_folder
from tasks.chain_blocks import Ran, run_block
from tasks.chain_progress import ChainObserver, ShareOfTime
from tasks.dask import dask_workers
from tasks.dask_faults import DaskLost
from tasks.dask_workers import Workers
from tasks.progress import report
from tasks.run_names import task_name
from tasks.stamp import software_versions

FIRST_BLOCK = 100
"""Iterations of the first blocks; the size of a block changes no draw."""

SECONDS = 2.0
"""How long a worker is to be busy with a block: long against the way there and back, short against its loss."""

KEEPING = 0.05
"""The share of the time that checkpoints may take; the last one of a round is always written."""


def _is_retried(_task: Any, _run: Any, state: Any) -> bool:
    """Retry a lost cluster and unexpected errors, but no other known failure, which would only be repeated."""
    return isinstance(state.data, DaskLost) or not isinstance(state.data, DpbayesError)


@task(
    name="sample-chains",
    task_run_name=task_name("sample-chains"),
    retries=2,
    retry_delay_seconds=2,
    retry_condition_fn=_is_retried,
    persist_result=False,
    cache_policy=NO_CACHE,
)
def sample_chains(prepared: Workspace) -> tuple[Posterior, float]:
    """The posterior of stored releases, and the seconds that its chains took."""
    analysis, work, dask = prepared.analysis, prepared.work, prepared.dask
    make_folder(work, mode=0o700)
    checkpoints = Checkpoints(work, analysis.key, software_versions())
    start = time.monotonic()
    report("sampling", 0.0)
    with dask_workers(dask, work, kept="finished blocks are kept") as workers:
        return _run(analysis, workers, checkpoints), time.monotonic() - start


def _run(analysis: Analysis, workers: Workers, checkpoints: Checkpoints) -> Posterior:
    """Draw the posterior as `sample` does in one process, but with every block run on the cluster."""
    request, evidence = analysis.request, analysis.evidence
    choice = choose(evidence, request.sampler)
    problem = choice.sampler.prepare(evidence, analysis.prior)
    observer = ChainObserver(evidence, choice.sampler, request.draws)
    cluster = _Chains(workers, request.sampler, problem, checkpoints, observer)
    return run_rounds(
        evidence,
        choice,
        problem,
        cluster.finish,
        chains=request.chains,
        draws=request.draws,
        seed=request.seed,
        current=checkpoints.round(),
    )


@dataclass
class _Chains:
    """The chains of one posterior on a cluster; each block's draws come back here, so at most some seconds are lost."""

    workers: Workers
    sampler: str
    problem: Any  # sent with each block: a shared copy would draw all blocks to the workers that have it
    checkpoints: Checkpoints
    observer: ChainObserver
    iterations: int = FIRST_BLOCK  # of the next block: as many as take a worker `SECONDS`
    keeping: ShareOfTime = field(default_factory=lambda: ShareOfTime(KEEPING))

    def finish(self, chains: list[ChainDraws], current: Round) -> list[ChainDraws]:
        """Run every chain to the end of the round, from its checkpoint if there is one."""
        self.checkpoints.begin(current)
        chains = [self.checkpoints.chain(index, current) or chain for index, chain in enumerate(chains)]
        end = SAMPLERS[self.sampler].warmup(current.attempt) + current.draws
        self.observer.begin(current, chains, end)
        for index in range(len(chains)):
            self._submit(index, chains[index].state, end)
        for index, ran in self.workers.finished():
            self._adapt(ran, ran.state.iteration - chains[index].state.iteration)
            chains[index] = _extended(chains[index], ran.state, ran.made)
            self._submit(index, ran.state, end)  # before all else: the worker has nothing to do
            if ran.state.iteration == end or self.keeping.allows:
                with self.keeping.spent():
                    self.checkpoints.keep(index, chains[index])
            self.observer.report(chains)
        return chains

    def _submit(self, index: int, state: ChainState, end: int) -> None:
        left = end - state.iteration
        if left > 0:
            blocks = ceil(left / self.iterations)  # of one size, lest the last one be a crumb
            self.workers.submit(index, run_block, self.sampler, self.problem, state, ceil(left / blocks))

    def _adapt(self, ran: Ran, iterations: int) -> None:
        fitting = round(iterations * SECONDS / max(ran.seconds, 1e-6))
        self.iterations = max(1, min(fitting, 8 * iterations))


def _extended(chain: ChainDraws, state: ChainState, made: Block) -> ChainDraws:
    return ChainDraws(state=state, made=made if chain.made is None else chain.made.followed_by(made))
