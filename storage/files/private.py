"""Files and folders that nobody else may open or write: keys, a home, and what is believed when it is read back."""

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
    """Other users of this machine could take the private keys."""

    kind = "keys-exposed"


class HomeShared(DpbayesError):
    """Other users of this machine could change the home, or put another in its place."""

    kind = "home-shared"


def require_private(path: Path) -> None:
    """Refuse a folder or file of keys that other users of this machine can open."""
    if not os.access(path, os.R_OK):
        raise DpbayesError(f"cannot use the keys in {path}: they belong to another user. Run as that user.")
    if path.stat().st_mode & 0o077:
        mode = "700" if path.is_dir() else "600"
        raise KeysExposed(f"cannot use the keys in {path}: other users can open it. Run `chmod {mode} {path}`.")


def private_folder(name: str, environment: Mapping[str, str] | None = None) -> Path:
    """A folder of that name in the user's cache, closed to others; where that fails, one that ends with the process."""
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
    return found.st_uid in (0, os.geteuid()) and (
        not others_may_write(found, os.geteuid()) or bool(found.st_mode & pardon)
    )


def others_may_write(found: os.stat_result, owner: int) -> bool:
    """Whether anybody but `owner` may write a file or folder; a group of that user alone is nobody else."""
    return bool(found.st_mode & stat.S_IWOTH) or (
        bool(found.st_mode & stat.S_IWGRP) and not _is_group_of_one(owner, found.st_gid)
    )


@cache
def _is_group_of_one(owner: int, group: int) -> bool:
    """Whether a group is its owner's primary one, of the same name, with no other member: many systems make those."""
    try:
        user, found = pwd.getpwuid(owner), grp.getgrgid(group)
    except KeyError:
        return False
    return (user.pw_gid, user.pw_name) == (group, found.gr_name) and set(found.gr_mem) <= {user.pw_name}


def read_own(path: Path) -> bytes:
    """The bytes of a plain file that this user wrote and no other can; anybody else's is refused."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or others_may_write(found, os.geteuid()):
            raise IntegrityFailure(f"cannot believe {path}: another user wrote it, or can. Take it away.")
        return file.read()


def refuse_shared(parts: Iterable[Path]) -> None:
    """Refuse parts of a home that others may write or own, and folders above them where others may swap them."""
    above: dict[Path, None] = {}
    for part in parts:
        real = part.resolve()
        above |= dict.fromkeys(_passed(part))
        if not real.exists():
            continue
        found = real.stat()
        if found.st_uid not in (os.geteuid(), 0):
            raise HomeShared(f"cannot use {real}: it belongs to another user. Run as that user, or `chown` it.")
        if others_may_write(found, found.st_uid):
            raise HomeShared(f"cannot use {real}: other users may write it. Run `chmod go-w {real}`.")
    for folder in above:
        _refuse_swap(folder)


def _passed(path: Path) -> list[Path]:
    """Every folder in which a name of the path is looked up, through links too; refused where a link is another's."""
    waiting, folders, known = [path.absolute()], list[Path](), set[Path]()
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
        return  # whatever lies there only its owner may move
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
