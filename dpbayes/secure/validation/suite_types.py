"""Which expectations a suite may contain, and with which arguments, so that nothing in it is executed as code.

Great Expectations has pandas execute row conditions, evaluates parameters, opens other tables and matches patterns
without a time limit. A profile is a table of counts: expectations about it need only columns,
numbers and yes or no.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from dpbayes_core.text import shown

MOST = 1000  # items of a list
_LARGEST = 2.0**63


@dataclass(frozen=True)
class Argument:
    """What one argument may be, in words and as a check that rejects everything else."""

    words: str
    fits: Callable[[Any], bool]


def argument_problem(kind: str, kwargs: Mapping[str, Any]) -> str | None:
    """Why an expectation of that type may not have these arguments; None if it may."""
    known = EXPECTATIONS.get(kind)
    if known is None:
        return f"is {shown(kind)}, but only these may be asked: {', '.join(EXPECTATIONS)}"
    for name, value in kwargs.items():
        if name not in known:
            return f"gives {shown(name)}, but {kind} takes only these: {', '.join(known)}"
        if not ARGUMENTS[name].fits(value):
            return f"gives {name} something other than {ARGUMENTS[name].words}"
    return None


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LARGEST <= value <= _LARGEST


def _limit(value: Any) -> bool:
    return value is None or _number(value)


def _share(value: Any) -> bool:
    return _number(value) and 0 <= value <= 1


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _column(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _several(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and 1 <= len(cast("list[Any]", value)) <= MOST and all(map(fits, value))


def _range(value: Any) -> bool:
    return _several(value, _limit) and len(value) == 2


def _quantiles(value: Any) -> bool:
    if not isinstance(value, dict) or set(cast("dict[str, Any]", value)) != {"quantiles", "value_ranges"}:
        return False
    shares, ranges = cast("dict[str, Any]", value)["quantiles"], cast("dict[str, Any]", value)["value_ranges"]
    return _several(shares, _share) and _several(ranges, _range) and len(shares) == len(ranges)


_A_COLUMN, _A_FLAG = Argument("the name of a column", _column), Argument("true or false", _flag)
_A_LIMIT, _A_NUMBER = Argument("a number or null", _limit), Argument("a number", _number)

ARGUMENTS: Mapping[str, Argument] = {
    "column": _A_COLUMN,
    "column_A": _A_COLUMN,
    "column_B": _A_COLUMN,
    "column_list": Argument("a list of columns", lambda value: _several(value, _column)),
    "double_sided": _A_FLAG,
    "max_value": _A_LIMIT,
    "min_value": _A_LIMIT,
    "mostly": Argument("a share from 0 to 1", _share),
    "or_equal": _A_FLAG,
    "quantile_ranges": Argument("quantiles and value_ranges, two lists of one length", _quantiles),
    "strict_max": _A_FLAG,
    "strict_min": _A_FLAG,
    "strictly": _A_FLAG,
    "sum_total": _A_NUMBER,
    "threshold": _A_NUMBER,
    "ties_okay": _A_FLAG,
    "value": _A_NUMBER,
    "value_set": Argument("a list of numbers", lambda value: _several(value, _number)),
}

_LIMITS = ("min_value", "max_value", "strict_min", "strict_max")

EXPECTATIONS: Mapping[str, tuple[str, ...]] = {
    "expect_column_distinct_values_to_be_in_set": ("column", "value_set"),
    "expect_column_distinct_values_to_contain_set": ("column", "value_set"),
    "expect_column_distinct_values_to_equal_set": ("column", "value_set"),
    "expect_column_max_to_be_between": ("column", *_LIMITS),
    "expect_column_mean_to_be_between": ("column", *_LIMITS),
    "expect_column_median_to_be_between": ("column", *_LIMITS),
    "expect_column_min_to_be_between": ("column", *_LIMITS),
    "expect_column_most_common_value_to_be_in_set": ("column", "value_set", "ties_okay"),
    "expect_column_pair_values_a_to_be_greater_than_b": ("column_A", "column_B", "or_equal", "mostly"),
    "expect_column_pair_values_to_be_equal": ("column_A", "column_B", "mostly"),
    "expect_column_proportion_of_unique_values_to_be_between": ("column", *_LIMITS),
    "expect_column_quantile_values_to_be_between": ("column", "quantile_ranges"),
    "expect_column_stdev_to_be_between": ("column", *_LIMITS),
    "expect_column_sum_to_be_between": ("column", *_LIMITS),
    "expect_column_unique_value_count_to_be_between": ("column", *_LIMITS),
    "expect_column_value_z_scores_to_be_less_than": ("column", "threshold", "double_sided", "mostly"),
    "expect_column_values_to_be_between": ("column", *_LIMITS, "mostly"),
    "expect_column_values_to_be_decreasing": ("column", "strictly", "mostly"),
    "expect_column_values_to_be_in_set": ("column", "value_set", "mostly"),
    "expect_column_values_to_be_increasing": ("column", "strictly", "mostly"),
    "expect_column_values_to_be_null": ("column", "mostly"),
    "expect_column_values_to_be_unique": ("column", "mostly"),
    "expect_column_values_to_not_be_in_set": ("column", "value_set", "mostly"),
    "expect_column_values_to_not_be_null": ("column", "mostly"),
    "expect_compound_columns_to_be_unique": ("column_list", "mostly"),
    "expect_multicolumn_sum_to_equal": ("column_list", "sum_total", "mostly"),
    "expect_multicolumn_values_to_be_equal": ("column_list", "mostly"),
    "expect_select_column_values_to_be_unique_within_record": ("column_list", "mostly"),
    "expect_table_row_count_to_be_between": _LIMITS,
    "expect_table_row_count_to_equal": ("value",),
}
