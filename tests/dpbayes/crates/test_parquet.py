"""Parquet files are a function of their numbers, and give every bit of them back."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbayes.crates.parquet import draws_parquet, noisy_parquet, read_draws, read_noisy
from dpbayes.crates.release import released
from dpbayes.kinds.registry import texts_of
from dpbayes.kinds.regression.texts import CONSTANT
from dpbayes_core.errors import IntegrityFailure
from tests.dpbayes.crates.crate_examples import SCHEMA, posterior_draws, small_entry


def test_noisy_statistics_come_back_bit_for_bit(tmp_path: Path) -> None:
    release = released(small_entry(tmp_path))
    told = texts_of(release).lines(release)
    lines = read_noisy(noisy_parquet(told))
    assert lines == told
    assert [(line["row"], line["column"]) for line in lines] == list(SCHEMA.entries)
    assert [line["value"] for line in lines] == list(release.values)
    assert [line["scale"] for line in lines] == release.mechanism.scales.tolist()


def test_noisy_statistics_are_labelled_by_what_was_multiplied(tmp_path: Path) -> None:
    release = released(small_entry(tmp_path))
    lines = read_noisy(noisy_parquet(texts_of(release).lines(release)))
    labels = {(line["label_row"], line["label_column"]) for line in lines}
    assert (CONSTANT, "age") in labels
    assert ("region[south]", "log_wage") in labels
    assert ("region[south]", "region[east]") not in labels, "never released: it is zero"


def test_draws_come_back_bit_for_bit() -> None:
    draws = posterior_draws()
    again = read_draws(draws_parquet(draws))
    assert list(again) == list(draws)
    assert all(np.array_equal(again[name], draws[name]) for name in draws)


def test_the_same_numbers_give_the_same_bytes() -> None:
    draws = posterior_draws(3)
    transposed = {name: np.ascontiguousarray(values.T).T for name, values in draws.items()}
    assert draws_parquet(draws) == draws_parquet(draws) == draws_parquet(transposed)
    changed = {name: values.copy() for name, values in draws.items()}
    changed["age"][0, 0] = np.nextafter(changed["age"][0, 0], 1)
    assert draws_parquet(changed) != draws_parquet(draws)


def test_a_file_says_nothing_of_when_or_where_it_was_written() -> None:
    metadata = pq.read_metadata(pa.BufferReader(draws_parquet(posterior_draws())))
    assert metadata.created_by == f"parquet-cpp-arrow version {pa.__version__}"
    assert set(metadata.metadata or {}) <= {b"ARROW:schema"}
    assert metadata.num_row_groups == 1


def test_draws_of_several_shapes_or_reserved_names_are_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        draws_parquet({"a": np.zeros((2, 3)), "b": np.zeros((2, 4))})
    with pytest.raises(ValueError, match="one shape"):
        draws_parquet({"chain": np.zeros((2, 3))})


def test_a_damaged_file_is_an_integrity_failure_and_quotes_nothing() -> None:
    with pytest.raises(IntegrityFailure, match="not whole Parquet"):
        read_draws(b"PAR1 secret PAR1")
    with pytest.raises(IntegrityFailure, match="do not lead"):
        read_draws(noisy_bytes())


def noisy_bytes() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"draw": [0], "chain": [0]}), sink, compression="none", use_dictionary=False)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("repeated", [0.0, 1, "x" * 100_000])
def test_lines_that_have_no_place_in_the_file_are_not_read(repeated: Any) -> None:
    """A dictionary, or a run, says one value many times: its footer tells, and nothing is unpacked."""
    sink = pa.BufferOutputStream()
    one = pa.array([repeated])
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1 << 20, dtype=np.int32)), one)
    pq.write_table(pa.table({"chain": column}), sink, compression="none", store_schema=False)
    data = sink.getvalue().to_pybytes()
    assert len(data) < 1 << 18
    for read in (read_noisy, read_draws):
        with pytest.raises(IntegrityFailure, match="packed as dpbayes packs none"):
            read(data)


@pytest.mark.slow
def test_text_that_a_short_file_repeats_is_read_no_further_than_the_file_is_long() -> None:
    """The footer says that every value has its place; a page's own encoding says otherwise."""
    sink = pa.BufferOutputStream()
    table = pa.table({"entry": pa.array(["x" * 100_000] * 2000)})
    pq.write_table(table, sink, compression="none", use_dictionary=False, column_encoding={"entry": "DELTA_BYTE_ARRAY"})
    data = sink.getvalue().to_pybytes()
    assert len(data) < 1 << 18
    with pytest.raises(IntegrityFailure, match="packed as dpbayes packs none"):
        read_noisy(data)
