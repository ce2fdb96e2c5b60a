"""The archive: published files at any fsspec URL, each written once; a folder with a manifest is complete."""

import contextlib
import hashlib
import json
import re
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

from dpbayes_core.canonical import canonical_json, sha256_of
from dpbayes_core.errors import DpbayesError, IntegrityFailure, StudyInvalid
from storage.files.stores import SCRATCH, LocalStore, RemoteStore, Store

MANIFEST = "MANIFEST.json"
"""The file of a folder that is written last and lists the sha256 of every other file."""


class ArchiveUnavailable(DpbayesError):
    """The archive cannot be reached, read or written now; its files are not lost."""

    kind = "archive-unavailable"


def checked_name(name: str) -> str:
    """A relative name that stays inside its folder, unchanged; anything else is refused."""
    parts = name.split("/")
    if (
        any(part in ("", ".", "..") for part in parts)
        or any(character in name for character in "\\:")
        or not name.isprintable()
        or parts[0] == SCRATCH
    ):
        raise IntegrityFailure(f"cannot use the name {name!r} in an archive: it does not stay inside its folder.")
    return name


def manifest(files: Mapping[str, bytes]) -> bytes:
    """The manifest of a folder: sorted name to sha256, as canonical JSON."""
    return canonical_json({checked_name(name): sha256_of(data) for name, data in files.items()})


def manifest_flaw(files: Mapping[str, bytes], listing: bytes) -> str | None:
    """What is wrong with a manifest, given the files; None if it is theirs."""
    return None if manifest(files) == listing else f"{MANIFEST} is not that of the files"


class Archive:
    """Files that are written once and never changed, under relative names."""

    def __init__(self, url: str) -> None:
        self._store = _open(url)

    def write_once(self, path: str, data: bytes) -> None:
        """Store a file; the same bytes again change nothing, other bytes under its name are refused."""
        with self._errors_as_unavailable("write", checked_name(path)):
            try:
                self._store.create(path, data)
            except FileExistsError:
                if self._store.read(path) != data:
                    raise IntegrityFailure(
                        f"cannot write {path}: the archive holds other bytes under this name. "
                        "Run `dpbayes audit` to see what was altered."
                    ) from None

    def read(self, path: str) -> bytes:
        """The bytes of one file."""
        with self._errors_as_unavailable("read", checked_name(path)):
            try:
                return self._store.read(path)
            except FileNotFoundError:
                raise IntegrityFailure(
                    f"cannot read {path}: the archive has no such file. Restore the archive from a copy."
                ) from None

    def exists(self, path: str) -> bool:
        """Whether there is a file of this name."""
        with self._errors_as_unavailable("read", checked_name(path)):
            return self._store.exists(path)

    def list(self, prefix: str = "") -> list[str]:
        """The names of all files below a folder, sorted."""
        folder = checked_name(prefix.rstrip("/")) if prefix else ""
        with self._errors_as_unavailable("list", folder or "the archive"):
            return self._store.list(folder)

    def strays(self) -> dict[str, str]:
        """Everything in the archive's folder that is not a stored file, such as a link: name to what is wrong."""
        with self._errors_as_unavailable("list", "the archive"):
            return self._store.strays()

    def write_folder(self, path: str, files: Mapping[str, bytes]) -> str:
        """Store a folder, or complete what a killed writer left, its manifest last; returns the manifest's sha256."""
        if MANIFEST in files:
            raise IntegrityFailure(
                f"cannot write {path}: {MANIFEST} is the archive's own file. Name that file otherwise."
            )
        contents = manifest(files)
        with self._errors_as_unavailable("write", checked_name(path)), self._store.exclusive():
            if self._store.exists(f"{path}/{MANIFEST}"):
                self._refuse_change(path, json.loads(contents))
            else:
                self._clear_unfinished(path, files)
            for name in sorted(files):
                self.write_once(f"{path}/{name}", files[name])
            self.write_once(f"{path}/{MANIFEST}", contents)
        return hashlib.sha256(contents).hexdigest()

    def read_folder(self, path: str) -> dict[str, bytes]:
        """Every file of a finished folder except its manifest; refused where a file is missing, altered or extra."""
        listed = self._read_manifest(path)
        present = {name.removeprefix(f"{path}/") for name in self.list(path)} - {MANIFEST}
        for name in sorted(listed.keys() ^ present):
            reason = "is missing" if name in listed else "is not in its manifest"
            raise IntegrityFailure(f"cannot read {path}: {name} {reason}. Restore the folder from a copy.")
        files = {name: self.read(f"{path}/{name}") for name in sorted(listed)}
        for name, data in files.items():
            if hashlib.sha256(data).hexdigest() != listed[name]:
                raise IntegrityFailure(f"cannot read {path}: {name} was altered. Restore the folder from a copy.")
        return files

    def address(self, path: str) -> str:
        """The local path or URL of a file or folder."""
        return self._store.address(checked_name(path))

    def _read_manifest(self, path: str) -> dict[str, str]:
        place = f"{path}/{MANIFEST}"
        if not self.exists(place):
            raise IntegrityFailure(
                f"cannot read {path}: {MANIFEST} is missing. Run the command that writes it again, it was not finished."
            )
        data = self.read(place)
        try:
            listed: Any = json.loads(data)
            sound = isinstance(listed, dict) and canonical_json(listed) == data
        except (ValueError, RecursionError):
            sound, listed = False, {}
        if not sound:
            raise IntegrityFailure(f"cannot read {path}: {MANIFEST} was altered. Restore the folder from a copy.")
        return {checked_name(name): str(digest) for name, digest in listed.items()}

    def _refuse_change(self, path: str, listed: Mapping[str, str]) -> None:
        """Refuse contents other than those of the finished folder; files missing from it may be written again."""
        finished = self._read_manifest(path)
        for name in sorted(listed.keys() | finished.keys()):
            if listed.get(name) != finished.get(name):
                raise IntegrityFailure(
                    f"cannot write {path}: it is finished, and {name} would change. Run `dpbayes audit` to see why."
                )

    def _clear_unfinished(self, path: str, files: Mapping[str, bytes]) -> None:
        """Remove truncated or different files of a folder that was never finished, hence never published."""
        for place in self._store.list(path):
            name = place.removeprefix(f"{path}/")
            if name not in files:
                raise IntegrityFailure(
                    f"cannot finish {path}: it holds {name}, which is no part of it. Move that file away and run again."
                )
            if self._store.read(place) != files[name]:
                self._store.remove(place)

    @contextlib.contextmanager
    def _errors_as_unavailable(self, verb: str, thing: str) -> Generator[None]:
        try:
            yield
        except DpbayesError:
            raise
        except self._store.failures as error:
            raise ArchiveUnavailable(_refusal(verb, thing, error)) from error


