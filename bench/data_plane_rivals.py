"""The same sums by other programs: clip to bounds, count what is outside or missing, second moments with dummies.

Each takes the file and returns the number of rows; sums are plain doubles, as is usual in these programs.
"""

from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import Any

NUMBERS = (*(f"x{i}" for i in range(9)), "y")
SEX, REGION = "sex", "region"
SEXES = ("no", "yes")
REGIONS = tuple(f"r{i}" for i in range(24))
LOW, HIGH = -2.0, 2.0
THREADS = 2


def by_pandas(path: str) -> int:
    """The whole table in memory."""
    import pandas

    counts, moments = frame_moments(pandas.read_parquet(path, columns=[*NUMBERS, SEX, REGION]))
    assert counts.size
    return round(moments[0, 0])


def by_dask(path: str) -> int:
    """One partition to a row group, in two threads."""
    import dask
    import dask.dataframe

    frame = dask.dataframe.read_parquet(path, columns=[*NUMBERS, SEX, REGION], split_row_groups=True)
    parts = [dask.delayed(frame_moments)(part) for part in frame.to_delayed()]
    done = dask.compute(*parts, scheduler="threads", num_workers=THREADS)
    return round(sum(moments[0, 0] for _, moments in done))


def frame_moments(frame: Any) -> tuple[Any, Any]:
    """Counts of broken rules, and second moments with a constant."""
    import numpy as np
    import pandas

    numbers = frame[list(NUMBERS)]
    counts = numbers.isna().sum() + ((numbers < LOW) | (numbers > HIGH)).sum()
    matrix = numbers.fillna((LOW + HIGH) / 2).clip(LOW, HIGH).to_numpy() * (2 / (HIGH - LOW))
    sex = np.where(frame[SEX].to_numpy() == SEXES[1], 1.0, -1.0)
    region = pandas.get_dummies(pandas.Categorical(frame[REGION], REGIONS), drop_first=True, dtype=float).to_numpy()
    whole = np.column_stack([np.ones(len(matrix)), matrix, sex, region])
    return counts, whole.T @ whole


def by_polars(path: str) -> int:
    """Lazily, products as expressions and regions as groups."""
    import polars as pl

    table = pl.scan_parquet(path)
    clipped = [pl.col(n).fill_nan(None).fill_null(0.0).clip(LOW, HIGH).alias(n) for n in NUMBERS]
    sex = pl.when(pl.col(SEX) == SEXES[1]).then(1.0).otherwise(-1.0).alias(SEX)
    plain = table.select(*clipped, sex, pl.col(REGION))
    names = [*NUMBERS, SEX]
    products = [(pl.col(a) * pl.col(b)).sum().alias(f"{a}*{b}") for a, b in combinations_with_replacement(names, 2)]
    broken = [(pl.col(n).is_null() | pl.col(n).is_nan() | ~pl.col(n).is_between(LOW, HIGH)).sum() for n in NUMBERS]
    sums = [pl.col(n).sum() for n in names]
    queries = [
        table.select(broken),
        plain.select(products),
        plain.group_by(REGION).agg(pl.len().alias("rows"), *sums),
    ]
    *_, groups = pl.collect_all(queries, engine="streaming")
    return int(groups["rows"].sum())


def by_duckdb(path: str) -> int:
    """In SQL, products as sums and regions as groups; all groups together give the totals."""
    import duckdb

    names = [*NUMBERS, SEX]
    clipped = [f"least(greatest(coalesce(nullif({n}, 'nan'), 0), {LOW}), {HIGH}) AS {n}" for n in NUMBERS]
    clipped += [f"CASE WHEN {SEX} = '{SEXES[1]}' THEN 1.0::DOUBLE ELSE -1.0::DOUBLE END AS {SEX}", REGION]
    broken = [f"({n} IS NULL OR NOT {n} BETWEEN {LOW} AND {HIGH})::INT AS odd_{n}" for n in NUMBERS]
    products = [f"sum({a} * {b})" for a, b in combinations_with_replacement(names, 2)]
    sums = [f"sum({n})" for n in (*names, *(f"odd_{n}" for n in NUMBERS))]
    query = (
        f"SELECT count(*), {', '.join([*sums, *products])} FROM "
        f"(SELECT {', '.join([*clipped, *broken])} FROM read_parquet('{path}')) GROUP BY {REGION}"
    )
    with duckdb.connect(config={"threads": THREADS}) as connection:
        connection.execute("SET enable_progress_bar = false")
        return sum(row[0] for row in connection.execute(query).fetchall())


RIVALS: dict[str, tuple[str, Callable[[str], int]]] = {
    "pandas": ("pandas", by_pandas),
    "dask.dataframe": ("dask.dataframe", by_dask),
    "polars": ("polars", by_polars),
    "duckdb": ("duckdb", by_duckdb),
}
