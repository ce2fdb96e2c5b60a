"""Checkpoints of an interrupted pass: encrypted files in the vault from which the next attempt continues.

Next to them is the folder for candidates that do not fit in memory, encrypted under a key that exists only during the
pass. The checkpoints of each pass have a key of their own among the home's keys. Once the release is committed the key
is deleted first, then the files, so that remnants on a disk are unreadable. A changed table, statistic or definition
starts over.
"""

import contextlib
import fcntl
import hmac
import io
import os
import secrets
import shutil
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.errors import DpbayesError
from storage.files.durable import create_file
from storage.files.private import require_private
from storage.home.vault import UNFINISHED, Vault, unfinished_name

Arrays = Mapping[str, NDArray[Any]]

_LOCK = "lock"

_KEY_BYTES, _NONCE_BYTES = 32, 12
_LARGEST = 1 << 30  # the cipher takes at most twice this; a larger part is read again


class PassCheckpoint:
    """The finished batches of one request's pass; one that cannot be stored is read again."""

    def __init__(self, vault: Vault, name: str, key_file: Path) -> None:
        self._vault, self._name, self._key_file = vault, name, key_file
        self._folder = vault.folder / UNFINISHED / name
        self._spill_path = vault.folder / UNFINISHED / f"{name}-aside"
        self._key = self._facts_digest = b""

    @classmethod
    def open(cls, vault: Vault, keys: Path, request: str) -> "PassCheckpoint":
        """The checkpoint of the request with this key; nothing is made or read until a pass begins."""
        name = unfinished_name(request)
        return cls(vault, name, keys / f"{UNFINISHED}-{name}.key")

    @classmethod
    def without_resume(cls, vault: Vault, keys: Path, request: str) -> "PassCheckpoint":
        """The checkpoint of a pass that is never resumed, such as an inspection's; its candidates may still spill."""
        name = "looked-" + unfinished_name(request)
        return _WithoutResume(vault, name, keys / f"{UNFINISHED}-{name}.key")

    def begin(self, *facts: str) -> None:
        """Find what an earlier pass left, if every fact is the same as then; else start over."""
        with contextlib.suppress(OSError, DpbayesError):  # without a key nothing is stored
            self._key = self._load_key()
            self._facts_digest = hmac.digest(self._key, repr(facts).encode(), "sha256")
            mine = self._folder / self._facts_digest.hex()
            if self._folder.is_dir() and not mine.is_dir():
                shutil.rmtree(self._folder)
            self._vault.make_folder(UNFINISHED, self._name, mine.name)

    @contextlib.contextmanager
    def spill_folder(self) -> Generator[Path | None]:
        """The folder to which this pass may spill candidates while it lasts; None if the vault cannot be written."""
        with contextlib.ExitStack() as stack:
            folder = None
            with contextlib.suppress(OSError):
                for unused in (self._vault.folder / UNFINISHED).glob("*-aside"):
                    _clear(unused)  # of any release: its key existed only during its pass
                folder = stack.enter_context(self._locked_spill_folder())
            yield folder

    @contextlib.contextmanager
    def _locked_spill_folder(self) -> Generator[Path]:
        """The spill folder, with a lock shared by every process that reads for this request."""
        while True:
            folder = self._vault.make_folder(UNFINISHED, self._spill_path.name)
            with (folder / _LOCK).open("ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH)
                if os.fstat(lock.fileno()).st_nlink:  # else another process deleted it between opening and locking
                    yield folder
                    return

    def find(self, batch: str) -> dict[str, NDArray[Any]] | None:
        """The stored arrays of this batch, if there are any and they are intact."""
        try:
            encrypted = self._place(batch).read_bytes()
        except OSError:
            return None
        plain = self._decrypted(encrypted, batch)
        if plain is None:
            return None
        with np.load(io.BytesIO(plain), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}

    def keep(self, batch: str, arrays: Arrays) -> None:
        """Store this batch's arrays; without syncing, since a torn file is detected and the batch read again."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if not self._key or sum(array.nbytes for array in arrays.values()) > _LARGEST:
            return
        plain = io.BytesIO()
        np.savez(plain, allow_pickle=False, **dict(arrays))
        nonce = secrets.token_bytes(_NONCE_BYTES)
        encrypted = AESGCM(self._key).encrypt(nonce, plain.getvalue(), self._associated_data(batch))
        place = self._place(batch)
        temporary = place.with_suffix(f".{secrets.token_hex(4)}")
        with contextlib.suppress(OSError):  # a full disk, or another process that has committed by now
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(nonce + encrypted)
            temporary.replace(place)

    def forget(self) -> None:
        """Delete the key and all batches; called once the release is committed."""
        with contextlib.suppress(FileNotFoundError):
            self._key_file.unlink()
        gone = self._folder.with_name(f"{self._name}-gone")
        shutil.rmtree(gone, ignore_errors=True)  # left by a process that was killed at this point
        with contextlib.suppress(OSError):  # moved first, so that a process that still reads cannot add files to it
            self._folder.rename(gone)
        for folder in (gone, self._folder):
            shutil.rmtree(folder, ignore_errors=True)
        self._key = b""
        _clear(self._spill_path)

    def _load_key(self) -> bytes:
        with contextlib.suppress(FileExistsError):
            create_file(self._key_file, secrets.token_bytes(_KEY_BYTES), scratch=self._key_file.parent, mode=0o600)
        require_private(self._key_file)
        return self._key_file.read_bytes()

    def _decrypted(self, encrypted: bytes, batch: str) -> bytes | None:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if not self._key or len(encrypted) <= _NONCE_BYTES:
            return None
        try:
            return AESGCM(self._key).decrypt(
                encrypted[:_NONCE_BYTES], encrypted[_NONCE_BYTES:], self._associated_data(batch)
            )
        except InvalidTag:
            return None

    def _associated_data(self, batch: str) -> bytes:
        return self._facts_digest + batch.encode()

    def _place(self, batch: str) -> Path:
        return (
            self._folder
            / self._facts_digest.hex()
            / hmac.digest(self._key or b"-", self._associated_data(batch), "sha256").hex()
        )


class _WithoutResume(PassCheckpoint):
    """A checkpoint without a key: nothing is stored, and nothing of an earlier pass is found."""

    def begin(self, *facts: str) -> None:
        """Does nothing, so every pass reads the whole table."""


def _clear(aside: Path) -> None:
    """Delete a spill folder, unless a process still uses it: the last one deletes it."""
    with contextlib.suppress(OSError), (aside / _LOCK).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(aside, ignore_errors=True)
