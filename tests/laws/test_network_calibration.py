"""Simulation-based calibration of network posteriors: probabilities from the prior rank uniformly among the draws."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from scipy.stats import kstest

from dpbayes_core.arrays import Floats
from dpbayes_core.networks.posterior.arrangement import output_of
from dpbayes_core.networks.posterior.chain import draw_exact
from dpbayes_core.networks.posterior.clusters import family_clusters, junction_forest
from dpbayes_core.networks.posterior.collapsed_tables import WARMUP, run_block, start, tables_problem
from dpbayes_core.networks.posterior.evidence import Evidence, estimated_table
from tests.support.noisy_networks import (
    BINARY_TREE,
    CHAIN,
    CLASS_AND_CHILD,
    COLLIDER,
    DIAMOND,
    FIVE,
    Noise,
    Shape,
    records,
    released,
    truths,
)

KEPT = 99
BAND = 0.01  # of all cells and probabilities together


@dataclass(frozen=True)
class Cell:
    """Simulated releases of one network: so many rows (or uniform on 0..rows where n is latent), this noise."""

    shape: Shape
    rows: int
    noise: Noise
    trials: int = 300
    thin: int = 10
    tied: bool = True

    def evidence(self, generator: np.random.Generator) -> tuple[Floats, Evidence]:
        tables = truths(self.shape, generator)
        rows = self.rows if self.noise.public_rows else int(generator.integers(self.rows + 1))
        found = records(self.shape, tables, rows, generator)
        return np.concatenate([table.ravel() for table in tables]), released(self.shape, found, self.noise, generator)

    def draws(self, evidence: Evidence, trial: int) -> Floats:
        clusters = junction_forest(evidence.levels, evidence.families) if self.tied else None
        problem = tables_problem(evidence, (1.0,) * len(evidence.levels), self.rows, clusters)
        _, block = run_block(problem, start(problem, trial, 0, 0), WARMUP + KEPT * self.thin, WARMUP)
        return block.parameters[:: self.thin]

    def ranks(self) -> Floats:
        """For each trial the place of every true probability among the draws, in (0, 1)."""
        generator, places = np.random.default_rng(20261118), list[Floats]()
        for trial in range(self.trials):
            truth, evidence = self.evidence(generator)
            below = (self.draws(evidence, trial) < truth).sum(axis=0)
            places.append((below + generator.random(truth.size)) / (KEPT + 1))
        return np.array(places)


CELLS = {
    "class and child, Laplace .5, quick": Cell(CLASS_AND_CHILD, 200, Noise("laplace", 0.5), trials=60, thin=4),
    "class and child, geometric .5": Cell(CLASS_AND_CHILD, 200, Noise("geometric", 0.5)),
    "class and child, geometric .1": Cell(CLASS_AND_CHILD, 50, Noise("geometric", 0.1)),
    "class and child, Laplace 5": Cell(CLASS_AND_CHILD, 20, Noise("laplace", 5.0)),
    "class and child, n latent": Cell(CLASS_AND_CHILD, 300, Noise("geometric", 0.5, public_rows=False)),
    "two binary nodes, Fourier .5": Cell(Shape((2, 2), ((), (0,))), 200, Noise("fourier", 0.5), thin=6),
    "chain, Laplace 1": Cell(CHAIN, 300, Noise("laplace", 1.0)),
    "collider, geometric .5": Cell(COLLIDER, 300, Noise("geometric", 0.5), thin=15),
    "diamond, Fourier 1": Cell(DIAMOND, 300, Noise("fourier", 1.0), thin=8),
    "diamond, Laplace .1": Cell(DIAMOND, 100, Noise("laplace", 0.1), thin=8),
    "binary tree, Fourier .5": Cell(BINARY_TREE, 400, Noise("fourier", 0.5), thin=6),
    "binary tree, Fourier, n latent": Cell(BINARY_TREE, 400, Noise("fourier", 2.0, public_rows=False), thin=6),
    "five with four levels, geometric 1": Cell(FIVE, 1000, Noise("geometric", 1.0), thin=5),
    "five with four levels, Laplace 5": Cell(FIVE, 300, Noise("laplace", 5.0), thin=5),
}
FAST = ("class and child, Laplace .5, quick",)
TWINS = {
    "class and child, geometric .5": 600,
    "chain, Laplace 1": 600,
    "two binary nodes, Fourier .5": 600,
}
PROBABILITIES = sum(int(np.prod(cell.shape.shape(f))) for cell in CELLS.values() for f in cell.shape.families)
SEPARATE = {
    "chain": replace(CELLS["chain, Laplace 1"], tied=False),
    "collider": replace(CELLS["collider, geometric .5"], tied=False),
    "binary tree": replace(CELLS["binary tree, Fourier .5"], tied=False),
    "five with four levels": replace(CELLS["five with four levels, geometric 1"], tied=False),
}


def worst(ranks: Floats) -> float:
    """The smallest p-value over probabilities: of their ranks, and of how far from the middle these are."""
    folded = np.abs(2 * ranks - 1)
    return min(kstest(column, "uniform").pvalue for column in np.hstack([ranks, folded]).T)


def cases(names: dict[str, Cell] | dict[str, int]) -> list[ParameterSet]:
    return [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in names]


@pytest.mark.parametrize("name", cases(CELLS))
def test_true_probabilities_rank_uniformly_among_the_draws(name: str) -> None:
    assert worst(CELLS[name].ranks()) > BAND / (2 * PROBABILITIES)


@pytest.mark.parametrize("name", cases(TWINS))
def test_a_twin_told_too_little_noise_is_rejected(name: str) -> None:
    cell = CELLS[name]
    twin = replace(cell, trials=TWINS[name], noise=replace(cell.noise, wrong=1.5))
    assert worst(twin.ranks()) < BAND / (2 * PROBABILITIES)


@pytest.mark.slow
@pytest.mark.parametrize("name", SEPARATE)
def test_families_by_themselves_are_nearly_calibrated_too(name: str) -> None:
    ranks = SEPARATE[name].ranks()
    covered = (np.abs(ranks - 0.5) < 0.45).mean()
    assert 0.87 < covered < 0.93


def naive_draws(evidence: Evidence, seed: int) -> Floats:
    """From Dirichlet laws of the clipped noisy counts."""
    output = output_of(evidence, family_clusters(evidence.families), (1.0,) * len(evidence.levels))
    counts = np.concatenate([np.clip(estimated_table(evidence, f), 0, evidence.rows) for f in evidence.families])
    draws = np.zeros((400, len(counts)))
    draw_exact(np.random.Generator(np.random.Philox(seed)), output, counts, draws)
    return draws


@pytest.mark.slow
def test_noise_aware_intervals_cover_and_naive_ones_do_not() -> None:
    cell = Cell(CLASS_AND_CHILD, 200, Noise("geometric", 0.5), trials=150, thin=3)
    generator, inside = np.random.default_rng(5), np.zeros((2, 8))
    for trial in range(cell.trials):
        truth, evidence = cell.evidence(generator)
        for place, draws in enumerate((cell.draws(evidence, trial), naive_draws(evidence, trial))):
            low, high = np.quantile(draws, (0.05, 0.95), axis=0)
            inside[place] += (low <= truth) & (truth <= high)
    aware, naive = inside.mean(axis=1) / cell.trials
    assert abs(aware - 0.9) < 4 * 0.011  # its Monte Carlo error: a release's eight intervals go together
    assert naive < 0.56 + 4 * 0.019
