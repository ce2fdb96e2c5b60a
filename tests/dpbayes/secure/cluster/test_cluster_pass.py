"""A pass whose batches other machines read: the sums, and every count of the profile, of one process."""

import json
import os
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpbayes.secure.cluster.read import KeyRing, Pieces
from dpbayes.secure.cluster.seal import SealBroken
from dpbayes.secure.contribution import Keys
from dpbayes.secure.leak_guard import SecureFailure
from dpbayes.secure.read_table import read_statistics
from dpbayes.secure.resume import PassCheckpoint
from dpbayes.study.table_source import Holders, TableSource
from dpbayes_core.errors import ShapeMismatch
from dpbayes_core.regression.holders import HolderSums
from storage.home.vault import Vault
from tests.laws.test_every_source_alike import WAYS, in_database_of, in_sqlite, on_object_store
from tests.support.object_store import ObjectStore
from tests.support.postgres import Server
from tests.support.sealed import OneMachine
from tests.support.small_tables import (
    KEY,
    RULES,
    STATISTIC,
    Row,
    one_row_each,
    ordinary_rows,
    rows_each,
    source,
    sums_of,
    write,
)

ROWS = ordinary_rows(600, people=200, seed=20261120)


def both(table: TableSource, **more: Any) -> list[tuple[dict[str, Any], str]]:
    here = read_statistics(table, STATISTIC, key=KEY, **more)
    there = read_statistics(table, STATISTIC, key=KEY, cluster=OneMachine(), **more)
    return [(done.statistics, json.dumps(done.profile.to_record(), sort_keys=True)) for done in (here, there)]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("unit", ["person", None])
