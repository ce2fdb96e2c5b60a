"""Files and folders that other users may not open or write: keys, a home, and caches that are trusted on reading."""

import atexit
import grp
import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from dpbayes_core.errors import DpbayesError, IntegrityFailure
from storage.files.durable import make_folder

NAME = "dpbayes"


class KeysExposed(DpbayesError):
    """Other users of this machine can read the private keys."""

    kind = "keys-exposed"


class HomeShared(DpbayesError):
    """Other users of this machine can change the home or replace it."""

    kind = "home-shared"


def require_private(path: Path) -> None:
    """Refuse a folder or file of keys that other users of this machine can open."""
    if not os.access(path, os.R_OK):
        raise DpbayesError(f"cannot use the keys in {path}: they belong to another user. Run as that user.")
    if path.stat().st_mode & 0o077:
        mode = "700" if path.is_dir() else "600"
        raise KeysExposed(f"cannot use the keys in {path}: other users can open it. Run `chmod {mode} {path}`.")


def private_folder(name: str, environment: Mapping[str, str] | None = None) -> Path:
    """A folder of that name in the user's cache, closed to others; if that fails, one that is deleted at exit."""
    settings = os.environ if environment is None else environment
    cache, home = settings.get("XDG_CACHE_HOME"), Path(settings.get("HOME", ""))
    if not cache and not (home.is_absolute() and home.is_dir()):
        return temporary_folder(name)
    place = (Path(cache) if cache else home / ".cache") / NAME / name
    try:
        make_folder(place.parent, mode=0o700)
        make_folder(place, mode=0o700)
    except OSError:
        return temporary_folder(name)
    closed = not stat.S_IMODE(place.stat().st_mode) & 0o077
    return place if closed and is_ours_alone(place) else temporary_folder(name)


@cache
def temporary_folder(name: str) -> Path:
    """A private folder that is deleted when this process exits; the same one for each name."""
    folder = Path(tempfile.mkdtemp(prefix=f"{NAME}-{name}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def is_ours_alone(folder: Path) -> bool:
    """Whether only this user and root can put a file there, also by renaming a folder above it."""
    place = folder.resolve()
    return _is_ours(place, 0) and all(_is_ours(each, stat.S_ISVTX) for each in place.parents)


def _is_ours(place: Path, allowed: int) -> bool:
    """Whether only this user and root can write a folder, or its mode has a bit of `allowed`, such as the sticky bit.

    In a folder with the sticky bit, users cannot rename others' files.
    """
    try:
        found = place.stat()
    except OSError:
        return False
    return found.st_uid in (0, os.geteuid()) and (
        not others_may_write(found, os.geteuid()) or bool(found.st_mode & allowed)
    )


def others_may_write(found: os.stat_result, owner: int) -> bool:
    """Whether users other than `owner` may write a file or folder; a group of the owner alone does not count."""
    return bool(found.st_mode & stat.S_IWOTH) or (
        bool(found.st_mode & stat.S_IWGRP) and not _is_group_of_one(owner, found.st_gid)
    )


@cache
def _is_group_of_one(owner: int, group: int) -> bool:
    """Whether a group is the owner's primary group, has the same name and no other member, as many systems make it."""
    try:
        user, found = pwd.getpwuid(owner), grp.getgrgid(group)
    except KeyError:
        return False
    return (user.pw_gid, user.pw_name) == (group, found.gr_name) and set(found.gr_mem) <= {user.pw_name}


def read_own(path: Path) -> bytes:
    """The bytes of a regular file that belongs to this user and that no other user can write; others are refused."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or others_may_write(found, os.geteuid()):
            raise IntegrityFailure(f"cannot believe {path}: another user wrote it, or can. Take it away.")
        return file.read()


def refuse_shared(parts: Iterable[Path]) -> None:
    """Refuse parts of a home that others own or may write, and folders above in which others may replace them."""
    above: dict[Path, None] = {}
    known = set[Path]()
    for part in parts:
        real = part.resolve()
        above |= dict.fromkeys(_lookup_folders(part, known))
        if not real.exists():
            continue
        found = real.stat()
        if found.st_uid not in (os.geteuid(), 0):
            raise HomeShared(f"cannot use {real}: it belongs to another user. Run as that user, or `chown` it.")
        if others_may_write(found, found.st_uid):
            raise HomeShared(f"cannot use {real}: other users may write it. Run `chmod go-w {real}`.")
    for folder in above:
        _refuse_swap(folder)


def _lookup_folders(path: Path, known: set[Path]) -> list[Path]:
    """Every folder in which a part of the path is looked up, also through links; another user's link is refused.

    Parts that are `known`, from paths before this one, are left out, and those of this path become known.
    """
    waiting, folders = [path.absolute()], list[Path]()
    for one in waiting:
        for name in (one, *one.parents):
            if name in known:
                continue
            known.add(name)
            folders.append(name.parent)
            if name.is_symlink():
                if name.lstat().st_uid not in (os.geteuid(), 0):
                    raise HomeShared(f"cannot use {name}: the link belongs to another user. Name the folder itself.")
                waiting.append(name.parent / name.readlink())
    return [folder for folder in folders if folder.is_dir()]


def _refuse_swap(folder: Path) -> None:
    found = folder.stat()
    if found.st_mode & stat.S_ISVTX:
        return  # with the sticky bit, only a file's owner may rename it
    if others_may_write(found, found.st_uid):
        raise HomeShared(
            f"cannot use a home below {folder}: other users may write that folder, and put another home in its place. "
            f"Run `chmod go-w {folder}`."
        )
    if found.st_uid not in (os.geteuid(), 0) and os.geteuid() != 0:
        raise HomeShared(
            f"cannot use a home below {folder}: that folder belongs to another user, who may put another home in its "
            "place. Move the home to a folder of your own."
        )
