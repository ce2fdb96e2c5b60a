"""Limits how many rows of a person count: a keyed hash of their content chooses which, however the table is split.

A person is the 128-bit SipHash of the unit column's text (an integer's decimal digits, so that 7 and "7" are one person
in every format); all null units are one person. Among n people two share a hash with probability n^2 / 2^129, and count
as one person then. Of a person's rows those with the smallest hashes of (person, encoded integers) count; equal hashes
are resolved by the integers themselves, so file, row order, row groups and threads decide nothing.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types
from numba import njit  # pyright: ignore[reportUnknownVariableType]
from numpy.typing import NDArray

from dpbayes.secure.columns import Chunk, Column, missing, take_from_dictionary
from dpbayes_core.arrays import Words
from dpbayes_core.confidential import Confidential
from dpbayes_core.siphash import hash_rows, hash_texts

PARTITIONS = 64  # each person belongs to one, so that the last choice needs only one partition's rows at a time


@dataclass(frozen=True, repr=False)
class Keys(Confidential):
    """Independent hash keys, derived from the one secret of the home."""

    unit: Words
    choice: Words
    null_unit: Words

    @classmethod
    def derive(cls, key: bytes) -> "Keys":
        """Three keys of 128 bits from at least 16 secret bytes."""
        material = hashlib.blake2b(key, digest_size=48, person=b"dpbayes-rows").digest()
        unit, choice, null_unit = np.frombuffer(material, dtype="<u8").astype(np.uint64).reshape(3, 2)
        return cls(unit, choice, null_unit)


@dataclass(frozen=True, repr=False)
class Candidates(Confidential):
    """Rows that may still count for their person."""

    units: Words  # (rows, 2)
    scores: Words  # (rows,)
    rows: NDArray[np.int32]  # (rows, width), as the statistic encodes them

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.units.nbytes + self.scores.nbytes + self.rows.nbytes

    def take(self, places: NDArray[Any]) -> "Candidates":
        """The rows at these places."""
        return Candidates(self.units[places], self.scores[places], self.rows[places])

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays for the encrypted store of an interrupted pass."""
        return {"units": self.units, "scores": self.scores, "rows": self.rows}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Candidates":
        """The inverse of `to_arrays`."""
        return cls(arrays["units"], arrays["scores"], arrays["rows"])


def candidates(people: Words, integers: NDArray[np.int32], keys: Keys, most: int = 1) -> tuple[Candidates, ...]:
    """One batch's candidates by partition; `integers` is (rows, width), as the statistic encodes rows."""
    rows = np.ascontiguousarray(integers, dtype=np.int32)
    group = Candidates(people, hash_rows(people, rows, keys.choice), rows)
    places = least_of_each(group.units, group.scores, group.rows, most)
    shares = (people[places, 0] % np.uint64(PARTITIONS)).astype(np.uint8)
    order = np.argsort(shares, kind="stable")
    cuts = np.searchsorted(shares[order], np.arange(1, PARTITIONS))
    return tuple(group.take(chosen) for chosen in np.split(places[order], cuts))


def rows_that_count(parts: Sequence[Candidates], most: int = 1) -> Candidates:
    """At most `most` rows of every person in one partition, from all batches' shares of it."""
    units = np.concatenate([part.units for part in parts])
    scores = np.concatenate([part.scores for part in parts])
    rows = np.concatenate([part.rows for part in parts])
    return Candidates(units, scores, rows).take(least_of_each(units, scores, rows, most))


def hash_units(column: Column, keys: Keys) -> Words:
    """Two 64-bit words for the person of each row."""
    return np.concatenate([np.empty((0, 2), np.uint64), *(_hash_chunk(chunk, keys) for chunk in column.chunks)])


def null_units(people: Words, keys: Keys) -> int:
    """How many rows name no person."""
    return int(np.count_nonzero((people == keys.null_unit).all(axis=1)))


