"""Time of an iteration of the Gibbs samplers, relative to the published algorithm, and with many entries.

CPU time, one thread each. `numpy` is one chain in vectorised numpy, `batch` one of 64 such chains in step.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.gibbs_numpy import Batch
from bench.gibbs_published import Published
from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.mechanisms import laplace_for
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from dpbayes_core.samplers.registry import SAMPLERS

BOX = Bounds(-1.0, 1.0)
CHAINS = 64
TARGETS = {2: 1000, 5: 2000, 10: 3000}  # least ratio to the published sampler
MOST = {50: 1.0, 100: 5.0}  # milliseconds, where noise dominates
REPEATS = 5


def release_of(d: int, rows: int, epsilon: float) -> Release:
    """Normal covariates, Laplace noise."""
    random = np.random.default_rng(1)
    x = np.column_stack([np.ones(rows), random.normal(0, 0.3, (rows, d))])
    full = np.column_stack([x, x @ random.normal(0, 0.2, d + 1) + random.normal(0, 0.25, rows)])
    schema = RegressionSchema(Continuous("y", BOX), tuple(Continuous(f"x{i}", BOX) for i in range(d)))
    entries = np.array(schema.entries)
    noise = laplace_for(regression_sensitivity(schema), epsilon=epsilon, grid=20, entries=len(entries))
    values = (full.T @ full)[entries[:, 0], entries[:, 1]] + noise.scale * random.laplace(size=len(entries))
    return Release(
        schema=schema, neighbours="replace-one", rows=rows, mechanism=noise, values=tuple(float(v) for v in values)
    )


def seconds(work: Callable[[], Any]) -> float:
    """CPU time, the least of a few runs."""
    found: list[float] = []
    for _ in range(REPEATS):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


def ours(name: str, release: Release, iterations: int) -> float:
    """Seconds per iteration of a chain that has warmed up."""
    sampler = SAMPLERS[name]
    problem = sampler.prepare(release, Prior())
    state, _ = sampler.run_block(problem, sampler.start(problem, 1, 0), sampler.warmup(0))
    return seconds(lambda: sampler.run_block(problem, state, iterations)) / iterations


def sampled(chain: Any, iterations: int) -> float:
    """Seconds per iteration of a rival."""
    chain.run(1)
    return seconds(lambda: chain.run(iterations)) / iterations


def against_the_published() -> None:
    """Both variants, d = 2, 5, 10."""
    print(
        f"{'d':>4}{'variant':>9}{'published ms':>14}{'numpy us':>10}{'batch us':>10}{'ours us':>9}{'ratio':>8}  target"
    )
    for d, target in TARGETS.items():
        release, few = release_of(d, 2000, 1.0), max(1, 40 // d**2)
        plain, batch = sampled(Batch(release, 1, 2), 100), sampled(Batch(release, CHAINS, 2), 4) / CHAINS
        for variant, name in (("fixed", "gibbs-ss-prior"), ("update", "gibbs-ss-update")):
            published = sampled(Published(release, 2, fixed=variant == "fixed"), few)
            mine = ours(name, release, 2000)
            others = f"{plain * 1e6:>10.0f}{batch * 1e6:>10.1f}" if variant == "update" else f"{'':>20}"
            ratio = f"{published / mine:>8.0f}  {target}"
            print(f"{d:>4}{variant:>9}{published * 1e3:>14.2f}{others}{mine * 1e6:>9.1f}{ratio}", flush=True)


def without_a_dense_covariance() -> None:
    """d = 50 and 100 at epsilon 0.1 and, for comparison, where the noise is small."""
    print(f"\n{'d':>4}{'entries':>9}{'rows':>10}{'epsilon':>9}{'ms':>8}  at most")
    for d, most in MOST.items():
        for rows, epsilon in ((100_000, 0.1), (20_000, 10.0), (20_000, 1000.0)):
            release = release_of(d, rows, epsilon)
            took = ours("gibbs-ss-update", release, 40) * 1e3
            limit = f"{most:.0f}" if epsilon == 0.1 else ""
            print(f"{d:>4}{len(release.values):>9}{rows:>10,}{epsilon:>9}{took:>8.2f}  {limit}", flush=True)


def main(*parts: str) -> None:
    """Print both tables, or the one that is named: published, free."""
    if "free" not in parts:
        against_the_published()
    if "published" not in parts:
        without_a_dense_covariance()


if __name__ == "__main__":
    main(*sys.argv[1:])
