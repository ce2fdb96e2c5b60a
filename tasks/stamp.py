"""The actor, date and software versions that entries and crates record."""

import platform
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version

from dpbayes.crates.own_source import SOURCE, own_source
from storage.ledger.entries import Stamp

RECORDED = ("dpbayes", "numpy", "scipy", "numba", "opendp", "pyarrow", "prefect", "distributed")


@cache
def software_versions() -> dict[str, str]:
    """Versions of Python, of this program with a digest of its files, and of the libraries that decide its numbers."""
    found = {"python": platform.python_version(), SOURCE: own_source()}
    return found | {name: version(name) for name in RECORDED}


def stamp_of(actor: str) -> Stamp:
    """Who writes now, on which UTC day, with which software."""
    return Stamp(actor, datetime.now(UTC).date(), software_versions())
