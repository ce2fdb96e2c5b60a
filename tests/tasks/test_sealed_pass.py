"""A pass on a real cluster: what one process finds, whoever dies, and a scheduler that knows nothing."""

import base64
import hashlib
import json
import os
import sqlite3
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from distributed import Client, LocalCluster

from dpbayes.secure.batches import read_part
from dpbayes.secure.cluster.codec import to_bytes
from dpbayes.secure.cluster.read import KeyRing, Pieces
from dpbayes.secure.contribution import Keys
from dpbayes.secure.read_table import read_statistics
from dpbayes.secure.sources.open_source import lay_out
from dpbayes.study.table_source import Query, TableSource
from dpbayes_core.errors import DpbayesError, ShapeMismatch
from dpbayes_core.siphash import hash_texts
from tasks.dask import dask_workers
from tasks.dask_faults import DaskUnavailable
from tasks.sealed_pass import SealedWorkers, do_sealed, secure_cluster
from tests.support.canaries import finds, forms_of
from tests.support.dask_cluster import DaskCluster, certificate, read_by_dask
from tests.support.memory import memory_of
from tests.support.small_tables import RULES, STATISTIC, Row, one_row_each, ordinary_rows, sums_of, table, write

SECRET = hashlib.sha256(b"a home's key").digest()
FEW = ordinary_rows(300, people=100, seed=20261121)
PERSON, LEVEL, OUTLIER, FILE = "Zebulon-Quirk-Canary", "atlantis-canary", 90817.26354, "marzipan-table"


@pytest.fixture(scope="module")
def many() -> list[Row]:
    rows = ordinary_rows(20_000, people=9_000, seed=20261122)
    for place in range(0, len(rows), 40):  # everywhere, so that every batch has all of them
        rows[place] |= {"person": f"{PERSON}-{place}", "wage": OUTLIER, "region": LEVEL}
    return rows


def as_parquet(folder: Path, rows: list[Row]) -> Path:
    return write(folder / f"{FILE}.parquet", rows, len(rows) // 40)


def as_csv(folder: Path, rows: list[Row]) -> Path:
    pa.csv.write_csv(table(rows), folder / f"{FILE}.csv")
    return folder / f"{FILE}.csv"


def as_sql(folder: Path, rows: list[Row]) -> Query:
    with sqlite3.connect(folder / f"{FILE}.db") as connection:
        connection.execute("CREATE TABLE t (person TEXT, wage REAL, age REAL, female TEXT, region TEXT)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", [tuple(row.values()) for row in rows])
    connection.close()
    return Query(url=f"sqlite:///{folder / f'{FILE}.db'}", text="SELECT * FROM t", period="2026-01")


def kept_as(form: str, folder: Path, rows: list[Row], unit: str | None) -> TableSource:
    if form == "sql":
        return TableSource(query=as_sql(folder, rows), columns=RULES, unit=unit)
    place = as_parquet(folder, rows) if form == "parquet" else as_csv(folder, rows)
    return TableSource(path=str(place), columns=RULES, unit=unit)


def found(source: TableSource, **more: Any) -> tuple[Any, str]:
    """The exact sums, and the digest of what goes into the vault."""
    done = read_statistics(source, STATISTIC, key=SECRET, **more)
    return done.statistics, hashlib.sha256(json.dumps(done.profile.to_record()).encode()).hexdigest()


@pytest.fixture
def cut_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpbayes.secure.sources.csv.CHUNK", 1 << 14)
    monkeypatch.setattr("dpbayes.secure.sources.csv_ranges.SCANNED", 1 << 17)
    monkeypatch.setattr("dpbayes.secure.sources.sql.ROWS", 500)


class Watched:
    """A cluster; something is done at each answer."""

    def __init__(self, workers: SealedWorkers, act: Callable[[], None]) -> None:
        self._workers, self._act = workers, act

    def each(self, pieces: Pieces, ring: KeyRing) -> Pieces:
        for piece in self._workers.each(pieces, ring):
            self._act()
            yield piece


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SealedWorkers]:
    """A cluster of this machine, behind TLS as every one of ours, whose workers have already read something."""
    folder = tmp_path_factory.mktemp("own")
    with dask_workers(None, folder, kept="nothing is") as workers:
        sealed = SealedWorkers(workers)
        found(kept_as("parquet", folder, FEW, "person"), cluster=sealed)
        yield sealed


