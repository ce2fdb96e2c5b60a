"""What stops a release: file, column names, storage types; said in names and types only."""

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbayes.secure.read_table import check_shape, read_statistics
from dpbayes_core.errors import ShapeMismatch
from tests.support.small_tables import KEY, STATISTIC, TYPES, ordinary_rows, source, table, write

ROWS = ordinary_rows(200, people=50, seed=5)
CANARY = "zebra-4711"


def refusal(path: Path, unit: str | None = "person") -> str:
    """The message, after checking that nothing travels with it."""
    with pytest.raises(ShapeMismatch) as caught:
        check_shape(source(path, unit))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    message = str(caught.value)
    assert message.startswith("cannot read table ")
    assert CANARY not in message
    assert str(path.parent) not in message
    return message


def test_the_declared_shape_passes(tmp_path: Path) -> None:
    check_shape(source(write(tmp_path / "t.parquet", ROWS)))
    check_shape(source(write(tmp_path / "t.parquet", [])))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "wages-2026-01.parquet") == (
        "cannot read table wages-2026-01.parquet: no such file or folder. "
        "Put it in place, or correct the source's path."
    )


@pytest.mark.parametrize("column", TYPES)
def test_a_missing_column_is_named(tmp_path: Path, column: str) -> None:
    pq.write_table(table(ROWS).drop_columns([column]), tmp_path / "t.parquet")
    assert f"column {column} is missing" in refusal(tmp_path / "t.parquet")


def test_a_missing_unit_column_matters_only_where_one_is_declared(tmp_path: Path) -> None:
    pq.write_table(table(ROWS).drop_columns(["person"]), tmp_path / "t.parquet")
    check_shape(source(tmp_path / "t.parquet", None))


def test_a_column_given_twice_is_refused(tmp_path: Path) -> None:
    plain = table(ROWS)
    pq.write_table(plain.append_column("age", plain["age"]), tmp_path / "t.parquet")
    assert "column age occurs more than once" in refusal(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("column", "kind", "value"),
    [
        ("age", pa.string(), CANARY),
        ("age", pa.date32(), datetime.date(2026, 1, 1)),
        ("age", pa.timestamp("us", tz="UTC"), datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)),
        ("age", pa.list_(pa.float64()), [1.0]),
        ("age", pa.struct({CANARY: pa.string()}), {CANARY: CANARY}),
        ("age", pa.dictionary(pa.int32(), pa.string()), CANARY),
        ("female", pa.float64(), 4711.0),
        ("female", pa.binary(), CANARY.encode()),
        ("person", pa.float64(), 4711.0),
        ("person", pa.bool_(), True),
    ],
    ids=str,
)
def test_a_wrong_storage_type_is_named(tmp_path: Path, column: str, kind: pa.DataType, value: Any) -> None:
    pq.write_table(table([row | {column: value} for row in ROWS], **{column: kind}), tmp_path / "t.parquet")
    message = refusal(tmp_path / "t.parquet")
    assert f"column {column} is stored as " in message
    assert "Store it as " in message


def test_files_of_one_table_agree_on_types(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", ROWS)
    write(tmp_path / "b.parquet", [row | {"age": 40} for row in ROWS], age=pa.int32())
    assert "column age is float in one file and integer in another" in refusal(tmp_path)


def test_a_column_without_any_value_fits_every_type(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", ROWS)
    write(tmp_path / "b.parquet", [dict.fromkeys(row) for row in ROWS], **dict.fromkeys(TYPES, pa.null()))
    check_shape(source(tmp_path))
    assert read_statistics(source(tmp_path, None), STATISTIC, key=KEY).statistics.rows == 400


def test_a_second_file_is_looked_at_too(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", ROWS)
    pq.write_table(table(ROWS).drop_columns(["region"]), tmp_path / "b.parquet")
    assert "column region is missing" in refusal(tmp_path)


def test_a_folder_holds_parquet_files_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "wages"
    folder.mkdir()
    assert "holds no file of a table" in refusal(folder)
    write(folder / "a.parquet", ROWS)
    (folder / "_SUCCESS").touch()
    (folder / ".part.crc").write_bytes(b"anything")
    check_shape(source(folder))
    (folder / "notes.txt").write_text(CANARY)
    assert "not readable as Parquet" in refusal(folder)
    (folder / "notes.txt").unlink()
    (folder / f"region={CANARY}").mkdir()
    assert "holds another folder" in refusal(folder)


@pytest.mark.parametrize("content", [b"", b"PAR1", CANARY.encode() * 100, b"PAR1" + bytes(100) + b"PAR1"], ids=len)
def test_a_file_that_is_not_parquet_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.parquet").write_bytes(content)
    assert "not readable as Parquet" in refusal(tmp_path / "t.parquet")


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.9, 0.99])
def test_a_cut_file_is_refused(tmp_path: Path, share: float) -> None:
    path = write(tmp_path / "t.parquet", ROWS)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    assert "not readable as Parquet" in refusal(path)


def test_a_damaged_page_is_a_matter_of_shape(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", [row | {"region": CANARY} for row in ROWS], 50)
    content = bytearray(path.read_bytes())
    column = pq.read_metadata(path).row_group(2).column(1)
    start = column.dictionary_page_offset or column.data_page_offset
    content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(content)
    check_shape(source(path))  # footers alone
    with pytest.raises(ShapeMismatch) as caught:
        read_statistics(source(path), STATISTIC, key=KEY)
    assert str(caught.value) == (
        "cannot read table t.parquet: the content of a file is damaged. Write the table again."
    )
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
