"""What this user alone wrote: folders and files that are believed when they are read back, such as machine code."""

import atexit
import grp
import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from dpbayes_core.errors import IntegrityFailure
from storage.files.durable import make_folder

NAME = "dpbayes"


def private_folder(name: str, environment: Mapping[str, str] | None = None) -> Path:
    """A folder of that name in the user's cache, closed to others; where none can be, one as long as the process."""
    settings = os.environ if environment is None else environment
    cache, home = settings.get("XDG_CACHE_HOME"), Path(settings.get("HOME", ""))
    if not cache and not (home.is_absolute() and home.is_dir()):
        return passing_folder(name)
    place = (Path(cache) if cache else home / ".cache") / NAME / name
    try:
        make_folder(place.parent, mode=0o700)
        make_folder(place, mode=0o700)
    except OSError:
        return passing_folder(name)
    closed = not stat.S_IMODE(place.stat().st_mode) & 0o077
    return place if closed and is_ours_alone(place) else passing_folder(name)


@cache
def passing_folder(name: str) -> Path:
    """A private folder of that name for as long as this process lives."""
    folder = Path(tempfile.mkdtemp(prefix=f"{NAME}-{name}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def is_ours_alone(folder: Path) -> bool:
    """Whether nobody but this user and root can put a file there, now or by moving a folder around it."""
    place = folder.resolve()
    return _is_ours(place, 0) and all(_is_ours(each, stat.S_ISVTX) for each in place.parents)


def _is_ours(place: Path, pardon: int) -> bool:
    """A folder that others may write is pardoned where they cannot move what others made."""
    try:
        found = place.stat()
    except OSError:
        return False
    return found.st_uid in (0, os.geteuid()) and (not others_may_write(found) or bool(found.st_mode & pardon))


def others_may_write(found: os.stat_result) -> bool:
    """Whether anybody but its owner may write a file or folder; a group of this user alone is nobody else."""
    return bool(found.st_mode & stat.S_IWOTH) or (bool(found.st_mode & stat.S_IWGRP) and not _is_own(found.st_gid))


@cache
def _is_own(group: int) -> bool:
    """Whether a group is the one that many systems make for each user: of the user's name, and nobody else in it."""
    try:
        user, known = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return (user.pw_gid, user.pw_name) == (group, known.gr_name) and set(known.gr_mem) <= {user.pw_name}


def read_own(path: Path) -> bytes:
    """The bytes of a plain file that this user wrote and no other can; anybody else's is refused."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or others_may_write(found):
            raise IntegrityFailure(f"cannot believe {path}: another user wrote it, or can. Take it away.")
        return file.read()
