"""What is sent to a worker is the same there, is made of our own declarations alone, and needs no pickle."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpbayes.secure.cluster.codec import decode, encode, from_bytes, to_bytes
from dpbayes.secure.sources.open_source import lay_out
from dpbayes.study.load import load_study
from dpbayes.study.table_source import TableSource
from dpbayes_core.bounds import Bounds
from dpbayes_core.errors import ShapeMismatch
from dpbayes_core.regression.holders import HolderSums
from dpbayes_core.subsample.regressions import SubsetRegressions
from dpbayes_core.subsample.schema import OpenSchema, Unbounded
from tests.support.command import ROOT
from tests.support.small_tables import RULES, STATISTIC, ordinary_rows, source, write

STUDIES = sorted((ROOT / "examples").rglob("study.yaml"))


def there(value: Any) -> Any:
    return decode(encode(value, "wages.parquet"))


@pytest.mark.parametrize(
    "value",
    [None, True, 3, -0.0, math.inf, 5e-324, 2**80, "Łódź\0", b"\xff\0", (1, (2.5,), []), {"a": (1,), 3: None}],
    ids=repr,
)
def test_plain_values_are_the_same(value: Any) -> None:
    assert repr(there(value)) == repr(value)


def test_columns_of_text_are_the_same_whatever_bytes_they_hold() -> None:
    column = pa.array([b"a", None, b"", b"\xff\xfe", "Łódź".encode()], pa.large_binary()).view(pa.large_string())
    found = there((column, column.slice(1, 2), pa.array([1.5, None])))
    assert [one.type for one in found] == [pa.large_string(), pa.large_string(), pa.float64()]
    for one, sent in zip(found, (column, column.slice(1, 2), pa.array([1.5, None])), strict=True):
        kind = sent.type if sent.type == pa.float64() else pa.large_binary()
        assert one.view(kind).to_pylist() == sent.view(kind).to_pylist()


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.parent.name)
def test_the_statistics_and_sources_of_every_example_are_the_same(study: Path) -> None:
    declared = load_study(study)
    assert declared.releases
    for name in declared.releases:
        statistic, table = declared.statistic(name), declared.table(name, "2026-01")
        found = there((statistic, table))
        assert found[1] == table
        assert type(found[0]) is type(statistic)
        assert encode(found[0], "") == encode(statistic, "")
        assert found[0].columns == statistic.columns


def test_statistics_of_holders_and_of_subsets_are_the_same() -> None:
    assert there(HolderSums(STATISTIC, "office", ("a", "b"))) == HolderSums(STATISTIC, "office", ("a", "b"))
    subsets = SubsetRegressions(OpenSchema("pay", (Unbounded("age"),)), 7)
    found = there(subsets)
    assert (found.schema, found.subsets) == (subsets.schema, subsets.subsets)
    assert np.array_equal(found.key, subsets.key)


def test_a_batch_is_read_there_as_here(tmp_path: Path) -> None:
    table = source(write(tmp_path / "t.parquet", ordinary_rows(50, 9, 1), 20))
    for batch in lay_out(table).batches():
        found = there(batch)
        assert repr(found.read(table.names).to_pydict()) == repr(batch.read(table.names).to_pydict())
        assert (found.file, found.index) == (batch.file, batch.index)
        assert b"age" not in encode(batch, "t.parquet")  # the footer, which has minima and maxima, is read there


def test_a_file_that_is_another_one_there_is_refused(tmp_path: Path) -> None:
    table = source(write(tmp_path / "t.parquet", ordinary_rows(50, 9, 1)))
    batch = next(lay_out(table).batches())
    sent = encode(batch, "t.parquet")
    write(tmp_path / "t.parquet", ordinary_rows(50, 9, 2))
    with pytest.raises(ShapeMismatch, match="a worker does not find the file that is here"):
        decode(sent)
    (tmp_path / "t.parquet").unlink()
    with pytest.raises(ShapeMismatch, match="a worker does not find the file that is here"):
        decode(sent)


@dataclass(frozen=True)
class Stranger:
    name: str


def test_nothing_is_sent_or_made_that_is_no_declaration_of_ours() -> None:
    for wrong in (Stranger("x"), Path("x"), object()):
        with pytest.raises(TypeError, match="no declaration"):
            encode(wrong, "")
    sent = from_bytes(encode(Bounds(0, 1), ""))
    text = sent["text"].tobytes()
    for module, name in (
        ("subprocess", "Popen"),
        ("dpbayes_core.bounds", "math"),
        ("dpbayes.study.load", "load_study"),
    ):
        forged = text.replace(b"dpbayes_core.bounds", module.encode()).replace(b'"Bounds"', f'"{name}"'.encode())
        assert forged != text
        with pytest.raises(TypeError, match="no declaration"):
            decode(to_bytes({"text": np.frombuffer(forged, np.uint8)}))


def test_a_source_with_all_of_its_rules_is_the_same() -> None:
    rules = tuple(replace(rule, missing=(1.5,) if rule.bounds else ("none",), stays_missing=True) for rule in RULES)
    table = TableSource(path=("a", "b"), columns=rules, unit="person", stated=("age",))
    assert there(table) == table
