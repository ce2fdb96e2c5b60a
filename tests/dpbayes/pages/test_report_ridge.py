"""The page of a ridge estimate: its spread is that of the privacy noise alone, and it never says otherwise."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from dpbayes.crates.posterior import posterior_record
from dpbayes.crates.release import release_record
from dpbayes.pages.report.render import render
from dpbayes_core.privacy.noise import OpenDPNoise
from dpbayes_core.regression.moments import grid_for
from dpbayes_core.regression.prior import Prior
from dpbayes_core.ridge.release import ridge_design
from dpbayes_core.samplers.driver import sample
from storage.ledger.ledger import Ledger
from tests.dpbayes.crates.crate_examples import ROWS, SEED, STAMP, analysis, of, request
from tests.support.accounts import open_where_missing
from tests.support.regressions import schema_of


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """As `analyse` writes it, from a ridge release on a ledger."""
    folder: Path = tmp_path_factory.mktemp("ridge")
    design, generator = ridge_design(schema_of("x0"), grid=grid_for(ROWS), rho=0.01), np.random.default_rng(1)
    columns = {"x0": generator.uniform(-1, 1, 2000), "y": generator.uniform(-1, 1, 2000)}
    statistic, asked = design.statistic(), request()
    with Ledger.create(f"sqlite:///{folder / 'ledger.db'}", STAMP) as ledger:
        open_where_missing(ledger, asked.account)
        exact = statistic.sum(statistic.encode(columns))
        entry = ledger.commit(asked, design, exact, OpenDPNoise(), stamp=STAMP).to_record()
    made = of(entry)
    posterior = sample(made.evidence, Prior(), sampler="ada-ssp", chains=2, draws=500, seed=SEED)
    record = posterior_record(
        analysis(analysis="estimate", sampler="ada-ssp", chains=2, draws=500), posterior, None, made
    )
    page = render([release_record(entry)], record, posterior.draws, fingerprint="SHA256:x", software=STAMP.software)
    assert json.loads(entry["release"])["kind"] == "ridge"
    return page


def test_its_ranges_are_never_called_intervals_nor_its_estimates_a_posterior(page: str) -> None:
    text = re.sub(r"<style>.*?</style>|data:image[^\"']*", "", page, flags=re.DOTALL)
    text = text.replace("mapped to the interval from −1 to 1", "")
    allowed = {
        "It is no interval for the coefficient",
        "and is no posterior",
        "gives a calibrated posterior",
        "posteriors/wages",  # the folder
    }
    said = [text[max(0, at.start() - 60) : at.end() + 30] for at in re.finditer("interval|posterior", text, re.I)]
    assert [words for words in said if not any(one in " ".join(words.split()) for one in allowed)] == []


def test_it_says_what_its_ranges_hold_and_that_they_do_hold_the_privacy_noise(page: str) -> None:
    text = " ".join(page.split())
    assert "how far the privacy noise alone may have moved it" in text
    assert "do not account for the privacy noise" not in text
    assert "describe the same spread of the privacy noise" in text
    assert text.count("95% of the noise") >= 2
