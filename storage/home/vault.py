"""The vault: a folder that the steward alone can read, for what was found out about the table itself."""

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
"""The folder of what interrupted passes had summed, and how the names of their keys begin."""

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_STEP = 1 << 16  # bytes in which room is taken


class VaultFailure(DpbayesError):
    """The vault could not be written."""

    kind = "vault-failure"


class Vault:
    """Confidential files of one home, readable by their owner only; names are `study/period/release/...`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write_text(self, name: str, text: str) -> Path:
        """Keep `text`; an earlier file of that name is replaced at once or not at all."""
        parts, reason = _parts(name), ""
        path = self.folder.joinpath(*parts)
        try:
            self._make_folders(parts[:-1])
            replace_file(path, text.encode(), path.parent)
            return path
        except OSError as error:
            reason = error.strerror or type(error).__name__
        raise _failure(name, reason)  # without the error, which may say more than its reason

    def room(self, name: str, size: int) -> IO[bytes]:
        """Reserve space for what is kept under `name` later: an open file without a name, gone with the process."""
        parts, reason = _parts(name), ""
        try:
            self._make_folders(parts[:-1])
            return _filled(self.folder.joinpath(*parts[:-1]), size)
        except OSError as error:
            reason = error.strerror or type(error).__name__
        raise _failure(name, reason)

    def has_unfinished(self, request: str, keys: Path) -> bool:
        """Whether an interrupted pass for the request with this key left anything here, or a key among the home's."""
        name = unfinished_name(request)
        return any(self.folder.glob(f"{UNFINISHED}/{name}*")) or (keys / f"{UNFINISHED}-{name}.key").exists()

    def make_folder(self, *parts: str) -> Path:
        """A folder of the vault, closed to others like the vault itself; OSError where that fails."""
        self._make_folders(list(parts))
        return self.folder.joinpath(*parts)

    def _make_folders(self, parts: list[str]) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = self.folder
        folder.chmod(0o700)  # whatever it was before and whatever the umask
        for part in parts:
            folder = folder / part
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(0o700)


def unfinished_name(request: str) -> str:
    """What everything is called that is kept of an interrupted pass for the request with this key."""
    return hashlib.sha256(request.encode()).hexdigest()[:32]  # of public words


def readable(value: Any) -> str:
    """JSON as people read it."""
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
    """A file without a name that takes so much of the folder's disk, rounded up so that no count decides it."""
    with ExitStack() as stack:
        file = stack.enter_context(TemporaryFile(dir=folder, buffering=0))
        for _ in range(-(-size // _STEP)):
            if file.write(bytes(_STEP)) < _STEP:  # cut short: the next one says why
                file.write(bytes(_STEP))
        os.fsync(file.fileno())  # a disk may find out only now that it is full
        stack.pop_all()
    return file
