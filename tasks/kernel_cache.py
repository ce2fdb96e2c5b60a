"""Choose numba's cache folder: numba runs the kernels it finds there, so other users must not be able to write it."""

import os
import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from storage.files.private import is_ours_alone, others_may_write, private_folder

SETTING = "NUMBA_CACHE_DIR"
ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("dpbayes_core", "storage", "dpbayes")
"""The packages with kernels: by default numba caches each kernel next to its module."""
KEPT = (".nbi", ".nbc")


def keep_kernels_private(environment: MutableMapping[str, str] | None = None, root: Path = ROOT) -> str | None:
    """Move numba's cache to the user's private folder if others can write the default one; returns a warning if so.

    Call it before a kernel is imported. Workers that this process starts inherit the setting.
    """
    settings = os.environ if environment is None else environment
    named = settings.get(SETTING)
    roots = [Path(named)] if named else [root / package for package in PACKAGES]
    flaw = next(filter(None, map(_insecure_folder, roots)), None)
    if flaw is None and (named or all(os.access(place, os.W_OK) for place in roots)):
        return None
    private = private_folder("kernels", settings)
    settings[SETTING] = str(private)
    if "numba" in sys.modules:  # it read the setting when it was imported
        sys.modules["numba"].config.CACHE_DIR = str(private)
    return None if flaw is None else f"Compiled kernels are kept in {private}: others could write those in {flaw}."


def _insecure_folder(root: Path) -> Path | None:
    """The first folder of a tree where another user could put a kernel, or has; None if there is none."""
    existing = next(place for place in (root, *root.absolute().parents) if place.exists())
    if not is_ours_alone(existing):
        return root
    folders = [root, *(place for place in root.rglob("*") if place.is_dir())] if root.is_dir() else []
    return next((each for each in folders if any(map(_others_may_write, (each, *_kernels(each))))), None)


def _kernels(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        yield from (Path(entry.path) for entry in entries if entry.name.endswith(KEPT))


def _others_may_write(place: Path) -> bool:
    found = place.lstat()
    return found.st_uid not in (0, os.geteuid()) or others_may_write(found, os.geteuid())
