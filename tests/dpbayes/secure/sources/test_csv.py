"""CSV: typed by the study, every row total; header, encoding and quotes that never close are shape."""

import csv
import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbayes.study.table_source import TableSource
from dpbayes_core.errors import ShapeMismatch
from tests.dpbayes.secure.sources.cases import CANARY, RULES, refusal, rows_of, source

HEADER = b"person,x,born,level\n"


def read(folder: Path, content: bytes, name: str = "t.csv") -> list[tuple[object, ...]]:
    (folder / name).write_bytes(content)
    return rows_of(source(folder / name))


def test_numbers_dates_levels_and_people_are_read_as_declared(tmp_path: Path) -> None:
    body = b'7,1.5,1970-01-02,n\n"8",2e0,1969-12-31,"s"\n'
    assert read(tmp_path, HEADER + body) == [("7", 1.5, 1.0, "n"), ("8", 2.0, -1.0, "s")]


def test_nothing_is_null_and_quoted_nothing_is_text(tmp_path: Path) -> None:
    assert read(tmp_path, HEADER + b',,,\n"","","",""\n') == [(None, None, None, None), ("", None, None, "")]


def test_what_is_no_number_or_date_is_not_a_number(tmp_path: Path) -> None:
    body = b"a,ten,1970-02-30,n\nb,1_0,yesterday,n\nc,0x1,10,n\n"
    assert read(tmp_path, HEADER + body) == [(name, "NaN", "NaN", "n") for name in "abc"]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (b"a", ("a", None, None, None)),
        (b"a,1", ("a", 1.0, None, None)),
        (b"a,1,1970-01-01,n,more,and more", ("a", 1.0, 0.0, "n")),
        (b'a,1,1970-01-01,"n"x', ("a", 1.0, 0.0, "nx")),
        (b'a"b,1,1970-01-01,n', ('a"b', 1.0, 0.0, "n")),
        (b'"a""b",1,1970-01-01,n', ('a"b', 1.0, 0.0, "n")),
        (b'"a\r\nb\n,c",1,1970-01-01,n', ("a\r\nb\n,c", 1.0, 0.0, "n")),
        (b" a , 1 , 1970-01-01 , n ", (" a ", 1.0, 0.0, " n ")),
        (b"a\x00b,1,1970-01-01,n", ("a\x00b", 1.0, 0.0, "n")),
        (",1,1970-01-01,Łódź".encode(), (None, 1.0, 0.0, "Łódź")),
    ],
    ids=repr,
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r", b""], ids=repr)
def test_a_row_is_one_row_whatever_it_holds(
    tmp_path: Path, row: bytes, expected: tuple[object, ...], end: bytes
) -> None:
    before, after = ("first", 0.0, 0.0, "s"), ("last", 9.0, 0.0, "s")
    body = b"first,0,1970-01-01,s" + (end or b"\n") + row + (end or b"\n") + b"last,9,1970-01-01,s" + end
    assert read(tmp_path, HEADER + body) == [before, expected, after]


def test_empty_lines_are_no_rows(tmp_path: Path) -> None:
    assert read(tmp_path, b"\r\n\n" + HEADER + b"\n\r\n\na,1,1970-01-01,n\n\n") == [("a", 1.0, 0.0, "n")]
    assert read(tmp_path, HEADER) == []
    assert read(tmp_path, HEADER.rstrip()) == []


def test_bytes_that_are_no_utf8_stop_nothing(tmp_path: Path) -> None:
    import pyarrow as pa

    from dpbayes.secure.sources.open_source import lay_out

    (tmp_path / "t.csv").write_bytes(HEADER + b"\xff,\xfe,\xfd,\xc3\n")
    (batch,) = lay_out(source(tmp_path / "t.csv")).batches()
    table = batch.read(("person", "x", "born", "level"))
    assert table.column("person").chunk(0).view(pa.large_binary()).to_pylist() == [b"\xff"]
    assert [str(table.column(name)[0]) for name in ("x", "born")] == ["nan", "nan"]


def test_the_delimiter_follows_the_name(tmp_path: Path) -> None:
    body = HEADER.replace(b",", b"\t") + b"a,b\t1\t1970-01-01\tn\n"
    expected = [("a,b", 1.0, 0.0, "n")]
    assert read(tmp_path, body, "t.tsv") == expected
    assert read(tmp_path, gzip.compress(body), "t.TSV.GZ") == expected


def test_a_mark_of_utf8_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbf" + HEADER + b"a,1,1970-01-01,n\n") == [("a", 1.0, 0.0, "n")]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf"], ids=repr)
def test_a_file_without_a_header_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    assert "has no header" in refusal(source(tmp_path / "t.csv"))


