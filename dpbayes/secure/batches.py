"""Reads one batch of rows into a part, and adds up the parts of all batches, in any order."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpbayes.secure.columns import BLOCK_ROWS, Reading
from dpbayes.secure.contribution import (
    PARTITIONS,
    Candidates,
    Keys,
    candidates,
    hash_units,
    null_units,
    of_holders,
    several_holders,
)
from dpbayes.secure.profile import GroupProfile
from dpbayes.secure.sources.batch import Batch
from dpbayes.secure.spill import Spill
from dpbayes.study.table_source import TableSource
from dpbayes_core.confidential import Confidential
from dpbayes_core.exact_sums.protocol import EncodedTable, Statistic

_PIECE_ROWS = 2 * BLOCK_ROWS  # read at a time from a batch without a unit column, where its source supports that
T = TypeVar("T")
R = TypeVar("R")
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, repr=False)
class Part(Confidential):
    """One batch's counts, and its sums or, where contributions are bounded, its candidate rows."""

    profile: GroupProfile
    statistics: Any  # what the statistic's `sum` returns
    candidates: tuple[Candidates, ...] = ()

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays for the encrypted store of an interrupted pass."""
        groups = {"profile": self.profile, "sums": self.statistics}
        groups |= {f"candidates{share}": rows for share, rows in enumerate(self.candidates)}
        return {f"{group}.{name}": array for group, one in groups.items() for name, array in one.to_arrays().items()}

    @classmethod
    def from_arrays(cls, arrays: Arrays, statistic: Statistic) -> "Part":
        """The inverse of `to_arrays`, for sums of this statistic."""
        shares = sum(name.startswith("candidates") and name.endswith(".scores") for name in arrays)
        return cls(
            GroupProfile.from_arrays(_group(arrays, "profile")),
            statistic.empty().from_arrays(_group(arrays, "sums")),
            tuple(Candidates.from_arrays(_group(arrays, f"candidates{share}")) for share in range(shares)),
        )


@dataclass(frozen=True, repr=False)
class Counted(Confidential):
    """The sum of parts, how many rows it counts, and how many people were counted with several holders."""

    statistics: Any
    rows: int
    several: int = 0


def read_part(group: Batch, source: TableSource, statistic: Statistic, keys: Keys | None) -> Part:
    """Reads, profiles, clips and encodes one batch, block by block; with `keys`, contributions are bounded."""
    reading = Reading(source.columns)
    if keys is None or source.unit is None:
        total, left_out = statistic.empty(), 0
        for table in _pieces(group, source.names):
            for block in reading.blocks(table):
                encoded = statistic.encode(block)
                total += statistic.sum(encoded, None)
                left_out += _left_out(encoded)
        return Part(_profile(group, reading, left_out), total)
    table = group.read(source.names)
    people = hash_units(table.column(source.unit), keys)
    without_person = null_units(people, keys)
    blocks = [statistic.encode(block) for block in reading.blocks(table)]
    rows, counts = np.concatenate([block.integers for block in blocks]), _counts(blocks)
    if counts is not None and source.holders is not None:
        counts |= rows[:, -1] < 0  # rows of no holder, whatever is missing in them
    left_out = 0 if counts is None else int(np.count_nonzero(~counts))
    if left_out:  # before rows are chosen, so that only complete rows are
        people, rows = people[counts], rows[counts]
    if source.holders is not None:
        people, rows = of_holders(people, rows, separate=source.holders.separate)
    profile = _profile(group, reading, left_out, without_person)
    return Part(profile, statistic.empty(), candidates(people, rows, keys, source.max_rows_per_unit))


def _counts(blocks: Sequence[EncodedTable]) -> NDArray[np.bool_] | None:
    known = [block.counts for block in blocks if block.counts is not None]
    return np.concatenate(known) if known else None


def _left_out(encoded: EncodedTable) -> int:
    return 0 if encoded.counts is None else int(np.count_nonzero(~encoded.counts))


def _pieces(group: Batch, names: tuple[str, ...]) -> Iterator[Any]:
    """A batch as several smaller tables where its source supports that, to save memory."""
    pieces = getattr(group, "pieces", None)
    return iter((group.read(names),)) if pieces is None else pieces(names, _PIECE_ROWS)


def _profile(group: Batch, reading: Reading, left_out: int, without_person: int | None = None) -> GroupProfile:
    return GroupProfile(
        file=group.file,
        row_group=group.index,
        rows=reading.rows,
        columns=reading.counts(),
        null_units=without_person,
        incomplete_rows=left_out,
    )


def spill_part(part: Part, spill: Spill) -> Part:
    """The part without its candidates, which go to the spill until the last batch is read."""
    if part.candidates:
        spill.add(part.candidates)
    return replace(part, candidates=())


def add_up(
    parts: Sequence[Part],
    statistic: Statistic,
    workers: int,
    *,
    most: int = 1,
    separate: bool = False,
    spill: Spill | None = None,
) -> Counted:
    """The sums of all parts; of the candidates, spilled ones too, only the rows that count of each person are summed.

    `separate`: rows are limited for each holder separately.
    """

    def count(partition: int) -> Counted:
        kept = all_candidates.counted(partition)
        if not len(kept):
            return Counted(statistic.empty(), 0)
        several = several_holders(kept) if separate else 0
        return Counted(statistic.sum(EncodedTable(kept.rows), kept.units), len(kept), several)

    all_candidates = Spill(most) if spill is None else spill
    for part in parts:
        spill_part(part, all_candidates)
    plain = [Counted(part.statistics, 0 if _bounded(part) else part.profile.rows) for part in parts]
    partitions = range(PARTITIONS) if any(map(_bounded, parts)) else ()
    return _total(statistic, [*plain, *each_in_threads(partitions, count, workers)])


def _bounded(part: Part) -> bool:
    return part.profile.null_units is not None


def _total(statistic: Statistic, sums: Iterable[Counted]) -> Counted:
    total, rows, several = statistic.empty(), 0, 0
    for one in sums:
        total, rows, several = total + one.statistics, rows + one.rows, several + one.several
    return Counted(total, rows, several)


def _group(arrays: Arrays, group: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(f"{group}."): array for name, array in arrays.items() if name.startswith(f"{group}.")}


def each_in_threads(
    items: Iterable[T], work: Callable[[T], R], workers: int, done: Callable[[T], None] | None = None
) -> list[R]:
    """The results of `work` in the order of items; `done` is called after each; a failure cancels what has not begun.

    Items are taken in the calling thread, at most twice as many as workers at a time: a stream is read no faster than
    it is summed.
    """
    results: dict[int, R] = {}
    running: dict[Future[R], tuple[int, T]] = {}

    def collect(at_most: int) -> None:
        while len(running) > at_most:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                place, item = running.pop(future)
                results[place] = future.result()
                if done is not None:
                    done(item)

    with ThreadPoolExecutor(max_workers=workers) as pool:
        try:
            for place, item in enumerate(items):
                running[pool.submit(work, item)] = place, item
                collect(2 * workers - 1)
            collect(0)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [results[place] for place in range(len(results))]
