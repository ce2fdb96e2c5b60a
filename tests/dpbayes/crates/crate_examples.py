"""A small published study on real parts: ledger, OpenDP noise, anchors and crates, with draws made by a seed."""

import json
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dpbayes.crates.analysis_request import AnalysisRequest
from dpbayes.crates.contained_releases import Source, sources_of
from dpbayes.crates.own_source import SOURCE, own_source
from dpbayes.crates.posterior import Provenance, build_posterior_crate
from dpbayes.crates.publication import publication_of
from dpbayes.crates.release import build_release_crate
from dpbayes.strict_yaml.yaml12 import parse
from dpbayes.study import requests
from dpbayes.study.file import StudyFile
from dpbayes_core.arrays import Floats
from dpbayes_core.bounds import Bounds
from dpbayes_core.canonical import canonical_json
from dpbayes_core.privacy.mechanisms import Mechanism, gaussian_for, laplace_for
from dpbayes_core.privacy.noise import OpenDPNoise
from dpbayes_core.regression.moments import grid_for
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import RegressionDesign
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from dpbayes_core.sampling.posterior import Posterior
from storage.files.archive import Archive
from storage.files.archive_paths import path_of, release_path
from storage.home.signatures import Signer
from storage.ledger.anchors import Anchors
from storage.ledger.entries import Entry, Stamp
from storage.ledger.ledger import Ledger
from storage.ledger.request import AccountSpec, CapSpec, Request
from tests.support.accounts import open_where_missing
from tests.support.sums import sums_of

ROWS = 50_000
SEED = 7
SOFTWARE = {"dpbayes": "0.1.0", SOURCE: own_source(), "numpy": version("numpy"), "opendp": "0.16.0"}
STAMP = Stamp("steward", date(2026, 11, 18), SOFTWARE)
STUDY_TEXT = b"""\
study: wages
population: employees
source: {path: "data/wages-{period}.parquet", rows: 50000, unit: person_id}
period: {grain: month, people: same}
columns:
  log_wage: {bounds: [0, 5]}
  age: {bounds: [16, 80]}
  tenure: {bounds: [0, 40]}
  female: {levels: [no, yes]}
  region: {levels: [north, south, east, west]}
privacy:
  neighbours: replace-one
  delta: 1e-6
  budget: {lifetime: {epsilon: 8}, per-period: {epsilon: 1}}
releases:
  wage-regression:
    kind: regression
    response: log_wage
    covariates: [age, tenure, female, region]
    mechanism: gaussian
    epsilon: 0.5
  wage-laplace:
    kind: regression
    response: log_wage
    covariates: [age, tenure, female, region]
    mechanism: laplace
    epsilon: 0.5
analyses:
  wage-posterior: {release: wage-regression}
"""
RELEASES = {"gaussian": "wage-regression", "laplace": "wage-laplace"}
SCHEMA = RegressionSchema(
    Continuous("log_wage", Bounds(0.0, 5.0)),
    (
        Continuous("age", Bounds(16.0, 80.0)),
        Continuous("tenure", Bounds(0.0, 40.0)),
        Factor("female", ("no", "yes")),
        Factor("region", ("north", "south", "east", "west")),
    ),
)
CAPS = (
    CapSpec(window="lifetime", measure="epsilon-delta", limit=Decimal(8), delta=Decimal("1e-6")),
    CapSpec(window="per-period", measure="epsilon-delta", limit=Decimal(1), delta=Decimal("1e-6")),
)
TRUTH = {
    "(intercept)": (1.802, 0.014),
    "age": (0.00812, 0.00021),
    "tenure": (0.0117, 0.0004),
    "female[yes]": (-0.121, 0.0041),
    "region[south]": (-0.0795, 0.0062),
    "region[east]": (-0.0331, 0.0064),
    "region[west]": (0.0608, 0.0058),
    "sigma": (0.3512, 0.0019),
}


def mechanism(name: str = "gaussian") -> Mechanism:
    sensitivity, grid = regression_sensitivity(SCHEMA), grid_for(ROWS)
    if name == "laplace":
        return laplace_for(sensitivity, epsilon=0.5, grid=grid, entries=len(sensitivity.weights))
    return gaussian_for(sensitivity, epsilon=0.5, delta=1e-6, grid=grid)


def definition(name: str = "gaussian") -> dict[str, Any]:
    """What the study file says of its release with this noise."""
    file = StudyFile.model_validate(parse(STUDY_TEXT.decode()).value)
    return requests.definition(file, file.releases[RELEASES[name]])


def request(period: str = "2026-01", **others: Any) -> Request:
    account = AccountSpec(
        population="employees",
        unit="person_id",
        max_rows_per_unit=1,
        neighbours="replace-one",
        grain="month",
        people="same",
        caps=CAPS,
    )
    named: dict[str, Any] = {"study": "wages", "release": "wage-regression", "holder": None, "revision": 1, **others}
    return Request(period=period, account=account, definition=definition(), **named)