@pytest.mark.parametrize(
    "content",
    [HEADER.decode().encode("utf-16"), b"person,x,born,level,\xff\n", b"\xff\xfe\x00"],
    ids=["UTF-16", "Latin-1", "binary"],
)
def test_a_header_that_is_no_utf8_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    assert "not readable as CSV in UTF-8" in refusal(source(tmp_path / "t.csv"))


def test_a_missing_or_repeated_column_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(f"person,x,level,{CANARY}\n".encode())
    assert "column born is missing" in refusal(source(tmp_path / "t.csv"))
    (tmp_path / "t.csv").write_bytes(b"person,x,born,level,x\n")
    assert "column x occurs more than once" in refusal(source(tmp_path / "t.csv"))


def test_files_of_two_formats_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.csv").write_bytes(HEADER)
    (tmp_path / "t" / "b.parquet").write_bytes(b"PAR1")
    assert "some of its files are CSV" in refusal(source(tmp_path / "t"))


def test_a_quote_that_never_closes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.csv").write_bytes(HEADER + f'a,1,,n\n"{CANARY},1,,n\n'.encode() * 3)
    assert "a quote in a file of it is never closed" in refusal(source(tmp_path / "t.csv"), reading=True)
    monkeypatch.setattr("dpbayes.secure.sources.csv.CHUNK", 16)
    monkeypatch.setattr("dpbayes.secure.sources.csv.LONGEST_ROW", 100)
    (tmp_path / "t.csv").write_bytes(HEADER + f'"{CANARY}'.encode() + b"x" * 1000 + b'",1,,n\n')
    assert "a quote in a file of it is never closed" in refusal(source(tmp_path / "t.csv"), reading=True)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.99])
def test_a_cut_or_damaged_archive_is_refused(tmp_path: Path, share: float) -> None:
    path = tmp_path / "t.csv.gz"
    content = gzip.compress(HEADER + b"".join(b"%d,%d,,n\n" % (place, place * 7919 % 997) for place in range(20_000)))
    path.write_bytes(content[: int(len(content) * share)])
    message = refusal(source(path), reading=True)
    assert "content of a file is damaged" in message or "not readable as CSV" in message
    path.write_bytes(content[:-8] + b"\x00" * 8)
    assert "damaged" in refusal(source(path), reading=True)


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv.gz").write_bytes(HEADER)
    assert "not readable as CSV" in refusal(source(tmp_path / "t.csv.gz"))


FIELDS = st.one_of(
    st.none(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.sampled_from(['"', '""', ",", "\n", "\r\n", "\r", " ", "x", "\\", "'", "1", "nan"]),
)
ROWS = st.lists(st.lists(FIELDS, min_size=0, max_size=6), max_size=8)


@settings(max_examples=80, deadline=None)
@given(rows=ROWS, size=st.integers(1, 40), quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]))
def test_whatever_a_writer_writes_comes_back_row_by_row(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str | None]], size: int, quoting: int
) -> None:
    """Of the standard library's writer; a row more or fewer fields long than the header included."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=quoting)
    writer.writerow(["a", "b", "level"])
    kept = [row or ["x"] for row in rows]
    writer.writerows(kept)
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_bytes(text.getvalue().encode())
    table = TableSource(path=str(path), columns=(RULES[2],), unit="b")
    read: list[tuple[str | None, str | None]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpbayes.secure.sources.csv.CHUNK", size)
        from dpbayes.secure.sources.open_source import lay_out

        for batch in lay_out(table).batches():
            columns = batch.read(("b", "level")).to_pydict()
            read += zip(columns["b"], columns["level"], strict=True)

    def plain(row: list[str | None], place: int) -> str:
        return (row[place] or "") if place < len(row) else ""

    assert [(b or "", level or "") for b, level in read] == [(plain(row, 1), plain(row, 2)) for row in kept]


@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=200) | st.text('a1,"\n\r\t ', max_size=60).map(str.encode), size=st.integers(1, 50))
def test_any_bytes_below_a_header_are_refused_by_shape_or_read_alike_in_pieces(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, size: int
) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    path.write_bytes(b"person,level\n" + content)
    table = TableSource(path=str(path), columns=(RULES[2],), unit="person")

    def outcome() -> list[tuple[object, object]] | str:
        import pyarrow as pa

        from dpbayes.secure.sources.open_source import lay_out

        rows: list[tuple[object, object]] = []
        try:
            for batch in lay_out(table).batches():
                read = batch.read(("person", "level"))
                pairs = [column.chunk(0).view(pa.large_binary()).to_pylist() for column in read.columns]
                rows += zip(*pairs, strict=True)
        except ShapeMismatch as refused:
            return str(refused)
        return rows

    whole = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpbayes.secure.sources.csv.CHUNK", size)
        assert outcome() == whole
    assert not isinstance(whole, str) or "never closed" in whole
