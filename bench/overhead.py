"""What Prefect, Dask and the archive add to chains: `analyse` against the same chains in bare processes, in one run."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

import numpy as np

from bench.commands import Spent, environment
from dpbayes.analyses.prepare import Analysis, prepare_analysis
from dpbayes.study.load import load_study
from dpbayes_core.samplers.driver import begin, choose
from dpbayes_core.samplers.registry import SAMPLERS
from dpbayes_core.sampling.rounds import first_round, run_chain
from storage.ledger.anchored import AnchoredLedger
from tests.support.desk import PERIOD, STUDY, Desk

DPBAYES = (sys.executable, "-m", "cli")
SECONDS = 60.0
"""How long the chains of the analysis are to take by themselves."""

PROCESSES, CHAINS, MANY, COVARIATES, ROWS = 2, 4, 64, 20, 2000
LIMITS = {"own server": 66 / 60, "running server": 62 / 60, f"{MANY} chains": 1 / 0.9}
"""Ratios required on a quiet machine of two cores; an analysis of 60 seconds may take 6 more, or 2."""


@dataclass(frozen=True)
class Alone:
    """The chains of an analysis in processes that do nothing else."""

    sampler: str
    problem: Any
    seed: int

    @classmethod
    def of(cls, analysis: Analysis) -> "Alone":
        """The chains that the command draws."""
        choice = choose(analysis.evidence, analysis.request.sampler)
        return cls(
            choice.sampler.name, choice.sampler.prepare(analysis.evidence, analysis.prior), analysis.request.seed
        )

    def run(self, number: int, chains: int, draws: int) -> float:
        """Run one of the chains, and return the CPU seconds that it took."""
        sampler, current = SAMPLERS[self.sampler], first_round(draws)
        chain = begin(sampler, self.problem, current, chains=chains, seed=self.seed)[number]
        start = time.process_time()
        run_chain(sampler, self.problem, chain, current)
        return time.process_time() - start


def alone(pool: ProcessPoolExecutor, chains: Alone, count: int, draws: int) -> Spent:
    """The seconds of all chains in the pool, which is started and has compiled already."""
    start = time.perf_counter()
    cpu = sum(pool.map(chains.run, range(count), [count] * count, [draws] * count))
    return Spent(time.perf_counter() - start, cpu)


@contextmanager
def bare_processes(chains: Alone) -> Iterator[tuple[ProcessPoolExecutor, float]]:
    """Processes that have loaded what they need, and the seconds that a draw takes in one of them."""
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        for draws in (10, 400):
            took = list(pool.map(chains.run, range(PROCESSES), [PROCESSES] * PROCESSES, [draws] * PROCESSES))
        yield pool, max(took) / (400 + SAMPLERS[chains.sampler].warmup(0))


def made_desk(folder: Path) -> Desk:
    """A released regression on so many covariates that a draw is no trifle."""
    names = [f"x{number}" for number in range(COVARIATES)]
    random = np.random.default_rng(1)
    columns: dict[str, Any] = {name: random.uniform(0, 1, ROWS) for name in names}
    columns["person"] = [f"P{number}" for number in range(ROWS)]
    columns["pay"] = np.clip(3 + sum(columns[name] for name in names) / 10 + random.normal(0, 0.3, ROWS), 0, 10)
    text = STUDY.replace("  age: {bounds: [16, 80]}\n  female: {levels: [no, yes]}\n", "")
    text = text.replace(
        "  region: {levels: [north, south, east]}\n", "".join(f"  {x}: {{bounds: [0, 1]}}\n" for x in names)
    )
    text = text.replace("[age, female, region]", f"[{', '.join(names)}]")
    (folder / "data").mkdir()
    (folder / "study.yaml").write_text(text)
    desk = Desk(folder)
    desk.write_table(columns)
    command("ledger", "create", str(desk.study))
    command("release", str(desk.study), "--period", PERIOD)
    return desk


def command(*words: str, **more: str) -> tuple[Spent, dict[str, Any]]:
    """The seconds of a command that must end well, with its workers and server, and its document."""
    before, start = getrusage(RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run((*DPBAYES, *words, "--json"), stdout=subprocess.PIPE, env=environment() | more, check=False)
    took, after = time.perf_counter() - start, getrusage(RUSAGE_CHILDREN)
    document = json.loads(done.stdout)
    if done.returncode not in (0, 6):
        raise SystemExit(str(document["error"]))
    return Spent(took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime), document


def analysis_of(desk: Desk) -> Analysis:
    """The analysis that the study declares."""
    study = load_study(desk.study)
    with AnchoredLedger.open(study.path) as anchored:
        return prepare_analysis(study, "pay-posterior", PERIOD, anchored)


def compare(desk: Desk, pool: ProcessPoolExecutor, what: str, count: int, draws: int, **server: str) -> None:
    """Print a line on one analysis of so many chains and draws; the bare processes draw what the command drew."""
    asked = f"chains: {count}\n    draws: {draws}"
    desk.study.write_text(re.sub(r"chains: \d+\n    draws: \d+", asked, desk.study.read_text()))
    took, document = command("analyse", str(desk.study), "--period", PERIOD, **server)
    (one,) = document["analyses"]
    sampling = one["seconds"]["sampling"]
    bare = alone(pool, Alone.of(analysis_of(desk)), count, one["draws"]["made"])
    wall = sampling if count == MANY else took.wall
    print(
        f"{what:<16}{wall:>9.1f}{bare.wall:>9.1f}{wall - bare.wall:>8.1f}{wall / bare.wall:>7.2f}{LIMITS[what]:>18.2f}"
        f"{sampling:>10.1f}{took.cpu - bare.cpu:>11.1f}{took.cpu / bare.cpu:>7.2f}",
        flush=True,
    )


def main(seconds: float = SECONDS, *only: str) -> None:
    """Print seconds and ratios; the bare processes run right after each command."""
    print(f"overhead: `dpbayes analyse` against its chains in {PROCESSES} bare processes; seconds, and ratio of both")
    print(
        f"{'what':<16}{'dpbayes':>9}{'chains':>9}{'added':>8}{'ratio':>7}{'asked for, quiet':>18}{'sampling':>10}"
        f"{'added CPU':>11}{'ratio':>7}"
    )
    with tempfile.TemporaryDirectory() as scratch, running_server(Path(scratch) / "prefect") as server:
        desk = made_desk(Path(scratch))
        chains = Alone.of(analysis_of(desk))
        with bare_processes(chains) as (pool, a_draw):
            for number, what in enumerate(only or LIMITS):
                count = MANY if what == f"{MANY} chains" else CHAINS
                every = round(seconds * PROCESSES / count / a_draw) - SAMPLERS[chains.sampler].warmup(0)
                draws = max(100, every) + number  # so that no analysis is one that was archived
                compare(desk, pool, what, count, draws, **({} if what == "own server" else server))


@contextmanager
def running_server(folder: Path) -> Iterator[dict[str, str]]:
    """A Prefect server of the bench's own, and what a command needs to use it."""
    from cli.environment import ALWAYS, UNLESS_SET

    before = os.environ.copy()
    os.environ.update(ALWAYS | UNLESS_SET | {"PREFECT_HOME": str(folder)})
    from tasks.prefect_server import own_server

    server = own_server()
    assert server is not None, "unset PREFECT_API_URL"
    server.wait()
    found = {name: os.environ[name] for name in ("PREFECT_API_URL", "PREFECT_API_AUTH_STRING")}
    try:
        yield found
    finally:
        server.stop()
        os.environ.clear()
        os.environ.update(before)


if __name__ == "__main__":
    main(float(sys.argv[1]) if sys.argv[1:] else SECONDS, *sys.argv[2:])
