"""A replay tells the same draws, draws of the same law, and draws of another."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbayes.audit.replay import farthest, replayed
from dpbayes.crates.files import load
from dpbayes.crates.parquet import draws_parquet, read_draws
from dpbayes_core.arrays import Floats

GOLDEN = Path(__file__).parents[2] / "golden" / "posterior-1"  # of the naive sampler, quick to draw again


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


@pytest.mark.parametrize(
    "change",
    [
        lambda age: np.sort(age.ravel() + 0.5 * age.std()).reshape(age.shape),
        lambda age: np.where(age == age.max(), np.nan, age),
        lambda age: np.where(age == age.max(), 1e300, age),
    ],
    ids=["sorted", "not a number", "beyond all numbers"],
)
def test_a_forger_does_not_choose_how_exact_the_replay_is(
    files: dict[str, bytes], change: Callable[[Floats], Floats]
) -> None:
    assert not replayed(altered(files, change)).ok


def test_draws_that_are_words_are_refused(files: dict[str, bytes]) -> None:
    table, sink = pq.read_table(pa.BufferReader(files["draws.parquet"])), pa.BufferOutputStream()
    at = table.column_names.index("age")
    pq.write_table(table.set_column(at, "age", pa.array(["x"] * table.num_rows)), sink)
    check = replayed({**files, "draws.parquet": sink.getvalue().to_pybytes()})
    assert not check.ok
    assert check.detail.startswith("cannot be drawn again: ")


def test_a_handful_of_draws_is_not_taken_for_the_analysis(files: dict[str, bytes]) -> None:
    few = {name: values[:, :10] for name, values in read_draws(files["draws.parquet"]).items()}
    assert "far fewer draws" in replayed({**files, "draws.parquet": draws_parquet(few)}).detail


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


SEEDS = range(1, 9)


def asked_with(files: dict[str, bytes], seed: int) -> dict[str, bytes]:
    """The crate as it asks for another seed: what is drawn again are other draws of the same law."""
    record = json.loads(files["posterior.json"])
    record["request"]["seed"] = seed
    return {**files, "posterior.json": json.dumps(record).encode()}


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["posterior-1", "posterior-2"])
def test_honest_draws_of_other_seeds_are_not_refused(folder: str) -> None:
    files = load(GOLDEN.parent / folder)
    for seed in SEEDS:
        check = replayed(asked_with(files, seed))
        assert check.ok, (seed, check.detail)
        assert "within Monte Carlo error of a replay: its means, intervals and correlations" in check.detail


def squeezed(values: Floats) -> Floats:
    """The same mean and variance with an interval nine times narrower: two in a hundred lie far out."""
    rng, size = np.random.default_rng(0), values.size
    out = size // 100
    drawn = np.concatenate([rng.standard_normal(size - 2 * out) * 0.1, np.full(out, 7.0), np.full(out, -7.0)])
    drawn = rng.permutation(drawn)
    return values.mean() + values.std() * ((drawn - drawn.mean()) / drawn.std()).reshape(values.shape)


def two_humped(values: Floats) -> Floats:
    """The same mean and variance, and nothing in the middle."""
    sides = np.where(np.arange(values.size) % 2 == 0, 1.0, -1.0).reshape(values.shape)
    drawn = sides + 0.2 * np.random.default_rng(0).standard_normal(values.shape)
    return values.mean() + values.std() * (drawn - drawn.mean()) / drawn.std()


def permuted(values: Floats) -> Floats:
    """The same draws in another order: of one parameter nothing is changed, of all together everything."""
    return np.random.default_rng(0).permutation(values.ravel()).reshape(values.shape)


@pytest.mark.parametrize("forge", [squeezed, two_humped, permuted, lambda age: age + 0.5 * age.std()])
@pytest.mark.parametrize("folder", ["posterior-1", "posterior-2"])
def test_draws_that_only_share_moments_with_a_replay_are_refused(
    folder: str, forge: Callable[[Floats], Floats]
) -> None:
    check = replayed(altered(load(GOLDEN.parent / folder), forge))
    assert not check.ok, check.detail
    assert "standard errors away" in check.detail


def law(seed: int, size: int, parameters: int) -> dict[str, Floats]:
    """Draws of chains that remember the draw before, of parameters that go together."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((parameters + 1, 4, size))
    for at in range(1, size):
        noise[..., at] = 0.5 * noise[..., at - 1] + 0.75**0.5 * noise[..., at]
    return {f"b[{i}]": noise[i] + 0.7 * noise[-1] for i in range(parameters)}


@pytest.mark.parametrize("parameters", [1, 3, pytest.param(60, marks=pytest.mark.slow)])
def test_the_size_and_the_power_of_the_comparison(parameters: int) -> None:
    for seed in range(4):
        far = farthest(law(2 * seed, 700, parameters), law(2 * seed + 1, 500, parameters))
        assert far.deviation <= far.limit, far
    stored, again = law(0, 700, parameters), law(1, 500, parameters)
    name = f"b[{parameters - 1}]"
    for forge in (squeezed, two_humped, *([permuted] if parameters > 1 else [])):
        far = farthest({**stored, name: forge(stored[name])}, again)
        assert far.deviation > far.limit, (forge, far)


def test_a_joint_law_with_the_same_pairs_and_another_whole_is_refused() -> None:
    """A third parameter that is tied to the product of two others goes together with neither of them."""
    rng = np.random.default_rng(0)

    def tied(sign: float) -> dict[str, Floats]:
        one, two, three = rng.standard_normal((3, 4, 2000))
        return {"one": one, "two": two, "three": sign * np.abs(three) * np.sign(one * two)}

    same, other = farthest(tied(1), tied(1)), farthest(tied(-1), tied(1))
    assert same.deviation <= same.limit
    assert other.deviation > other.limit
