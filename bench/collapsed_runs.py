"""Simulated releases of any number of rows, and runs of the default and the papers' samplers in CPU time."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench import random_walk_wishart
from bench.gibbs_published import Published
from dpbayes_core.arrays import Floats
from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.mechanisms import Mechanism, gaussian_for, laplace_for
from dpbayes_core.regression.pool import Evidence
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from dpbayes_core.samplers.registry import SAMPLERS
from dpbayes_core.sampling.diagnostics import diagnose

BOX, GRID, DELTA, PRIOR, SEED = Bounds(-1.0, 1.0), 20, 1e-6, Prior(), 20261118
CHAINS, DRAWS = 4, 1000
FEW, AGREED = 50, 1.05  # least draws a chain, and largest R-hat, to estimate a rival's effective sample size


def schema_of(d: int) -> RegressionSchema:
    """A regression on d covariates in [-1, 1]."""
    return RegressionSchema(Continuous("y", BOX), tuple(Continuous(f"x{i}", BOX) for i in range(d)))


def noise_of(d: int, name: str, epsilon: float) -> Mechanism:
    """The mechanism that protects one row."""
    sensitivity = regression_sensitivity(schema_of(d))
    if name == "laplace":
        return laplace_for(sensitivity, epsilon=epsilon, grid=GRID, entries=len(schema_of(d).entries))
    return gaussian_for(sensitivity, epsilon=epsilon, delta=DELTA, grid=GRID)


def moments_of(d: int, rows: int, random: np.random.Generator) -> Floats:
    """Moments of normal rows (1, x, y), drawn without the rows."""
    root, theta, sigma = np.zeros((d + 1, d + 1)), 0.5 / np.sqrt(d) * np.cos(np.arange(d + 1)), 0.25
    root[0, 0], root[1:, 0] = np.sqrt(rows), 0.3 * (random.standard_normal(d) + 0.1 * np.sqrt(rows))
    root[1:, 1:] = 0.3 * np.tril(random.standard_normal((d, d)), -1)
    root[range(1, d + 1), range(1, d + 1)] = 0.3 * np.sqrt(random.chisquare(rows - np.arange(1, d + 1)))
    last = np.append(theta @ root + sigma * random.standard_normal(d + 1), 0.0)
    last[-1] = sigma * np.sqrt(random.chisquare(rows - d - 1))
    whole = np.vstack([np.column_stack([root, np.zeros(d + 1)]), last])
    return whole @ whole.T


def release_of(d: int, rows: int, noise: Mechanism, seed: int = 1) -> Release:
    """Moments with seeded noise."""
    random, entries = np.random.default_rng(seed), np.array(schema_of(d).entries)
    draw = random.laplace if noise.name == "laplace" else random.normal
    values = moments_of(d, rows, random)[entries[:, 0], entries[:, 1]] + noise.scales * draw(size=len(entries))
    return Release(
        schema=schema_of(d),
        neighbours="replace-one",
        rows=rows,
        mechanism=noise,
        values=tuple(float(value) for value in values),
    )


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The work's result and its CPU seconds."""
    begun = time.process_time()
    return work(), time.process_time() - begun


def effective(theta: Floats) -> tuple[float, float]:
    """Least bulk effective sample size and largest R-hat of draws (chains, draws, coefficients)."""
    found = diagnose(range(theta.shape[2]), np.moveaxis(theta, 2, 0))  # type: ignore[arg-type]
    return float(np.nan_to_num(found.ess_bulk).min()), float(np.nan_to_num(found.rhat, nan=np.inf).max())


@dataclass(frozen=True)
class Run:
    """Chains of the default sampler, all of one length, and the CPU seconds of each stage."""

    theta: Floats
    before: float  # mode, curvature and warm-up
    after: float
    gradients: int  # after warm-up
    ended: bool  # all draws were made before time was up

    @property
    def rates(self) -> tuple[float, float, float]:
        """Effective draws a second without and with all that comes before the first draw; R-hat."""
        if self.theta.shape[1] < 4:
            return np.nan, np.nan, np.nan
        size, rhat = effective(self.theta)
        return size / self.after, size / (self.before + self.after), rhat


def sampled(evidence: Evidence, most: float, *, draws: int = DRAWS, chains: int = CHAINS) -> Run:
    """Run chains in turns in one process until they are complete or `most` CPU seconds are over."""
    sampler = SAMPLERS["collapsed"]
    problem, before = timed(lambda: sampler.prepare(evidence, PRIOR))
    stride = 500 if problem.centre.size <= 100 else 25
    states = [sampler.start(problem, SEED, chain) for chain in range(chains)]
    kept: list[list[Floats]] = [[] for _ in states]
    after, gradients, done, warmup = 0.0, 0, 0, sampler.warmup(0)
    while done < warmup + draws and before + after < most:
        step = min(stride, (warmup if done < warmup else warmup + draws) - done)
        for chain, state in enumerate(states):
            (states[chain], block), took = timed(lambda s=state, n=step: sampler.run_block(problem, s, n))
            kept[chain].append(block.parameters[:, :-1])
            before, after = (before + took, after) if done < warmup else (before, after + took)
            gradients += block.gradients if done >= warmup else 0
        done += step
    theta = np.stack([np.concatenate(each) for each in kept])
    return Run(theta, before, after, gradients, done == warmup + draws)


@dataclass(frozen=True)
class Rate:
    """A rival's effective draws a second; `bound` where no more than an upper bound is known."""

    value: float
    bound: bool

    def __str__(self) -> str:
        return "fails" if np.isnan(self.value) else f"{'<' if self.bound else ''}{self.value:.3g}"


def gibbs(release: Release, patience: float, least: int = 4) -> tuple[Floats, float]:
    """Draws of the published Gibbs sampler, the second half of each chain, and their CPU seconds."""
    chains = [Published(release, SEED + chain) for chain in range(CHAINS)]
    for chain in chains:
        chain.run(2)
    _, took = timed(lambda: chains[0].run(4))
    draws = max(least, int(patience / took * 4 / CHAINS / 2))
    for chain in chains:
        chain.run(draws)
    made, spent = timed(lambda: [chain.run(draws) for chain in chains])
    return np.stack(made), spent


def walk(release: Release, patience: float) -> tuple[Floats, float]:
    """Draws of the random walk, which takes any noise as normal and drops its first half itself, and CPU seconds."""
    _, took = timed(lambda: random_walk_wishart.run(release, 20, SEED))
    draws = max(20, int(patience / took * 20 / CHAINS))
    made, spent = timed(lambda: [random_walk_wishart.run(release, draws, SEED + chain) for chain in range(CHAINS)])
    return np.stack(made), spent / 2


def rival(run: Callable[[Release, float], tuple[Floats, float]], patience: float, release: Release) -> Rate:
    """A rival's effective draws a second, or an upper bound on them."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # a rival may be singular or overflow: its draws are judged
            theta, spent = run(release, patience)
    except (ArithmeticError, ValueError):  # of numpy's linear algebra or samplers
        return Rate(np.nan, bound=False)
    if not np.isfinite(theta).all():
        return Rate(np.nan, bound=False)
    if theta.shape[1] < FEW:
        return Rate(theta.shape[0] * theta.shape[1] / spent, bound=True)
    size, rhat = effective(theta)
    early, _ = effective(theta[:, : theta.shape[1] // 4])
    return Rate(size / spent, bound=rhat > AGREED or size < 2 * early)
