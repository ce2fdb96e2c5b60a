"""What one batch of rows adds to the pass, and how the parts become one statistic whatever order they came in."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.confidential import Confidential
from dpbayes_core.statistic import EncodedTable, Statistic
from storage.columns import Reading
from storage.contribution import Candidates, Keys, candidates, hash_units, null_units, one_row_each
from storage.profile import GroupProfile
from storage.source import TableSource

T = TypeVar("T")
Arrays = Mapping[str, NDArray[Any]]


class Batch(Protocol):
    """One unit of work: rows that are read, counted and summed together."""

    @property
    def file(self) -> str:
        """Base name of what holds it, for the profile."""
        ...

    @property
    def index(self) -> int:
        """Place within it, for the profile."""
        ...

    def read(self, columns: tuple[str, ...]) -> Any:
        """The named columns as a `pyarrow.Table`."""
        ...


@dataclass(frozen=True, repr=False)
class Part(Confidential):
    """One batch's counts with its sums, or with the rows that may yet count where contributions are bounded."""

    profile: GroupProfile
    statistics: Any  # what the statistic's `sum` gives
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
            type(statistic.empty()).from_arrays(_group(arrays, "sums")),
            tuple(Candidates.from_arrays(_group(arrays, f"candidates{share}")) for share in range(shares)),
        )


@dataclass(frozen=True, repr=False)
class Counted(Confidential):
    """What the parts add up to, and how many rows were counted."""

    statistics: Any
    rows: int


def read_part(group: Batch, source: TableSource, statistic: Statistic, keys: Keys | None) -> Part:
    """Read, profile, clip and encode one batch, block by block; `keys` bounds contributions."""
    table = group.read(source.names)
    reading = Reading(table, source.columns)
    blocks = (statistic.encode(block) for block in reading.blocks())
    if keys is None or source.unit is None:
        total = statistic.empty()
        for block in blocks:
            total += statistic.sum(block, None)
        return Part(_profile(group, table.num_rows, reading), total)
    people = hash_units(table.column(source.unit), keys)
    rows = np.concatenate([block.integers for block in blocks])
    profile = _profile(group, table.num_rows, reading, null_units(people, keys))
    return Part(profile, statistic.empty(), candidates(people, rows, keys))


def _profile(group: Batch, rows: int, reading: Reading, nobody: int | None = None) -> GroupProfile:
    return GroupProfile(file=group.file, row_group=group.index, rows=rows, columns=reading.counts(), null_units=nobody)


def add_up(parts: Sequence[Part], statistic: Statistic, workers: int) -> Counted:
    """The sums of all parts, and of the rows that count of every person among their candidates."""

    def count_once(share: Sequence[Candidates]) -> Counted:
        kept = one_row_each(share)
        return Counted(statistic.sum(EncodedTable(kept.rows), kept.units), len(kept))

    plain = [Counted(part.statistics, 0 if part.candidates else part.profile.rows) for part in parts]
    shares = zip(*(part.candidates for part in parts), strict=True)
    return _total(statistic, [*plain, *in_threads([partial(count_once, share) for share in shares], workers)])


def _total(statistic: Statistic, sums: Iterable[Counted]) -> Counted:
    total, rows = statistic.empty(), 0
    for one in sums:
        total, rows = total + one.statistics, rows + one.rows
    return Counted(total, rows)


def _group(arrays: Arrays, group: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(f"{group}."): array for name, array in arrays.items() if name.startswith(f"{group}.")}


def in_threads(jobs: Sequence[Callable[[], T]], workers: int, done: Callable[[int], None] | None = None) -> list[T]:
    """Results in the order of the jobs; `done` hears each place; the first failure stops what has not begun."""
    with ThreadPoolExecutor(max_workers=workers) as pool:
        places = {pool.submit(job): place for place, job in enumerate(jobs)}
        try:
            for future in as_completed(places):
                future.result()
                if done is not None:
                    done(places[future])
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [future.result() for future in places]
