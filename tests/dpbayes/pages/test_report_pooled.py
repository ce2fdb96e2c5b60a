"""The page of a pool says of each release what it is, and of all of them what they come to."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpbayes.crates.contained_releases import Source, sources_of
from dpbayes.crates.format import UNSIGNED
from dpbayes.crates.posterior import Provenance, build_posterior_crate
from dpbayes.crates.release import build_release_crate
from storage.home.signatures import Signer
from storage.ledger.ledger import Ledger
from tests.dpbayes.crates.crate_examples import (
    STAMP,
    STUDY_TEXT,
    analysis,
    charge,
    drawn,
    posterior_draws,
    request,
)

PERIODS = ("2026-01", "2026-02", "2026-03")


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer.create(tmp_path_factory.mktemp("keys") / "keys")


def released(folder: Path, signer: Signer, *mechanisms: str) -> tuple[Source, ...]:
    """One month for each mechanism."""
    with Ledger.create(f"sqlite:///{folder / 'ledger.db'}", STAMP) as ledger:
        charged = [charge(ledger, request(*each[:1]), each[1]) for each in zip(PERIODS, mechanisms, strict=False)]
    return tuple(
        source for entry in charged for source in sources_of(build_release_crate(entry.to_record(), STUDY_TEXT, signer))
    )


def crate(sources: tuple[Source, ...], signer: Signer | None, *, study: bool = True, **others: Any) -> dict[str, bytes]:
    provenance = Provenance(sources=sources, study_text=STUDY_TEXT if study else None)
    posterior = drawn(posterior_draws(), provenance.evidence.digest, **others)
    asked = replace(analysis(), period=PERIODS[len(sources) - 1])
    return build_posterior_crate(asked, posterior, provenance, naive=None, software=STAMP.software, signer=signer)


def words(files: dict[str, bytes]) -> str:
    page = re.sub(r"<style>.*?</style>", "", files["report.html"].decode(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_releases_of_one_price_are_told_once_and_listed_each(tmp_path: Path, signer: Signer) -> None:
    page = words(crate(released(tmp_path, signer, "gaussian", "gaussian", "gaussian"), signer))
    for said in (
        "among the employees of 2026-01, 2026-02 and 2026-03, from 3 differentially private releases alone",
        "150,000",
        "for each release; at δ 10⁻⁶",
        "Each of these 3 releases cost ρ",
        "and the analysis takes each with its own noise.",
        "Together they are of 150,000 people.",
    ):
        assert said in page, said
    assert page.count("period 2026-0") >= 3  # each month's own cap
    assert page.count("Mechanism ") == 1


def test_releases_of_different_noise_are_told_apart(tmp_path: Path, signer: Signer) -> None:
    sources = released(tmp_path, signer, "gaussian", "laplace")
    page = words(crate(sources, signer, calibrated=False, sampler="naive"))
    for said in (
        "What each release cost stands in the table of releases.",
        "Noise of wage-regression of 2026-01",
        "Noise of wage-laplace of 2026-02",
        "Each carries noise of its own.",
        "by release, as the table below says",
    ):
        assert said in page, said
    for source in sources:
        assert source.digest in page


def test_a_page_of_crates_says_that_nobody_signed_and_how_to_check(tmp_path: Path, signer: Signer) -> None:
    sources = released(tmp_path, signer, "gaussian", "laplace")
    files = crate(sources, None, study=False)
    assert UNSIGNED in files
    page = words(files)
    record = json.loads(files["posterior.json"])
    assert f"--crate wage-posterior-{record['key'][:16]} --key {signer.fingerprint} --replay" in page
    assert "nobody: only the releases are signed" in page
    assert "The agency vouches for the releases that it signed" in page
    assert "This page is one file of a crate." in page


def test_the_same_releases_give_the_same_bytes(tmp_path: Path, signer: Signer) -> None:
    sources = released(tmp_path, signer, "gaussian", "laplace")
    assert crate(sources, signer) == crate(sources, signer)
    assert crate(sources, None, study=False) == crate(sources, None, study=False)
