"""Regressions where people come and go, or have several rows: the count is one of the noisy numbers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbayes_core.releases import release_from_record
from tests.support.desk import PERIOD, STUDY, Desk, people

RELATIONS = [("add-remove", 1), ("replace-one", 3), ("add-remove", 3)]
pytestmark = pytest.mark.usefixtures("workers")


def desk_of(folder: Path, neighbours: str, most: int, mechanism: str) -> Desk:
    """A desk whose people may come and go, or have so many rows."""
    desk = Desk(folder)
    columns = people(4000)
    columns["person"] = [f"P{number:06d}" for number in np.random.default_rng(1).integers(0, 1500, 4000)]
    desk.write_table(columns)
    text = STUDY.replace("replace-one", neighbours).replace(
        "unit: person}", f"unit: person, max_rows_per_unit: {most}}}"
    )
    text = text.replace("mechanism: gaussian", f"mechanism: {mechanism}").replace(
        "chains: 2", "sampler: naive\n    chains: 2"
    )
    desk.study.write_text(text)
    assert desk.run("ledger", "create", desk.study).exit_code == 0
    return desk


@pytest.mark.slow
@pytest.mark.parametrize(("neighbours", "most"), RELATIONS)
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_the_count_is_noisy_and_everything_else_goes_on(
    tmp_path: Path, neighbours: str, most: int, mechanism: str
) -> None:
    desk = desk_of(tmp_path, neighbours, most, mechanism)
    (released,) = desk.release()["releases"]
    assert released["rows"] is None
    record = json.loads((Path(released["crate"]) / "release.json").read_text())
    release: Any = release_from_record(record["statistics"])
    assert release.protected
    assert release.entries[0] == (0, 0)
    persons = np.random.default_rng(1).integers(0, 1500, 4000)
    counted = int(np.minimum(np.bincount(persons), most).sum())
    scale = float(release.mechanism.scales[0])
    assert release.count != counted
    assert abs(release.count - counted) < 40 * scale
    assert record["statistics"]["noisy"]["rows"] is None
    assert desk.document("audit", desk.home)["ok"]


@pytest.mark.slow
def test_a_noisy_count_is_analysed_by_the_default_sampler_and_by_the_naive_one(tmp_path: Path) -> None:
    desk = desk_of(tmp_path, "add-remove", 1, "gaussian")
    (found,) = desk.document("run", desk.study, "--period", PERIOD)["analyses"]
    assert (found["sampler"], found["calibrated"]) == ("naive", False)
    assert "about n = " in Path(found["report"]).read_text()
    desk.edit_study("sampler: naive", "sampler: auto")
    (found,) = desk.document("run", desk.study, "--period", PERIOD)["analyses"]
    assert (found["sampler"], found["calibrated"], found["status"]) == ("collapsed", True, "converged")
