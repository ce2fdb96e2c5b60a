"""`dpbayes check --source` compares every kind of table with its declaration, and a release reads it."""

import sqlite3
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.support.desk import PERIOD, STUDY, Desk, people
from tests.support.postgres import Server

PATH = 'path: "data/pay-{period}.parquet"'
QUERY = "select * from pay where month = :period"


def table() -> pa.Table:
    return pa.table(people(300))


def parquet_folder(desk: Desk) -> str:
    folder = desk.folder / "data" / PERIOD
    folder.mkdir(parents=True)
    for part in range(2):
        pq.write_table(table()[part * 150 : (part + 1) * 150], folder / f"{part}.parquet")
    return 'path: "data/{period}"'


def pattern(desk: Desk) -> str:
    parquet_folder(desk)
    return 'path: "data/{period}/*.parquet"'


def delimited(desk: Desk) -> str:
    (desk.folder / "data").mkdir()
    pa.csv.write_csv(table(), desk.folder / "data" / f"pay-{PERIOD}.csv")
    return 'path: "data/pay-{period}.csv"'


def url(desk: Desk) -> str:
    delimited(desk)
    return f'path: "file://{desk.folder}/data/pay-{{period}}.csv"'


def several(desk: Desk) -> str:
    parquet_folder(desk)
    return 'path: ["data/{period}/0.parquet", "data/{period}/1.parquet"]'


def query(desk: Desk) -> str:
    connection = sqlite3.connect(desk.folder / "people.db")
    connection.execute("CREATE TABLE pay (month, person, pay, age, female, region)")
    rows = zip(*people(300).values(), strict=True)
    plain = [[value.item() if isinstance(value, np.generic) else value for value in row] for row in rows]
    connection.executemany(f"INSERT INTO pay VALUES ('{PERIOD}', ?, ?, ?, ?, ?)", plain)
    connection.commit()
    connection.close()
    return f'url: "sqlite:///people.db", query: "{QUERY}"'


WAYS = (parquet_folder, pattern, delimited, url, several, query)


def desk_of(folder: Path, way: object) -> Desk:
    desk = Desk(folder)
    desk.study.write_text(STUDY.replace(PATH, way(desk)))  # type: ignore[operator]
    return desk


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_kind_of_table_is_checked_by_its_shape(tmp_path: Path, way: object) -> None:
    desk = desk_of(tmp_path, way)
    document = desk.document("check", desk.study, "--source", "--period", PERIOD)
    assert document["source"]
    missing = desk.run("check", desk.study, "--source", "--period", "2026-02")
    if way is query:
        assert missing.exit_code == 0  # a query that answers with no row has its columns all the same
    else:
        assert missing.exit_code == 4


def test_a_table_on_postgresql_is_checked(tmp_path: Path, postgresql: Server) -> None:
    address = postgresql.new_database()
    with postgresql.connect(address.rpartition("/")[2]) as connection:
        columns = "month text, person text, pay float8, age float8, female text, region text"
        connection.execute(f"CREATE TABLE pay ({columns})")
    desk = Desk(tmp_path)
    desk.study.write_text(STUDY.replace(PATH, f'url: "{address}", query: "{QUERY}"'))
    assert desk.document("check", desk.study, "--source", "--period", PERIOD)["source"] == address
    desk.edit_study("age: {bounds: [16, 80]}", "age: {bounds: [1950-01-01, 2010-12-31]}")
    refused = desk.document("check", desk.study, "--source", "--period", PERIOD, exit_code=4)
    assert "column age is stored as float8. Store it as date." in refused["error"]["message"]


def test_a_wrong_shape_is_refused_in_a_sentence(tmp_path: Path) -> None:
    desk = desk_of(tmp_path, delimited)
    desk.edit_study("region: {levels", "area: {levels")
    desk.edit_study("[age, female, region]", "[age, female, area]")
    refused = desk.document("check", desk.study, "--source", "--period", PERIOD, exit_code=4)
    assert refused["error"]["message"].startswith(f"cannot read table pay-{PERIOD}.csv: column area is missing.")


@pytest.mark.slow
@pytest.mark.parametrize("way", [delimited, pattern, query], ids=lambda way: way.__name__)
def test_a_release_reads_every_kind_of_table(tmp_path: Path, way: object) -> None:
    desk = desk_of(tmp_path, way)
    assert desk.run("ledger", "create", desk.study).exit_code == 0
    assert desk.release()["releases"][0]["status"] == "released"


FILTERED = "select * from pay where month = :period and region = 'north'"


@pytest.mark.slow
def test_a_query_that_filters_is_said_to_publish_how_many_meet_it(tmp_path: Path, prefect_home: Path) -> None:
    desk = desk_of(tmp_path, query)
    desk.edit_study(QUERY, FILTERED)
    assert desk.run("ledger", "create", desk.study).exit_code == 0
    commands = (("check", desk.study), ("plan", desk.study), ("inspect", desk.study, "--period", PERIOD))
    for command in commands:
        assert "how many people the query finds is published as it is" in desk.run(*command).output
        assert "whether somebody does is not protected" in desk.document(*command)["public_count"]
    assert desk.run("plan", desk.study, "--html", tmp_path / "plan.html").exit_code == 0
    assert "How many people the query finds is published as it is" in (tmp_path / "plan.html").read_text()


@pytest.mark.parametrize(
    ("old", "new"),
    [("neighbours: replace-one", "neighbours: add-remove"), ("unit: person", "unit: person, max_rows_per_unit: 3")],
)
def test_a_count_that_gets_noise_is_not_said_to_be_public(tmp_path: Path, old: str, new: str) -> None:
    desk = desk_of(tmp_path, query)
    assert desk.document("check", desk.study)["public_count"] is not None
    desk.edit_study(old, new)
    assert desk.document("check", desk.study)["public_count"] is None
    assert "without noise" not in desk.run("check", desk.study).output
