"""One row a person: who a person is, which row counts, and what the key decides."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dpbayes.secure.contribution import PARTITIONS, Keys, candidates, hash_units, least_of_each, rows_that_count
from dpbayes.secure.read_table import read_statistics
from dpbayes_core.siphash import hash_rows, hash_texts
from tests.support import small_tables
from tests.support.small_tables import KEY, STATISTIC, Row, ordinary_rows, siphash, source, sums_of, write

KEYS = Keys.derive(KEY)
ROW: Row = {"person": "p0", "wage": 2.0, "age": 40.0, "female": "yes", "region": "south"}


def people(path: Path, unit: str | None = "person", key: bytes = KEY) -> int:
    return read_statistics(source(path, unit), STATISTIC, key=key).statistics.rows


def test_siphash_gives_its_authors_test_vectors() -> None:
    key = np.frombuffer(bytes(range(16)), np.uint64)
    message = np.frombuffer(bytes(range(64)), np.uint8)
    published = {0: "a3817f04ba25a8e66df67214c7550293", 1: "da87c1d86b99af44347659119b22fc45"}
    for length in range(64):
        hashed = hash_texts(message, np.array([0, length]), key).tobytes()
        assert hashed == siphash(bytes(range(16)), bytes(range(length)), 16)
        assert hashed.hex() == published.get(length, hashed.hex())
    assert siphash(bytes(range(16)), bytes(range(15)), 8).hex() == "e545be4961ca29a1"


def test_rows_are_hashed_as_eight_byte_words() -> None:
    units = np.array([[1, 2**64 - 1]], np.uint64)
    rows = np.array([[-(2**19), 0, 2**19]], np.int32)
    message = units.tobytes() + rows.astype("<i8").tobytes()
    assert hash_rows(units, rows, KEYS.choice).tobytes() == siphash(KEYS.choice.tobytes(), message, 8)


def test_equal_hashes_fall_back_on_the_integers() -> None:
    units = np.zeros((4, 2), np.uint64)
    scores = np.array([5, 3, 3, 3], np.uint64)
    rows = np.array([[0, 0], [1, 9], [1, -2], [1, 4]], np.int32)
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        chosen = least_of_each(units, scores[order], rows[order], 1)
        assert rows[order][chosen].tolist() == [[1, -2]]


def test_persons_that_share_half_a_hash_are_two() -> None:
    units = np.array([[1, 7], [2, 7], [1, 8], [1, 7]], np.uint64)
    chosen = least_of_each(units, np.array([4, 3, 2, 1], np.uint64), np.zeros((4, 1), np.int32), 1)
    assert sorted(chosen.tolist()) == [1, 2, 3]


def test_every_person_is_in_one_partition() -> None:
    column = pa.chunked_array([pa.array([f"p{n % 500}" for n in range(2000)])])
    hashed = hash_units(column, KEYS)
    parts = candidates(hashed, np.arange(2000, dtype=np.int32)[:, None], KEYS)
    assert len(parts) == PARTITIONS
    assert sum(len(part) for part in parts) == 500
    assert sum(len(rows_that_count([part, part])) for part in parts) == 500


def test_one_row_of_each_person_counts(tmp_path: Path) -> None:
    rows = ordinary_rows(300, people=40, seed=11)
    assert people(write(tmp_path / "t.parquet", rows, 7)) == len({row["person"] for row in rows})


def test_all_rows_without_a_person_are_one_person(tmp_path: Path) -> None:
    rows = [ROW | {"person": None, "wage": float(n)} for n in range(5)] + [ROW, ROW | {"person": ""}]
    assert people(write(tmp_path / "t.parquet", rows, 2)) == 3
    path = write(tmp_path / "t.parquet", [row | {"person": None} for row in rows], 2, person=pa.null())
    assert people(path) == 1


def test_a_person_is_the_text_of_the_identifier_whatever_stores_it(tmp_path: Path) -> None:
    rows = [row | {"person": n % 70} for n, row in enumerate(ordinary_rows(200, people=1, seed=12))]
    found: set[tuple[int, ...]] = set()
    for kind in (pa.int8(), pa.uint64(), pa.string(), pa.dictionary(pa.int32(), pa.string())):
        as_text = pa.types.is_string(kind) or pa.types.is_dictionary(kind)
        stored = [row | {"person": str(row["person"])} for row in rows] if as_text else rows
        done = read_statistics(source(write(tmp_path / "t.parquet", stored, 60, person=kind)), STATISTIC, key=KEY)
        found.add(done.statistics.sums)
    assert len(found) == 1


def test_zeros_in_front_make_another_person(tmp_path: Path) -> None:
    assert people(write(tmp_path / "t.parquet", [ROW | {"person": name} for name in ("7", "07", "7 ")])) == 3


def test_the_key_decides_which_rows_count_but_not_how_many(tmp_path: Path) -> None:
    rows = ordinary_rows(300, people=40, seed=13)
    path = write(tmp_path / "t.parquet", rows)
    first, second = (read_statistics(source(path), STATISTIC, key=key).statistics for key in (KEY, KEY + b"x"))
    assert first.rows == second.rows
    assert first.sums != second.sums


@pytest.mark.slow
def test_each_row_of_a_person_is_equally_likely_to_count() -> None:
    """Over 2,000 keys the first of four rows counts 500 times, give or take four standard errors of 19.4."""
    rows = [ROW | {"wage": wage} for wage in (1.0, 2.0, 3.0, 4.0)]
    matrix = np.array([small_tables.stored(row) for row in rows], np.int32)
    column = pa.chunked_array([pa.array(["p0"] * 4)])
    first = 0
    for number in range(2000):
        keys = Keys.derive(number.to_bytes(16, "big"))
        parts = candidates(hash_units(column, keys), matrix, keys)
        chosen = np.concatenate([rows_that_count([part]).rows for part in parts])
        first += chosen.tolist() == [matrix[0].tolist()]
    assert abs(first - 500) < 4 * 19.4


def test_a_persons_second_row_is_never_counted_beside_the_first(tmp_path: Path) -> None:
    rows = [ROW | {"wage": 5.0}, ROW | {"wage": 0.0}]
    for cut in (1, 2):
        done = read_statistics(source(write(tmp_path / "t.parquet", rows, cut)), STATISTIC, key=KEY)
        assert done.statistics.sums in {sums_of([row]) for row in rows}


@pytest.mark.parametrize("hidden", [KEYS, candidates(np.zeros((1, 2), np.uint64), np.zeros((1, 1), np.int32), KEYS)[0]])
def test_keys_and_candidates_do_not_print(hidden: object) -> None:
    assert repr(hidden) == f"{type(hidden).__name__}(values=withheld)"
