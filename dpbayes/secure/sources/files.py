"""The files of a table, on this machine or behind any fsspec URL: named one by one, by folder or by pattern."""

import glob
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

import pyarrow as pa

from dpbayes.secure.sources.batch import Arrow, attempt
from dpbayes.study.table_source import TableSource
from dpbayes_core.confidential import Confidential
from dpbayes_core.errors import ShapeMismatch, TableMissing

_IGNORED = (".", "_")  # markers of other programs, such as _SUCCESS
_STAMPS = ("mtime", "ETag", "LastModified", "last_modified", "created", "md5Hash", "generation")


@dataclass(frozen=True, repr=False)
class File(Confidential):
    """One file of a table, of any format."""

    place: str  # path on its file system
    system: Any  # fsspec; None for this machine
    size: int  # bytes
    stamp: str  # changes when the content does

    @property
    def name(self) -> str:
        """Base name."""
        return PurePosixPath(self.place).name

    @property
    def identity(self) -> str:
        """Identifies the file's version, which a resumed pass must find unchanged."""
        return f"{self.place}\n{self.size}\n{self.stamp}"

    @property
    def address(self) -> str:
        """A path or URL at which other machines that share the files find this one."""
        return os.path.abspath(self.place) if self.system is None else str(self.system.unstrip_protocol(self.place))

    def open(self) -> AbstractContextManager[BinaryIO]:
        """The bytes, from the beginning."""
        return Path(self.place).open("rb") if self.system is None else self.system.open(self.place, "rb")

    def open_arrow(self) -> Arrow:
        """The same for Arrow, which then reads this machine's files without Python."""
        return pa.OSFile(self.place, "rb") if self.system is None else pa.PythonFile(self.open(), "r")


def files_of(source: TableSource) -> tuple[File, ...]:
    """Every file of the table, sorted; raises `TableMissing` if a named file does not exist."""
    found: dict[str, File] = {}
    for path in source.paths:
        for file in _remote(path, source.name) if "://" in path else _local(path, source.name):
            found.setdefault(file.place, file)  # a file that two patterns name is read once
    return tuple(found[place] for place in sorted(found))


def file_at(address: str, size: int, stamp: str, table: str) -> File:
    """The file that another machine found at this address; raises `ShapeMismatch` if this one sees another, or none."""
    find = _remote if "://" in address else _local
    found = attempt(lambda: find(address, table))
    if found is None or [(file.size, file.stamp) for file in found] != [(size, stamp)]:
        raise ShapeMismatch(
            f"cannot read table {table}: a worker does not find the file that is here. Put the table where all workers "
            "read the same files under the same path or URL."
        )
    return found[0]


def _has_pattern(path: str) -> bool:
    """Whether a path names files by a pattern."""
    return "*" in path or "?" in path


def _local(path: str, table: str) -> list[File]:
    plain = Path(path)
    if plain.is_file():
        return [_local_file(plain, table)]
    if plain.is_dir():
        entries = attempt(lambda: sorted(plain.iterdir()))
        return [_local_file(one, table) for one in _only_files(entries, Path.is_file, lambda one: one.name, table)]
    if not _has_pattern(path):
        raise _absent(table)
    matches = attempt(lambda: [Path(match) for match in sorted(glob.glob(path, recursive=True))])
    return [_local_file(one, table) for one in _matching(matches, lambda one: one.name, Path.is_file, table)]


def _local_file(path: Path, table: str) -> File:
    found = attempt(path.stat)
    if found is None:
        raise _absent(table)
    return File(os.fspath(path), None, found.st_size, str(found.st_mtime_ns))


def _remote(url: str, table: str) -> list[File]:
    from fsspec.core import url_to_fs  # only remote tables need it

    open_url: Callable[[str], tuple[Any, str]] = url_to_fs  # pyright: ignore[reportUnknownVariableType]
    opened = attempt(partial(open_url, url))
    if opened is None:
        raise ShapeMismatch(
            f"cannot read table {table}: nothing here opens such a URL. Install the fsspec file system for it, and set "
            "its credentials in the environment."
        )
    entries = attempt(lambda: _entries(*opened))
    if entries is None:
        raise ShapeMismatch(
            f"cannot read table {table}: its place does not answer. Check the URL, the network and the credentials "
            "in the environment."
        )
    kind, listed = entries
    if kind == "file":
        return [_remote_file(opened[0], one) for one in listed]
    if kind == "folder":
        return [_remote_file(opened[0], one) for one in _only_files(listed, _is_file, _base, table)]
    if not _has_pattern(url):
        raise _absent(table)
    return [_remote_file(opened[0], one) for one in _matching(listed, _base, _is_file, table)]


def _entries(system: Any, place: str) -> tuple[str, list[dict[str, Any]]]:
    system.invalidate_cache()  # listings are cached, and tables are replaced
    if system.isfile(place):
        return "file", [system.info(place)]
    if system.isdir(place):
        own = place.rstrip("/")
        return "folder", [one for one in system.ls(place, detail=True) if one["name"].rstrip("/") != own]
    matches: dict[str, Any] = system.glob(place, detail=True) if _has_pattern(place) else {}
    return "pattern", list(matches.values())


def _remote_file(system: Any, entry: dict[str, Any]) -> File:
    stamp = next((entry[key] for key in _STAMPS if entry.get(key)), "")
    stamp = str(stamp.timestamp() if isinstance(stamp, datetime) else stamp)  # listings and single files may differ
    return File(entry["name"], system, int(entry.get("size") or 0), stamp)


def _is_file(entry: dict[str, Any]) -> bool:
    return entry["type"] == "file"


def _base(entry: dict[str, Any]) -> str:
    return PurePosixPath(entry["name"]).name


def _only_files(entries: Any, is_file: Callable[[Any], bool], name: Callable[[Any], str], table: str) -> list[Any]:
    kept = [one for one in entries or () if not name(one).startswith(_IGNORED)]
    if not kept:
        raise TableMissing(
            f"cannot read table {table}: the folder holds no file of a table. Put the table's files in it."
        )
    if not all(is_file(one) for one in kept):
        raise ShapeMismatch(
            f"cannot read table {table}: the folder holds another folder. Put all files directly in it, or give a "
            "pattern such as **/*.parquet."
        )
    return kept


def _matching(entries: Any, name: Callable[[Any], str], is_file: Callable[[Any], bool], table: str) -> list[Any]:
    kept = [one for one in entries or () if is_file(one) and not name(one).startswith(_IGNORED)]
    if not kept:
        raise TableMissing(
            f"cannot read table {table}: no file matches the pattern. Put the table's files in place, or correct it."
        )
    return kept


def _absent(table: str) -> TableMissing:
    return TableMissing(
        f"cannot read table {table}: no such file or folder. Put it in place, or correct the source's path."
    )
