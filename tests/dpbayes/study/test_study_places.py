"""Paths, URLs, queries and dates of a study: what is read, and what is refused because studies are published."""

from pathlib import Path

import pytest

from dpbayes.study.load import load_study
from dpbayes.study.study import Study
from dpbayes.study.table_source import Query
from dpbayes_core.bounds import Bounds
from dpbayes_core.errors import StudyInvalid
from tests.support.desk import STUDY

PATH = 'path: "data/pay-{period}.parquet"'
AGE = "age: {bounds: [16, 80]}"
URL = "postgresql://reader@host/people"
QUERY = "select * from pay where month = :period"


def load(folder: Path, old: str, new: str) -> Study:
    assert old in STUDY
    path = folder / "study.yaml"
    path.write_text(STUDY.replace(old, new))
    return load_study(path)


def refusal(folder: Path, old: str, new: str) -> str:
    with pytest.raises(StudyInvalid) as caught:
        load(folder, old, new)
    return str(caught.value)


def place(url: str = URL, query: str = QUERY) -> str:
    return f"url: '{url}', query: \"{query}\""


@pytest.mark.parametrize(
    "path",
    ["data/{period}/*.parquet", "data/{period}", "{period}.csv", "s3://bucket/{period}/**", "file:///x/{period}.tsv"],
)
def test_every_kind_of_path_is_read(tmp_path: Path, path: str) -> None:
    table = load(tmp_path, PATH, f'path: "{path}"').table("pay-regression", "2026-01")
    filled = path.replace("{period}", "2026-01")
    assert table.paths == (filled if "://" in path else str(tmp_path / filled),)


def test_a_list_of_paths_is_read_and_named_in_the_definition(tmp_path: Path) -> None:
    study = load(tmp_path, PATH, 'path: ["a-{period}.csv", "b-{period}.csv"]')
    assert study.table("pay-regression", "2026-01").paths == (
        str(tmp_path / "a-2026-01.csv"),
        str(tmp_path / "b-2026-01.csv"),
    )
    definition = study.request("pay-regression", "2026-01").definition["source"]
    assert definition["path"] == ["a-{period}.csv", "b-{period}.csv"]


def test_one_path_keeps_its_definition(tmp_path: Path) -> None:
    one = load(tmp_path, PATH, PATH).request("pay-regression", "2026-01")
    listed = load(tmp_path, PATH, 'path: ["data/pay-{period}.parquet"]').request("pay-regression", "2026-01")
    assert one.definition["source"] == {
        "max_rows_per_unit": 1,
        "path": "data/pay-{period}.parquet",
        "unit": "person",
    }
    assert one.hash == listed.hash


def test_a_query_is_read_and_named_in_the_definition(tmp_path: Path) -> None:
    study = load(tmp_path, PATH, place())
    table = study.table("pay-regression", "2026-01")
    assert (table.paths, table.query) == ((), Query(url=URL, text=QUERY, period="2026-01"))
    definition = study.request("pay-regression", "2026-01").definition["source"]
    assert definition == {"max_rows_per_unit": 1, "query": QUERY, "unit": "person", "url": URL}


