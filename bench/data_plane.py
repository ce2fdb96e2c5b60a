"""The pass relative to only reading the file, and other programs: CPU time, memory, and growth with the rows."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

from bench.data_plane_rivals import HIGH, LOW, NUMBERS, REGION, REGIONS, RIVALS, SEX, SEXES, THREADS

ROWS, ROUNDS = 10**7, 5
SIZES = (10**6, 10**7, 10**8)
GROUP_ROWS = 10**6
ACCEPTED = {"products": 3.0, "profile": 4.0, "dummies": 5.5}
NAMES = {"products": "exact products", "profile": "with profile", "dummies": "with profile and 23 dummies"}
KEY = bytes(range(16))


def write_table(path: Path, rows: int, seed: int = 20261118) -> None:
    """Ten columns of doubles and two dictionary columns, row group by row group."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator, writer = np.random.default_rng(seed), None
    for start in range(0, rows, GROUP_ROWS):
        count = min(GROUP_ROWS, rows - start)
        columns: dict[str, Any] = {name: pa.array(generator.standard_normal(count)) for name in NUMBERS}
        for name, levels in ((SEX, SEXES), (REGION, REGIONS)):
            codes = pa.array(generator.integers(0, len(levels), count, dtype=np.int32))
            columns[name] = pa.DictionaryArray.from_arrays(codes, pa.array(levels))
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=GROUP_ROWS)
    assert writer is not None
    writer.close()


def cpu() -> float:
    """Seconds of this process with all its threads."""
    used = getrusage(RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def timed(work: Callable[[], Any]) -> float:
    """CPU seconds of one call."""
    start = cpu()
    work()
    return cpu() - start


def declared(what: str) -> tuple[Any, Any]:
    """Statistic and rules of a regression, with or without the columns of levels."""
    from dpbayes.study.table_source import ColumnRule
    from dpbayes_core.bounds import Bounds
    from dpbayes_core.regression.moments import SecondMoments
    from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema

    box = Bounds(LOW, HIGH)
    factors = (Factor(SEX, SEXES), Factor(REGION, REGIONS)) if what == "dummies" else ()
    schema = RegressionSchema(Continuous("y", box), (*(Continuous(name, box) for name in NUMBERS[:-1]), *factors))
    rules = [ColumnRule(name=name, bounds=box) for name in NUMBERS]
    return SecondMoments(schema), (*rules, *(ColumnRule(name=f.name, levels=f.levels) for f in factors))


def scan(path: str, columns: list[str]) -> None:
    """Every row group read in two threads and dropped."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)

    def read(index: int) -> None:
        with pa.OSFile(path) as file, pq.ParquetFile(file, metadata=metadata) as parquet:
            parquet.read_row_group(index, columns=columns, use_threads=False)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(read, range(metadata.num_row_groups)))


def only_products(path: str, statistic: Any) -> None:
    """Read, quantise and sum, without looking for broken rules."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dpbayes.secure.columns import BLOCK_ROWS

    metadata = pq.read_metadata(path)

    def read(index: int) -> Any:
        with pa.OSFile(path) as file, pq.ParquetFile(file, metadata=metadata) as parquet:
            table = parquet.read_row_group(index, columns=list(NUMBERS), use_threads=False)
        total = statistic.empty()
        for batch in table.to_batches(max_chunksize=BLOCK_ROWS):
            total += statistic.sum(statistic.encode({name: batch.column(name).to_numpy() for name in NUMBERS}), None)
        return total

    with ThreadPoolExecutor(THREADS) as pool:
        sum(pool.map(read, range(metadata.num_row_groups)), start=statistic.empty())


def work_on(path: str, what: str) -> Callable[[], Any]:
    """One pass of the kind that is measured."""
    from dpbayes.secure.read_table import read_statistics
    from dpbayes.study.table_source import TableSource

    statistic, rules = declared(what)
    if what == "products":
        return lambda: only_products(path, statistic)
    source = TableSource(path=path, columns=rules, unit=None)
    return lambda: read_statistics(source, statistic, key=KEY, workers=THREADS)


def measure(what: str, path: str, rounds: int) -> dict[str, float]:
    """Scan and pass in turn, in this process; the first turn compiles and warms the page cache, and does not count."""
    if what in RIVALS:
        columns = [*NUMBERS, SEX, REGION]
        scan(path, columns)  # warms the page cache
        turns = [(timed(lambda: scan(path, columns)), timed(lambda: RIVALS[what][1](path))) for _ in range(rounds)]
        return summary(turns) | {"peak": getrusage(RUSAGE_SELF).ru_maxrss / 1024}
    work = work_on(path, what)
    columns = [rule.name for rule in declared(what)[1]]
    turns = [(timed(lambda: scan(path, columns)), timed(work)) for _ in range(rounds + 1)][1:]
    return summary(turns)


def summary(turns: list[tuple[float, float]]) -> dict[str, float]:
    """Medians of the scan, of the work, and of one over the other turn by turn."""
    return {
        "scan": statistics.median(read for read, _ in turns),
        "cpu": statistics.median(done for _, done in turns),
        "ratio": statistics.median(done / read for read, done in turns),
    }


def measure_alone(path: str, rows: int) -> dict[str, float]:
    """A pass with everything, alone in its process: CPU time, of many passes over a small table, and peak memory."""
    write_table(warm := Path(path).with_name(f"warm-{os.getpid()}.parquet"), 1000)
    work_on(str(warm), "dummies")()  # compiles
    warm.unlink()
    work, times = work_on(path, "dummies"), max(1, 10 * GROUP_ROWS // rows)
    spent = timed(lambda: [work() for _ in range(times)])
    return {"cpu": spent / times, "peak": getrusage(RUSAGE_SELF).ru_maxrss / 1024}


def in_child(call: str) -> dict[str, float]:
    """A measurement in a process of its own, BLAS in one thread."""
    program = f"import json; from bench.data_plane import *; found = {call}; print(); print(json.dumps(found))"
    limits = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    limits["POLARS_MAX_THREADS"] = str(THREADS)
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | limits, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])  # a library may have printed before


