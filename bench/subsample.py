"""CPU time of a pass for the sums of a thousand subsets, relative to one for second moments of the same rows."""

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpbayes.secure.contribution import least_of_each
from dpbayes_core.arrays import Words
from dpbayes_core.bounds import Bounds
from dpbayes_core.exact_sums.protocol import EncodedTable
from dpbayes_core.regression.moments import SecondMoments
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.siphash import hash_rows, hash_texts
from dpbayes_core.subsample.regressions import SubsetRegressions
from dpbayes_core.subsample.schema import OpenSchema, Unbounded

ROWS, GROUP_ROWS, SUBSETS = 10**8, 10**6, 1000
ACCEPTED = 1.5
KEY = np.array([1, 2], dtype=np.uint64)
BOX = Bounds(-5.0, 5.0)


def write_table(path: Path, covariates: int) -> None:
    """One row group; the passes read it as often as it takes to make up the rows."""
    generator = np.random.default_rng(1)
    columns: dict[str, Any] = {f"x{k}": generator.standard_normal(GROUP_ROWS) for k in range(covariates)}
    columns["y"] = sum(columns.values()) + generator.standard_normal(GROUP_ROWS)
    columns["person"] = pa.array([f"{number:010d}" for number in range(GROUP_ROWS)])
    pq.write_table(pa.table(columns), path)


def batches(path: Path, rows: int, names: list[str]) -> Iterator[tuple[dict[str, NDArray[np.float64]], Words]]:
    """Numbers and hashes of persons, a row group at a time."""
    for _ in range(rows // GROUP_ROWS):
        table = pq.ParquetFile(path).read_row_group(0, use_threads=False)
        person = table.column("person").chunk(0)
        _, offsets, content = person.buffers()
        places = np.frombuffer(offsets, np.int32)[: len(person) + 1].astype(np.int64)
        yield (
            {name: table.column(name).chunk(0).to_numpy() for name in names},
            hash_texts(np.frombuffer(content, np.uint8), places, KEY),
        )


def cost(statistic: Any, path: Path, rows: int) -> float:
    """CPU seconds of one pass."""
    names, total = list(statistic.columns), statistic.empty()
    begun = time.process_time()
    for columns, people in batches(path, rows, names):
        integers = statistic.encode(columns).integers
        kept = least_of_each(people, hash_rows(people, integers, KEY), integers, 1)  # one row a person, as in any pass
        total += statistic.sum(EncodedTable(integers[kept]), people[kept])
    return time.process_time() - begun


def main(rows: int = ROWS) -> None:
    """Print CPU seconds, their ratio and the peak memory."""
    folder = Path(tempfile.mkdtemp(prefix="dpbayes-bench-"))
    print(f"{rows:,} rows, {SUBSETS:,} subsets; accepted up to {ACCEPTED}")
    print(f"{'covariates':>11}{'plain s':>9}{'subsets s':>11}{'ratio':>7}{'peak MB':>9}")
    try:
        for covariates in (1, 3):
            path = folder / "table.parquet"
            write_table(path, covariates)
            names = [f"x{k}" for k in range(covariates)]
            plain = SecondMoments(RegressionSchema(Continuous("y", BOX), tuple(Continuous(n, BOX) for n in names)))
            many = SubsetRegressions(OpenSchema("y", tuple(Unbounded(n) for n in names)), SUBSETS)
            for statistic in (plain, many):
                cost(statistic, path, GROUP_ROWS)  # compiles
            times = cost(plain, path, rows), cost(many, path, rows)
            peak = getrusage(RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"{covariates:>11}{times[0]:>9.2f}{times[1]:>11.2f}{times[1] / times[0]:>7.2f}{peak:>9,.0f}", flush=True
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*(int(float(size)) for size in sys.argv[1:]))