def test_a_database_file_stands_beside_the_study(tmp_path: Path) -> None:
    for url, path in (("sqlite:///people.db", tmp_path / "people.db"), ("sqlite:////x/people.db", "/x/people.db")):
        query = load(tmp_path, PATH, place(url)).table("pay-regression", "2026-01").query
        assert query is not None
        assert query.url == f"sqlite:///{path}"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('path: "s3://key:hunter2@bucket/{period}"', "holds a password, and study files are published"),
        ('path: "https://host/{period}.csv?X-Amz-Signature=hunter2"', "X-Amz-Signature may be a secret"),
        ('path: "abfs://host/{period}?sas_token=hunter2"', "sas_token may be a secret"),
        ('path: "simplecache::s3://bucket/{period}"', "URLs are chained"),
        ('path: ["a-{period}", "b"]', "there is no {period} in it"),
        ("path: []", "it is empty"),
        (place("postgresql://reader:hunter2@host/people"), "holds a password, and study files are published"),
        (place("postgresql://host/people?password=hunter2"), "password may be a secret"),
        (place("postgresql://host/people?sslkey=hunter2"), "sslkey may be a secret"),
        (place("mysql://host/people"), "no address of a PostgreSQL or SQLite database"),
        (place("people.db"), "no address of a PostgreSQL or SQLite database"),
        (place("sqlite:///{period}.db"), "it has braces"),
        (place("postgresql://[host/people"), "it is no URL"),
        (f"{PATH}, url: '{URL}'", "path, url are given together"),
        (f"url: '{URL}'", "a database is read by a query"),
        (f"{PATH}, query: '{QUERY}'", "a query needs a database"),
        (f"query: '{QUERY}'", "the place of the table is missing"),
        (place(query="select * from pay"), "it does not say which period"),
        (place(query="select * from pay where month = ':period'"), "the period is in quotes"),
        (place(query="select * from pay where month = ' {period} '"), "the period is in quotes"),
        (place(query="select ' :30', {period}"), "nothing is known to fill in :30"),
        (place(query="select :period where x = :other"), "nothing is known to fill in :other"),
        (place(query="select {table} where x = :period"), "braces other than {period}"),
        (place(query="  "), "it is empty"),
    ],
)
def test_what_is_wrong_with_a_place_is_said(tmp_path: Path, source: str, said: str) -> None:
    message = refusal(tmp_path, PATH, source)
    assert said in message
    assert "line 3, source" in message
    assert "hunter2" not in message


def test_casts_and_other_colons_of_sql_are_no_parameters(tmp_path: Path) -> None:
    load(tmp_path, PATH, place(query="select x::int, a[1:2], '\\\\:b' from t where month = {period}"))


def test_bounds_may_be_dates(tmp_path: Path) -> None:
    study = load(tmp_path, AGE, "age: {bounds: [1969-12-31, 1970-01-11], nulls: 1970-01-01}")
    rule = next(rule for rule in study.table("pay-regression", "2026-01").columns if rule.name == "age")
    assert (rule.bounds, rule.null_value, rule.measure) == (Bounds(-1, 10), 0.0, "date")
    assert Bounds(-1, 10) == rule.bounds
    assert hash(rule.bounds) == hash(Bounds(-1, 10))
    definition = study.request("pay-regression", "2026-01").definition["columns"]["age"]
    assert definition == {"bounds": [-1.0, 10.0], "nulls": 0.0, "measure": "date"}


def test_guesses_about_dates_are_dates(tmp_path: Path) -> None:
    study = load(tmp_path, AGE, "age: {bounds: [1950-01-01, 2026-12-31], expect: {mean: 1990-01-01, sd: 3650}}")
    guess = study.columns["age"].expect
    assert guess is not None
    assert guess.mean == 7305  # days since 1970-01-01


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("{bounds: [1950-01-01, 80]}", "text, not a number"),
        ("{bounds: [1950-02-30, 2026-01-01]}", "1950-02-30 is no day of the calendar"),
        ("{bounds: [2026-01-01, 1950-01-01]}", "low is above high"),
        ("{bounds: [1950-01-01, 2026-01-01], nulls: 1980}", "the bounds are dates and this is none"),
        ("{bounds: [16, 80], nulls: 1970-02-01}", "this is a date and the bounds are none"),
        ("{bounds: [1950-01-01, 2026-01-01], nulls: 2030-01-01}", "is outside the bounds"),
        ("{bounds: [1950-01-01, 2026-01-01], expect: {mean: 7, sd: 1}}", "the bounds are dates and this is none"),
        ("{bounds: [50-01-01, 2026-01-01]}", "text, not a number"),
    ],
)
def test_what_is_wrong_with_dates_is_said(tmp_path: Path, column: str, said: str) -> None:
    assert said in refusal(tmp_path, AGE, f"age: {column}")
