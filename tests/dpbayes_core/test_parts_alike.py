"""The alarm against a random split: rarely given where people were dealt out at random, given where parts differ."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.mechanisms import Mechanism, gaussian_for, laplace_for
from dpbayes_core.privacy.sensitivity import ADD_REMOVE, REPLACE_ONE
from dpbayes_core.regression import parts_alike
from dpbayes_core.regression.moments import grid_for
from dpbayes_core.regression.parts_alike import parts_check
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from tests.support.regressions import REGION, SEX, schema_of

TWO = schema_of("a", "b")
THETA = np.array([0.05, 0.4, -0.3])
SIZE_MEASURED = 200  # data sets a setting


def noise_of(
    schema: RegressionSchema, epsilon: float, name: str = "gaussian", neighbours: str = REPLACE_ONE
) -> Mechanism:
    """What a release of this epsilon is charged for."""
    due = regression_sensitivity(schema, neighbours)
    entries = len(schema.entries) + (neighbours == ADD_REMOVE)
    if name == "laplace":
        return laplace_for(due, epsilon=epsilon, grid=grid_for(10_000), entries=entries)
    return gaussian_for(due, epsilon=epsilon, delta=1e-6, grid=grid_for(10_000))


def numbers(law: str, shape: tuple[int, ...], generator: np.random.Generator) -> Floats:
    """Centred numbers with standard deviation 1, of this law."""
    if law == "t3":
        return generator.standard_t(3, shape) / np.sqrt(3)
    return generator.standard_exponential(shape) - 1 if law == "skewed" else generator.standard_normal(shape)


@dataclass(frozen=True)
class Made:
    """Where the two numbers of a part lie, by part, and how many rows it has."""

    rows: int
    means: tuple[float, float] = (0.1, 0.1)
    sds: tuple[float, float] = (0.3, 0.3)
    law: str = "normal"


def part(made: Made, told: Mechanism, generator: np.random.Generator, neighbours: str = REPLACE_ONE) -> Release:
    """A release of made-up rows, clipped to [-1, 1] as every row is."""
    found = made.means + np.array(made.sds) * numbers(made.law, (made.rows, 2), generator)
    found[:, 1] = 0.5 * (found[:, 0] - made.means[0]) + found[:, 1]
    rows = np.column_stack([np.ones(made.rows), np.clip(found, -1, 1)])
    return of(TWO, rows, told, generator, neighbours)


def of(
    schema: RegressionSchema, rows: Floats, told: Mechanism, generator: np.random.Generator, neighbours: str
) -> Release:
    """Those rows, with a response, and noise of that mechanism."""
    response = np.clip(rows[:, :3] @ THETA + 0.2 * generator.standard_normal(len(rows)), -1, 1)
    moments = np.column_stack([rows, response]).T @ np.column_stack([rows, response])
    hidden = neighbours == ADD_REMOVE
    places = np.array(schema.entries_with_count if hidden else schema.entries).T
    exact = moments[places[0], places[1]]
    draw = generator.laplace if told.name == "laplace" else generator.normal
    noisy = exact + told.scales * draw(size=exact.size)
    counted = None if hidden else len(rows)
    return Release(
        schema=schema, neighbours=neighbours, rows=counted, mechanism=told, values=tuple(float(v) for v in noisy)
    )


def alarms(parts: Sequence[Made], told: Mechanism, seed: int, data_sets: int, neighbours: str = REPLACE_ONE) -> int:
    """In how many data sets the alarm is given."""
    generator, found = np.random.default_rng(seed), 0
    for _ in range(data_sets):
        said = parts_check([part(one, told, generator, neighbours) for one in parts])
        assert said is not None
        found += said.alarm
    return found


SETTINGS = [
    (law, count, epsilon) for law in ("normal", "t3", "skewed") for count in (4, 20) for epsilon in (1.0, 0.3, 0.1)
]


def dealt(law: str, count: int) -> list[Made]:
    """Parts of 300 to 900 people who were dealt out at random."""
    return [Made(rows=300 + 200 * (place % 4), law=law, means=(0.3, -0.2)) for place in range(count)]


@pytest.mark.parametrize(("law", "count", "epsilon"), SETTINGS)
def test_people_who_were_dealt_out_at_random_hardly_ever_raise_it(law: str, count: int, epsilon: float) -> None:
    seed = SETTINGS.index((law, count, epsilon))
    assert alarms(dealt(law, count), noise_of(TWO, epsilon), seed, SIZE_MEASURED) <= 0.03 * SIZE_MEASURED


@pytest.mark.parametrize(("law", "count"), [("normal", 4), ("t3", 4), ("skewed", 20)])
@pytest.mark.parametrize("name", ["gaussian", "laplace"])
def test_nor_do_they_where_counts_are_noisy(law: str, count: int, name: str) -> None:
    told = noise_of(TWO, 1.0, name, ADD_REMOVE)
    assert alarms(dealt(law, count), told, 11, 100, ADD_REMOVE) <= 3


@pytest.mark.parametrize("count", [4, 20])
def test_laplace_noise_needs_its_heavier_tail(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    told = noise_of(TWO, 0.1, "laplace")
    assert alarms(dealt("normal", count), told, 5, 150) <= 3
    monkeypatch.setattr(parts_alike, "tail_factor", lambda release, rare: 1.0)
    assert alarms(dealt("normal", count), told, 5, 150) >= 10


def spread_about() -> list[Made]:
    """Twenty small parts whose means and log spreads differ by a quarter."""
    generator = np.random.default_rng(3)
    return [
        Made(1000, tuple(0.25 * generator.standard_normal(2)), tuple(0.3 * np.exp(0.25 * generator.standard_normal(2))))
        for _ in range(20)
    ]


def apart(rows: Sequence[int], by: float) -> list[Made]:
    """Parts whose means go from -by to by, those of the other number the other way."""
    places = np.linspace(-by, by, len(rows))
    return [Made(count, (float(place), -float(place))) for count, place in zip(rows, places, strict=True)]


MONTHS = [(-0.11 + 0.02 * month, 0.1) for month in range(12)]
DIFFERENT = {
    "four parts, means far apart": (apart([10_000] * 4, 0.6), 1.0),
    "four larger parts, means apart": (apart([20_000] * 4, 0.3), 1.0),
    "four large parts, spreads apart": ([Made(100_000, sds=(sd, sd)) for sd in (0.2, 0.3, 0.3, 0.4)], 1.0),
    "four parts of very different size": (apart([300, 1000, 3000, 6000], 0.6), 1.0),
    "twenty small parts under much noise": (spread_about(), 0.1),
    "twelve months that move": ([Made(20_000, means) for means in MONTHS], 1.0),
    "twelve smaller months that move": ([Made(2000, means) for means in MONTHS], 0.3),
    "two parts": (apart([10_000] * 2, 0.6), 1.0),
}


@pytest.mark.parametrize("cell", DIFFERENT)
@pytest.mark.parametrize("name", ["gaussian", "laplace"])
def test_parts_that_differ_raise_it(cell: str, name: str) -> None:
    parts, epsilon = DIFFERENT[cell]
    assert alarms(parts, noise_of(TWO, epsilon, name), 1, 5) >= (5 if epsilon >= 0.3 else 4)


def levels(shares: tuple[float, float], seed: int) -> Release:
    """5,000 people of two sexes in four regions; what share of them is a man, and lives in the second region."""
    generator, schema = np.random.default_rng(seed), schema_of(SEX, REGION)
    sex = np.where(generator.uniform(size=5000) < shares[0], 1.0, -1.0)
    region = generator.choice(4, 5000, p=[0.9 - shares[1], shares[1], 0.05, 0.05])
    rows = np.column_stack([np.ones(5000), sex, *(region == level for level in (1, 2, 3))]).astype(float)
    return of(schema, rows, noise_of(schema, 1.0), generator, REPLACE_ONE)


def test_shares_of_levels_count_too_and_the_most_different_one_is_named() -> None:
    same = parts_check([levels((0.4, 0.2), seed) for seed in (1, 2, 3)])
    other = parts_check([levels((0.4, share), seed) for seed, share in enumerate((0.2, 0.2, 0.3))])
    assert same is not None
    assert other is not None
    assert not same.alarm
    assert other.alarm
    assert "region[s]" in other.columns
    assert (same.means, same.degrees) == (7, 2)  # 4 shares, 3 products of both columns
    assert other.to_record()["alarm"] is True


def test_rows_of_one_person_are_not_taken_for_those_of_several() -> None:
    """20,000 people with five rows each: were those independent, their means would be known too well."""
    told, generator = noise_of(TWO, 1.0, neighbours=ADD_REMOVE), np.random.default_rng(4)
    alone, wrong, right = [part(Made(20_000), told, generator, ADD_REMOVE) for _ in range(40)], 0, 0
    for place in range(0, 40, 4):
        five = [replace(one, values=tuple(5 * value for value in one.values)) for one in alone[place : place + 4]]
        both = (parts_check(five), parts_check([replace(one, max_rows_per_unit=5) for one in five]))
        wrong, right = wrong + (both[0] is not None and both[0].alarm), right + (both[1] is not None and both[1].alarm)
    assert (wrong > 3, right) == (True, 0)


def test_nothing_is_said_where_fewer_than_two_parts_have_rows_to_tell() -> None:
    told, generator = noise_of(TWO, 0.1, neighbours=ADD_REMOVE), np.random.default_rng(1)
    parts = [part(Made(count), told, generator, ADD_REMOVE) for count in (20, 5000)]
    assert parts_check(parts) is None
    assert parts_check(parts[:1]) is None
