"""A replay tells the same draws, draws of the same law, and draws of another."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.codecs import draws_parquet, read_draws
from storage.crate_files import load
from storage.replay import replayed
from tests.storage.crate_examples import Floats

GOLDEN = Path(__file__).parents[1] / "golden" / "posterior-1"  # of the naive sampler, quick to draw again


@pytest.fixture
def files() -> dict[str, bytes]:
    return load(GOLDEN)


def altered(files: dict[str, bytes], change: Callable[[Floats], Floats]) -> dict[str, bytes]:
    """The crate with other draws of one coefficient."""
    draws = read_draws(files["draws.parquet"])
    return {**files, "draws.parquet": draws_parquet({**draws, "age": change(draws["age"])})}


def test_an_old_posterior_is_drawn_again(files: dict[str, bytes]) -> None:
    assert replayed(files).ok


def test_draws_of_another_seed_agree_within_monte_carlo_error(files: dict[str, bytes]) -> None:
    record = json.loads(files["posterior.json"])
    record["request"]["seed"] += 1
    check = replayed({**files, "posterior.json": json.dumps(record).encode()}, "some/crate")
    assert check.ok
    assert check.detail.startswith("some/crate: not bit for bit")


@pytest.mark.parametrize(
    "change",
    [lambda age: age + 0.5 * age.std(), lambda age: age.mean() + 1.5 * (age - age.mean())],
    ids=["moved", "spread"],
)
def test_draws_of_another_law_are_told(files: dict[str, bytes], change: Callable[[Floats], Floats]) -> None:
    check = replayed(altered(files, change))
    assert not check.ok
    assert "age is" in check.detail


def test_draws_that_nothing_explains_are_not_taken_for_nothing_to_replay(files: dict[str, bytes]) -> None:
    for name in ("posterior.json", "draws.parquet"):
        assert not replayed({each: data for each, data in files.items() if each != name}).ok


@pytest.mark.parametrize(
    ("name", "data"),
    [("draws.parquet", b"none"), ("posterior.json", b"{}"), ("entry.json", b"[]"), ("posterior.json", b"\xff")],
)
def test_a_replay_never_raises_on_rubbish(files: dict[str, bytes], name: str, data: bytes) -> None:
    check = replayed({**files, name: data})
    assert not check.ok
    assert check.detail.startswith("cannot be drawn again: ")


def test_a_sampler_that_is_no_more_cannot_be_replayed_and_that_is_said(files: dict[str, bytes]) -> None:
    record = json.loads(files["posterior.json"])
    record["request"]["sampler"] = "forgotten"
    check = replayed({**files, "posterior.json": json.dumps(record).encode()})
    assert "forgotten" in check.detail
    assert not check.ok
