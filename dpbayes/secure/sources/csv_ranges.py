"""Finds, on several machines at once, the cuts between batches of one CSV file that a reader from its beginning makes.

Whether a line feed ends a row depends on whether quotes are open, and so on all bytes before it. Each part of the file
is therefore scanned from each of the four states in which reading may be where the part begins. The scans are then put
together from the beginning, where the state is known.
"""

import codecs
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes.secure.sources.batch import attempt
from dpbayes.secure.sources.csv_tokens import FRESH, QUOTED, STATES, first_row, scan_from_each_state
from dpbayes.secure.sources.files import File
from dpbayes_core.confidential import Confidential
from dpbayes_core.errors import ShapeMismatch

SCANNED = 1 << 25  # bytes of one scan, approximately
_FIRST = 1 << 16  # bytes in which the header is looked for first


@dataclass(frozen=True, repr=False)
class TextScan(Confidential):
    """Where rows end in one part of a file, for each state at its beginning."""

    file: File
    table: str
    delimiter: int
    begins: tuple[int, ...]  # of each block, and the end of the last

    def scan(self) -> NDArray[Any]:
        """For each block and state: where its last row ends (-1: none does), and the state after it; (blocks, 4, 2)."""
        found = attempt(self._scan)
        if found is None:
            raise damaged(self.table)
        return found

    def _scan(self) -> NDArray[Any]:
        found = np.empty((len(self.begins) - 1, STATES, 2), np.int64)
        with self.file.open() as opened:
            opened.seek(self.begins[0])
            for block, (begin, end) in enumerate(pairwise(self.begins)):
                content = np.frombuffer(opened.read(end - begin), np.uint8)
                found[block] = scan_from_each_state(content, self.delimiter)
                found[block, :, 0] += np.where(found[block, :, 0] < 0, 0, begin)
        return found


@dataclass(frozen=True, repr=False)
class Start(Confidential):
    """Where text and rows of a file begin: after the mark of UTF-8, and after the header."""

    text: int
    rows: int

    @classmethod
    def of(cls, file: File, delimiter: int, block: int) -> "Start | None":
        """None if the header does not end within the file's first block."""
        with file.open() as opened:
            head = opened.read(min(_FIRST, block))
            found = cls._found(head, delimiter)
            if found is None and len(head) < block:
                found = cls._found(head + opened.read(block - len(head)), delimiter)
        return found

    @classmethod
    def _found(cls, head: bytes, delimiter: int) -> "Start | None":
        text = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
        _, end = first_row(np.frombuffer(head[text:], np.uint8), delimiter)
        return None if end < 0 else cls(text, text + int(end))


def scans_of(file: File, start: Start, delimiter: int, block: int, table: str) -> list[TextScan]:
    """The scans that together cover a file; blocks end at multiples of `block` bytes, as a reader's pieces do."""
    ends = [*range(block, file.size, block), file.size]
    begins, many = [start.text, *ends], max(SCANNED // block, 1)
    parts = (tuple(begins[first : first + many + 1]) for first in range(0, len(ends), many))
    return [TextScan(file, table, delimiter, part) for part in parts]


def cuts_of(file: File, start: Start, block: int, scanned: Iterable[NDArray[Any]]) -> list[tuple[int, int]] | None:
    """Where each batch begins and ends; None if only a reader from the beginning can tell.

    That is so if a row is longer than a block, since such a reader then reads larger pieces, or if quotes stay open.
    """
    state, last, begin = FRESH, start.text, start.rows
    cuts: list[tuple[int, int]] = []
    for number, block_ends in enumerate(row for scan in scanned for row in scan):
        end, state = (int(found) for found in block_ends[state])
        last = max(last, end)
        if min((number + 1) * block, file.size) - last > block:
            return None
        if end > begin:
            cuts.append((begin, end))
            begin = end
    if state == QUOTED:
        return None
    return [*cuts, (begin, file.size)] if begin < file.size else cuts


def damaged(table: str) -> ShapeMismatch:
    """The error of a file whose content cannot be read."""
    return ShapeMismatch(f"cannot read table {table}: the content of a file is damaged. Write the table again.")
