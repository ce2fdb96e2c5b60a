"""How the ledger names a posterior's crate, and whether a key signed a crate after it was retired."""

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpbayes.crates.contained_releases import sources_of
from dpbayes.crates.format import ATTESTATION, PUBLIC_KEY, Files
from dpbayes.crates.parquet import read_draws
from dpbayes.crates.posterior import DRAWS, recorded
from dpbayes_core.arrays import Floats
from dpbayes_core.canonical import digest
from storage.files.archive_paths import RECORDED
from storage.home.signatures import read_public_key
from storage.ledger.publishing import Publication


def statement_of(files: Files) -> str:
    """The sha256 of the signed statement about a crate."""
    payload: str = json.loads(files[ATTESTATION])["payload"]
    return hashlib.sha256(base64.b64decode(payload, validate=True)).hexdigest()


def content_of(files: Files) -> str:
    """The sha256 of the contents of a posterior's crate: its draws, number by number, and its record without the links.

    The links name the releases' own crates, whose files differ if another key signed them; the analysis key covers
    which releases they are.
    """
    record = {name: value for name, value in recorded(files).items() if name not in ("release", "releases")}
    draws = {name: _sha256_of(values) for name, values in read_draws(files[DRAWS]).items()}
    return digest({"draws": draws, "record": record})


def _sha256_of(values: Floats) -> str:
    """The sha256 of the numbers with their shape, however a file stores them."""
    return hashlib.sha256(f"{values.shape} ".encode() + np.asarray(values, dtype="<f8").tobytes()).hexdigest()


def publication_of(path: str, files: Files) -> Publication:
    """How the ledger names a posterior's crate."""
    record: Mapping[str, Any] = recorded(files)
    return Publication(
        study=record["study"],
        period=record["period"],
        analysis=record["analysis"],
        key=record["key"],
        path=path,
        prior=digest(record["request"]["prior"]),
        releases=tuple(source.entry.key for source in sources_of(files)),
        signed_by=read_public_key(files[PUBLIC_KEY])[0],
        statement=statement_of(files),
        status=record["status"],
        content=content_of(files),
    )


def needs_entry(files: Files) -> bool:
    """Whether a posterior is of a version that puts every one on the ledger before it is archived."""
    return recorded(files)["schema_version"] >= RECORDED


def signed_late(files: Files, retired: Mapping[str, int]) -> str | None:
    """What is wrong where a retired key signed a crate that contains an entry later than the retirement."""
    signer = read_public_key(files[PUBLIC_KEY])[0]
    seq = max(source.entry.seq for source in sources_of(files))
    if seq <= retired.get(signer, seq):
        return None
    return f"the key that entry {retired[signer]} retired signed it, and entry {seq} is later"