def of_holders(people: Words, integers: NDArray[np.int32], *, separate: bool) -> tuple[Words, NDArray[np.int32]]:
    """The rows of declared holders; `separate` counts a person with two holders as two people.

    The last integer of a row is its holder's code. Two people with different holders collide as rarely as any two
    people.
    """
    known = integers[:, -1] >= 0
    people, integers = people[known], integers[known]
    return _marked(people, integers[:, -1]) if separate else people, integers


def several_holders(counted: Candidates) -> int:
    """How many people have rows with more than one holder, where they were counted separately."""
    codes = counted.rows[:, -1]
    people = _marked(counted.units, codes)  # marking twice restores the hash
    order = np.lexsort((codes, people[:, 1], people[:, 0]))
    people, codes = people[order], codes[order]
    same = (people[1:] == people[:-1]).all(axis=1)
    person = np.cumsum(~same)
    return len(np.unique(person[same & (codes[1:] != codes[:-1])]))


def _marked(people: Words, codes: NDArray[np.int32]) -> Words:
    """The people's hashes combined, by exclusive or, with the codes of their holders."""
    return people ^ np.column_stack([np.zeros(len(codes), np.uint64), codes.astype(np.uint64) + np.uint64(1)])


def _hash_chunk(chunk: Chunk, keys: Keys) -> Words:
    if types.is_dictionary(chunk.type):
        return take_from_dictionary(chunk, _hash_chunk(chunk.dictionary, keys), keys.null_unit)
    texts = pc.cast(chunk, pa.large_string())
    _, offsets, content = texts.buffers()
    if not len(texts):
        return np.empty((0, 2), np.uint64)
    places = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    hashes = hash_texts(np.frombuffer(content or b"", np.uint8), places, keys.unit)
    hashes[missing(texts)] = keys.null_unit
    return hashes


_njit: Final[Any] = njit(cache=True, nogil=True)  # untyped in numba; nogil lets the threads run in parallel


@_njit
def least_of_each(units: Words, scores: Words, rows: NDArray[np.int32], most: int) -> NDArray[np.int64]:
    """Positions of at most `most` rows of every unit: those with the smallest scores, then the smallest integers."""
    owners, count = _owners(units)
    sizes = np.zeros(count, np.int64)
    for i in range(len(owners)):
        sizes[owners[i]] += 1
    starts = np.zeros(count + 1, np.int64)
    for owner in range(count):
        starts[owner + 1] = starts[owner] + min(sizes[owner], most)
    kept, filled = np.empty(starts[count], np.int64), starts[:count].copy()
    for i in range(len(owners)):
        owner = owners[i]
        place = filled[owner]
        if sizes[owner] <= most:
            kept[place] = i
            filled[owner] += 1
            continue
        if place == starts[owner + 1]:  # full: the last one is dropped, or this one
            place -= 1
            if not _before(i, kept[place], scores, rows):
                continue
        else:
            filled[owner] += 1
        while place > starts[owner] and _before(i, kept[place - 1], scores, rows):
            kept[place] = kept[place - 1]
            place -= 1
        kept[place] = i
    return kept


@_njit
def _owners(units: Words) -> tuple[NDArray[np.int64], int]:
    """A number for each distinct unit, in the order of their first rows."""
    capacity = 16
    while capacity < 2 * len(units):
        capacity *= 2
    mask = capacity - 1
    slots = np.full(capacity, -1, np.int64)  # open addressing; a slot names a unit by its first row
    owners = np.empty(len(units), np.int64)
    count = 0
    for i in range(len(units)):
        slot = np.int64(units[i, 1] & np.uint64(mask))
        while slots[slot] >= 0:
            first = slots[slot]
            if units[first, 0] == units[i, 0] and units[first, 1] == units[i, 1]:
                break
            slot = (slot + 1) & mask
        if slots[slot] < 0:
            slots[slot] = i
            owners[i] = count
            count += 1
        else:
            owners[i] = owners[slots[slot]]
    return owners, count


@_njit
def _before(i: int, j: int, scores: Words, rows: NDArray[np.int32]) -> bool:
    if scores[i] != scores[j]:
        return scores[i] < scores[j]
    for k in range(rows.shape[1]):
        if rows[i, k] != rows[j, k]:
            return rows[i, k] < rows[j, k]
    return False
