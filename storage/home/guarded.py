"""Who else may write what a home is made of: nobody, and nobody may put another home in its place."""

import grp
import os
import pwd
import stat
from collections.abc import Iterable
from pathlib import Path

from dpbayes_core.errors import DpbayesError


class HomeShared(DpbayesError):
    """Other users of this machine could change the home, or put another in its place."""

    kind = "home-shared"


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
        if _others_may_write(found):
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
    if _others_may_write(found):
        raise HomeShared(
            f"cannot use a home below {folder}: other users may write that folder, and put another home in its place. "
            f"Run `chmod go-w {folder}`."
        )
    if found.st_uid not in (os.geteuid(), 0) and os.geteuid() != 0:
        raise HomeShared(
            f"cannot use a home below {folder}: that folder belongs to another user, who may put another home in its "
            "place. Move the home to a folder of your own."
        )


def _others_may_write(found: os.stat_result) -> bool:
    return bool(found.st_mode & stat.S_IWOTH) or (
        bool(found.st_mode & stat.S_IWGRP) and not _private_group(found.st_uid, found.st_gid)
    )


def _private_group(owner: int, group: int) -> bool:
    """Whether a group is its owner's alone, as many systems make one for each user: there umask is 002."""
    try:
        name, found = pwd.getpwuid(owner).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_name == name and set(found.gr_mem) <= {name}
