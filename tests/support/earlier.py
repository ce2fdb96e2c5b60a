"""Posterior crates in the previous format: their keys depend on noisy values, and no ledger names them."""

import json
import shutil
from pathlib import Path

from dpbayes.audit.pages import GIVEN
from dpbayes.crates.analysis_request import AnalysisRequest, earlier_key
from dpbayes.crates.contained_releases import sources_of
from dpbayes.crates.files import load
from dpbayes.crates.format import ATTESTATION, PUBLIC_KEY, UNSIGNED, attested, listed
from dpbayes.crates.parquet import read_draws
from dpbayes.crates.posterior import PREDICATES, derived_files, predicate_of
from dpbayes_core.canonical import canonical_json
from storage.files.archive import Archive
from storage.files.archive_paths import posterior_path
from storage.home.signatures import Signer

Files = dict[str, bytes]


def as_version_2(files: Files, signer: Signer | None) -> tuple[str, Files]:
    """A crate's path in the archive and its files, in the previous format."""
    record = json.loads(files["posterior.json"])
    request = AnalysisRequest(**record["request"])
    record |= {"key": earlier_key(record["releases"][0]["digest"], request), "schema_version": 2}
    plain = {name: data for name, data in files.items() if name not in (ATTESTATION, UNSIGNED, PUBLIC_KEY)}
    plain["posterior.json"] = canonical_json(record)
    given = {name: data for name, data in plain.items() if name in GIVEN or name.startswith("releases/")}
    software, by = json.loads(plain["software.json"]), None if signer is None else signer.fingerprint
    plain |= derived_files(
        record, sources_of(files), read_draws(plain["draws.parquet"]), given, software=software, by=by
    )
    predicate = predicate_of(record)
    whole = (
        listed(plain, PREDICATES[2], predicate) if signer is None else attested(plain, PREDICATES[2], predicate, signer)
    )
    return posterior_path(request.study, request.period, request.analysis, record["key"]), whole


def made_earlier(crate: Path, signer: Signer) -> Path:
    """Replace an archived crate by one in the previous format; returns its path."""
    root = crate.parents[3]
    path, files = as_version_2(load(crate), signer)
    shutil.rmtree(crate)
    Archive(str(root)).write_folder(path, files)
    return root / path