def charge(ledger: Ledger, asked: Request, name: str = "gaussian", *, rows: int = ROWS) -> Entry:
    if name != "gaussian" and asked.release == RELEASES["gaussian"]:
        asked = replace(asked, release=RELEASES[name], definition=definition(name))
    values = np.linspace(-0.2, 0.3, len(SCHEMA.entries)) * rows
    design = RegressionDesign(schema=SCHEMA, mechanism=mechanism(name))
    open_where_missing(ledger, asked.account)
    return ledger.commit(asked, design, sums_of(values, rows), OpenDPNoise(), stamp=STAMP)


def small_entry(folder: Path, name: str = "gaussian", **others: Any) -> dict[str, Any]:
    with Ledger.create(f"sqlite:///{folder / 'ledger.db'}", STAMP) as ledger:
        return charge(ledger, request(**others), name).to_record()


def posterior_draws(seed: int = 1, *, chains: int = 4, count: int = 1000, drift: float = 0.0) -> dict[str, Floats]:
    generator = np.random.default_rng(seed)
    tilt = drift * np.arange(chains)[:, None]
    return {name: mean + sd * (generator.standard_normal((chains, count)) + tilt) for name, (mean, sd) in TRUTH.items()}


def drawn(draws: dict[str, Floats], release: str, **others: Any) -> Posterior:
    """A posterior with given draws."""
    stated: dict[str, Any] = {
        "latent": {"(constant) age": posterior_draws(9)["age"]},
        "sampler": "collapsed",
        "choice": "it takes this release and is calibrated",
        "target": "posterior of the noisy statistics",
        "calibrated": True,
        "caveat": "Exact for normal covariates.",
        "seed": SEED,
        "attempt": 0,
        "divergences": 0,
        "gradients": 12345,
    }
    return Posterior(draws=draws, release=release, **{**stated, **others})


def analysis(**others: Any) -> AnalysisRequest:
    stated: dict[str, Any] = {
        "study": "wages",
        "period": "2026-01",
        "analysis": "wage-posterior",
        "sampler": "collapsed",
        "prior": Prior().to_record(),
        "chains": 4,
        "draws": 1000,
        "seed": SEED,
    }
    return AnalysisRequest(**{**stated, **others})


def of(*entries: dict[str, Any]) -> Provenance:
    """The releases of some entries, without their crates."""
    sources = (Source({"entry.json": canonical_json(each)}) for each in entries)
    return Provenance(sources=tuple(sources), study_text=STUDY_TEXT)


def posterior_crate(release_crate: dict[str, bytes], signer: Signer, **others: Any) -> dict[str, bytes]:
    release = json.loads(release_crate["release.json"])["digest"]
    given: dict[str, Any] = {
        "posterior": drawn(posterior_draws(), release),
        "naive": drawn(posterior_draws(2), release, sampler="naive", latent={}),
        **others,
    }
    return build_posterior_crate(
        analysis(),
        given["posterior"],
        Provenance(sources=sources_of(release_crate), study_text=others.get("study_text", STUDY_TEXT)),
        naive=given["naive"],
        software=others.get("software", STAMP.software),
        signer=signer,
    )


@dataclass(frozen=True)
class Published:
    """A ledger with two charges, its anchors, their crates and a posterior's."""

    folder: Path
    signer: Signer
    archive: Archive
    anchors: Anchors

    def entries(self) -> list[Entry]:
        with Ledger.open(self.url) as ledger:
            return list(ledger.entries())

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'ledger.db'}"

    @property
    def files(self) -> list[Path]:
        """Every published file."""
        places = sorted((self.folder / "archive").rglob("*"))
        return [place for place in places if place.is_file() and ".tmp" not in place.parts]


def publish(folder: Path) -> Published:
    """The small archive that audits are tried on."""
    signer = Signer.create(folder / "keys")
    archive = Archive(str(folder / "archive"))
    anchors = Anchors(archive, signer)
    anchors.publish_key()
    with Ledger.create(f"sqlite:///{folder / 'ledger.db'}", STAMP, public_key=signer.fingerprint) as ledger:
        charged = [charge(ledger, request()), charge(ledger, request("2026-02"), "laplace")]
        ledger.note("a quiet month", STAMP)
        for entry in ledger.entries():
            anchors.write(entry.to_record())
    crates: list[dict[str, bytes]] = []
    for entry in charged:
        crates.append(build_release_crate(entry.to_record(), STUDY_TEXT, signer))
        archive.write_folder(release_path(entry.to_record()), crates[-1])
    analysed = posterior_crate(crates[0], signer)
    path = path_of(json.loads(analysed["posterior.json"]))
    with Ledger.open(f"sqlite:///{folder / 'ledger.db'}") as ledger:
        for entry in ledger.publish("employees", publication_of(path, analysed), (), stamp=STAMP):
            anchors.write(entry.to_record())
    archive.write_folder(path, analysed)
    return Published(folder, signer, archive, anchors)
