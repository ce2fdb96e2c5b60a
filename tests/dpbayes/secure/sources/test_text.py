"""Text to numbers and days: the nearest double, value by value, never an error."""

import datetime
import math
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbayes.secure.sources.text import days, numbers


def array(values: list[str | None]) -> pa.Array:
    encoded = [None if value is None else value.encode("utf-8", "surrogatepass") for value in values]
    return pa.array(encoded, pa.large_binary()).view(pa.large_string())


def same(one: float | None, other: float | None) -> bool:
    return one == other or (one is not None and other is not None and math.isnan(one) and math.isnan(other))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1.0),
        ("+1.", 1.0),
        ("-.5e1", -5.0),
        (" 7\t", 7.0),
        ("1e400", math.inf),
        ("-1E400", -math.inf),
        ("4.9e-324", 5e-324),
        ("2e-324", 0.0),
        ("Infinity", math.inf),
        ("-inf", -math.inf),
        ("TRUE", 1.0),
        ("false", 0.0),
        ("9007199254740993", 9007199254740992.0),
        ("9007199254740993.0000001", 9007199254740994.0),
        ("0.1", 0.1),
        ("", None),
        ("  ", None),
        (None, None),
        *((wrong, math.nan) for wrong in ("nan", "1_0", "0x1", "1,5", "e5", ".", "one", "1 2", "\u0661", "\ud800")),
    ],
)
@pytest.mark.parametrize("beside", [[], ["x"], ["1"], [None]])
def test_a_number_is_what_it_spells_whoever_stands_beside(
    text: str | None, number: float | None, beside: list[str | None]
) -> None:
    assert same(numbers(array([text, *beside]))[0].as_py(), number)


@settings(max_examples=100, deadline=None)
@given(st.floats(allow_nan=False), st.sampled_from(["repr", "17", "40"]))
def test_every_double_comes_back(value: float, spelled: str) -> None:
    text = repr(value) if spelled == "repr" else f"{value:.{spelled}g}"
    assert numbers(array([text]))[0].as_py() == value


@settings(max_examples=100, deadline=None)
@given(st.integers(-(10**30), 10**30), st.integers(0, 40))
def test_a_decimal_becomes_the_nearest_double(digits: int, scale: int) -> None:
    text = f"{digits}e-{scale}"
    assert numbers(array([text]))[0].as_py() == float(Fraction(digits, 10**scale))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.none() | st.text(max_size=6) | st.text("0123456789.eE+- infatru", max_size=8), max_size=6))
def test_values_beside_decide_nothing(values: list[str | None]) -> None:
    for read in (numbers, days):
        together = read(array(values)).to_pylist()
        alone = [read(array([value]))[0].as_py() for value in values]
        assert all(same(one, other) for one, other in zip(together, alone, strict=True))


@settings(max_examples=80, deadline=None)
@given(st.dates())
def test_a_date_is_its_days_since_1970(day: datetime.date) -> None:
    assert days(array([day.isoformat()]))[0].as_py() == day.toordinal() - datetime.date(1970, 1, 1).toordinal()


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2024-02-29", 19782.0),
        ("10000-01-01", 2932897.0),
        ("0001-12-31 BC", -719163.0),
        ("infinity", math.inf),
        ("-Infinity", -math.inf),
        ("", None),
        *((wrong, math.nan) for wrong in ("2023-02-29", "2024-13-01", "2024-00-01", "2024-01-00", "24-1-1", "7")),
    ],
)
def test_odd_dates_stop_nothing(text: str, day: float | None) -> None:
    assert same(days(array([text]))[0].as_py(), day)
