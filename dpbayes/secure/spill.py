"""Stores the candidates of all batches until the last is read: in memory while they fit, then encrypted on disk.

The key is drawn for the pass and exists in memory only, so what a killed process leaves on disk is unreadable.
"""

import secrets
import shutil
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from types import TracebackType

import numpy as np

from dpbayes.secure.contribution import PARTITIONS, Candidates, rows_that_count
from dpbayes_core.errors import DpbayesError

LARGEST = 256 * 2**20  # bytes in memory before candidates go to disk
_HEAD = struct.Struct("<QQQ")  # bytes that follow, rows, integers a row
_NONCE_BYTES = 12


class Spill:
    """The candidates of a pass, `with Spill(most, folder) as spill`; they are deleted at its end.

    Without a folder everything stays in memory.
    """

    def __init__(self, most: int, folder: Path | None = None, largest: int = LARGEST) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._most, self._parent, self._largest = most, folder, largest
        self._shares: list[list[Candidates]] = [[] for _ in range(PARTITIONS)]
        self._in_memory = self._number = 0
        self._threshold = largest
        self._lock = Lock()
        self._cipher = AESGCM(secrets.token_bytes(32))
        self._folder: Path | None = None

    def __enter__(self) -> "Spill":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shares.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, candidates: tuple[Candidates, ...]) -> None:
        """Add one batch's candidates; above the limit all are reduced to rows that may count, then written to disk."""
        with self._lock:
            for share, rows in zip(self._shares, candidates, strict=True):
                share.append(rows)
            self._in_memory += sum(rows.size for rows in candidates)
            if self._in_memory <= self._threshold:
                return
            self._shares = [[rows_that_count(share, self._most)] for share in self._shares]
            self._in_memory = sum(share[0].size for share in self._shares)
            # doubled, so that repeated reduction costs no more than reading
            self._threshold = max(self._largest, 2 * self._in_memory)
            if self._parent is not None and self._in_memory > self._largest / 2:
                self._write_all(self._parent)

    def counted(self, partition: int) -> Candidates:
        """The rows that count of every person in one partition, once all batches are added."""
        kept = [*self._shares[partition], *self._from_disk(partition)]
        self._shares[partition] = []
        return rows_that_count(kept, self._most) if kept else _no_rows()

    @property
    def on_disk(self) -> bool:
        """Whether anything was written to disk."""
        return self._folder is not None

    def _write_all(self, parent: Path) -> None:
        try:
            if self._folder is None:
                parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._folder = Path(tempfile.mkdtemp(prefix="waiting-", dir=parent))
            for partition, share in enumerate(self._shares):
                self._append(self._folder / str(partition), share[0], partition)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise DpbayesError(
                f"cannot set rows aside: {reason}. Make room in the vault's folder, and let its owner write there."
            ) from None
        self._shares = [[] for _ in range(PARTITIONS)]
        self._in_memory, self._threshold = 0, self._largest

    def _append(self, file: Path, rows: Candidates, partition: int) -> None:
        plain = rows.units.tobytes() + rows.scores.tobytes() + rows.rows.tobytes()
        self._number += 1
        nonce = self._number.to_bytes(_NONCE_BYTES, "big")  # never twice under this key
        head = _HEAD.pack(len(plain) + 16, *rows.rows.shape)
        with file.open("ab") as out:
            out.write(head + nonce + self._cipher.encrypt(nonce, plain, head + bytes([partition])))

    def _from_disk(self, partition: int) -> Iterator[Candidates]:
        if self._folder is None:
            return
        with (self._folder / str(partition)).open("rb") as file:
            while head := file.read(_HEAD.size):
                size, count, width = _HEAD.unpack(head)
                nonce = file.read(_NONCE_BYTES)
                plain = self._cipher.decrypt(nonce, file.read(size), head + bytes([partition]))
                units = np.frombuffer(plain, np.uint64, 2 * count).reshape(count, 2)
                scores = np.frombuffer(plain, np.uint64, count, 16 * count)
                yield Candidates(units, scores, np.frombuffer(plain, np.int32, offset=24 * count).reshape(count, width))


def _no_rows() -> Candidates:
    return Candidates(np.empty((0, 2), np.uint64), np.empty(0, np.uint64), np.empty((0, 0), np.int32))
