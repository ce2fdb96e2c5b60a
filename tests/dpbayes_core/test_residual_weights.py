"""Releases in which few rows hold much of the residual variance are told from others, by their numbers alone."""

import numpy as np
import pytest

from dpbayes_core.privacy.noise import SeededNoise
from dpbayes_core.regression.release import weighs_few_rows
from tools.robust_coverage import Cell, columns, designs


@pytest.mark.parametrize(
    ("spread", "rare", "heavy"), [("equal", False, False), ("grows", False, False), ("equal", True, True)]
)
def test_few_rows_with_large_residuals_are_told(spread: str, rare: bool, heavy: bool) -> None:
    cell = Cell(100_000, 3.0, spread=spread)
    generator, design = np.random.default_rng(1), designs(cell)["robust"]
    table = columns(cell, generator)
    table["y"] = table["y"] / 2
    if rare:
        few = generator.random(cell.rows) < 0.01
        table["region"] = np.where(few, 3, table["region"] % 3)
        table["y"] = np.where(few, np.clip(table["y"] + generator.normal(size=cell.rows), 0, 5), table["y"])
        table["y"] = np.where(few, table["y"], table["y"].mean() + 0.05 * generator.normal(size=cell.rows))
    statistic = design.statistic()
    release = design.release(SeededNoise(2, i_know_this_is_not_private=True), statistic.sum(statistic.encode(table)))
    assert weighs_few_rows(release) == heavy
