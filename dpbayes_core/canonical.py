"""Canonical JSON of records: hashes and signatures depend on the content and not on its layout."""

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
    """sha256 of a file's bytes, in hex; cached, because an audit computes each digest of a crate several times."""
    return hashlib.sha256(data).hexdigest()
