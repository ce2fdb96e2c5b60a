"""What is sealed is read by the pass and its workers alone, and only as what it was sealed as."""

import numpy as np
import pytest

from dpbayes.secure.cluster import seal as seals
from dpbayes.secure.cluster.seal import LEAST, Seal, SealBroken, WorkerKey

HOME_KEY = bytes(range(32))


@pytest.fixture
def seal() -> Seal:
    return Seal.derive(HOME_KEY)


@pytest.mark.parametrize("size", [0, 1, LEAST - 8, LEAST - 7, 5000, 300_000])
def test_what_was_sealed_is_opened_again(seal: Seal, size: int) -> None:
    plain = np.random.default_rng(1).bytes(size)
    assert seal.open(seal.seal(plain, "work 7"), "work 7") == plain


def test_long_messages_are_sealed_in_frames(seal: Seal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seals, "FRAME", 1000)
    plain = np.random.default_rng(2).bytes(10_000)
    sealed = seal.seal(plain, "work 1")
    assert seal.open(sealed, "work 1") == plain
    frame = 12 + 1000 + 16
    first, second, rest = sealed[:frame], sealed[frame : 2 * frame], sealed[2 * frame :]
    for wrong in (
        second + first + rest,
        first + rest,
        first + first + rest,
        sealed + first,
        sealed[:-1],
        sealed[:frame],
    ):
        with pytest.raises(SealBroken):
            seal.open(wrong, "work 1")


@pytest.mark.parametrize("sealed", [b"", b"x", bytes(28), bytes(4124)])
def test_what_nobody_sealed_is_refused(seal: Seal, sealed: bytes) -> None:
    with pytest.raises(SealBroken):
        seal.open(sealed, "answer 1")


def test_no_message_passes_for_another_nor_for_one_of_another_pass(seal: Seal) -> None:
    sealed = seal.seal(b"sums", "answer 1")
    with pytest.raises(SealBroken):
        seal.open(sealed, "answer 2")
    with pytest.raises(SealBroken):
        Seal.derive(HOME_KEY).open(sealed, "answer 1")
    with pytest.raises(SealBroken):
        seal.open(sealed[:40] + bytes([sealed[40] ^ 1]) + sealed[41:], "answer 1")


def test_lengths_come_in_steps_so_that_they_do_not_count_rows(seal: Seal) -> None:
    lengths = {size: len(seal.seal(bytes(size), "answer 1")) for size in range(0, 200_000, 40)}
    assert all(length >= size for size, length in lengths.items())
    assert all(length <= max(1.1 * size, LEAST) + 100 for size, length in lengths.items())
    assert len(set(lengths.values())) < 120 < len(lengths)


def test_the_key_of_a_pass_is_for_the_worker_that_it_was_sent_to(seal: Seal) -> None:
    worker, other = WorkerKey(), WorkerKey()
    ring = {worker.public: seal.for_worker(worker.public)}
    found = worker.seal_from(ring)
    assert found is not None
    assert found.open(seal.seal(b"rows", "work 1"), "work 1") == b"rows"
    assert other.seal_from(ring) is None
    with pytest.raises(SealBroken):
        other.seal_from({other.public: ring[worker.public]})


def test_neither_key_is_ever_printed_or_pickled(seal: Seal) -> None:
    for secret in (seal, WorkerKey()):
        assert "withheld" in repr(secret)
        with pytest.raises(TypeError, match="confidential"):
            secret.__reduce__()
