"""The vault: a folder that only the steward can read, for confidential findings about the table."""

import hashlib
import json
import os
import re
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from dpbayes_core.errors import DpbayesError
from storage.files.durable import replace_file

VALIDATION_PAGE = "validation.html"
UNFINISHED = "unfinished"
"""The folder for the sums of interrupted passes, and the prefix of the names of their keys."""

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_STEP = 1 << 16  # bytes: disk space is reserved in multiples of this


class VaultFailure(DpbayesError):
    """The vault could not be written."""

    kind = "vault-failure"


class Vault:
    """Confidential files of one home, readable by their owner only; names are paths, `study/period/...`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write_text(self, name: str, text: str) -> Path:
        """Write a text file, atomically replacing any of that name; returns its path."""
        parts, reason = _parts(name), ""
        path = self.folder.joinpath(*parts)
        try:
            self._make_folders(parts[:-1])
            replace_file(path, text.encode(), path.parent)
            return path
        except OSError as error:
            reason = error.strerror or type(error).__name__
        raise _failure(name, reason)  # raised outside the handler: the error itself may be confidential

    def room(self, name: str, size: int) -> IO[bytes]:
        """Reserve disk space for a file to be written later: an open file without a name, freed on closing."""
        parts, reason = _parts(name), ""
        try:
            self._make_folders(parts[:-1])
            return _filled(self.folder.joinpath(*parts[:-1]), size)
        except OSError as error:
            reason = error.strerror or type(error).__name__
        raise _failure(name, reason)

    def has_unfinished(self, request: str, keys: Path) -> bool:
        """Whether interrupted passes for the request with this key left sums here, or an encryption key in `keys`."""
        name = unfinished_name(request)
        return any(self.folder.glob(f"{UNFINISHED}/{name}*")) or (keys / f"{UNFINISHED}-{name}.key").exists()

    def make_folder(self, *parts: str) -> Path:
        """Make a folder in the vault, closed to other users; OSError if that fails."""
        self._make_folders(list(parts))
        return self.folder.joinpath(*parts)

    def _make_folders(self, parts: list[str]) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = self.folder
        folder.chmod(0o700)  # whatever its mode was, and whatever the umask is
        for part in parts:
            folder = folder / part
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(0o700)


def unfinished_name(request: str) -> str:
    """The name under which the sums of interrupted passes for the request with this key are stored."""
    return hashlib.sha256(request.encode()).hexdigest()[:32]  # the key is public


def readable(value: Any) -> str:
    """A value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _parts(name: str) -> list[str]:
    parts = name.split("/")
    if not all(_PART.fullmatch(part) for part in parts):
        raise VaultFailure(
            f"cannot keep {name!r} in the vault: names are letters, digits and . _ - between slashes. Rename it."
        )
    return parts


def _failure(name: str, reason: str) -> VaultFailure:
    return VaultFailure(f"cannot keep {name} in the vault: {reason}. Make the vault's folder writable.")


def _filled(folder: Path, size: int) -> IO[bytes]:
    """A nameless file of `size` bytes, rounded up so that disk use does not reveal exact counts."""
    with ExitStack() as stack:
        file = stack.enter_context(TemporaryFile(dir=folder, buffering=0))
        for _ in range(-(-size // _STEP)):
            if file.write(bytes(_STEP)) < _STEP:  # a short write: the next one raises the reason
                file.write(bytes(_STEP))
        os.fsync(file.fileno())  # some disks report only now that they are full
        stack.pop_all()
    return file
