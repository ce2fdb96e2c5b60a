"""Where a table's files are: here or behind a URL, by name, folder, pattern or list."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from dpbayes.secure.sources.files import files_of
from dpbayes.secure.sources.open_source import lay_out
from dpbayes.study.table_source import TableSource
from tests.dpbayes.secure.sources.cases import CANARY, RULES, refusal, source
from tests.support.object_store import ObjectStore

HEADER = b"person,x,born,level\n"


def names(*paths: str | Path) -> list[str]:
    table = TableSource(path=tuple(str(path) for path in paths), columns=RULES, unit=None)
    return [file.name for file in files_of(table)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.csv", "a.csv", "_SUCCESS", ".a.csv.crc", "deep/er/c.csv", "deep/_skipped.csv", "deep/d.txt"):
        path = tmp_path / "t" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(HEADER)
    return tmp_path / "t"


@pytest.fixture
def remote(folder: Path) -> Iterator[str]:
    """The same files in memory."""
    place = f"memory://{uuid.uuid4().hex}"
    system = fsspec.filesystem("memory")
    for path in folder.rglob("*"):
        if path.is_file():
            system.pipe_file(f"{place}/{path.relative_to(folder)}", path.read_bytes())
    yield place
    system.rm(place, recursive=True)


@pytest.mark.parametrize("where", ["here", "away"])
def test_files_are_found_by_name_pattern_and_list(where: str, folder: Path, remote: str) -> None:
    place = str(folder) if where == "here" else remote
    assert names(f"{place}/a.csv") == ["a.csv"]
    assert names(f"{place}/*.csv") == ["a.csv", "b.csv"]
    assert names(f"{place}/?.csv") == ["a.csv", "b.csv"]
    assert sorted(names(f"{place}/**/*.csv")) == ["a.csv", "b.csv", "c.csv"]
    assert names(f"{place}/deep/er") == ["c.csv"]
    assert names(f"{place}/b.csv", f"{place}/deep/er/c.csv") == ["b.csv", "c.csv"]
    assert names(f"{place}/a.csv", f"{place}/*.csv") == ["a.csv", "b.csv"]  # each file once


@pytest.mark.parametrize("where", ["here", "away"])
def test_what_is_not_there_is_refused_without_its_folders(where: str, folder: Path, remote: str) -> None:
    place = str(folder) if where == "here" else remote
    assert "no such file or folder" in refusal(source(f"{place}/absent-{1}.csv"))
    assert "no file matches the pattern" in refusal(source(f"{place}/*.parquet"))
    message = refusal(source(place))
    assert "holds another folder" in message
    assert str(folder.parent) not in message
    (folder / "empty").mkdir()
    assert "holds no file of a table" in refusal(source(folder / "empty"))


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "a*.csv").write_bytes(HEADER)
    (tmp_path / "ab.csv").write_bytes(HEADER)
    assert names(tmp_path / "a*.csv") == ["a*.csv"]


@pytest.mark.parametrize("url", [f"nothing-opens-this://{CANARY}/t.csv", "abfs://bucket/t.csv"])
def test_a_url_that_nothing_opens_is_refused_plainly(url: str) -> None:
    message = refusal(source(url))
    assert "nothing here opens such a URL" in message


def test_a_replaced_file_has_another_identity(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(HEADER)
    before = files_of(source(path))[0].identity
    assert files_of(source(path))[0].identity == before
    os.utime(path, ns=(5, 5))
    assert files_of(source(path))[0].identity != before


def test_a_replaced_object_has_another_identity(object_store: ObjectStore) -> None:
    place = f"{object_store.new_bucket()}/t.csv"
    system = fsspec.filesystem("s3")
    identities = []
    for content in (b"1,2\n", b"1,3\n", b"1,3\n"):
        system.pipe_file(place, HEADER + content)
        identities.append(files_of(source(place))[0].identity)
    assert identities[0] != identities[1] == identities[2]


@pytest.mark.slow
def test_a_table_on_an_object_store_that_does_not_answer_is_refused_plainly(mortal_object_store: ObjectStore) -> None:
    place = f"{mortal_object_store.new_bucket()}/t.csv"
    mortal_object_store.go_away()
    for path in (place, f"{place.removesuffix('/t.csv')}/*.csv"):
        assert "its place does not answer. Check the URL, the network and the cred" in refusal(source(path))


def test_a_stream_starts_over(folder: Path) -> None:
    assert lay_out(source(folder / "a.csv")).identity is None
