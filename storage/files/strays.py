"""What lies in an archive's folder and is no file of it: links, empty folders, devices and pipes."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

LINK = "is a link: nothing in an archive is one"
EMPTY = "is an empty folder"
SPECIAL = "is neither a file nor a folder"
CLOSED = "cannot be looked into"


def strays(root: Path, scratch: str) -> dict[str, str]:
    """What is wrong with each of them, by its name below `root`; links are not followed, `scratch` is left out."""
    return dict(_found(root, root, scratch))


def _found(root: Path, folder: Path, scratch: str) -> Iterator[tuple[str, str]]:
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return
    except OSError:
        yield _name(root, folder), CLOSED
        return
    if not names and folder != root:
        yield _name(root, folder), EMPTY
    for name in names:
        place = folder / name
        try:
            kind = place.lstat().st_mode
        except FileNotFoundError:  # gone meanwhile
            continue
        if stat.S_ISLNK(kind):
            yield _name(root, place), LINK
        elif stat.S_ISDIR(kind):
            if (folder, name) != (root, scratch):
                yield from _found(root, place, scratch)
        elif not stat.S_ISREG(kind):
            yield _name(root, place), SPECIAL


def _name(root: Path, place: Path) -> str:
    return place.relative_to(root).as_posix()
