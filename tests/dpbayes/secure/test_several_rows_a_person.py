"""At most so many rows of anyone: the same ones for every cut, in memory or set aside on disk."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpbayes.secure.batches import Part, add_up, read_part, spill_part
from dpbayes.secure.contribution import PARTITIONS, Candidates, Keys, candidates, least_of_each, rows_that_count
from dpbayes.secure.sources.open_source import lay_out
from dpbayes.secure.spill import Spill
from dpbayes_core.errors import DpbayesError
from dpbayes_core.regression.moments import ExactStatistics
from tests.support.small_tables import KEY, STATISTIC, Row, ordinary_rows, rows_each, source, sums_of, write

KEYS = Keys.derive(KEY)
ROWS = ordinary_rows(500, people=60, seed=21)
MOST = (1, 2, 3, 7, 1000)


def parts_of(path: Path, most: int, spill: Spill | None = None) -> list[Part]:
    table = replace(source(path), max_rows_per_unit=most)
    parts = [read_part(batch, table, STATISTIC, KEYS) for batch in lay_out(table).batches()]
    return parts if spill is None else [spill_part(part, spill) for part in parts]


def counted(path: Path, most: int, workers: int = 2) -> ExactStatistics:
    return add_up(parts_of(path, most), STATISTIC, workers, most=most).statistics


@pytest.mark.parametrize("most", MOST)
@pytest.mark.parametrize(("cut", "workers"), [(11, 1), (37, 2), (200, 4), (1000, 1)])
def test_every_cut_counts_the_same_rows_of_each_person(tmp_path: Path, most: int, cut: int, workers: int) -> None:
    order = np.random.default_rng(cut).permutation(len(ROWS))
    path = write(tmp_path / "t.parquet", [ROWS[place] for place in order], cut)
    kept = rows_each(ROWS, most)
    assert max(Counter(row["person"] for row in kept).values()) <= most
    assert counted(path, most, workers) == ExactStatistics(len(kept), sums_of(kept))


def test_equal_rows_of_a_person_each_count_up_to_the_bound(tmp_path: Path) -> None:
    row: Row = {"person": "p0", "wage": 2.0, "age": 40.0, "female": "yes", "region": "south"}
    path = write(tmp_path / "t.parquet", [row] * 9, 2)
    assert [counted(path, most).rows for most in (1, 4, 9, 10)] == [1, 4, 9, 9]


@pytest.mark.parametrize("most", [1, 3])
def test_the_smallest_scores_are_kept_and_ties_fall_to_the_smaller_integers(most: int) -> None:
    generator = np.random.default_rng(3)
    units = generator.integers(0, 40, (3000, 1)).astype(np.uint64) * np.array([[1, 3]], np.uint64)
    scores = generator.integers(0, 6, 3000).astype(np.uint64)  # many ties
    rows = generator.integers(-2, 3, (3000, 3)).astype(np.int32)
    kept = least_of_each(units, scores, rows, most)
    found = sorted((*units[i].tolist(), int(scores[i]), *rows[i].tolist()) for i in kept)
    ranked = sorted((*units[i].tolist(), int(scores[i]), *rows[i].tolist()) for i in range(3000))
    own = Counter[int]()
    expected = list[tuple[int, ...]]()
    for one in ranked:
        own[one[0]] += 1
        if own[one[0]] <= most:
            expected.append(one)
    assert found == expected


@pytest.mark.parametrize("largest", [0, 1000, 4000, 10**9])
@pytest.mark.parametrize("most", [1, 3])
def test_rows_that_waited_on_disk_give_the_same_sums_and_leave_nothing(tmp_path: Path, most: int, largest: int) -> None:
    path, aside = write(tmp_path / "t.parquet", ROWS, 20), tmp_path / "aside"
    with Spill(most, aside, largest) as spill:
        parts = parts_of(path, most, spill)
        assert all(part.candidates == () for part in parts)
        assert spill.on_disk == (largest < 10**9)
        done = add_up(parts, STATISTIC, 2, most=most, spill=spill)
    assert done.statistics == counted(path, most)
    assert done.rows == done.statistics.rows
    assert not aside.exists() or not list(aside.iterdir())


def test_what_waits_on_disk_is_private_and_unreadable(tmp_path: Path) -> None:
    rows = np.full((500, 4), 123456, np.int32)
    people = np.arange(1000, dtype=np.uint64).reshape(500, 2)
    with Spill(1, tmp_path / "aside", largest=10) as spill:
        spill.add(candidates(people, rows, KEYS))
        (folder,) = (tmp_path / "aside").iterdir()
        files = sorted(folder.iterdir())
        assert len(files) == PARTITIONS
        assert folder.stat().st_mode & 0o077 == 0
        content = b"".join(file.read_bytes() for file in files)
        assert np.int32(123456).tobytes() * 2 not in content
        assert len(content) > 500 * (24 + 16)
        assert sum(len(spill.counted(partition)) for partition in range(PARTITIONS)) == 500


def test_a_failure_deletes_what_waits(tmp_path: Path) -> None:
    def failing() -> None:
        with Spill(1, tmp_path / "aside", largest=10) as spill:
            spill.add(candidates(np.ones((9, 2), np.uint64), np.zeros((9, 2), np.int32), KEYS))
            assert spill.on_disk
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        failing()
    assert list((tmp_path / "aside").iterdir()) == []


def test_a_place_that_cannot_be_written_is_said_without_content(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with Spill(1, tmp_path / "file", largest=10) as spill, pytest.raises(DpbayesError, match="cannot set rows"):
        spill.add(candidates(np.ones((9, 2), np.uint64), np.zeros((9, 2), np.int32), KEYS))


@pytest.mark.parametrize("unit", ["person", None])
def test_a_part_goes_to_plain_arrays_and_back(tmp_path: Path, unit: str | None) -> None:
    path = write(tmp_path / "t.parquet", ROWS, 100)
    table = replace(source(path, unit), max_rows_per_unit=2)
    parts = [read_part(batch, table, STATISTIC, KEYS if unit else None) for batch in lay_out(table).batches()]
    again = [Part.from_arrays(part.to_arrays(), STATISTIC) for part in parts]
    for part, same in zip(parts, again, strict=True):
        assert (part.profile, part.statistics) == (same.profile, same.statistics)
        assert all(array.dtype != object for array in part.to_arrays().values())
    first, second = (add_up(some, STATISTIC, 1, most=2).statistics for some in (parts, again))
    assert first == second


def test_a_million_people_of_one_to_a_thousand_rows_shrunk(tmp_path: Path) -> None:
    """Ten thousand people of 1 to 100 rows, cut in two ways, with and without disk: nobody counts more than 5 times."""
    check_people(10_000, 100, 5, tmp_path)


@pytest.mark.slow
def test_a_million_people_of_one_to_a_thousand_rows(tmp_path: Path) -> None:
    check_people(1_000_000, 1000, 5, tmp_path)


def check_people(count: int, longest: int, most: int, folder: Path) -> None:
    """Rows are told apart by their first integer, the person; scales as 1 / rank, so that all fit a test."""
    generator = np.random.default_rng(9)
    sizes = np.minimum(longest, 1 + generator.pareto(1.2, count)).astype(np.int64)
    people = np.repeat(np.arange(count, dtype=np.uint64), sizes)
    rows = np.column_stack([people, generator.integers(-(2**19), 2**19, len(people))]).astype(np.int32)
    units = np.column_stack([people * np.uint64(0x9E3779B97F4A7C15), people])
    found = list[tuple[int, int]]()
    for largest, cut in ((len(people) * 8, 7), (10**12, 3)):
        order = generator.permutation(len(people))
        with Spill(most, folder / "aside", largest) as spill:
            for places in np.array_split(order, cut):
                spill.add(candidates(units[places], rows[places], KEYS, most))
            assert spill.on_disk == (largest < 10**12)
            kept = [spill.counted(partition).rows for partition in range(PARTITIONS)]
        counts = np.bincount(np.concatenate(kept)[:, 0], minlength=count)
        assert np.array_equal(counts, np.minimum(sizes, most))
        found.append((int(sum(part[:, 1].sum(dtype=np.int64) for part in kept)), len(np.concatenate(kept))))
    assert found[0] == found[1]


def test_persons_are_never_split_over_partitions() -> None:
    people = np.repeat(np.random.default_rng(4).integers(0, 2**63, (50, 2)).astype(np.uint64), 4, axis=0)
    shares = candidates(people, np.arange(200, dtype=np.int32)[:, None], KEYS, 3)
    owners = [{tuple(unit) for unit in share.units.tolist()} for share in shares]
    assert sum(map(len, owners)) == len(set[tuple[int, ...]]().union(*owners)) == 50
    assert sum(len(rows_that_count([share], 3)) for share in shares) == 150
    assert all(isinstance(share, Candidates) for share in shares)
