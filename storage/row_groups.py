"""What one row group adds to the pass, and how the parts become one statistic whatever order they came in."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from dpbayes_core.confidential import Confidential
from dpbayes_core.fixed_point import EncodedRows, encode
from dpbayes_core.schema import RegressionSchema
from dpbayes_core.statistics import ExactStatistics, block_products, regression_statistics
from storage.columns import encode_column
from storage.contribution import Candidates, Keys, candidates, hash_units, null_units, one_row_each
from storage.parquet import RowGroup
from storage.profile import GroupProfile
from storage.source import TableSource

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class Part(Confidential):
    """One row group's counts with its sums, or with the rows that may yet count where contributions are bounded."""

    profile: GroupProfile
    statistics: ExactStatistics
    candidates: tuple[Candidates, ...] = ()


def read_part(group: RowGroup, source: TableSource, schema: RegressionSchema, keys: Keys | None) -> Part:
    """Read, profile, clip and encode one row group; `keys` bounds contributions."""
    names = dict.fromkeys(rule.name for rule in source.columns)
    table = group.read((*names,) if source.unit is None else (*{**names, source.unit: None},))
    encoded = {rule.name: encode_column(table.column(rule.name), rule) for rule in source.columns}
    columns = {name: values for name, (values, _) in encoded.items()}
    counts = {name: counts for name, (_, counts) in encoded.items()}
    profile = GroupProfile(file=group.path.name, row_group=group.index, rows=table.num_rows, columns=counts)
    if keys is None or source.unit is None:
        return Part(profile, regression_statistics(schema, columns))
    people = hash_units(table.column(source.unit), keys)
    chosen = candidates(people, encode(schema, columns).matrix, keys)
    return Part(replace(profile, null_units=null_units(people, keys)), ExactStatistics.empty(schema), chosen)


def add_up(parts: Sequence[Part], schema: RegressionSchema, workers: int) -> ExactStatistics:
    """The sums of all parts, and of one row of every person among their candidates."""

    def count_once(share: Sequence[Candidates]) -> ExactStatistics:
        return block_products(EncodedRows(schema, one_row_each(share)))

    shares = zip(*(part.candidates for part in parts), strict=True)
    jobs = [partial(count_once, share) for share in shares]
    sums = [*(part.statistics for part in parts), *in_threads(jobs, workers)]
    return sum(sums, start=ExactStatistics.empty(schema))


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
