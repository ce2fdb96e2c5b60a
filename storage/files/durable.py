"""Durable files and folders on this machine: after a kill or a power cut a file is whole or absent."""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Generator
from pathlib import Path


def make_folder(folder: Path, *, mode: int = 0o755) -> None:
    """Make a folder and its parents so that they outlive a power cut."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        folder.mkdir(mode=mode)
    except FileExistsError:
        if not folder.is_dir():
            raise NotADirectoryError(f"{folder} is not a folder") from None
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names of a folder's files durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def create_file(path: Path, data: bytes, *, scratch: Path, mode: int = 0o644) -> None:
    """Write a new file durably: a kill at any moment leaves all of it or nothing. FileExistsError if it exists."""
    if path.exists():
        sync_folder(path.parent)  # its writer may have been killed before making the name durable
        raise FileExistsError(path)
    with _written(data, scratch, mode) as part:
        os.link(part, path)  # never overwrites, unlike a rename
    sync_folder(path.parent)


def keep_file(path: Path, data: bytes, *, scratch: Path) -> None:
    """Write a file that only this user may read, unless it exists: of two writers, the first wins."""
    with contextlib.suppress(FileExistsError):
        create_file(path, data, scratch=scratch, mode=0o600)


def replace_file(path: Path, data: bytes, scratch: Path, *, mode: int = 0o600) -> None:
    """Write a file durably, replacing any old one: a kill at any moment leaves the old or the new one, whole."""
    with _written(data, scratch, mode) as part:
        os.replace(part, path)
    sync_folder(path.parent)


@contextlib.contextmanager
def _written(data: bytes, scratch: Path, mode: int) -> Generator[Path]:
    """Write the data to a locked, durable file in the scratch folder, deleted afterwards unless it was moved."""
    handle, part = _open_part(scratch, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            yield part
    except OSError as error:
        error.filename = error.filename or str(scratch)  # the error of a full disk names no file
        raise
    finally:
        part.unlink(missing_ok=True)


def _open_part(scratch: Path, mode: int) -> tuple[int, Path]:
    """A new file in the scratch folder, locked for as long as its writer lives."""
    while True:
        part = scratch / f"{secrets.token_hex(8)}.part"
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return handle, part
        os.close(handle)  # a sweep came between opening and locking: start over


def sweep(scratch: Path) -> None:
    """Remove the half-written files of killed writers, recognised by the missing lock."""
    for part in scratch.glob("*.part"):
        with contextlib.suppress(FileNotFoundError, BlockingIOError, PermissionError):
            handle = os.open(part, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()
            finally:
                os.close(handle)
