"""Crates that were once published are read, and pass their audit, for ever."""

from pathlib import Path

from dpbayes_core.priors import Prior
from dpbayes_core.samplers.driver import sample
from storage.audit import audit_crate
from storage.crate_release import entry_of, released
from storage.crates import load

FOLDER = Path(__file__).parent / "release-1"  # synthetic data, schema version 1
DIGEST = "bc49c4a5b80cd55a6cb0be18e9b24ab1a38eca9c1f6046ac7eb19d4af0525b6f"
FINGERPRINT = "SHA256:fd7ae210d4500e1a6b5074462f1e89a33d2cd5183f3293a51312f22773b7bbe7"


def test_a_crate_of_version_1_passes_its_audit() -> None:
    report = audit_crate(load(FOLDER), [FINGERPRINT])
    assert report.ok, [check for check in report.checks if not check.ok]


def test_a_release_of_version_1_is_read_and_analysed() -> None:
    release = released(entry_of(load(FOLDER)).to_record())
    assert release.digest == DIGEST
    assert release.protected
    assert sample(release, Prior(), sampler="naive", chains=2, draws=400, seed=1).converged
