"""Crates that were once published are read, and pass their audit, for ever."""

import json
from pathlib import Path

from dpbayes.audit.audit import audit_crate
from dpbayes.audit.replay import replayed
from dpbayes.crates.contained_releases import sources_of
from dpbayes.crates.files import load
from dpbayes.crates.release import entry_of, released
from dpbayes_core.regression.prior import Prior
from dpbayes_core.samplers.driver import sample

FOLDER = Path(__file__).parent / "release-1"  # synthetic data, schema version 1
DIGEST = "bc49c4a5b80cd55a6cb0be18e9b24ab1a38eca9c1f6046ac7eb19d4af0525b6f"
FINGERPRINT = "SHA256:fd7ae210d4500e1a6b5074462f1e89a33d2cd5183f3293a51312f22773b7bbe7"
POSTERIOR = Path(__file__).parent / "posterior-1"  # of another release; its prior has parts that are no more
POSTERIOR_KEY = "SHA256:57a12a6ca462d02a2e94da251b8368836838c1f80f0f7f49ae963f6dc2b7a53e"
POSTERIOR_2 = Path(__file__).parent / "posterior-2"  # named after the digest of its release, as in version 1
POSTERIOR_2_KEY = "SHA256:6a77c140b4519aa86e2176e3001413beddcdec53c939eee47e0119c56f65f890"


def test_a_crate_of_version_1_passes_its_audit() -> None:
    report = audit_crate(load(FOLDER), [FINGERPRINT])
    assert report.ok, [check for check in report.checks if not check.ok]


def test_a_posterior_of_version_1_passes_its_audit_and_a_change_fails_it() -> None:
    files = load(POSTERIOR)
    report = audit_crate(files, [POSTERIOR_KEY])
    assert report.ok, [check for check in report.checks if not check.ok]
    altered = {**files, "posterior.json": files["posterior.json"].replace(b'"draws":250', b'"draws":251')}
    assert not audit_crate(altered, [POSTERIOR_KEY]).ok


def test_a_posterior_of_version_2_passes_its_audit_and_its_replay_and_a_change_fails_it() -> None:
    files = load(POSTERIOR_2)
    report = audit_crate(files, [POSTERIOR_2_KEY], replayed)
    assert report.ok, [check for check in report.checks if not check.ok]
    altered = {**files, "posterior.json": files["posterior.json"].replace(b'"draws":250', b'"draws":251')}
    assert not audit_crate(altered, [POSTERIOR_2_KEY]).ok


def test_the_release_of_a_posterior_of_version_1_is_found() -> None:
    (source,) = sources_of(load(POSTERIOR))
    record = json.loads((POSTERIOR / "posterior.json").read_text())
    assert source.release.digest == record["release"]["digest"]
    assert source.signed_by == POSTERIOR_KEY


def test_a_release_of_version_1_is_read_and_analysed() -> None:
    release = released(entry_of(load(FOLDER)).to_record())
    assert release.digest == DIGEST
    assert release.protected
    assert sample(release, Prior(), sampler="naive", chains=2, draws=400, seed=1).converged
