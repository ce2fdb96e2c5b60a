"""A digest of this program: pages can be made again and compared byte by byte only by the program that made them."""

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

SOURCE = "dpbayes-source"
"""The name, among the versions of software that a record keeps, of the digest of this program's own files."""

ROOMS = ("dpbayes_core", "storage", "dpbayes")  # what decides the files of a crate
KINDS = {".css", ".j2", ".json", ".py"}
DRAWING = "numpy"  # whose rounding decides the pictures of a page


@cache
def own_source() -> str:
    """sha256 over the names and bytes of this program's own files, shortened."""
    root, found = Path(__file__).parents[2], hashlib.sha256()
    for room in ROOMS:
        for path in sorted(path for path in (root / room).rglob("*") if path.suffix in KINDS):
            found.update(f"{path.relative_to(root).as_posix()} {path.stat().st_size}\n".encode())
            found.update(path.read_bytes())
    return found.hexdigest()[:16]


def makes_the_same(software: Mapping[str, Any]) -> bool:
    """Whether the program that recorded these versions makes the same pages of the same records as this one."""
    return software.get(SOURCE) == own_source() and software.get(DRAWING) == _drawing()


@cache
def _drawing() -> str:
    return version(DRAWING)