@pytest.mark.parametrize("form", ["parquet", "csv", "sql"])
def test_a_cluster_finds_what_one_process_finds(
    tmp_path: Path, own: SealedWorkers, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpbayes.secure.sources.csv.CHUNK", 1 << 12)
    source = kept_as(form, tmp_path, FEW, "person")
    there = found(source, cluster=own)
    assert there == found(source)
    assert there[0].sums == sums_of(one_row_each(FEW, SECRET))


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DaskCluster]:
    """A scheduler behind TLS that the variable names; its workers write what they keep to their disk at once."""
    settings = certificate(tmp_path / "certificates", "ours")
    spilling = {
        "DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "0.0000001",
        "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "0.5",
    }
    with ExitStack() as stack:
        stack.enter_context(read_by_dask(settings))
        started = stack.enter_context(DaskCluster(tmp_path / "dask", settings=settings | spilling, protocol="tls"))
        monkeypatch.setenv("DPBAYES_SECURE_DASK", started.address)
        yield started


@pytest.mark.slow
@pytest.mark.usefixtures("cut_small")
def test_one_two_and_four_workers_find_what_one_process_finds_in_every_kind_of_table(
    tmp_path: Path, cluster: DaskCluster, many: list[Row]
) -> None:
    sources = {
        (form, unit): kept_as(form, folder, many, unit)
        for form in ("parquet", "csv", "sql")
        for unit in ("person", None)
        if (folder := tmp_path / f"{form}-{unit}").mkdir() is None
    }
    here = {name: found(source) for name, source in sources.items()}
    assert len({sums for (sums, _) in ((str(one.sums), two) for one, two in here.values())}) == 2
    for workers in (1, 2, 4):
        while cluster.size < workers:
            cluster.work()
        with secure_cluster() as workers_there:
            for name, source in sources.items():
                assert found(source, cluster=workers_there) == here[name], (workers, name)


@pytest.mark.slow
@pytest.mark.usefixtures("cut_small")
@pytest.mark.parametrize("form", ["parquet", "csv", "sql"])
def test_a_worker_that_is_killed_in_the_middle_changes_nothing(
    tmp_path: Path, cluster: DaskCluster, many: list[Row], form: str
) -> None:
    source = kept_as(form, tmp_path, many, "person")
    cluster.work()
    cluster.work()
    done = 0

    def act() -> None:
        nonlocal done
        done += 1
        if done == 5:
            cluster.kill_worker(0)
        if done == 9:
            threading.Thread(target=cluster.work, daemon=True).start()  # one that has no key yet

    with secure_cluster() as workers:
        assert workers is not None
        assert found(source, cluster=Watched(workers, act)) == found(source)
    assert done > 30


def hashes_of(rows: list[Row]) -> set[bytes]:
    """Some of the planted people as candidates name them."""
    names = [row["person"].encode() for row in rows if str(row["person"]).startswith(PERSON)][:20]
    ends = np.cumsum([0, *map(len, names)])
    return {
        one.tobytes() for one in hash_texts(np.frombuffer(b"".join(names), np.uint8), ends, Keys.derive(SECRET).unit)
    }


def needles_of(rows: list[Row]) -> set[bytes]:
    """Every form of a planted value: as it is in the table, hashed, and the keys."""
    keys = Keys.derive(SECRET)
    values = {form for value in (PERSON, LEVEL, OUTLIER, FILE) for form in forms_of(value)}
    return values | hashes_of(rows) | {FILE.encode("utf-32-le"), keys.unit.tobytes(), keys.choice.tobytes(), SECRET}


