"""A pass that died begins from what it had finished; what it left is unreadable to others and gone afterwards."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dpbayes.secure.read_table import SecurePass, read_statistics
from dpbayes.secure.resume import PassCheckpoint
from dpbayes.secure.sources.parquet import RowGroup
from dpbayes.secure.spill import Spill
from dpbayes.study.table_source import TableSource
from dpbayes_core.regression.moments import SecondMoments
from storage.home.vault import Vault
from tests.support.canaries import places
from tests.support.small_tables import KEY, SCHEMA, STATISTIC, ordinary_rows, source, write

ROOT = Path(__file__).parents[3]
ROWS = ordinary_rows(100, people=60, seed=31)
CANARY, NUMBER = "zebra-4711-canary", 3.1415926537
GROUPS = 10


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("keys", "vault"):
        (tmp_path / name).mkdir(mode=0o700)
    return tmp_path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The row groups that were read."""
    heard: list[int] = []
    read, pieces = RowGroup.read, RowGroup.pieces

    def patched(group: RowGroup, columns: tuple[str, ...]) -> object:
        heard.append(group.index)
        return read(group, columns)

    def in_pieces(group: RowGroup, columns: tuple[str, ...], rows: int) -> object:
        heard.append(group.index)
        return pieces(group, columns, rows)

    monkeypatch.setattr(RowGroup, "read", patched)
    monkeypatch.setattr(RowGroup, "pieces", in_pieces)
    return heard


def checkpoint(home: Path, request: str = "wages/2026-01") -> PassCheckpoint:
    return PassCheckpoint.open(Vault(home / "vault"), home / "keys", request)


def files(home: Path) -> list[Path]:
    return [path for path in (home / "vault").rglob("*") if path.is_file() and path.name != "lock"]


def same(one: SecurePass, other: SecurePass) -> bool:
    mine, theirs = one.statistics, other.statistics
    return (mine.rows, mine.sums, one.profile.to_record()) == (theirs.rows, theirs.sums, other.profile.to_record())


def read(table: TableSource, home: Path, statistic: SecondMoments = STATISTIC, key: bytes = KEY) -> SecurePass:
    return read_statistics(table, statistic, key=key, workers=1, checkpoint=checkpoint(home))


@pytest.mark.parametrize("unit", ["person", None])
def test_a_finished_batch_is_not_read_again(home: Path, reads: list[int], unit: str | None) -> None:
    table = source(write(home / "t.parquet", ROWS, GROUPS), unit)
    first = read(table, home)
    assert sorted(reads) == list(range(10))
    again = read(table, home)
    assert len(reads) == 10
    assert same(first, again)
    assert same(again, read_statistics(table, STATISTIC, key=KEY))


@pytest.mark.slow
@pytest.mark.parametrize("nth", [1, 4, 10])
def test_a_killed_pass_resumes_to_the_same_sums(home: Path, reads: list[int], nth: int) -> None:
    path = write(home / "t.parquet", [*ROWS, ROWS[0] | {"person": CANARY, "region": CANARY, "wage": NUMBER}], GROUPS)
    command = [sys.executable, "-m", "tests.support.dying_pass", str(path), str(home), str(nth)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    left = len(files(home))
    assert left == nth - 1
    resumed = read(source(path), home)
    assert len(reads) == 11 - left
    assert same(resumed, read_statistics(source(path), STATISTIC, key=KEY))
    assert places(home / "vault", [CANARY, NUMBER]) == []
    checkpoint(home).forget()
    assert files(home) == []
    assert list((home / "keys").iterdir()) == []


def test_nothing_kept_shows_a_value_a_name_or_a_person(home: Path) -> None:
    rows = [row | {"person": CANARY, "wage": NUMBER} for row in ROWS]
    read(source(write(home / "t.parquet", rows, GROUPS)), home)
    kept = files(home)
    assert len(kept) == 10
    for path in kept:
        content = path.read_bytes()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        for word in (CANARY, "wage", "region", "t.parquet", "sums", "NUMPY"):
            assert word.encode() not in content
            assert word not in str(path.relative_to(home))
    counts = np.bincount(np.frombuffer(b"".join(path.read_bytes() for path in kept), np.uint8), minlength=256)
    expected = counts.sum() / 256
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert statistic < 380  # chi-squared of 255 degrees: beyond it with probability 5e-7
    assert places(home / "vault", [CANARY, NUMBER]) == []


def test_the_same_part_is_never_sealed_twice_alike(home: Path) -> None:
    store = checkpoint(home)
    store.begin("facts")
    store.keep("batch", {"sums": np.arange(3)})
    first = files(home)[0].read_bytes()
    store.keep("batch", {"sums": np.arange(3)})
    assert files(home)[0].read_bytes() != first


def changed_rows(path: Path) -> TableSource:
    write(path, [ROWS[0] | {"wage": 4.9}, *ROWS[1:]], GROUPS)
    return source(path)


def touched(path: Path) -> TableSource:
    os.utime(path, ns=(1, 1))
    return source(path)


def other_rules(path: Path) -> TableSource:
    return TableSource(path=str(path), columns=source(path).columns[::-1], unit="person")


@pytest.mark.parametrize("change", [changed_rows, touched, other_rules], ids=lambda change: change.__name__)
def test_a_change_starts_over(home: Path, reads: list[int], change: Callable[[Path], TableSource]) -> None:
    path = write(home / "t.parquet", ROWS, GROUPS)
    read(source(path), home)
    table = change(path)
    reads.clear()
    assert same(read(table, home), read_statistics(table, STATISTIC, key=KEY))
    assert sorted(reads) == sorted([*range(10), *range(10)])
    assert len(files(home)) == 10  # what the other table left is gone


def test_another_key_or_statistic_or_request_starts_over(home: Path, reads: list[int]) -> None:
    table = source(write(home / "t.parquet", ROWS, GROUPS))
    smaller = SecondMoments(type(SCHEMA)(SCHEMA.response, SCHEMA.covariates[:1]))
    read(table, home)
    read(table, home, key=KEY[::-1])
    read(table, home, smaller)
    assert len(reads) == 30
    read_statistics(table, smaller, key=KEY, checkpoint=checkpoint(home, "wages/2026-02"))
    assert len(reads) == 40


def test_a_statistic_of_fresh_secrets_is_read_from_the_start(home: Path, reads: list[int]) -> None:
    class Subsets(SecondMoments):
        @property
        def needs_people(self) -> bool:
            return True

    table = source(write(home / "t.parquet", ROWS, GROUPS))
    for _ in range(2):
        read(table, home, Subsets(SCHEMA))
    assert len(reads) == 20
    assert files(home) == []


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * 5000], ids=len)
def test_a_damaged_file_is_read_again(home: Path, reads: list[int], damage: bytes) -> None:
    table = source(write(home / "t.parquet", ROWS, GROUPS))
    first = read(table, home)
    kept = sorted(files(home))
    kept[0].write_bytes(damage)
    kept[1].write_bytes(kept[2].read_bytes())  # another batch's
    kept[3].write_bytes(kept[3].read_bytes()[:-1])
    assert same(read(table, home), first)
    assert len(reads) == 13


