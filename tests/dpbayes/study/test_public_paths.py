"""A file that a study calls public is never the confidential table: not by its spelling, not by a link to it."""

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbayes.analyses.public_records import read_public_test
from dpbayes.study.load import load_study
from dpbayes.study.public_paths import names_table
from dpbayes.study.source_sections import SourceSpec
from dpbayes.study.study import Study
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.networks.schema import NetworkSchema
from dpbayes_core.regression.schema import Factor

STUDY = """\
study: net
population: staff
source: {SOURCE, rows: 400}
period: {grain: month, people: same}
columns: {sex: {levels: [f, m]}, pay: {levels: [low, high]}}
privacy: {neighbours: add-remove, budget: {lifetime: {epsilon: 8}}, delta: 1e-6}
releases: {net: {kind: bayes-net, nodes: [sex, pay], edges: {pay: [sex]}, epsilon: 0.1}}
analyses: {post: {release: net, test: {path: "TEST", target: pay}}}
"""
NETWORK = NetworkSchema((Factor("sex", ("f", "m")), Factor("pay", ("low", "high"))), {"pay": ("sex",)})
NAMED = [
    ("path: 'data/pay-{period}.parquet'", "data/pay-2026-01.parquet"),
    ("path: 'data/pay-{period}.parquet'", "data/pay-1999-12.parquet"),
    ("path: 'data/pay-{period}.parquet'", "data/pay-2026-Q1.parquet"),
    ("path: 'data/pay-{period}.parquet'", "./data/../data//pay-2026-01.parquet"),
    ("path: 'data/pay-{period}.parquet'", "HERE/data/pay-2026-01.parquet"),
    ("path: 'data/pay-{period}.parquet'", "../FOLDER/data/pay-2026-01.parquet"),
    ("path: 'data/pay-{period}.parquet'", "data/pay-{period}.parquet"),
    ("path: 'HERE/data/{period}.csv'", "data/2026-01.csv"),
    ("path: './data/{period}'", "data/2026-01/part-0.parquet"),
    ("path: 'data/{period}/'", "data/2026-01/deeper/part-0.parquet"),
    ("path: 'data/{period}/*.parquet'", "data/2026-01/part-0.parquet"),
    ("path: 'data/{period}/part-?.parquet'", "data/2026-01/part-7.parquet"),
    ("path: 'data/{period}/part-[0-9]*'", "data/2026-01/part-7.parquet"),
    ("path: 'data/{period}/**'", "data/2026-01/a/b/c.parquet"),
    ("path: 'data/**/pay-{period}.csv'", "data/pay-2026-01.csv"),
    ("path: 'data/**/pay-{period}.csv'", "data/a/b/pay-2026-01.csv"),
    ("path: ['a-{period}.csv', 'b-{period}.csv']", "b-2026-01.csv"),
    ("path: 'file://HERE/{period}.csv'", "2026-01.csv"),
    ("path: 'local://HERE/{period}*.csv'", "2026-01-x.csv"),
    ("url: 'sqlite:///people.db', query: 'select * from t where m = :period'", "people.db"),
]
OTHERS = [
    ("path: 'data/pay-{period}.parquet'", "data/pay-census.parquet"),
    ("path: 'data/pay-{period}.parquet'", "public/pay-2026-01.parquet"),
    ("path: 'data/pay-{period}.parquet'", "data/pay-2026-01.parquet.csv"),
    ("path: 'data/{period}/*.parquet'", "data/public/census.parquet"),
    ("path: '{period}'", "public/census.csv"),
    ("path: 'data/{period}-*.csv'", "data/2026-01/a-b.csv"),
    ("path: 's3://bucket/{period}/**'", "bucket/2026-01/a.csv"),
]


HOLDERS = SourceSpec.model_validate(
    {
        "rows": 400,
        "holder": {"membership": "fixed", "paths": {"n": ("n-{period}.csv",), "s": ("s/{period}", "s-{period}-*.csv")}},
    }
)


def study(folder: Path, source: str, test: str) -> Path:
    path = folder / "study.yaml"
    text = STUDY.replace("SOURCE", source).replace("TEST", test)
    path.write_text(text.replace("HERE", str(folder)).replace("FOLDER", folder.name))
    return path


@pytest.mark.parametrize(("source", "test"), NAMED)
def test_a_test_that_is_spelled_as_a_place_of_the_table_is_refused(tmp_path: Path, source: str, test: str) -> None:
    with pytest.raises(StudyInvalid, match=r"analyses\.post\.test\.path: this is a place of the confidential table"):
        load_study(study(tmp_path, source, test))


