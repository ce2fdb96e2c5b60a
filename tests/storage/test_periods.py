"""Periods: canonical names, a real calendar, and their order."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbayes_core.errors import StudyInvalid
from storage.ledger.periods import MOST_PERIODS, Grain, Period

GRAINS: tuple[Grain, ...] = ("month", "quarter", "year", "day")
NAMES: dict[Grain, tuple[str, ...]] = {
    "month": ("2026-01", "1999-12"),
    "quarter": ("2026-Q1", "2026-Q4"),
    "year": ("2026", "1000"),
    "day": ("2026-01-31", "2024-02-29"),
}


@pytest.mark.parametrize("grain", GRAINS)
def test_a_canonical_name_is_read_and_written_alike(grain: Grain) -> None:
    for name in NAMES[grain]:
        assert Period.parse(name, grain).name == name == str(Period.parse(name, grain))


@pytest.mark.parametrize("grain", GRAINS)
def test_the_name_of_another_grain_is_refused(grain: Grain) -> None:
    for other in set(GRAINS) - {grain}:
        for name in NAMES[other]:
            with pytest.raises(
                StudyInvalid, match=f"cannot use period {name}: it is not the canonical name of a {grain}"
            ):
                Period.parse(name, grain)


@pytest.mark.parametrize(
    ("text", "grain"),
    [
        *((text, "month") for text in ("2026-13", "2026-00", "2026-1", "26-01", "2026/01", "2026-01 ", " 2026-01", "")),
        *(
            (text, "month")
            for text in ("2026-01\n", "٢٠٢٦-٠١", "0000-01", "0999-01", "../../x", "2026-01/../..", "{x}")
        ),
        *((text, "month") for text in ("-2026-01", "+026-01", "2026-01\x00", "January", "2026-01-..", "2026−01")),
        *((text, "quarter") for text in ("2026-Q0", "2026-Q5", "2026-q1", "2026Q1", "2026-Q01")),
        *((text, "day") for text in ("2026-02-29", "2026-02-30", "2026-04-31", "2026-1-1", "2026-01-32", "20260101")),
        *((text, "year") for text in ("26", "02026", "0000", "999", "2026.0")),
    ],
)
def test_a_name_that_is_not_canonical_or_not_in_the_calendar_is_refused(text: str, grain: Grain) -> None:
    with pytest.raises(StudyInvalid, match=r"cannot use period .*Write a real") as caught:
        Period.parse(text, grain)
    assert "\n" not in str(caught.value)
    assert NAMES[grain][0] in str(caught.value)


@given(st.text(max_size=12), st.sampled_from(GRAINS))
def test_any_text_is_a_safe_name_or_is_refused(text: str, grain: Grain) -> None:
    try:
        name = Period.parse(text, grain).name
    except StudyInvalid:
        return
    assert name == text
    assert set(name) <= set("0123456789-Q")


def test_periods_are_ordered_in_time() -> None:
    names = ["2025-12", "2026-01", "2026-02", "2026-10"]
    periods = [Period.parse(name, "month") for name in names]
    assert sorted(set(periods)) == periods
    assert len({*periods, Period.parse("2026-01", "month")}) == 4


def test_periods_of_two_grains_have_no_order() -> None:
    with pytest.raises(TypeError):
        assert Period.parse("2026-01", "month") < Period.parse("2026", "year")


@pytest.mark.parametrize(
    ("text", "grain", "names"),
    [
        ("2026-01", "month", ["2026-01"]),
        ("2025-11..2026-02", "month", ["2025-11", "2025-12", "2026-01", "2026-02"]),
        ("2025-Q4..2026-Q2", "quarter", ["2025-Q4", "2026-Q1", "2026-Q2"]),
        ("2024..2026", "year", ["2024", "2025", "2026"]),
        ("2024-02-28..2024-03-01", "day", ["2024-02-28", "2024-02-29", "2024-03-01"]),
        ("9999-11..9999-12", "month", ["9999-11", "9999-12"]),
    ],
)
def test_a_range_holds_both_ends_and_everything_between(text: str, grain: Grain, names: list[str]) -> None:
    assert [period.name for period in Period.range(text, grain)] == names


@pytest.mark.parametrize("text", ["2026-02..2026-01", "..", "2026-01..", "..2026-01", "2026-01..2026-02..2026-03"])
def test_a_range_without_two_ends_in_order_is_refused(text: str) -> None:
    with pytest.raises(StudyInvalid, match="cannot use period"):
        Period.range(text, "month")


def test_a_range_that_nobody_means_is_refused() -> None:
    assert len(Period.range("2020-01-01..2022-09-26", "day")) == MOST_PERIODS
    with pytest.raises(StudyInvalid, match="shorter range"):
        Period.range("2020-01-01..2022-09-27", "day")


@pytest.mark.parametrize(
    ("moment", "grain", "name"),
    [
        (datetime(2026, 2, 1, tzinfo=UTC), "month", "2026-01"),
        (datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC), "month", "2025-12"),
        (datetime(2026, 4, 1, 2, tzinfo=UTC), "quarter", "2026-Q1"),
        (datetime(2026, 3, 31, 23, tzinfo=UTC), "quarter", "2025-Q4"),
        (datetime(2026, 1, 1, tzinfo=UTC), "year", "2025"),
        (datetime(2024, 3, 1, tzinfo=UTC), "day", "2024-02-29"),
        (datetime(2026, 12, 31, 23, 30, tzinfo=UTC).astimezone(ZoneInfo("Europe/Amsterdam")), "month", "2026-12"),
    ],
)
def test_the_previous_period_is_the_last_one_completed_where_the_moment_is(
    moment: datetime, grain: Grain, name: str
) -> None:
    assert Period.previous(moment, grain).name == name


@given(st.dates(min_value=datetime(1001, 1, 1).date()), st.sampled_from(GRAINS))
def test_the_period_of_a_day_has_a_canonical_name_and_follows_the_one_before(day: object, grain: Grain) -> None:
    period = Period.containing(day, grain)  # type: ignore[arg-type]
    assert Period.parse(period.name, grain) == period
    before = Period.previous(datetime.combine(period.first_day, datetime.min.time()), grain)
    assert before.next() == period
    assert before < period