def test_a_lost_key_costs_the_pass_and_nothing_else(home: Path, reads: list[int]) -> None:
    table = source(write(home / "t.parquet", ROWS, GROUPS))
    read(table, home)
    for path in (home / "keys").iterdir():
        path.unlink()
    read(table, home)
    assert len(reads) == 20
    assert len(files(home)) == 10


def test_a_vault_that_takes_nothing_stops_no_pass(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dpbayes.secure.resume.os.open", fail)
    table = source(write(home / "t.parquet", ROWS, GROUPS))
    assert same(read(table, home), read_statistics(table, STATISTIC, key=KEY))
    assert files(home) == []


def test_forgetting_may_come_while_another_process_reads(home: Path) -> None:
    table = source(write(home / "t.parquet", ROWS, GROUPS))
    mine = checkpoint(home)
    heard: list[float] = []

    def forget_early(share: float) -> None:
        heard.append(share)
        if len(heard) == 3:
            checkpoint(home).forget()

    read_statistics(table, STATISTIC, key=KEY, workers=1, progress=forget_early, checkpoint=mine)
    assert files(home) == []


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Spill.__init__, "__defaults__", (None, 1000))


@pytest.mark.usefixtures("little_memory")
def test_what_memory_cannot_hold_is_set_aside_encrypted_and_gone_afterwards(home: Path) -> None:
    rows = [*ROWS, ROWS[0] | {"person": CANARY, "wage": NUMBER}]
    table = source(write(home / "t.parquet", rows, GROUPS))
    aside = home / "vault" / "unfinished"
    seen: list[Path] = []

    def look(_: float) -> None:
        seen.extend(path for path in aside.rglob("waiting-*/*") if path.stat().st_size)
        assert places(home / "vault", [CANARY, NUMBER]) == []

    store = checkpoint(home)
    done = read_statistics(table, STATISTIC, key=KEY, workers=1, progress=look, checkpoint=store)
    assert seen
    assert same(done, read_statistics(table, STATISTIC, key=KEY))
    assert list(aside.rglob("waiting-*")) == []
    store.forget()
    assert list(aside.iterdir()) == []


@pytest.mark.usefixtures("little_memory")
def test_what_a_killed_pass_set_aside_goes_when_the_release_is_committed(home: Path) -> None:
    path = write(home / "t.parquet", ROWS, GROUPS)
    (home / "vault" / "unfinished").mkdir()
    with checkpoint(home).spill_folder() as dead:
        assert dead is not None
        (dead / "waiting-left").mkdir()
        (dead / "waiting-left" / "0").write_bytes(b"of a key that died")
    store = checkpoint(home)
    read_statistics(source(path), STATISTIC, key=KEY, workers=1, checkpoint=store)
    store.forget()
    assert list((home / "vault" / "unfinished").iterdir()) == []
    checkpoint(home).forget()  # of nothing


@pytest.mark.usefixtures("little_memory")
def test_the_next_run_of_any_release_clears_what_a_killed_pass_set_aside(home: Path) -> None:
    table = source(write(home / "t.parquet", ROWS, GROUPS))
    left = home / "vault" / "unfinished"
    with checkpoint(home, "wages/2025-12").spill_folder() as dead:
        assert dead is not None
        (dead / "waiting-left").mkdir()
        (dead / "waiting-left" / "0").write_bytes(b"of a key that died")
    with checkpoint(home, "wages/2025-11").spill_folder() as alive:
        assert alive is not None
        store = checkpoint(home)
        read_statistics(table, STATISTIC, key=KEY, workers=1, checkpoint=store)
        store.forget()
        assert list(left.iterdir()) == [alive]


@pytest.mark.usefixtures("little_memory")
def test_another_process_that_still_reads_keeps_what_it_set_aside(home: Path) -> None:
    table = source(write(home / "t.parquet", ROWS, GROUPS))
    mine, heard = checkpoint(home), list[float]()

    def forget_elsewhere(share: float) -> None:
        heard.append(share)
        if len(heard) == 5:
            checkpoint(home).forget()

    done = read_statistics(table, STATISTIC, key=KEY, workers=1, progress=forget_elsewhere, checkpoint=mine)
    assert same(done, read_statistics(table, STATISTIC, key=KEY))
    mine.forget()
    assert list((home / "vault" / "unfinished").iterdir()) == []
