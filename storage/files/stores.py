"""Where an archive's files are stored: a durable local folder, or any other fsspec file system."""

import contextlib
import fcntl
import os
import stat
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Protocol

from storage.files.durable import create_file, make_folder, sweep

SCRATCH = ".tmp"
"""The folder of a local store for half-written files; it is not part of the archive."""

LINK = "is a link: nothing in an archive is one"
EMPTY = "is an empty folder"
SPECIAL = "is neither a file nor a folder"
CLOSED = "cannot be looked into"


class Store(Protocol):
    """Named files, as an archive needs them; names are relative paths."""

    failures: tuple[type[Exception], ...]

    def create(self, name: str, data: bytes) -> None:
        """Write a new file, whole or not at all; FileExistsError where one has this name."""
        ...

    def read(self, name: str) -> bytes:
        """The bytes of one file; FileNotFoundError where there is none."""
        ...

    def exists(self, name: str) -> bool:
        """Whether there is a file of this name."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file of a folder that was never finished."""
        ...

    def list(self, folder: str) -> list[str]:
        """The names of all files below a folder, sorted; none where there is no such folder."""
        ...

    def strays(self) -> dict[str, str]:
        """Everything that is not a stored file: name to what is wrong with it."""
        ...

    def exclusive(self) -> contextlib.AbstractContextManager[None]:
        """A lock under which one process at a time writes several files, if the store has locks."""
        ...

    def address(self, name: str) -> str:
        """The path or URL of a file or folder."""
        ...


class LocalStore(Store):
    """Files in a folder of this machine."""

    failures: tuple[type[Exception], ...] = (OSError,)

    def __init__(self, root: Path) -> None:
        self.root = root
        self._scratch = root / SCRATCH
        self._ready = False

    def create(self, name: str, data: bytes) -> None:
        self._prepare()
        path = self.root / name
        make_folder(path.parent)
        create_file(path, data, scratch=self._scratch)

    def read(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def exists(self, name: str) -> bool:
        return (self.root / name).is_file()

    def remove(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)

    def list(self, folder: str) -> list[str]:
        names: list[str] = []
        top = os.path.join(self.root, "")
        for place, folders, files in os.walk(top + folder, onerror=_unless_absent):
            inside = place[len(top) :]
            if not inside and SCRATCH in folders:
                folders.remove(SCRATCH)
            names.extend(f"{inside}/{file}" if inside else file for file in files)
        return sorted(names)

    def strays(self) -> dict[str, str]:
        return dict(_strays_below(self.root, self.root))

    @contextlib.contextmanager
    def exclusive(self) -> Generator[None]:
        """A file lock, which the system releases when the process ends."""
        self._prepare()
        with (self._scratch / "lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def address(self, name: str) -> str:
        return str(self.root / name)

    def _prepare(self) -> None:
        if not self._ready:
            make_folder(self._scratch)
            sweep(self._scratch)
            self._ready = True


def _strays_below(root: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Links, empty folders, devices and pipes below a folder, with what is wrong with each; no link is followed."""
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
        except FileNotFoundError:  # deleted meanwhile
            continue
        if stat.S_ISLNK(kind):
            yield _name(root, place), LINK
        elif stat.S_ISDIR(kind):
            if (folder, name) != (root, SCRATCH):
                yield from _strays_below(root, place)
        elif not stat.S_ISREG(kind):
            yield _name(root, place), SPECIAL


def _name(root: Path, place: Path) -> str:
    return place.relative_to(root).as_posix()


def _unless_absent(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


class RemoteStore(Store):
    """Files in any other fsspec file system. It has no locks; writes are atomic if the file system's are."""

    failures: tuple[type[Exception], ...] = (Exception,)  # every client library raises its own

    def __init__(self, url: str) -> None:
        from fsspec.core import url_to_fs  # slow to import, and needed for remote archives only

        found: tuple[Any, str] = url_to_fs(url)
        self._files, root = found
        self._root = root.rstrip("/")

    def create(self, name: str, data: bytes) -> None:
        """Write a new file; of two concurrent writers one wins if the server supports conditional writes."""
        if self.exists(name):  # some servers ignore the condition and overwrite
            raise FileExistsError(name)
        try:
            self._put(self._place(name), data)
        except Exception:
            if self.exists(name):  # from a concurrent writer, or our own although its reply was lost
                raise FileExistsError(name) from None
            raise

    def read(self, name: str) -> bytes:
        return bytes(self._files.cat_file(self._place(name)))

    def exists(self, name: str) -> bool:
        self._files.invalidate_cache()  # other processes write here too
        try:
            return self._files.info(self._place(name))["type"] == "file"
        except (FileNotFoundError, NotADirectoryError):
            return False

    def remove(self, name: str) -> None:
        self._files.rm_file(self._place(name))

    def list(self, folder: str) -> list[str]:
        self._files.invalidate_cache()
        place = self._place(folder).rstrip("/")
        try:
            found: list[str] = self._files.find(place)
        except FileNotFoundError:
            return []
        return sorted(name[len(self._root) + 1 :] for name in found)

    def strays(self) -> dict[str, str]:
        """Nothing: object stores have neither links nor empty folders."""
        return {}

    def exclusive(self) -> contextlib.AbstractContextManager[None]:
        """No lock: two writers of one folder must write the same bytes."""
        return contextlib.nullcontext()

    def address(self, name: str) -> str:
        return str(self._files.unstrip_protocol(self._place(name)))

    def _put(self, place: str, data: bytes) -> None:
        try:
            self._files.pipe_file(place, data, mode="create")
        except FileNotFoundError:  # object stores have no folders, other servers need them made
            bucket, folder = place.partition("/")[0], place.rpartition("/")[0]
            if bucket and not self._files.exists(bucket):
                raise  # a bucket is its owner's to make, with its place and access rights
            self._files.makedirs(folder, exist_ok=True)
            self._files.pipe_file(place, data, mode="create")

    def _place(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root
