"""No digest of the table, of a column or of the exact sums is published: whoever guessed them could check the guess."""

import hashlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dpbayes.secure.read_table import read_statistics
from dpbayes.study.load import load_study
from dpbayes_core.canonical import canonical_json
from storage.home.home import Home
from tests.support.canaries import cells, finds
from tests.support.desk import PERIOD, Desk, people
from tests.support.killed import release_alone

ALGORITHMS = ("md5", "sha1", "sha256", "sha512", "sha3_256", "blake2b", "blake2s")
CONFIDENTIAL = ("vault", "keys")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    desk = Desk.set_up(tmp_path_factory.mktemp("desk"))
    release_alone(str(desk.study), PERIOD)
    return desk


def secrets(desk: Desk) -> Iterator[bytes]:
    """What somebody might hash of the confidential side."""
    yield desk.table().read_bytes()
    yield from (np.array(column).tobytes() for column in people().values())
    yield from (repr(column).encode() for column in people().values())
    study, home = load_study(desk.study), Home.find(desk.study)
    table = study.table("pay-regression", PERIOD)
    done = read_statistics(table, study.design("pay-regression").statistic(), key=home.contribution_key())
    yield canonical_json([str(total) for total in done.statistics.sums])
    yield canonical_json(list(done.statistics.sums))
    yield canonical_json(done.profile.to_record())


def needles(desk: Desk) -> list[bytes]:
    digests = [hashlib.new(name, secret).digest() for secret in secrets(desk) for name in ALGORITHMS]
    return [*digests, *(digest.hex().encode() for digest in digests)]


def published(desk: Desk) -> Iterator[tuple[str, bytes]]:
    for path in sorted(desk.home.rglob("*")):
        if path.is_file() and path.relative_to(desk.home).parts[0] not in CONFIDENTIAL:
            yield path.name, path.read_bytes()
    yield from cells(desk.home / "ledger.db")


@pytest.mark.slow
def test_no_digest_of_confidential_data_is_published(desk: Desk) -> None:
    wanted = needles(desk)
    assert len(wanted) > 100
    found = [name for name, data in published(desk) if finds(data, wanted)]
    assert found == []
    names = {name for name, _ in published(desk)}
    assert {"release.json", "000000003.json", "entry"} <= names


def test_the_search_would_find_one(desk: Desk, tmp_path: Path) -> None:
    wanted = needles(desk)
    for digest in (wanted[3].hex().upper().encode(), wanted[-1]):
        assert finds(b"digest: " + digest, wanted)
    with sqlite3.connect(tmp_path / "x.db") as database:
        database.execute("CREATE TABLE t (a)")
        database.execute("INSERT INTO t VALUES (?)", (wanted[-1].decode(),))
    database.close()
    assert any(finds(cell, wanted) for _, cell in cells(tmp_path / "x.db"))