def test_every_way_of_keeping_a_table_gives_the_sums_and_the_profile_of_one_process(
    tmp_path: Path, way: Callable[[Path, list[Row]], TableSource], unit: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpbayes.secure.sources.csv.CHUNK", 1 << 11)
    monkeypatch.setattr("dpbayes.secure.sources.sql.ROWS", 97)
    here, there = both(replace(way(tmp_path, ROWS), unit=unit))
    assert here == there
    counted = ROWS if unit is None else one_row_each(ROWS)
    assert there[0].rows == len(counted)
    assert there[0].sums == sums_of(counted)


@pytest.mark.parametrize("unit", ["person", None])
def test_tables_of_holders_give_the_sums_and_the_profile_of_one_process(tmp_path: Path, unit: str | None) -> None:
    names = ("north", "south", "absent")
    paths = [str(write(tmp_path / f"{name}.parquet", ROWS[start::2], 50)) for start, name in enumerate(names[:2])]
    holders = Holders(column="office", names=names, membership="fixed", paths=((paths[0],), (paths[1],), ()))
    table = TableSource(columns=(*RULES, holders.rule), unit=unit, holders=holders)
    statistic = HolderSums(STATISTIC, "office", names)
    here = read_statistics(table, statistic, key=KEY)
    there = read_statistics(table, statistic, key=KEY, cluster=OneMachine())
    assert here.statistics.parts == there.statistics.parts
    assert here.profile.to_record() == there.profile.to_record()
    assert len({part.sums for part in there.statistics.parts}) == 3


@pytest.mark.parametrize("most", [1, 2, 500])
def test_the_order_of_answers_decides_nothing(tmp_path: Path, most: int) -> None:
    table = replace(source(write(tmp_path / "t.parquet", ROWS, 30)), max_rows_per_unit=most)
    counted = rows_each(ROWS, most)
    for seed in range(3):
        done = read_statistics(table, STATISTIC, key=KEY, cluster=OneMachine(seed, together=20))
        assert (done.statistics.rows, done.statistics.sums) == (len(counted), sums_of(counted))


def test_the_comparison_can_fail(tmp_path: Path) -> None:
    changed = [*ROWS[:-1], ROWS[-1] | {"wage": 1.0}]
    table = source(write(tmp_path / "t.parquet", changed, 50), unit=None)
    assert read_statistics(table, STATISTIC, key=KEY, cluster=OneMachine()).statistics.sums != sums_of(ROWS)


def test_nothing_that_leaves_a_process_shows_a_row_a_path_or_a_key(tmp_path: Path) -> None:
    rows = [row | {"person": "Zebulon-Quirk"} if place % 50 == 3 else row for place, row in enumerate(ROWS)]
    sums = [str(total).encode() for total in sums_of(one_row_each(rows))]
    keys = Keys.derive(KEY)
    for table in (source(write(tmp_path / "t.parquet", rows, 50)), in_sqlite(tmp_path, rows)):
        machine = OneMachine()
        read_statistics(table, STATISTIC, key=KEY, cluster=machine)
        kept = b"".join(machine.seen)
        assert len(kept) > 10_000
        needles = [b"Zebulon", b"t.parquet", str(tmp_path).encode(), KEY, b"PAR1", b"ARROW", b"dpbayes", b"wage"]
        needles += [keys.unit.tobytes(), keys.choice.tobytes(), keys.null_unit.tobytes()]
        needles += [b"PK\x03\x04", *(total for total in sums if len(total) > 8)]
        assert not any(needle in kept for needle in needles)


def test_a_batch_that_cannot_be_read_stops_the_pass_with_our_sentence_alone(tmp_path: Path) -> None:
    table = source(write(tmp_path / "t.parquet", ROWS, 50))
    layout_size = (tmp_path / "t.parquet").stat()
    content = bytearray((tmp_path / "t.parquet").read_bytes())
    content[10:400] = bytes(390)
    (tmp_path / "t.parquet").write_bytes(content)
    os.utime(tmp_path / "t.parquet", ns=(layout_size.st_atime_ns, layout_size.st_mtime_ns))
    with pytest.raises(ShapeMismatch, match="the content of a file is damaged") as caught:
        read_statistics(table, STATISTIC, key=KEY, cluster=OneMachine())
    assert caught.value.__cause__ is None


def test_an_unforeseen_failure_of_a_worker_names_its_type_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ValueError("Zebulon-Quirk")

    monkeypatch.setattr("dpbayes.secure.cluster.work.read_part", fails)
    with pytest.raises(SecureFailure, match="ValueError stopped it") as caught:
        read_statistics(source(write(tmp_path / "t.parquet", ROWS)), STATISTIC, key=KEY, cluster=OneMachine())
    assert "Zebulon" not in "".join(traceback.format_exception(caught.value))


class Exchanged(OneMachine):
    """Gives the answers of one round under each other's numbers, as whoever controls a scheduler can."""

    def each(self, pieces: Pieces, ring: KeyRing) -> Pieces:
        answers = list(super().each(pieces, ring))
        numbers = [number for number, _ in answers]
        return iter(list(zip(numbers[1:] + numbers[:1], [answer for _, answer in answers], strict=True)))


def test_answers_that_were_exchanged_are_found_out(tmp_path: Path) -> None:
    with pytest.raises(SealBroken, match="altered on its way"):
        read_statistics(source(write(tmp_path / "t.parquet", ROWS, 50)), STATISTIC, key=KEY, cluster=Exchanged())


def test_a_pass_that_broke_off_is_resumed_by_a_cluster_and_one_of_a_cluster_here(tmp_path: Path) -> None:
    table = source(write(tmp_path / "t.parquet", ROWS, 50))
    plain = read_statistics(table, STATISTIC, key=KEY)
    for clusters in ((OneMachine(together=1), None), (None, OneMachine()), (OneMachine(together=1), OneMachine())):
        (home := tmp_path / str(clusters.index(None) if None in clusters else 2)).mkdir()
        (home / "keys").mkdir(mode=0o700)
        checkpoint = PassCheckpoint.open(Vault(home / "vault"), home / "keys", "wages/2026-01")
        heard: list[float] = []

        def interrupt(share: float, heard: list[float] = heard) -> None:
            heard.append(share)
            if len(heard) == 5:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            read_statistics(
                table, STATISTIC, key=KEY, workers=1, progress=interrupt, checkpoint=checkpoint, cluster=clusters[0]
            )
        done = read_statistics(table, STATISTIC, key=KEY, checkpoint=checkpoint, cluster=clusters[1])
        assert done.statistics == plain.statistics
        assert done.profile.to_record() == plain.profile.to_record()
        if isinstance(clusters[1], OneMachine):
            assert len([piece for piece in clusters[1].seen if len(piece) > 1000]) < 2 * 12  # twelve row groups


@pytest.mark.slow
def test_tables_on_an_object_store_give_the_sums_and_the_profile_of_one_process(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpbayes.secure.sources.csv.CHUNK", 1 << 11)
    for table in on_object_store(object_store.new_bucket(), ROWS):
        here, there = both(table)
        assert here == there


@pytest.mark.slow
def test_a_query_of_postgresql_gives_the_sums_and_the_profile_of_one_process(
    postgresql: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpbayes.secure.sources.sql.ROWS", 100)
    here, there = both(in_database_of(postgresql)(ROWS))
    assert here == there
    assert there[0].sums == sums_of(one_row_each(ROWS))
