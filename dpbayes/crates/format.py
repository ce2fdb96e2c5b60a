"""Builds crates: folders with a published result and its whole provenance; equal contents give equal bytes."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

from dpbayes_core.canonical import canonical_json, digest, sha256_of
from storage.files.archive import MANIFEST, checked_name
from storage.files.limits import MOST_BYTES, MiB
from storage.home.signatures import Signer

Files = Mapping[str, bytes]
"""The contents of a crate's files, by path."""

ATTESTATION = "attestation.json"
UNSIGNED = "unsigned-statement.json"
"""In place of an attestation if nobody signs: it shows accidental changes, not forgery."""
PUBLIC_KEY = "public-key.pem"
METADATA = "ro-crate-metadata.json"
MARKS = (METADATA, ATTESTATION, UNSIGNED)
"""A folder or zip is taken for a crate, even a damaged one, if one of these is at its top."""
EARLIEST = (1980, 1, 1, 0, 0, 0)  # the date of every file in a zip, which must not depend on the time

STATEMENT_TYPE = "application/vnd.in-toto+json"
"""The payload type of an in-toto statement."""

MOST_TEXT = 32 * MiB  # of each file that is not Parquet
MOST_STATEMENT = 8 * MiB  # of a signed statement or a manifest
MOST_KEY = 16 * 1024  # bytes of a public key's file
MOST_FILES = 10_000
LONGEST_NAME = 255
MOST_UNPACKED = 64  # times the zip itself, beyond the first 16 MiB
UNPACKED_FREELY = 16 * MiB
MOST_SECONDS = 600  # for a crate that is fetched from a URL
MOST_FOOTER = 8 * MiB  # of a Parquet file: its columns and row groups
MOST_RELEASES = 1000  # in one crate
MOST_VARIABLES = 1000  # columns after encoding, or nodes, of one release; and levels of one column

RO_CRATE = "https://w3id.org/ro/crate/1.1"
LICENSE = "The publishing agency states the terms under which this crate may be used."

SIGNED = {PUBLIC_KEY: "The signer's public key", ATTESTATION: "The signed statement about every file"}
LISTED = {UNSIGNED: "A statement about every file, which nobody signed"}

FORMATS: Mapping[str, str] = {
    "html": "text/html",
    "json": "application/json",
    "parquet": "application/vnd.apache.parquet",
    "pem": "application/x-pem-file",
    "yaml": "application/yaml",
}


def crate_digest(files: Files) -> str:
    """One sha256 for all the files of a crate but the statement about them."""
    return digest({name: sha256_of(data) for name, data in files.items() if name not in (ATTESTATION, UNSIGNED)})


def attested(files: Files, predicate_type: str, predicate: Mapping[str, Any], signer: Signer) -> dict[str, bytes]:
    """The files with the signer's public key and a signed statement about every one of them."""
    complete = {**files, PUBLIC_KEY: signer.export_public_key()}
    body = _stated(complete, predicate_type, predicate)
    complete[ATTESTATION] = canonical_json(signer.sign(STATEMENT_TYPE, body))
    return dict(sorted(complete.items()))


def listed(files: Files, predicate_type: str, predicate: Mapping[str, Any]) -> dict[str, bytes]:
    """The files with the same statement about every one of them, signed by nobody."""
    return dict(sorted({**files, UNSIGNED: _stated(files, predicate_type, predicate)}.items()))


def _stated(files: Files, predicate_type: str, predicate: Mapping[str, Any]) -> bytes:
    subjects = [{"name": name, "sha256": sha256_of(files[name])} for name in sorted(files)]
    return statement(subjects, predicate_type, {**predicate, "crate": crate_digest(files)})


def statement(subjects: Sequence[Mapping[str, str]], predicate_type: str, predicate: Mapping[str, Any]) -> bytes:
    """An in-toto Statement v1 about files given as {name, sha256}, as canonical JSON."""
    named = [{"digest": {"sha256": each["sha256"]}, "name": each["name"]} for each in subjects]
    return canonical_json(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "predicate": dict(predicate),
            "predicateType": predicate_type,
            "subject": named,
        }
    )


def metadata(
    *,
    name: str,
    description: str,
    day: str,
    identifier: str,
    files: Mapping[str, str],
    software: Mapping[str, Any],
    based_on: Sequence[str] = (),
    signed: bool = True,
) -> bytes:
    """An RO-Crate 1.1 description; `files` maps each file's name to what it is, `day` is the ledger's UTC day."""
    described = {**files, **(SIGNED if signed else LISTED)}
    versions = ", ".join(f"{key} {value}" for key, value in sorted(software.items()))
    root: dict[str, Any] = {
        "@id": "./",
        "@type": "Dataset",
        "datePublished": day,
        "description": description,
        "hasPart": [{"@id": each} for each in sorted(described)],
        "identifier": identifier,
        "license": LICENSE,
        "mentions": {"@id": "#made"},
        "name": name,
    }
    if based_on:
        root["isBasedOn"] = [{"@id": each} for each in based_on]
    action = {
        "@id": "#made",
        "@type": "CreateAction",
        "endTime": day,
        "instrument": {"@id": "#software"},
        "name": "Made by dpbayes",
        "result": {"@id": "./"},
    }
    program = {"@id": "#software", "@type": "SoftwareApplication", "name": "dpbayes", "softwareRequirements": versions}
    about = {"@id": METADATA, "@type": "CreativeWork", "about": {"@id": "./"}, "conformsTo": {"@id": RO_CRATE}}
    parts = [_file(each, described[each]) for each in sorted(described)]
    graph = [about, root, *parts, action, program]
    return canonical_json({"@context": f"{RO_CRATE}/context", "@graph": graph})


def _file(name: str, description: str) -> dict[str, Any]:
    kind = FORMATS[name.rpartition(".")[2]]
    return {"@id": name, "@type": "File", "description": description, "encodingFormat": kind, "name": name}


def pack(files: Files) -> bytes:
    """A crate as one zip file; the same files give the same bytes."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(checked_name(name), EARLIEST)
            entry.create_system = 3  # zipfile would write the machine's own
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name])
    return sink.getvalue()


def most_of(name: str) -> int:
    """How many bytes a crate's file of that name may have."""
    last = name.rpartition("/")[2]
    if last.endswith(".parquet"):
        return MOST_BYTES
    if last.endswith(".pem"):
        return MOST_KEY
    return MOST_STATEMENT if last in (ATTESTATION, UNSIGNED, MANIFEST) else MOST_TEXT
