"""Arrays and a few words as bytes and back, without pickle: what a checkpoint holds."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import IntegrityFailure

MAGIC = b"dpbayes checkpoint 1\n"
KINDS = {"f": "<f8", "u": "<u8", "i": "<i8"}


def pack(words: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """One checksummed string of bytes: the same content gives the same bytes."""
    shapes = {name: [array.dtype.kind, *array.shape] for name, array in arrays.items()}
    header = canonical_json({"words": dict(words), "arrays": shapes})
    body = b"".join(array.astype(KINDS[array.dtype.kind]).tobytes() for _, array in sorted(arrays.items()))
    content = len(header).to_bytes(8, "little") + header + body
    return MAGIC + hashlib.sha256(content).digest() + content


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The inverse of `pack`."""
    check, content = data[len(MAGIC) : len(MAGIC) + 32], data[len(MAGIC) + 32 :]
    if not data.startswith(MAGIC) or hashlib.sha256(content).digest() != check:
        raise IntegrityFailure(
            "cannot read a checkpoint: it is not what was written. Delete it; the chain starts anew."
        )
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    arrays: dict[str, Any] = {}
    for name, (kind, *shape) in sorted(header["arrays"].items()):
        count = int(np.prod(shape, dtype=np.int64))
        array = np.frombuffer(content, dtype=KINDS[kind], count=count, offset=end)
        arrays[name] = array.reshape(shape).astype(array.dtype.newbyteorder("="))
        end += 8 * count
    return header["words"], arrays