def compare(path: Path, rows: int) -> None:
    """The pass in three stages, then the other programs, all as multiples of the scan."""
    print(
        f"data plane: CPU time of one pass over {rows:,} rows x (10 doubles + 2 dictionary columns), as a multiple of"
    )
    print(f"reading the same columns in {THREADS} threads in the same run; median of {ROUNDS}, compilation not counted")
    print(f"{'':<32}{'scan s':>8}{'pass s':>8}{'ratio':>8}{'accepted':>10}")
    for what, accepted in ACCEPTED.items():
        found = in_child(f"measure({what!r}, {str(path)!r}, {ROUNDS})")
        print(f"{NAMES[what]:<32}{figures(found)}{accepted:>10.1f}", flush=True)
    for name, (module, _) in RIVALS.items():
        if find_spec(module.split(".")[0]) is None:
            print(f"{name:<32}not installed: pip install {module}")
            continue
        try:
            found = in_child(f"measure({name!r}, {str(path)!r}, 1)")
        except subprocess.CalledProcessError as error:
            print(f"{name:<32}failed: {error.stderr.splitlines()[-1]}")
            continue
        print(f"{name:<32}{figures(found)}{'':>10} peak {found['peak']:,.0f} MB, one turn", flush=True)


def figures(found: dict[str, float]) -> str:
    """The columns that every line has."""
    return "".join(f"{found[what]:>8.2f}" for what in ("scan", "cpu", "ratio"))


def grow(folder: Path, sizes: tuple[int, ...]) -> None:
    """Memory and rate at each size, each in a process of its own."""
    print(f"\n{'rows':>14}{'CPU s':>9}{'M rows / CPU s':>16}{'peak MB':>10}")
    rate = 1.0
    for rows in sizes:
        path = folder / f"{rows}.parquet"
        if not path.exists():
            write_table(path, rows)
        found = in_child(f"measure_alone({str(path)!r}, {rows})")
        rate = rows / found["cpu"]
        print(f"{rows:>14,}{found['cpu']:>9.2f}{rate / 1e6:>16.1f}{found['peak']:>10,.0f}", flush=True)
        path.unlink()
    print(f"{10**9:>14,}{10**9 / rate:>9.0f}   extrapolated from the last size measured, not measured")


def main(sizes: tuple[int, ...] = SIZES) -> None:
    """Print the ratios, then how memory and rate grow; the tables are made in a temporary folder and deleted."""
    folder = Path(tempfile.mkdtemp(prefix="dpbayes-bench-"))
    try:
        path = folder / f"{ROWS}.parquet"
        write_table(path, ROWS)
        compare(path, ROWS)
        grow(folder, sizes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(tuple(int(float(size)) for size in sys.argv[1:]) or SIZES)