@pytest.mark.slow
@pytest.mark.usefixtures("cut_small")
@pytest.mark.parametrize("form", ["parquet", "sql"])
def test_the_scheduler_and_what_workers_spill_have_no_planted_value(
    tmp_path: Path, cluster: DaskCluster, many: list[Row], form: str
) -> None:
    folder = tmp_path / "secure"
    folder.mkdir()
    source = kept_as(form, folder, many, "person")
    cluster.work()
    cluster.work()
    regions: list[bytes] = []
    spilled: list[bytes] = []

    def look() -> None:
        if not regions:
            time.sleep(3)  # the workers go on, and what they keep is spilled
            spilled.extend(file.read_bytes() for file in (tmp_path / "dask").rglob("storage/*") if file.is_file())
            regions.extend(memory_of(cluster.scheduler.pid))

    with secure_cluster() as workers:
        assert workers is not None
        found(source, cluster=Watched(workers, look))
    assert sum(map(len, regions)) > 10 << 20
    assert any(b"do_sealed" in data for data in regions)
    assert spilled
    needles = needles_of(many)
    log = (tmp_path / "dask" / "errors.log").read_bytes()
    assert not any(finds(data, needles, depth=3) for data in (*regions, *spilled, log))


def test_the_search_finds_what_is_not_sealed(tmp_path: Path) -> None:
    rows = [row | {"person": f"{PERSON}-{place}"} for place, row in enumerate(FEW)]
    source = kept_as("parquet", tmp_path, rows, "person")
    batch = next(lay_out(source).batches())
    part = to_bytes(read_part(batch, source, STATISTIC, Keys.derive(SECRET)).to_arrays())
    assert finds(part, hashes_of(rows[:1]))
    assert finds(part, {FILE.encode("utf-32-le")})
    assert finds(b"x" + base64.b64encode(part), {FILE.encode("utf-32-le")}, depth=3)


@pytest.mark.slow
def test_the_search_finds_what_a_scheduler_is_sent_in_the_clear(cluster: DaskCluster) -> None:
    cluster.work()
    with Client(cluster.address, set_as_default=False) as client:
        future = client.submit(len, [PERSON, OUTLIER], pure=False)
        assert future.result(timeout=60) == 2
        assert any(finds(data, forms_of(PERSON), depth=3) for data in memory_of(cluster.scheduler.pid))


@pytest.mark.slow
@pytest.mark.usefixtures("cut_small")
def test_a_value_that_cannot_be_read_ends_the_pass_with_our_sentence_and_is_in_no_log(
    tmp_path: Path, cluster: DaskCluster, many: list[Row]
) -> None:
    source = kept_as("parquet", tmp_path, many, "person")
    file = Path(str(source.path))
    before, content = file.stat(), bytearray(file.read_bytes())
    content[1000 : len(content) // 2] = bytes(len(content) // 2 - 1000)  # pages that no longer decompress
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    cluster.work()
    with secure_cluster() as workers, pytest.raises(ShapeMismatch) as caught:
        found(source, cluster=workers)
    sentence = f"cannot read table {FILE}.parquet: the content of a file is damaged. Write the table again."
    assert str(caught.value) == sentence
    needles = needles_of(many) - forms_of(FILE)
    assert not finds("".join(traceback.format_exception(caught.value)).encode(), needles)
    assert not finds((tmp_path / "dask" / "errors.log").read_bytes(), needles_of(many))
    log = (tmp_path / "dask" / "errors.log").read_text()  # closed connections may be in it, no exception of the pass
    assert [word for word in ("Compute Failed", "ShapeMismatch", "Arrow", "damaged", "do_sealed(") if word in log] == []


@pytest.mark.slow
def test_a_worker_that_does_not_use_tls_reads_nothing() -> None:
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as in_the_clear,
        Client(in_the_clear, set_as_default=False) as client,
        pytest.raises(DaskUnavailable, match="a worker of it does not use TLS"),
    ):
        client.submit(do_sealed, 0, b"", {}).result(timeout=60)


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:8786", "127.0.0.1:8786", "tls://127.0.0.1", "tls://h:1/x", "tls://h:x"]
)
def test_a_secure_cluster_is_behind_tls_or_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("DPBAYES_SECURE_DASK", address)
    with pytest.raises(DpbayesError, match="it is not tls://HOST:PORT") as caught, secure_cluster():
        raise AssertionError
    assert caught.value.exit_code == 2


def test_without_the_variable_there_is_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPBAYES_SECURE_DASK", raising=False)
    with secure_cluster() as cluster:
        assert cluster is None
