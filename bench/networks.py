"""CPU time of counting the families of 17 nodes, relative to reading their columns; and signed sums of 200 nodes."""

import shutil
import statistics
import sys
import tempfile
import tracemalloc
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

from bench.data_plane import KEY, THREADS, scan, timed

ROWS, ROUNDS = 10**7, 5
GROUP_ROWS = 10**6
FEATURES = 16
ACCEPTED = 2.0
MANY, MANY_ROWS, PARENTS = 200, 10**5, 2
LEVELS = ("no", "yes")


def write_table(path: Path, rows: int, seed: int = 20261118) -> None:
    """A class and features that agree with it more often than not: dictionary columns, row group by row group."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator, writer, levels = np.random.default_rng(seed), None, pa.array(LEVELS)
    for start in range(0, rows, GROUP_ROWS):
        count = min(GROUP_ROWS, rows - start)
        target = generator.integers(0, 2, count, dtype=np.int32)
        codes = {"class": target}
        for place in range(FEATURES):
            codes[f"x{place}"] = target ^ (generator.random(count, dtype=np.float32) < 0.3).astype(np.int32)
        table = pa.table({name: pa.DictionaryArray.from_arrays(part, levels) for name, part in codes.items()})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=GROUP_ROWS)
    assert writer is not None
    writer.close()


def naive_bayes() -> Any:
    """A class, and features that depend on it."""
    from dpbayes_core.networks.schema import NetworkSchema
    from dpbayes_core.regression.schema import Factor

    names = ("class", *(f"x{place}" for place in range(FEATURES)))
    return NetworkSchema(tuple(Factor(name, LEVELS) for name in names), dict.fromkeys(names[1:], ("class",)))


def compare(path: Path, rows: int) -> None:
    """Scan and pass in turn, in this process; the first turn compiles and warms the page cache, and does not count."""
    from dpbayes.secure.read_table import read_statistics
    from dpbayes.study.table_source import ColumnRule, TableSource
    from dpbayes_core.networks.tables import FamilyTables

    schema = naive_bayes()
    rules = tuple(ColumnRule(name=name, levels=LEVELS) for name in schema.names)
    source = TableSource(path=str(path), columns=rules, unit=None)
    names = list(schema.names)

    def count() -> None:
        done = read_statistics(source, FamilyTables(schema), key=KEY, workers=THREADS).statistics
        assert done.rows == rows

    turns = [(timed(lambda: scan(str(path), names)), timed(count)) for _ in range(ROUNDS + 1)][1:]
    read, spent = (statistics.median(turn[place] for turn in turns) for place in (0, 1))
    ratio, peak = statistics.median(done / first for first, done in turns), getrusage(RUSAGE_SELF).ru_maxrss / 1024
    print(f"{rows:>14,}{read:>9.2f}{spent:>9.2f}{ratio:>8.2f}{ACCEPTED:>10.1f}{peak:>10,.0f}", flush=True)


def signs_of_many() -> None:
    """Design, count, release and read back 200 binary nodes of two parents each: nothing grows with 2^200."""
    import numpy as np

    from dpbayes_core.networks.design import fourier_design
    from dpbayes_core.networks.marginals import family_tables
    from dpbayes_core.networks.schema import NetworkSchema
    from dpbayes_core.privacy.noise import SeededNoise
    from dpbayes_core.regression.schema import Factor

    names = [f"x{place}" for place in range(MANY)]
    edges = {names[place]: tuple(names[place - PARENTS : place]) for place in range(PARENTS, MANY)}
    schema = NetworkSchema(tuple(Factor(name, LEVELS) for name in names), edges)
    codes = np.random.default_rng(1).integers(0, 2, (MANY, MANY_ROWS), dtype=np.int32)
    noise, found = SeededNoise(1, i_know_this_is_not_private=True), list[Any]()

    def work() -> None:
        design = fourier_design(schema, epsilon=1.0)
        statistic = design.statistic()
        columns = dict(zip(statistic.columns, codes, strict=True))
        release = design.release(noise, statistic.sum(statistic.encode(columns), None))
        found[:] = [len(release.signs), len(family_tables(release))]

    work()  # compiles
    spent = statistics.median(timed(work) for _ in range(ROUNDS))
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    print(
        f"\nsigned sums of {MANY} binary nodes of {PARENTS} parents, {MANY_ROWS:,} records: {found[0]} sums, "
        f"{found[1]} tables; {spent:.2f} CPU s, {peak:.1f} MB at most beside the records' own "
        f"{codes.nbytes / 1e6:.0f} MB, of which their encoded copy is as much"
    )


def main(rows: int = ROWS) -> None:
    """Print CPU seconds and their ratio; the table is made in a temporary folder and deleted."""
    folder = Path(tempfile.mkdtemp(prefix="dpbayes-bench-"))
    print(
        f"networks: CPU time of one pass over {FEATURES + 1} binary columns, as a multiple of reading them in {THREADS}"
    )
    print(f"threads in the same run; median of {ROUNDS}, compilation not counted")
    print(f"{'rows':>14}{'scan s':>9}{'pass s':>9}{'ratio':>8}{'accepted':>10}{'peak MB':>10}")
    try:
        path = folder / "table.parquet"
        write_table(path, rows)
        compare(path, rows)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    signs_of_many()


if __name__ == "__main__":
    main(*(int(float(size)) for size in sys.argv[1:]))
