"""What may stand in a steward's suite: every known type is asked with its arguments, and nothing else is let near."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbayes.secure.profile import ColumnCounts, GroupProfile, Profile
from dpbayes.secure.validation.checks import validate
from dpbayes.secure.validation.suite_types import ARGUMENTS, EXPECTATIONS, MOST, argument_problem
from dpbayes.secure.validation.suites import OwnExpectation, quiet_library
from dpbayes.study.table_source import ColumnRule, TableSource
from dpbayes_core.canonical import canonical_json

DOCUMENT = Path(__file__).parents[3] / "docs/data-plane.md"
TABLE = TableSource(path="t.parquet", columns=(ColumnRule(name="region", levels=("n", "s")),), unit="person")
PLAIN: dict[str, Any] = {
    "column": "rows",
    "column_A": "rows",
    "column_B": "region.nulls",
    "column_list": ["rows", "region.nulls"],
    "double_sided": True,
    "max_value": 10**6,
    "min_value": 0,
    "mostly": 0.5,
    "or_equal": True,
    "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[None, 600.5]]},
    "strict_max": False,
    "strict_min": False,
    "strictly": False,
    "sum_total": 500,
    "threshold": 3,
    "ties_okay": True,
    "value": 3,
    "value_set": [500, 417],
}


def profile(*rows: int) -> Profile:
    groups = [
        GroupProfile(file="t.parquet", row_group=place, rows=n, columns={"region": ColumnCounts()}, null_units=0)
        for place, n in enumerate(rows)
    ]
    return Profile(types={}, groups=tuple(groups), duplicate_rows=0)


def everything() -> Iterator[OwnExpectation]:
    for kind, names in EXPECTATIONS.items():
        yield OwnExpectation(type=kind, kwargs=canonical_json({name: PLAIN[name] for name in names}).decode())


@pytest.mark.slow
def test_every_type_is_one_of_the_library_and_is_answered_with_all_its_arguments() -> None:
    own = tuple(everything())
    for counted in (profile(500, 500, 417), profile(0), profile()):
        found = validate(counted, TABLE, own=own)
        assert found.ran
        assert [one.type for one, met in found.own if met is None] == []
    with quiet_library():
        from great_expectations.expectations.registry import get_expectation_impl

        for kind, names in EXPECTATIONS.items():
            assert set(names) <= set(get_expectation_impl(kind).__fields__), kind  # it ignores others in silence


def test_no_expectation_has_pandas_read_text_as_code(monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas as pd

    called: list[str] = []
    for place, name in ((pd.DataFrame, "query"), (pd.DataFrame, "eval"), (pd, "eval")):
        monkeypatch.setattr(place, name, lambda *given, name=name, **more: called.append(name))
    validate(profile(500, 417), TABLE, own=tuple(everything()))
    assert called == []
    pd.DataFrame({"a": [1]}).query("a > 0")
    assert called == ["query"]


def test_no_argument_is_code_or_decides_how_the_library_runs() -> None:
    harmful = {"row_condition", "condition_parser", "ignore_row_if", "result_format", "catch_exceptions", "meta"}
    assert not harmful & set(ARGUMENTS)
    assert {name for names in EXPECTATIONS.values() for name in names} == set(ARGUMENTS)
    assert not [kind for kind in EXPECTATIONS if "quer" in kind or "regex" in kind or "other_table" in kind]


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize(
    "value",
    [{"$PARAMETER": "1"}, [{"$PARAMETER": "1"}], {}, [], [[]], [None], "1\n", "\ud800", math.nan, math.inf, 10**400],
    ids=repr,
)
def test_no_argument_takes_what_is_evaluated_nested_or_endless(name: str, value: Any) -> None:
    kind = next(kind for kind, names in EXPECTATIONS.items() if name in names)
    assert argument_problem(kind, {name: PLAIN[name]}) is None
    assert f"gives {name} something other than {ARGUMENTS[name].words}" == argument_problem(kind, {name: value})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.just("quantiles"), inner),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(kind=st.sampled_from(sorted(EXPECTATIONS)), name=st.sampled_from(sorted(ARGUMENTS)), value=JSON)
def test_what_is_let_through_is_flat(kind: str, name: str, value: Any) -> None:
    if argument_problem(kind, {name: value}) is None:
        items = value if isinstance(value, list) else [value]
        assert all(one is None or isinstance(one, str | bool | int | float) for one in items) or name == (
            "quantile_ranges"
        )


def test_lists_have_an_end() -> None:
    kind = "expect_column_values_to_be_in_set"
    assert argument_problem(kind, {"value_set": [1] * MOST}) is None
    assert argument_problem(kind, {"value_set": [1] * (MOST + 1)})


def test_an_expectation_made_in_another_way_is_not_built_either() -> None:
    kwargs = {"column": "rows", "row_condition": "rows > 0"}
    one = OwnExpectation(type="expect_column_sum_to_be_between", kwargs=canonical_json(kwargs).decode())
    with pytest.raises(ValueError, match="row_condition"):
        one.built()
    assert [met for _, met in validate(profile(5), TABLE, own=(one,)).own] == [None]


def test_the_document_lists_every_type() -> None:
    text = DOCUMENT.read_text()
    assert [kind for kind in EXPECTATIONS if f"`{kind}`" not in text] == []
