"""The types of the values in a study file; each refuses a wrong value with a plain sentence."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError

from dpbayes_core.bounds import Bounds as CoreBounds
from dpbayes_core.text import listed, nearest, shown

LARGEST_LOSS = Decimal(1_000_000)
SMALLEST_LOSS = Decimal("1e-9")


def refusal(what: str, remedy: str, key: str | None = None) -> PydanticCustomError:
    """A validation error with its own sentence; `key` names a key one level below the validated value."""
    return PydanticCustomError("refusal", "{what}. {remedy}.", {"what": what, "remedy": remedy, "key": key})


@dataclass(frozen=True)
class Says:
    """The name of a type in the study reference."""

    words: str


class Section(BaseModel):
    """A part of the study file: strict types, frozen, unknown keys refused with the nearest known one."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """The keys as they are written in the file."""
        return tuple(info.alias or name for name, info in cls.model_fields.items())

    @model_validator(mode="before")
    @classmethod
    def _only_known_keys(cls, data: Any) -> Any:
        known = cls.keys()
        for key in cast("Mapping[str, Any]", data) if isinstance(data, dict) else ():
            if key not in known:
                raise refusal("there is no such key here", nearest(key, known, "The keys here are"), key)
        return data


def printable(text: str) -> str:
    """The text, refused unless it is one line without spaces around it."""
    if not text.strip() or text != text.strip():
        raise refusal("text is empty or has spaces around it", "Take them away")
    if not text.isprintable():
        raise refusal("text holds a line break or another character that cannot be seen", "Write it on one line")
    return text


def _column_name(name: str) -> str:
    if "[" in name or "]" in name:
        # region[south] must name one coefficient only
        raise refusal(f"{shown(name)} has brackets, which mark levels in results", "Rename the column in the table")
    return name


@dataclass(frozen=True)
class Duration:
    """A length of time as it is written: 30m, 6h or 3d."""

    length: timedelta
    text: str

    def __str__(self) -> str:
        return self.text


_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
_LONGEST = timedelta(days=366)


def duration(value: Any) -> Duration:
    """The length of time in a text such as 30m, 6h or 3d, from a minute to a year."""
    match = re.fullmatch("([1-9][0-9]{0,5})([mhd])", value) if isinstance(value, str) else None
    if match is None:
        raise refusal("this is no length of time", "Write minutes, hours or days: 30m, 6h or 3d")
    length = timedelta(**{_UNITS[match[2]]: int(match[1])})
    if length > _LONGEST:
        raise refusal("this is longer than a year", "Write 366d or less")
    return Duration(length, match[0])


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        what = f"{shown(value)} is text, not a number" if isinstance(value, str) else "a number belongs here"
        raise refusal(what, "Write one number, without quotes, such as 0.5 or 1e-6")
    number = Decimal(value)
    if not number.is_finite():
        raise refusal("the number is not finite", "Write an ordinary number")
    return number


def _loss(number: Decimal) -> Decimal:
    if number <= 0:
        raise refusal(f"{shown(str(number))} is not above 0", "Privacy loss is a positive number; ask for more than 0")
    if not SMALLEST_LOSS <= number <= LARGEST_LOSS:
        raise refusal(f"{shown(str(number))} is no usable privacy loss", "Stay between 1e-9 and 1e6")
    return number


def _delta(number: Decimal) -> Decimal:
    if not 0 < number < 1:
        raise refusal(f"{shown(str(number))} is not a probability between 0 and 1", "Write a small one, such as 1e-6")
    return number


def real(value: Any) -> float:
    """The number as a float; anything but a finite number is refused."""
    return float(_number(value)) + 0.0  # -0.0 becomes 0.0: one spelling, one hash


def _spread(number: float) -> float:
    if number <= 0:
        raise refusal("a spread must be above 0", "Write a positive number")
    return number


def _bounds(value: Any) -> CoreBounds:
    pair = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else ()
    if len(pair) != 2:
        raise refusal("bounds are two numbers", "Write [low, high]")
    low, high = (real(end) for end in pair)
    if low >= high:
        what = "low and high are equal" if low == high else "low is above high"
        raise refusal(what, "Write [low, high] with low below high; they come from public knowledge, not the data")
    try:
        return CoreBounds(low, high)
    except ValueError:
        raise refusal("these bounds cannot be divided in double precision", "Shift or rescale the column") from None


def _levels(levels: tuple[str, ...]) -> tuple[str, ...]:
    if len(levels) < 2:
        raise refusal("a column of levels needs at least 2", "Name them all; the first is the reference")
    for level in levels:
        if levels.count(level) > 1:
            raise refusal(f"level {shown(level)} is given twice", "Name each level once")
    return levels


def _covariates(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise refusal("there is no covariate", "Name at least one declared column")
    for name in names:
        if names.count(name) > 1:
            raise refusal(f"covariate {shown(name)} is given twice", "Name each covariate once")
    return names


def _shares(value: Any) -> "ByRule | dict[str, float]":
    if value == "by-cells" or value == "equal":
        return value
    if not isinstance(value, dict) or not value:
        raise refusal("these are no shares", "Write by-cells, equal, or {node: share}")
    return {str(key): _spread(real(share)) for key, share in cast("Mapping[Any, Any]", value).items()}


def exactly_one(values: Mapping[str, object], what: str) -> None:
    """Refuse unless exactly one of several alternatives is given."""
    given = [name for name, value in values.items() if value is not None]
    if not given:
        raise refusal(f"{what} is missing", f"Write one of {listed(values)}")
    if len(given) > 1:
        raise refusal(f"{listed(given)} are given together", "Keep one of them")


Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64), Says("name")]
Text = Annotated[str, Field(max_length=500), AfterValidator(printable), Says("text")]
ColumnName = Annotated[Text, AfterValidator(_column_name), Says("column")]
Real = Annotated[float, BeforeValidator(real), Says("number")]
Spread = Annotated[float, BeforeValidator(real), AfterValidator(_spread), Says("number above 0")]
Loss = Annotated[Decimal, BeforeValidator(_number), AfterValidator(_loss), Says("number above 0, exact")]
Delta = Annotated[Decimal, BeforeValidator(_number), AfterValidator(_delta), Says("number between 0 and 1, exact")]
Pair = Annotated[CoreBounds, PlainValidator(_bounds), Says("two numbers")]
Levels = Annotated[tuple[Text, ...], Field(max_length=1000), AfterValidator(_levels), Says("list of text")]
ByRule = Literal["by-cells", "equal"]
Shares = Annotated[ByRule | dict[str, float], PlainValidator(_shares), Says("by-cells, equal, or numbers by node")]
Length = Annotated[Duration, PlainValidator(duration), Says("length of time: 30m, 6h, 3d")]
Covariates = Annotated[tuple[Text, ...], Field(max_length=1000), AfterValidator(_covariates), Says("list of columns")]
