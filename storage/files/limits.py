"""Limits on the size of files and JSON documents from untrusted sources, checked before they are parsed."""

import os
import re
import stat
from pathlib import Path

import numpy as np

from dpbayes_core.errors import IntegrityFailure

MiB = 1 << 20

MOST_BYTES = 1024 * MiB  # of a crate, all its files together; draws of any sensible analysis stay far below
MOST_NODES = 4_000_000  # objects, lists and values of one JSON document: a release of 1,000 variables has 2.6 million
DEEPEST = 64  # lists and objects inside each other
MOST_LEDGER_NODES = 20_000_000  # of an exported ledger, whose entries are many; it has at most MOST_BYTES

_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_BRACKETS = b"[]{}"
_OTHERS = bytes(set(range(256)) - set(_BRACKETS))


def read_bounded(path: Path, most: int, flags: int = 0) -> bytes | None:
    """The bytes of a regular file of at most `most` bytes; None if it is larger, not regular or growing."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            return None
        data = file.read(found.st_size + 1)  # allocates this much, and shows if the file grew
    return data if len(data) <= found.st_size else None


def refuse_shape(data: bytes, thing: str, most: int = MOST_NODES) -> None:
    """Refuse JSON with more values or deeper nesting than dpbayes ever writes, without parsing it."""
    bare = _STRINGS.sub(b"", data)
    nodes = sum(bare.count(mark) for mark in (b",", b"[", b"{"))
    if nodes > most:
        raise IntegrityFailure(f"cannot read {thing}: it holds more than {most:,} values. Fetch it again.")
    brackets = np.frombuffer(bare.translate(None, _OTHERS), dtype=np.uint8)
    steps = np.where((brackets == ord("[")) | (brackets == ord("{")), 1, -1)
    if brackets.size and int(np.cumsum(steps).max()) > DEEPEST:
        raise IntegrityFailure(f"cannot read {thing}: it is nested deeper than {DEEPEST} levels. Fetch it again.")
