"""Numbers of a column that may be written as dates, YYYY-MM-DD; a date counts as days since 1970-01-01."""

import re
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, cast

from pydantic import PlainValidator, ValidatorFunctionWrapHandler, WrapValidator

from dpbayes.strict_yaml.fields import Pair, Real, Says, printable, real, refusal
from dpbayes_core.bounds import Bounds
from dpbayes_core.text import shown

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, eq=False)
class DateBounds(Bounds):
    """Bounds that were written as dates, which says that the column contains dates; otherwise ordinary bounds."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bounds) and (self.low, self.high) == (other.low, other.high)

    def __hash__(self) -> int:
        return hash(Bounds(self.low, self.high))


class Day(float):
    """A number of days that was written as a date."""


def _day(text: str) -> int:
    try:
        return date.fromisoformat(text).toordinal() - date(1970, 1, 1).toordinal()
    except ValueError:
        raise refusal(f"{shown(text)} is no day of the calendar", "Write year-month-day: 1980-06-30") from None


def _is_date(value: object) -> bool:
    return isinstance(value, str) and _DATE.fullmatch(value) is not None


def _bounds(value: Any, pair: ValidatorFunctionWrapHandler) -> Bounds:
    ends = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else ()
    if ends and all(_is_date(end) for end in ends):
        days: Bounds = pair(tuple(_day(end) for end in ends))
        return DateBounds(days.low, days.high)
    return pair(value)


def _number(value: Any, real: ValidatorFunctionWrapHandler) -> float:
    return Day(real(_day(value))) if _is_date(value) else real(value)


def _codes(value: Any) -> tuple[float, ...] | tuple[str, ...]:
    given = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else ()
    if not given:
        raise refusal("the codes of missing values are a list", "Write [-200], or [-8, -9]")
    codes = tuple(_code(code) for code in given)
    for code in codes:
        if codes.count(code) > 1:
            raise refusal(f"code {shown(str(code))} is given twice", "Write each code once")
    return cast("tuple[float, ...] | tuple[str, ...]", codes)


def _code(value: Any) -> float | str:
    if _is_date(value):
        return Day(_day(value))
    return printable(value) if isinstance(value, str) else real(value)


BoundsOrDates = Annotated[Pair, WrapValidator(_bounds), Says("two numbers, or two dates")]
RealOrDate = Annotated[Real, WrapValidator(_number), Says("number, or date")]
MissingCodes = Annotated[
    tuple[float, ...] | tuple[str, ...], PlainValidator(_codes), Says("list of numbers, dates or text")
]
