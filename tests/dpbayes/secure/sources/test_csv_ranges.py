"""Cuts of a CSV file that are found by parts are those that a reader from the beginning makes, byte for byte."""

import random
from pathlib import Path

import numpy as np
import pytest

from dpbayes.secure.sources import csv as csv_source
from dpbayes.secure.sources import csv_ranges
from dpbayes.secure.sources.batch import BatchStream
from dpbayes.secure.sources.csv import CsvFile, CsvRange
from dpbayes.secure.sources.csv_tokens import (
    AFTER_QUOTE,
    FRESH,
    QUOTED,
    STATES,
    scan_from_each_state,
    scan_rows,
    whole_rows,
)
from dpbayes.secure.sources.open_source import lay_out
from dpbayes.study.table_source import TableSource
from tests.support.small_tables import RULES

HEADER = "person,wage,age,female,region"
ALPHABET = ['"', '""', ",", "\n", "\r\n", "\r", "a", "1.5", "Łódź", " ", '"a\n,"', "\n\n"]


def text_of(seed: int, pieces: int) -> bytes:
    """A header, then anything: quotes that open, close, double and end nowhere."""
    chosen = random.Random(seed)
    return (HEADER + "\n" + "".join(chosen.choice(ALPHABET) for _ in range(pieces))).encode()


def batches(
    path: Path, block: int, monkeypatch: pytest.MonkeyPatch, scanned: int = 60
) -> tuple[list[bytes], list[bytes]]:
    """The rows of each batch: of a reader from the beginning, and of the cuts."""
    monkeypatch.setattr(csv_source, "CHUNK", block)
    monkeypatch.setattr(csv_ranges, "SCANNED", 60)
    layout = lay_out(TableSource(path=str(path), columns=RULES, unit="person"))
    assert layout.places is not None
    whole = list(layout.batches())
    found = layout.places(lambda scans: [scan.scan() for scan in scans])
    cut = [batch for place in found for batch in (place.batches() if isinstance(place, BatchStream) else (place,))]
    assert [(one.file, one.index) for one in whole] == [(one.file, one.index) for one in cut]
    return [content(one) for one in whole], [content(one) for one in cut]


def content(batch: object) -> bytes:
    return batch._content() if isinstance(batch, CsvRange) else batch.content  # type: ignore[attr-defined]


@pytest.mark.parametrize("block", [1, 5, 31, 64, 200, 10_000])
def test_every_file_is_cut_where_a_reader_cuts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    ranges = 0
    for seed in range(40):
        text = text_of(seed, 60)
        if whole_rows(np.frombuffer(text, np.uint8), ord(","))[1]:
            text += b'"'  # else both refuse the file
        (tmp_path / "t.csv").write_bytes((b"\xef\xbb\xbf" if seed % 3 == 0 else b"") + text)
        whole, cut = batches(tmp_path / "t.csv", block, monkeypatch)
        assert whole == cut
        ranges += len(cut) > 1
    assert ranges > 20 or block > 200


@pytest.mark.parametrize("rows", ["", "\n", "\n\n", "x", "x\n", "x\ny", '"\n"', "\r"])
@pytest.mark.parametrize("block", [3, 30, 1000])
def test_short_files_are_cut_where_a_reader_cuts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: str, block: int
) -> None:
    for header in (HEADER, HEADER + "\n", "\n\r\n" + HEADER + "\n"):
        (tmp_path / "t.csv").write_bytes((header + rows).encode() if header.endswith("\n") else header.encode())
        whole, cut = batches(tmp_path / "t.csv", block, monkeypatch)
        assert whole == cut


def test_most_of_a_file_of_ordinary_rows_is_read_in_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.csv").write_text(HEADER + "\n" + "".join(f"p{n},1.5,40,no,south\n" for n in range(500)))
    monkeypatch.setattr(csv_source, "CHUNK", 1000)
    layout = lay_out(TableSource(path=str(tmp_path / "t.csv"), columns=RULES, unit="person"))
    assert layout.places is not None
    found = list(layout.places(lambda scans: [scan.scan() for scan in scans]))
    assert len(found) > 8
    assert all(isinstance(one, CsvRange) for one in found)


def test_a_row_longer_than_a_block_and_compressed_text_are_read_from_the_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").write_text(HEADER + '\np,1,40,no,"' + 5000 * "x\n" + '"\nq,1,40,no,south\n')
    monkeypatch.setattr(csv_source, "CHUNK", 1000)
    layout = lay_out(TableSource(path=str(tmp_path / "t.csv"), columns=RULES, unit="person"))
    assert layout.places is not None
    found = list(layout.places(lambda scans: [scan.scan() for scan in scans]))
    assert [type(one) for one in found] == [CsvFile]


@pytest.mark.parametrize("seed", range(5))
def test_scans_from_every_state_follow_one_another(seed: int) -> None:
    text = np.frombuffer(text_of(seed, 300), np.uint8)
    end, quoted = whole_rows(text, ord(","))
    for cut in range(0, len(text), 7):
        first_end, state = scan_rows(text[:cut], ord(","), FRESH)
        second_end, state = scan_rows(text[cut:], ord(","), state)
        assert max(first_end, cut + second_end if second_end >= 0 else -1, 0) == end
        assert (state == QUOTED) == quoted
        for part in (text[:cut], text[cut:], text[cut : cut + 5]):
            each = [scan_rows(part, ord(","), state) for state in range(STATES)]
            assert [tuple(found) for found in scan_from_each_state(part, ord(",")).tolist()] == each


def test_the_state_in_which_a_part_begins_matters() -> None:
    text = np.frombuffer(b'a\n"\nb"', np.uint8)
    ends = [scan_rows(text, ord(","), state) for state in range(STATES)]
    assert len(set(ends)) > 1
    assert ends[QUOTED] != ends[FRESH]
    assert scan_rows(np.frombuffer(b'"', np.uint8), ord(","), AFTER_QUOTE) == (-1, QUOTED)
