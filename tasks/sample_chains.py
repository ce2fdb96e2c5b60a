"""Run chains on Dask in blocks, with a checkpoint after each, until they converge or reach the limit of draws."""

import time
from dataclasses import dataclass
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
from dpbayes_core.sampling.rounds import BLOCK, ChainDraws, Round
from storage.files.durable import make_folder
from tasks.dask import dask_workers
from tasks.dask_faults import DaskLost
from tasks.dask_workers import Workers
from tasks.progress import report
from tasks.run_names import task_name
from tasks.stamp import software_versions


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
    cluster = _Chains(workers, request.sampler, problem, checkpoints)
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


@dataclass(frozen=True)
class _Chains:
    """The chains of one posterior on a cluster; each block's draws come back here, so at most one block is lost."""

    workers: Workers
    sampler: str
    problem: Any
    checkpoints: Checkpoints

    def finish(self, chains: list[ChainDraws], current: Round) -> list[ChainDraws]:
        """Run every chain to the end of the round, from its checkpoint if there is one."""
        self.checkpoints.begin(current)
        chains = [self.checkpoints.chain(index, current) or chain for index, chain in enumerate(chains)]
        end = SAMPLERS[self.sampler].warmup(current.attempt) + current.draws
        for index in range(len(chains)):
            self._submit(index, chains[index].state, end)
        for index, ended in self.workers.finished():
            chains[index] = _extended(chains[index], *ended)
            self.checkpoints.keep(index, chains[index])
            report("sampling", sum(chain.state.iteration for chain in chains) / (end * len(chains)))
            self._submit(index, chains[index].state, end)
        return chains

    def _submit(self, index: int, state: ChainState, end: int) -> None:
        left = end - state.iteration
        if left > 0:
            self.workers.submit(index, run_block, self.sampler, self.problem, state, min(BLOCK, left))


def run_block(sampler: str, problem: Any, state: ChainState, iterations: int) -> tuple[ChainState, Block]:
    """Run one block on a worker: pure, so that repeating it after a crash gives the same draws bit for bit."""
    return SAMPLERS[sampler].run_block(problem, state, iterations)


def _extended(chain: ChainDraws, state: ChainState, made: Block) -> ChainDraws:
    return ChainDraws(state=state, made=made if chain.made is None else chain.made.followed_by(made))
