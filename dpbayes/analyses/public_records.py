"""Reads the public records on which a network's predictions are evaluated, and refuses the confidential table.

Their number, their digest and how well they are predicted are published without a charge.
"""

import glob
import hashlib
import io
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes.crates.parquet import parquet_table
from dpbayes.study.analyses import TestSpec
from dpbayes.study.public_paths import PERIOD, templates_here
from dpbayes.study.study import Study
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.networks.schema import NetworkSchema

MOST_BYTES = 1 << 28


@dataclass(frozen=True)
class PublicTest:
    """Records as level codes, (records, nodes), the node to predict from the others, and the file's own digest."""

    target: str
    digest: str
    records: NDArray[np.int64]

    def to_record(self) -> dict[str, Any]:
        """What identifies it in an analysis."""
        return {"records": len(self.records), "sha256": self.digest, "target": self.target}


def read_public_test(study: Study, spec: TestSpec, schema: NetworkSchema) -> PublicTest:
    """The records of a CSV or Parquet file; a level that is not declared counts as in the table."""
    import pyarrow as pa

    content = _content(study, spec.path)
    if content is None:
        raise StudyInvalid(f"cannot try the network: {spec.path} is not there, or too large. Put a public file there.")
    try:
        table = _table(content, parquet=Path(spec.path).suffix == ".parquet")
    except (pa.ArrowException, UnicodeDecodeError):
        raise StudyInvalid(f"cannot try the network: {spec.path} is neither CSV nor Parquet. Write one.") from None
    missing = [name for name in schema.names if name not in table]
    if missing:
        raise StudyInvalid(f"cannot try the network: {spec.path} has no column {missing[0]}. Add every node.")
    codes = [_codes(table[node.name], node.levels, study.columns[node.name].unknown) for node in schema.nodes]
    return PublicTest(spec.target, hashlib.sha256(content).hexdigest(), np.stack(codes, axis=1))


def refuse_table(study: Study) -> None:
    """Raise StudyInvalid if any analysis's records are a file of the table, also through links; reads no contents."""
    for analysis in study.analyses.values():
        if analysis.test is not None:
            with suppress(OSError):
                _refuse_table_file(study, analysis.test.path, os.stat(study.path.parent / analysis.test.path))


def _content(study: Study, path: str) -> bytes | None:
    """The bytes, or None if there are none or too many; raises StudyInvalid if they are the table's."""
    try:
        with (study.path.parent / path).open("rb") as file:
            found = os.fstat(file.fileno())
            _refuse_table_file(study, path, found)
            return None if found.st_size > MOST_BYTES else file.read(MOST_BYTES)
    except OSError:
        return None


def _refuse_table_file(study: Study, path: str, found: os.stat_result) -> None:
    if any(os.path.samestat(found, one) for one in _files_of_table(study)):
        raise StudyInvalid(
            f"cannot try the network: {path} is a file of the confidential table. Put a public file there."
        )


def _files_of_table(study: Study) -> Iterator[os.stat_result]:
    """Every file on this machine of any period's table, whatever links lead to it."""
    for template in templates_here(study.source, study.path.parent):
        parts = template.split(PERIOD)
        for pattern in {"*".join(parts), "*".join(map(glob.escape, parts))}:
            for place in glob.iglob(pattern, recursive=True):
                for file in (place, *_entries(place)):
                    with suppress(OSError):  # it vanished, or may not be read
                        yield os.stat(file)


def _entries(place: str) -> list[str]:
    """The paths directly in a folder; none if it is no folder."""
    try:
        return [entry.path for entry in os.scandir(place)]
    except OSError:
        return []


def _table(content: bytes, *, parquet: bool) -> Mapping[str, list[Any]]:
    import pyarrow.csv

    alone = pyarrow.csv.ReadOptions(use_threads=False)
    table: Any = parquet_table(content) if parquet else pyarrow.csv.read_csv(io.BytesIO(content), alone)
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _codes(values: list[Any], levels: tuple[str, ...], unknown: str | None) -> NDArray[np.int64]:
    known = {level: place for place, level in enumerate(levels)}
    replacement = 0 if unknown is None else known[unknown]
    return np.array([known.get(_text(value), replacement) for value in values], dtype=np.int64)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
