"""Chains of pools and noisy counts are the same bytes however a run is cut, restored or moved."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dpbayes_core.regression.pool import Evidence, pooled
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.samplers.registry import SAMPLERS
from dpbayes_core.sampling.rounds import ChainDraws, Round, run_chain
from tests.support.regressions import SEX, example, mechanism, schema_of

ROOT = Path(__file__).parent.parent.parent
SAMPLER = SAMPLERS["collapsed"]
KEPT = 40


def counted(rows: int, *, name: str, seed: int) -> Release:
    """A release whose number of rows is noisy."""
    whole = example(schema_of("x", SEX), rows, name=name, scale=5.0, seed=seed)
    noise = mechanism(name, 5.0, len(whole.values) + 1)
    return replace(whole, rows=None, values=(rows + 3.5, *whole.values), mechanism=noise, neighbours="add-remove")


def evidence(kind: str) -> Evidence:
    """The same whenever it is asked for."""
    numbers = schema_of("x", "z")
    return {
        "pool": lambda: pooled(
            [example(numbers, n, name=name, scale=5.0, seed=n) for n, name in ((90, "laplace"), (2, "gaussian"))]
        ),
        "count": lambda: counted(60, name="laplace", seed=1),
        "counts": lambda: pooled([counted(60, name="laplace", seed=1), counted(80, name="gaussian", seed=2)]),
    }[kind]()


KINDS = pytest.mark.parametrize("kind", ["pool", "count", "counts"])


def chain_of(kind: str, *, block: int, seen: list[bytes] | None = None) -> bytes:
    """Warm-up and draws of one chain as the bytes of its checkpoint; every checkpoint before it into `seen`."""
    problem = SAMPLER.prepare(evidence(kind), Prior())
    kept = [] if seen is None else seen
    start = ChainDraws(state=SAMPLER.start(problem, 5, 1))
    aim = Round(attempt=0, draws=KEPT)
    return run_chain(
        SAMPLER, problem, start, aim, block=block, checkpoint=lambda c: kept.append(c.to_bytes())
    ).to_bytes()


@KINDS
def test_blocks_and_restarts_change_no_byte(kind: str) -> None:
    seen: list[bytes] = []
    whole = chain_of(kind, block=100_000)
    assert chain_of(kind, block=29, seen=seen) == whole
    assert chain_of(kind, block=1) == whole
    problem = SAMPLER.prepare(evidence(kind), Prior())
    for data in (seen[0], seen[len(seen) // 2], seen[-2]):
        restored = ChainDraws.from_bytes(data)
        assert run_chain(SAMPLER, problem, restored, Round(attempt=0, draws=KEPT)).to_bytes() == whole


@pytest.mark.slow
@KINDS
def test_another_process_with_other_threads_changes_no_byte(kind: str) -> None:
    program = (
        "import hashlib, sys; from tests.dpbayes_core.test_collapsed_resumed import chain_of; "
        "print(hashlib.sha256(chain_of(sys.argv[1], block=53)).hexdigest())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, kind],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "2", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert done.stdout.strip() == hashlib.sha256(chain_of(kind, block=500)).hexdigest()
