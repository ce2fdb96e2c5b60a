"""Run chains on Dask, block by block with a checkpoint after each, until the gate is passed or the cap reached."""

import logging
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed import Client, Future, LocalCluster, as_completed
from prefect import task
from prefect.cache_policies import NO_CACHE

from dpbayes_core.posterior import Posterior
from dpbayes_core.samplers.driver import begin, choose, combine
from dpbayes_core.samplers.interface import Block, ChainState
from dpbayes_core.samplers.registry import SAMPLERS
from dpbayes_core.samplers.rounds import BLOCK, ChainDraws, Round, first_round, next_round
from storage.analysis import Analysis
from storage.checkpoints import Checkpoints
from storage.disk import make_folder
from storage.workbench import Order, workbench
from tasks.progress import report
from tasks.software import software_versions


@task(
    name="sample-chains",
    task_run_name="sample-chains",
    retries=2,
    retry_delay_seconds=2,
    persist_result=False,
    cache_policy=NO_CACHE,
)
def sample_chains(order: Order) -> tuple[Posterior, float]:
    """The posterior of stored releases, and the seconds that its chains took."""
    with workbench(order) as bench:
        analysis, work, dask = bench.analysis, bench.work, bench.dask
    make_folder(work, mode=0o700)
    checkpoints = Checkpoints(work, analysis.key, software_versions())
    begun = time.monotonic()
    report("sampling", 0.0)
    with _cluster(dask, work) as client:
        return _run(analysis, client, checkpoints), time.monotonic() - begun


def _run(analysis: Analysis, client: Client, checkpoints: Checkpoints) -> Posterior:
    """The same decisions as in one process; only where a block runs differs."""
    request = analysis.request
    choice = choose(analysis.evidence, request.sampler)
    problem = choice.sampler.prepare(analysis.evidence, analysis.prior)
    shared = client.scatter(problem, broadcast=True, hash=False)
    current: Round | None = checkpoints.round() or first_round(request.draws)
    while True:
        checkpoints.begin(current)
        fresh = begin(choice.sampler, problem, current, chains=request.chains, seed=request.seed)
        chains = [checkpoints.chain(place, current) or chain for place, chain in enumerate(fresh)]
        cluster = _Chains(client, request.sampler, shared, checkpoints)
        chains = cluster.finish(chains, current)
        posterior = combine(analysis.evidence, choice, chains, seed=request.seed)
        current = next_round(current, posterior, request.draws)
        if current is None:
            return posterior


@dataclass(frozen=True)
class _Chains:
    """Chains of one problem on a cluster; every block comes back here, so that only the one under way can be lost."""

    client: Client
    sampler: str
    problem: Any
    checkpoints: Checkpoints

    def finish(self, chains: list[ChainDraws], current: Round) -> list[ChainDraws]:
        """Bring every chain to the end of the round."""
        end = SAMPLERS[self.sampler].warmup(current.attempt) + current.draws
        running = as_completed()
        places: dict[str, int] = {}

        def submit(place: int) -> None:
            left = end - chains[place].state.iteration
            if left > 0:
                future = self._submit(chains[place].state, min(BLOCK, left))
                places[future.key] = place
                running.add(future)

        for place in range(len(chains)):
            submit(place)
        for future in running:
            place = places.pop(future.key)
            chains[place] = _extended(chains[place], *future.result())
            self.checkpoints.keep(place, chains[place])
            report("sampling", sum(chain.state.iteration for chain in chains) / (end * len(chains)))
            submit(place)
        return chains

    def _submit(self, state: ChainState, iterations: int) -> Future:
        return self.client.submit(run_block, self.sampler, self.problem, state, iterations, pure=False)


def run_block(sampler: str, problem: Any, state: ChainState, iterations: int) -> tuple[ChainState, Block]:
    """What a worker does: pure, so that running it again after a death gives the same draws bit for bit."""
    return SAMPLERS[sampler].run_block(problem, state, iterations)


def _extended(chain: ChainDraws, state: ChainState, made: Block) -> ChainDraws:
    return ChainDraws(state=state, made=made if chain.made is None else chain.made.followed_by(made))


@contextmanager
def _cluster(dask: str | None, work: Path) -> Generator[Client]:
    """The cluster that DPBAYES_DASK names, else one process for each core of this machine, on loopback."""
    if dask is not None:
        with Client(dask) as client:
            yield client
        return
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # its own option quiets one handler of many
    with (
        tempfile.TemporaryDirectory(dir=work) as scratch,
        LocalCluster(
            processes=True,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
            local_directory=scratch,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client
