"""SipHash-2-4 (Aumasson and Bernstein 2012) of whole columns: a keyed hash, not predictable without the key."""

from typing import Any, Final

import numpy as np
from numba import njit  # pyright: ignore[reportUnknownVariableType]
from numpy.typing import NDArray

from dpbayes_core.arrays import Words

_compiled: Final[Any] = njit(cache=True, nogil=True)  # untyped in numba; nogil lets the threads run side by side
_inlined: Final[Any] = njit(cache=True, nogil=True, inline="always")


@_inlined
def _turned(word: Any, left: int) -> Any:
    return (word << np.uint64(left)) | (word >> np.uint64(64 - left))


@_inlined
def _round(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    v0 += v1
    v2 += v3
    v1 = _turned(v1, 13) ^ v0
    v3 = _turned(v3, 16) ^ v2
    v0 = _turned(v0, 32)
    v2 += v1
    v0 += v3
    v1 = _turned(v1, 17) ^ v2
    v3 = _turned(v3, 21) ^ v0
    v2 = _turned(v2, 32)
    return v0, v1, v2, v3


@_inlined
def _start(k0: Any, k1: Any) -> Any:
    return (
        k0 ^ np.uint64(0x736F6D6570736575),
        k1 ^ np.uint64(0x646F72616E646F6D),
        k0 ^ np.uint64(0x6C7967656E657261),
        k1 ^ np.uint64(0x7465646279746573),
    )


@_inlined
def _absorb(v0: Any, v1: Any, v2: Any, v3: Any, word: Any) -> Any:
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= word
    return v0, v1, v2, v3


@_inlined
def _squeeze(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0, v1, v2, v3


@_compiled
def hash_texts(content: NDArray[np.uint8], offsets: NDArray[np.int64], key: Words) -> Words:
    """128-bit SipHash of each text `content[offsets[i]:offsets[i + 1]]`, as two words a row."""
    hashes = np.empty((len(offsets) - 1, 2), np.uint64)
    for i in range(len(hashes)):
        v0, v1, v2, v3 = _start(key[0], key[1])
        v1 ^= np.uint64(0xEE)
        length = offsets[i + 1] - offsets[i]
        word = np.uint64(0)
        for j in range(length):
            word |= np.uint64(content[offsets[i] + j]) << np.uint64(8 * (j % 8))
            if j % 8 == 7:
                v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, word)
                word = np.uint64(0)
        word |= np.uint64(length & 0xFF) << np.uint64(56)
        v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, word)
        v2 ^= np.uint64(0xEE)
        v0, v1, v2, v3 = _squeeze(v0, v1, v2, v3)
        hashes[i, 0] = v0 ^ v1 ^ v2 ^ v3
        v1 ^= np.uint64(0xDD)
        v0, v1, v2, v3 = _squeeze(v0, v1, v2, v3)
        hashes[i, 1] = v0 ^ v1 ^ v2 ^ v3
    return hashes


@_compiled
def hash_rows(units: Words, rows: NDArray[np.int32], key: Words) -> Words:
    """64-bit SipHash of each unit's two words followed by its row's integers, each as one 8-byte word."""
    hashes = np.empty(len(rows), np.uint64)
    last = np.uint64(((2 + rows.shape[1]) * 8) & 0xFF) << np.uint64(56)
    for i in range(len(rows)):
        v0, v1, v2, v3 = _start(key[0], key[1])
        v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, units[i, 0])
        v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, units[i, 1])
        for j in range(rows.shape[1]):
            v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, np.uint64(np.int64(rows[i, j])))
        v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, last)
        v2 ^= np.uint64(0xFF)
        v0, v1, v2, v3 = _squeeze(v0, v1, v2, v3)
        hashes[i] = v0 ^ v1 ^ v2 ^ v3
    return hashes