@pytest.mark.parametrize(("source", "test"), OTHERS)
def test_other_files_are_not_taken_for_the_table(tmp_path: Path, source: str, test: str) -> None:
    assert load_study(study(tmp_path, source, test)).analysis("post").test is not None


@pytest.mark.parametrize("path", ["n-2026-01.csv", "s/2026-01/one.csv", "x/../s-2026-01-east.csv"])
def test_files_of_every_holder_are_the_table(tmp_path: Path, path: str) -> None:
    assert names_table(HOLDERS, tmp_path, path)
    assert not names_table(HOLDERS, tmp_path, f"public/{path}")


def test_a_suite_that_is_spelled_as_the_table_is_refused(tmp_path: Path) -> None:
    source = "path: 'data/pay-{period}.parquet', expectations: data/pay-2026-01.parquet"
    with pytest.raises(StudyInvalid, match=r"source\.expectations: this is a place of the confidential table"):
        load_study(study(tmp_path, source, "public.csv"))


def test_a_relative_study_in_a_folder_that_looks_like_a_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a[b]*{period}"
    folder.mkdir()
    study(folder, "path: 'data/{period}.csv'", "x/../data/2026-01.csv")
    monkeypatch.chdir(folder)
    with pytest.raises(StudyInvalid, match="place of the confidential table"):
        load_study("study.yaml")


def test_a_pattern_with_many_ways_to_match_ends(tmp_path: Path) -> None:
    before = time.process_time()
    load_study(study(tmp_path, f"path: '{'a*' * 200}-{{period}}'", "a" * 400))
    assert time.process_time() - before < 10


def public(folder: Path, source: str) -> Study:
    return load_study(study(folder, source, "public.parquet"))


def records(path: Path, rows: int = 417) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"sex": ["f"] * rows, "pay": ["low"] * rows}), path)
    return path


def tried(folder: Path, source: str) -> int:
    found = public(folder, source)
    spec = found.analysis("post").test
    assert spec is not None
    return len(read_public_test(found, spec, NETWORK).records)


@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize(
    ("source", "table"),
    [
        ("path: 'data/pay-{period}.parquet'", "data/pay-1999-12.parquet"),
        ("path: 'data/{period}'", "data/2026-01/part-0.parquet"),
        ("path: 'data/**/{period}-?.parquet'", "data/a/b/2026-01-x.parquet"),
        ("path: 'data[1]/{period}.parquet'", "data[1]/2026-01.parquet"),
        ("path: 'file://HERE/data/{period}.parquet'", "data/2026-01.parquet"),
    ],
)
def test_a_link_to_a_file_of_the_table_is_refused_of_every_period(
    tmp_path: Path, link: object, source: str, table: str
) -> None:
    assert callable(link)
    link(records(tmp_path / table), tmp_path / "public.parquet")
    with pytest.raises(StudyInvalid, match="is a file of the confidential table") as caught:
        tried(tmp_path, source)
    assert "417" not in str(caught.value)


def test_a_link_to_the_folder_of_the_table_is_refused(tmp_path: Path) -> None:
    records(tmp_path / "data/2026-01.parquet")
    (tmp_path / "public").symlink_to(tmp_path / "data")
    found = load_study(study(tmp_path, "path: 'data/{period}.parquet'", "public/2026-01.parquet"))
    spec = found.analysis("post").test
    assert spec is not None
    with pytest.raises(StudyInvalid, match="is a file of the confidential table"):
        read_public_test(found, spec, NETWORK)


def test_a_public_file_is_read_while_what_is_near_it_went_away(tmp_path: Path) -> None:
    records(tmp_path / "data/2026-01/part-1.parquet")
    (tmp_path / "data/2026-01/part-0.parquet").symlink_to(tmp_path / "gone")
    records(tmp_path / "public.parquet", 20)
    assert tried(tmp_path, "path: 'data/{period}'") == 20
    (tmp_path / "public.parquet").unlink()
    os.link(tmp_path / "data/2026-01/part-1.parquet", tmp_path / "public.parquet")
    with pytest.raises(StudyInvalid, match="is a file of the confidential table"):
        tried(tmp_path, "path: 'data/{period}'")
    (tmp_path / "public.parquet").unlink()
    with pytest.raises(StudyInvalid, match="is not there, or too large"):
        tried(tmp_path, "path: 'data/{period}'")
