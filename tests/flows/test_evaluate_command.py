"""`dpbayes evaluate`: on a real cluster, the same numbers for the same seed, no home and no ledger."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

import dpbayes_core.experiments.registry as registry
from dpbayes_core.experiments.interface import Experiment
from dpbayes_core.experiments.subsample import EXPERIMENT
from flows.cli import app

RUNNER = CliRunner()


def small_cells(quick: bool) -> tuple[Mapping[str, Any], ...]:
    cells = EXPERIMENT.cells(quick)
    return tuple({**cell, "data_sets": 4} for cell in (cells[0], cells[5], cells[-1]))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """Fewer cells; workers run the real experiment, which they find by its name."""
    experiment = Experiment(**{**vars(EXPERIMENT), "cells": small_cells})
    monkeypatch.setattr(registry, "EXPERIMENTS", {"subsample": experiment})
    return experiment


def test_a_quick_look_writes_table_plots_and_page_and_repeats_itself(
    small: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = RUNNER.invoke(app, ["evaluate", "subsample", "--quick", "--seed", "3", "--out", "seen", "--json"])
    assert first.exit_code == 0, first.output
    document = json.loads(first.stdout)
    assert {row["method"] for row in document["rows"]} >= {"noise-aware", "fisher as-published", "centre-scale"}
    folder = tmp_path / "seen"
    assert sorted(path.name for path in folder.iterdir()) == sorted(document["files"])
    stored = json.loads((folder / "results.json").read_text())
    assert stored["rows"] == document["rows"]
    plots = [path for path in folder.iterdir() if path.suffix == ".svg"]
    assert plots
    for path in plots:
        ElementTree.parse(path)
    page = (folder / "index.html").read_text()
    assert "as-published" in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert [path.name for path in tmp_path.iterdir()] == ["seen"]  # no home, no ledger

    again = RUNNER.invoke(app, ["evaluate", "subsample", "--quick", "--seed", "3"])
    assert again.exit_code == 0, again.output
    assert "spends" in again.stdout
    assert "Published: " in again.stdout


def test_what_a_published_variant_really_spends_stands_beside_it(small: Experiment) -> None:
    cell = dict(small.cells(True)[0])
    spent = {row["method"]: (row["spends"], row["subsets"], row["epsilon"]) for row in small.run(cell, 1)}
    value, subsets, epsilon = spent["fisher as-published"]
    assert value == subsets * epsilon
    value, _, epsilon = spent["rescaled-normal as-published"]
    assert value == 1 / epsilon
    assert spent["noise-aware"][0] == epsilon


def test_an_experiment_that_does_not_exist_is_refused_in_one_sentence() -> None:
    done = RUNNER.invoke(app, ["evaluate", "nothing"])
    assert done.exit_code == 2
    assert "cannot evaluate nothing: there is no such experiment. Choose one of subsample" in done.stderr
    assert RUNNER.invoke(app, ["evaluate", "subsample", "--seed", "-1"]).exit_code == 2
