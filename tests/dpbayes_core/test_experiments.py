"""Every experiment of the registry: pure in its seed, rows plain, figures drawable, and nothing of it charged."""

import ast
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from dpbayes.pages.evaluation import box_plot, table_text
from dpbayes_core.experiments.interface import cell_seeds
from dpbayes_core.experiments.registry import EXPERIMENTS
from dpbayes_core.subsample.moments import SubsetScatters
from dpbayes_core.subsample.simulation import pooled, simulated
from tests.support.subsets import dealt

ROOT = Path(__file__).parent.parent.parent


CHEAP = ("subsample",)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in CHEAP else [pytest.mark.slow]) for name in sorted(EXPERIMENTS)]
)
def test_the_same_cell_and_seed_give_the_same_plain_rows_and_figures(name: str) -> None:
    experiment = EXPERIMENTS[name]
    cells = [dict(cell) for cell in experiment.cells(True) if "table" not in cell]
    for cell in (cells[0], cells[-1]):
        cell |= {size: 2 for size in ("data_sets", "repeats") if size in cell}  # the fewest with a standard error
        first, second = experiment.run(cell, 5), experiment.run(cell, 5)
        assert json.loads(json.dumps(first)) == json.loads(json.dumps(second))
        assert first != experiment.run(cell, 6)
        document = {"columns": experiment.columns, "rows": first}
        assert table_text(document).count("\n") == len(first) + 1
        for figure in experiment.figures(first):
            assert box_plot(figure).startswith("<svg")
    assert len(experiment.cells(True)) <= len(experiment.cells(False))


def test_cells_have_seeds_of_their_own() -> None:
    seeds = cell_seeds(1, 100)
    assert len(set(seeds)) == 100
    assert seeds[:10] == cell_seeds(1, 10)
    assert set(seeds).isdisjoint(cell_seeds(2, 100))


def test_nothing_that_can_be_charged_knows_an_experiment() -> None:
    for folder in ("mechanisms", "subsample", "draws", "networks", "samplers"):
        for path in sorted((ROOT / "dpbayes_core" / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom):
                    assert not str(node.module).startswith("dpbayes_core.experiments"), path.name


def by_rows(generator: np.random.Generator, rows: int, subsets: int) -> SubsetScatters:
    x, noise = generator.standard_normal((2, rows))
    table = np.stack([x, 1 + 2 * x + noise], axis=1)
    return dealt(table, generator.integers(0, subsets, rows), subsets)


def test_simulated_statistics_have_the_law_of_those_of_simulated_rows() -> None:
    generator = np.random.default_rng(1)
    fast = [simulated(generator, rows=60, subsets=3) for _ in range(1500)]
    slow = [by_rows(generator, 60, 3) for _ in range(1500)]
    for pick in (
        lambda d: d.counts[0],
        lambda d: d.means[0, 1],
        lambda d: d.scatters[1, 0, 0],
        lambda d: d.scatters[1, 0, 1] / d.scatters[1, 0, 0],
        lambda d: d.scatters[2, 1, 1],
        lambda d: pooled(d).scatters[0, 0, 1],
        lambda d: pooled(d).means[0, 1],
    ):
        pair = [np.array([pick(d) for d in data]) for data in (fast, slow)]
        assert stats.ks_2samp(*pair).pvalue > 1e-6


def test_pooling_subsets_gives_the_whole_table() -> None:
    generator = np.random.default_rng(2)
    table = generator.normal(5, 2, (50, 2))
    whole = dealt(table, np.zeros(50, np.int64), 1)
    parts = pooled(dealt(table, generator.integers(0, 4, 50), 4))
    np.testing.assert_allclose(parts.scatters, whole.scatters)
    np.testing.assert_allclose(parts.means, whole.means)
