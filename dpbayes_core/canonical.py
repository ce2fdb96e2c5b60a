"""One spelling for every record, so that hashes and signatures depend on its meaning and not on its layout."""

import hashlib
import json
from functools import lru_cache
from typing import Any

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: Any) -> bytes:
    """Sorted keys, no spaces, UTF-8, shortest round-trip floats; NaN and infinities are refused."""
    return _ENCODER.encode(value).encode()


def digest(value: Any) -> str:
    """sha256 of the canonical JSON, in hex."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


@lru_cache(maxsize=32)
def sha256_of(data: bytes) -> str:
    """sha256 of the bytes of a file, in hex; those of one crate are kept, for an audit asks for each several times."""
    return hashlib.sha256(data).hexdigest()
