"""The number of BLAS threads changes no bit of a chain, from one covariate to fifty."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpbayes_core.regression.prior import Prior
from dpbayes_core.samplers.registry import SAMPLERS
from tests.support.regressions import JOB, example, schema_of

ROOT = Path(__file__).parent.parent.parent
CASES = ((1, 100, 5.0), (10, 1000, 20.0), (30, 40, 200.0), (30, 100_000, 5.0), (50, 60, 500.0), (50, 100_000, 5.0))


def digests() -> list[str]:
    """Of everything that is prepared, of a few draws, and of these in the user's units, by case."""
    sampler, found = SAMPLERS["collapsed"], list[str]()
    for d, rows, scale in CASES:
        factors = () if d < 3 else (JOB,)
        schema = schema_of(*(f"x{k}" for k in range(d - 2 * len(factors))), *factors)
        assert schema.d == d
        release = example(schema, rows, name="laplace", scale=scale)
        problem = sampler.prepare(release, Prior())
        state, _ = sampler.run_block(problem, sampler.start(problem, 1, 0), 3)
        standard = np.random.default_rng(2).standard_normal((4, 500, len(schema.coefficients) + 1))
        units = sampler.draws(release, standard).values()
        parts = (release.values, problem.centre, problem.stretch, state.numbers, *units)
        found.append(hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest())
    return found


@pytest.mark.slow
def test_blas_threads_change_no_bit_up_to_fifty_covariates() -> None:
    program = "from tests.dpbayes_core.test_collapsed_threads import digests; print(*digests())"
    made = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
        for threads in ("1", "2", "4")
    }
    assert len(made) == 1
    assert len(set(made.pop().split())) == len(CASES)
