"""Crates of every kind that is analysed, wherever they lie: an analyst needs no more than their address."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from dpbayes.crates.files import load
from dpbayes.crates.format import pack
from storage.files.archive import Archive
from tests.cli.test_networks import network_desk
from tests.cli.test_subsample import question_desk
from tests.support.desk import PERIOD, Desk
from tests.support.object_store import ObjectStore

pytestmark = pytest.mark.usefixtures("workers")

QUICK = ("--chains", "2", "--draws", "300")


def crates_of(desk: Desk, folder: Path) -> dict[str, Path]:
    """The crates of a desk's releases, far from the desk."""
    released = desk.release()["releases"]
    return {one["release"]: Path(shutil.copytree(one["crate"], folder / one["release"])) for one in released}


def checked(desk: Desk, document: dict[str, Any], folder: Path) -> None:
    """A whole crate whose replay draws the same."""
    crate = Path(document["analyses"][0]["crate"])
    assert crate.is_relative_to(folder)
    checks = desk.document("audit", "--crate", crate, "--key", document["sources"][0]["signed_by"], "--replay")[
        "checks"
    ]
    assert checks[-1]["detail"] == "the same, bit for bit"


@pytest.mark.slow
def test_a_networks_crate_takes_a_prior_of_ones_own(tmp_path: Path) -> None:
    desk = network_desk(tmp_path / "desk")
    crates = crates_of(desk, tmp_path)
    prior = tmp_path / "prior.yaml"
    prior.write_text("concentration: 1e6\n")
    order = ("analyse", "--from", crates["pay-net"], "--to", tmp_path / "out", *QUICK)
    flat, firm = desk.document(*order), desk.document(*order, "--prior", prior)
    assert firm["analyses"][0]["sampler"] == "collapsed-tables"
    for document in (flat, firm):
        checked(desk, document, tmp_path / "out")
    for line in firm["analyses"][0]["coefficients"]:
        if line["name"].startswith("P(female"):
            assert abs(line["mean"] - 0.5) < 0.01  # a million pseudo-counts a level leave nothing to 2,000 people
    prior.write_text("coefficients: {sd: 1}\n")
    refused = desk.document(*order, "--prior", prior, exit_code=2)["error"]["message"]
    assert "coefficients: it is no part of the prior of a bayes-net release" in refused
    answer = desk.document("analyse", "--from", crates["pay-mode"], *QUICK, exit_code=2)["error"]["message"]
    assert "a release of kind map is an answer by itself" in answer
    both = ("--from", crates["pay-net"], "--from", crates["pay-draw"])
    pooled = desk.document("analyse", *both, *QUICK, exit_code=2)["error"]["message"]
    assert "they may be of the same people" in pooled


@pytest.mark.slow
def test_crates_of_random_subsets_are_analysed_with_the_prior_they_were_fitted_with(tmp_path: Path) -> None:
    desk = question_desk(tmp_path / "desk")
    for name, crate in crates_of(desk, tmp_path).items():
        order = ("analyse", "--from", crate, "--to", tmp_path / "out", *QUICK)
        checked(desk, desk.document(*order), tmp_path / "out")
        prior = tmp_path / f"{name}.yaml"
        prior.write_text("coefficients: {sd: 1}\n")
        assert "Leave --prior out." in desk.document(*order, "--prior", prior, exit_code=2)["error"]["message"]


@pytest.mark.slow
def test_a_crate_is_fetched_from_where_agencies_publish(
    shared_desk: Desk, object_store: ObjectStore, tmp_path: Path
) -> None:
    crate = Path(shared_desk.release()["releases"][0]["crate"])
    place = object_store.new_bucket()
    Archive(place).write_folder("releases/january", load(crate))
    Archive(place).write_once("releases/january.zip", pack(load(crate)))
    found = [
        shared_desk.document("analyse", "--from", address, "--to", tmp_path, *QUICK, "--sampler", "naive")
        for address in (crate, f"{place}/releases/january", f"{place}/releases/january.zip", f"file://{crate}")
    ]
    for name in ("releases", "releases/may.zip"):
        wrong = shared_desk.document("analyse", "--from", f"{place}/{name}", "--to", tmp_path, *QUICK, exit_code=2)
        assert wrong["error"]["message"].startswith("cannot read ")
    assert len({document["analyses"][0]["crate"] for document in found}) == 1
    assert found[0]["period"] == PERIOD
    gone = shared_desk.document("analyse", "--from", f"{place}/releases/may", "--to", tmp_path, *QUICK, exit_code=2)
    assert "cannot read may: there is no such crate" in gone["error"]["message"]