def _open(url: str) -> Store:
    protocol, separator, path = url.partition("://")
    if not separator or protocol in ("file", "local"):
        return LocalStore(Path(path or url).expanduser().absolute())
    try:
        return RemoteStore(url)
    except ImportError as error:
        what = str(error) or "Install the fsspec file system for it"  # fsspec's words, such as "Install s3fs to ..."
        raise ArchiveUnavailable(
            f"cannot open the archive on {protocol}: the library for it is not here. {what.rstrip('.')}, and run again."
        ) from None
    except Exception as error:
        if isinstance(error, ValueError) and str(error).startswith("Protocol not known"):
            raise StudyInvalid(
                f"cannot open the archive: {protocol} is no protocol known here. Correct its URL (DPBAYES_ARCHIVE_URL)."
            ) from None
        # the rest of the URL may contain a password
        raise ArchiveUnavailable(_refusal("open", f"the archive on {protocol}", error)) from None


def _refusal(verb: str, thing: str, error: Exception) -> str:
    return (
        f"cannot {verb} {thing}: {reason_of(error)}. "
        "Make the archive reachable and writable, with room left, and run again."
    )


def reason_of(error: Exception) -> str:
    """Why a store failed, in words that contain no password or key."""
    message = error.strerror if isinstance(error, OSError) else None
    name = type(error).__name__  # the message of a client library may contain a secret, the name of its error does not
    if not message and UNANSWERED.search(name):
        return f"it does not answer ({name})"
    return (message or _PLAIN.get(name) or name).rstrip(".")


UNANSWERED = re.compile("Connect|Timeout")
"""Part of the names of errors by which client libraries report that a server does not answer."""
_PLAIN = {
    "FileNotFoundError": "no such place, or no such bucket",
    "PermissionError": "permission denied",
    "NoCredentialsError": "the environment holds no credentials for it",
}
