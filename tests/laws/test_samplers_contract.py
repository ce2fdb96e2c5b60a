"""What every sampler of the registry keeps: same seed same bytes, however the run is cut, restored or moved."""

import hashlib
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import IntegrityFailure
from dpbayes_core.samplers.registry import SAMPLERS
from dpbayes_core.sampling.protocol import Block, ChainState, Sampler
from dpbayes_core.sampling.rounds import ChainDraws, Round, run_chain
from tests.support.sampler_examples import example_for

ROOT = Path(__file__).parent.parent.parent
KEPT = 60
EVERY = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS.keys())


@cache
def example(sampler: Sampler) -> tuple[Any, Any]:
    """The same release for every chain: aggregates are dealt out by a key that is fresh each time."""
    return example_for(sampler)


def chain_of(
    sampler: Sampler, *, block: int, seed: int = 5, chain: int = 1, attempt: int = 0, made: Any = None
) -> bytes:
    """Warm-up and draws of one chain, in blocks, as the bytes of its checkpoint."""
    release, prior = example(sampler) if made is None else (made, example_for(sampler)[1])
    problem = sampler.prepare(release, prior)
    start = ChainDraws(state=sampler.start(problem, seed, chain, attempt=attempt))
    return run_chain(sampler, problem, start, Round(attempt=attempt, draws=KEPT), block=block).to_bytes()


@EVERY
def test_one_block_and_many_give_the_same_bytes(sampler: Sampler) -> None:
    whole = chain_of(sampler, block=100_000)
    assert chain_of(sampler, block=7) == whole
    assert chain_of(sampler, block=1) == whole
    assert chain_of(sampler, block=100_000) == whole


@EVERY
def test_another_seed_chain_or_attempt_gives_other_draws(sampler: Sampler) -> None:
    made = [
        ChainDraws.from_bytes(data).made
        for data in (
            chain_of(sampler, block=500),
            chain_of(sampler, block=500, seed=6),
            chain_of(sampler, block=500, chain=2),
            chain_of(sampler, block=500, attempt=1),
        )
    ]
    firsts = {round(float(block.parameters[0, 0]), 12) for block in made if block is not None}
    assert len(firsts) == 4


@EVERY
def test_a_chain_restored_from_its_checkpoint_goes_on_as_if_nothing_happened(sampler: Sampler) -> None:
    problem = sampler.prepare(*example(sampler))
    target = Round(attempt=0, draws=KEPT)
    seen: list[bytes] = []
    start = ChainDraws(state=sampler.start(problem, 5, 1))
    whole = run_chain(sampler, problem, start, target, block=37, checkpoint=lambda c: seen.append(c.to_bytes()))
    assert len(seen) == -(-(sampler.warmup(0) + KEPT) // 37)
    for data in (seen[0], seen[len(seen) // 2], seen[-1]):
        restored = ChainDraws.from_bytes(data)
        assert restored.to_bytes() == data
        assert run_chain(sampler, problem, restored, target, block=500).to_bytes() == whole.to_bytes()


@EVERY
def test_running_a_block_twice_gives_it_twice(sampler: Sampler) -> None:
    problem = sampler.prepare(*example(sampler))
    state = sampler.start(problem, 5, 0)
    before = state.to_bytes()
    first, again = (sampler.run_block(problem, state, 50) for _ in range(2))
    assert state.to_bytes() == before, "a state is never changed: a lost worker's block is run again from it"
    assert first[0].to_bytes() == again[0].to_bytes()


PROGRAM = """
import hashlib, json, sys
from dpbayes_core.releases import release_from_record
from dpbayes_core.samplers.registry import SAMPLERS
from tests.laws.test_samplers_contract import chain_of
for name, record in json.load(sys.stdin).items():
    made = chain_of(SAMPLERS[name], block=41, made=release_from_record(record))
    print(name, hashlib.sha256(made).hexdigest())
"""


@pytest.fixture(scope="module")
def elsewhere() -> dict[str, str]:
    """The digest of every sampler's chain, made in one other process with other threads."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=canonical_json({name: example(sampler)[0].to_record() for name, sampler in SAMPLERS.items()}).decode(),
        env={**os.environ, "OPENBLAS_NUM_THREADS": "2", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return dict(line.split() for line in done.stdout.splitlines())


@EVERY
def test_another_process_with_other_threads_gives_the_same_bytes(sampler: Sampler, elsewhere: dict[str, str]) -> None:
    assert elsewhere[sampler.name] == hashlib.sha256(chain_of(sampler, block=500)).hexdigest()


@EVERY
def test_a_state_travels_as_plain_bytes(sampler: Sampler) -> None:
    problem = sampler.prepare(*example(sampler))
    state, _ = sampler.run_block(problem, sampler.start(problem, 5, 3), 9)
    again = ChainState.from_bytes(state.to_bytes())
    assert (again.chain, again.attempt, again.iteration) == (3, 0, 9)
    assert np.array_equal(again.numbers, state.numbers)
    assert np.array_equal(again.generator, state.generator)


@EVERY
def test_a_damaged_checkpoint_is_an_integrity_failure(sampler: Sampler) -> None:
    data = chain_of(sampler, block=500)
    for broken in (data[:-1], data[:200], b"", data[:80] + bytes([data[80] ^ 1]) + data[81:]):
        with pytest.raises(IntegrityFailure, match="cannot read a checkpoint"):
            ChainDraws.from_bytes(broken)


@EVERY
def test_blocks_have_the_shapes_that_drivers_count_on(sampler: Sampler) -> None:
    release, prior = example(sampler)
    problem = sampler.prepare(release, prior)
    state = sampler.start(problem, 5, 0)
    state, warm = sampler.run_block(problem, state, sampler.warmup(0) + 3)
    assert isinstance(warm, Block)
    draws = sampler.draws(release, warm.parameters[None])
    assert {values.shape for values in draws.values()} == {(1, 3)}
    assert len(draws) == warm.parameters.shape[1]
    assert len(sampler.monitors(release, warm.latent[None])) == warm.latent.shape[1]
    assert np.isfinite(warm.parameters).all()


@EVERY
def test_a_sampler_says_what_it_is(sampler: Sampler) -> None:
    assert SAMPLERS[sampler.name] is sampler
    assert sampler.target
    assert sampler.caveat.endswith(".")
    assert sampler.compared_with is None or SAMPLERS[sampler.compared_with].takes == sampler.takes
    assert sampler.refusal(example(sampler)[0]) is None
    assert sampler.calibrated in (True, False)
