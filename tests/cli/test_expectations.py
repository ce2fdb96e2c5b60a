"""The steward's own expectations: a suite about what the pass counted, answered in the vault and nowhere else."""

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.canaries import places
from tests.support.desk import PERIOD, Desk, people

pytestmark = pytest.mark.usefixtures("prefect_home")
SUITE: list[dict[str, Any]] = [
    {"type": "expect_column_max_to_be_between", "kwargs": {"column": "age.nulls", "max_value": 3}, "meta": {"a": 1}},
    {"type": "expect_column_sum_to_be_between", "kwargs": {"column": "rows", "min_value": 5000}, "description": "Many"},
    {
        "type": "expect_column_pair_values_a_to_be_greater_than_b",
        "kwargs": {"column_A": "rows", "column_B": "region.unknown_levels"},
    },
    {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 4, "max_value": 4}},
    {"type": "expect_column_values_to_be_between", "kwargs": {"column": "rows", "min_value": 2, "max_value": 1}},
]
MET = [True, False, True, True, None]


def with_suite(desk: Desk, suite: Any = None) -> Desk:
    (desk.folder / "expectations.json").write_text(
        suite
        if isinstance(suite, str)
        else json.dumps({"name": "own", "expectations": SUITE if suite is None else suite})
    )
    desk.edit_study("unit: person}", "unit: person, expectations: expectations.json}")
    return desk


def found(desk: Desk) -> list[bool | None]:
    record = desk.home / "vault" / "pay" / PERIOD / "pay-regression-r1" / "validation.json"
    return [one["met"] for one in json.loads(record.read_text())["own"]]


def test_every_expectation_is_answered_in_the_vault_and_decides_nothing(desk: Desk) -> None:
    plain = desk.run("release", with_suite(desk).study, "--period", PERIOD)
    assert plain.exit_code == 0
    assert found(desk) == MET
    page = (desk.home / "vault" / "pay" / PERIOD / "pay-regression-r1" / "validation.html").read_text()
    assert "Your own expectations" in page
    assert "not computed" in page
    assert "Many" in page
    assert "expect_" not in plain.output + plain.stderr


@pytest.mark.slow
def test_a_suite_changes_neither_the_request_nor_the_answer(desk: Desk) -> None:
    first = desk.release()["releases"][0]
    second = with_suite(desk).release()["releases"][0]
    assert (second["status"], second["digest"]) == ("already-released", first["digest"])


MALFORMED = {
    "not JSON": ("{", "it is not JSON"),
    "NaN": ('{"expectations": [{"type": "a", "kwargs": {"b": NaN}}]}', "it is not JSON"),
    "a list": ("[]", "it has no list of expectations"),
    "no type": ([{"kwargs": {}}], "expectation 1 is not a type with arguments"),
    "an infinite number": (
        '{"expectations": [{"type": "expect_table_row_count_to_equal", "kwargs": {"value": 1e999}}]}',
        "expectation 1 gives value something other than a number",
    ),
    "an unknown type": ([*SUITE, {"type": "expect_nothing"}], "expectation 6 is expect_nothing, but only these may be"),
    "half a character": (
        [{"type": "expect_table_row_count_to_equal", "kwargs": {"value": 1}, "description": "\ud800"}],
        "the description of expectation 1 cannot be printed",
    ),
    "a lacking argument": ([{"type": "expect_column_max_to_be_between"}], "lacks an argument"),
    "a column of rows": (
        [{"type": "expect_column_max_to_be_between", "kwargs": {"column": "age"}}],
        "names age, which no profile has",
    ),
}


@pytest.mark.parametrize("flaw", MALFORMED)
def test_a_file_that_is_no_suite_is_a_wrong_argument_before_any_pass(desk: Desk, flaw: str) -> None:
    suite, why = MALFORMED[flaw]
    with_suite(desk, suite)
    desk.table().unlink()  # a pass would say so
    for command in (("check", desk.study), ("release", desk.study, "--period", PERIOD)):
        refused = desk.document(*command, exit_code=2)["error"]["message"]
        assert refused.startswith("cannot read the expectations expectations.json: ")
        assert why in refused


def test_a_missing_file_is_a_wrong_argument(desk: Desk) -> None:
    (with_suite(desk).folder / "expectations.json").unlink()
    assert "there is no such file" in desk.release(exit_code=2)["error"]["message"]
    assert desk.document("ledger", "show", desk.study)["charges"] == 0


@pytest.mark.slow
def test_what_it_finds_changes_nothing_that_can_be_seen_or_found_elsewhere(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    columns = people()
    columns["person"][7], columns["region"][8] = "Zebulon-Quirk-Canary", "atlantis-canary"
    desk.write_table(columns)
    with caplog.at_level(logging.DEBUG, "great_expectations"):
        told = with_suite(desk, [*SUITE, SUITE[0] | {"description": "Ostrich-Suite-Canary"}])
        done = told.run("release", desk.study, "--period", PERIOD)
    assert done.exit_code == 0
    assert found(desk) == [*MET, True]
    assert not [one for one in caplog.records if one.name.startswith("great_expectations")]
    assert places(desk.folder, ("Zebulon-Quirk-Canary", "atlantis-canary"), skip=[desk.table().parent]) == []
    # which holds refusals of other tests' suites, and they name types
    assert places(Path(os.environ["PREFECT_HOME"]), ("Ostrich-Suite-Canary", "region.unknown_levels")) == []
    assert places(desk.home / "archive", ("Ostrich-Suite-Canary", "expect_column", "unknown_levels")) == []


@pytest.mark.slow
def test_an_expectation_about_a_column_that_a_release_does_not_read_is_left_out_there(desk: Desk) -> None:
    with_suite(desk)
    desk.edit_study("covariates: [age, female, region]", "covariates: [female, region]")
    refused = desk.release(exit_code=2)["error"]["message"]
    assert "names age.nulls" in refused  # no release of the study reads it
    other = "  other: {kind: regression, response: pay, covariates: [age], mechanism: gaussian, epsilon: 0.5}\n"
    desk.edit_study("releases:\n", f"releases:\n{other}")
    desk.release()
    assert found(desk) == MET[1:]


RUN = "@pd.io.common.os.system('touch made-by-a-suite') == 0"
SUM = {"column": "rows", "min_value": 1}
CODE: dict[str, dict[str, Any]] = {
    "a condition on rows": {"kwargs": SUM | {"row_condition": RUN, "condition_parser": "pandas"}},
    "a parser of conditions": {"kwargs": SUM | {"condition_parser": "pandas"}},
    "a condition without a parser": {"kwargs": SUM | {"row_condition": RUN}},
    "a condition handed through": {
        "kwargs": SUM | {"row_condition": {"type": "pass_through", "pass_through_filter": RUN}},
    },
    "a condition handed through, deeper": {
        "kwargs": SUM
        | {"row_condition": {"type": "and", "conditions": [{"type": "pass_through", "pass_through_filter": RUN}] * 2}},
    },
    "no condition": {"kwargs": SUM | {"row_condition": None}},
    "a condition in place of a number": {"kwargs": SUM | {"max_value": {"pass_through_filter": RUN}}},
    "a parameter": {"kwargs": SUM | {"max_value": {"$PARAMETER": "9 ^ 9 ^ 9 ^ 9"}}},
    "a parameter with its value": {"kwargs": SUM | {"max_value": {"$PARAMETER": "a", "$PARAMETER.a": 3}}},
    "a parameter as text": {"kwargs": SUM | {"max_value": "$PARAMETER"}},
    "a column that is a parameter": {"kwargs": {"column": {"$PARAMETER": "now()"}}},
    "a format of results": {"kwargs": SUM | {"result_format": {"result_format": "COMPLETE"}}},
    "windows": {"kwargs": SUM | {"windows": []}},
    "caught exceptions": {"kwargs": SUM | {"catch_exceptions": False}},
    "ignored rows": {
        "type": "expect_column_pair_values_to_be_equal",
        "kwargs": {"column_A": "rows", "column_B": "rows", "ignore_row_if": "neither"},
    },
    "SQL": {"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": "select * from {batch}"}},
    "another table": {
        "type": "expect_table_row_count_to_equal_other_table",
        "kwargs": {"other_table_name": "ledger"},
    },
    "a pattern that takes forever": {
        "type": "expect_column_values_to_match_regex",
        "kwargs": {"column": "rows", "regex": "(a+)+$"},
    },
}


@pytest.mark.parametrize("kind", CODE)
def test_nothing_in_a_suite_is_code_or_read_as_such(shared_desk: Desk, kind: str) -> None:
    if "expectations:" not in shared_desk.study.read_text():
        with_suite(shared_desk)
    suite = [SUITE[0], {"type": "expect_column_sum_to_be_between"} | CODE[kind]]
    (shared_desk.folder / "expectations.json").write_text(json.dumps({"expectations": suite}))
    refused = shared_desk.document("check", shared_desk.study, exit_code=2)["error"]["message"]
    assert refused.startswith("cannot read the expectations expectations.json: expectation 2 ")
    assert any(words in refused for words in ("only these", "something other than"))


def test_a_suite_with_code_releases_nothing_and_none_of_it_is_run(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with_suite(desk, [{"type": "expect_column_sum_to_be_between"} | CODE["a condition on rows"]])
    assert "takes only these: column, min_value" in desk.release(exit_code=2)["error"]["message"]
    assert not list(tmp_path.rglob("made-by-*"))
    assert desk.document("ledger", "show", desk.study)["charges"] == 0


def test_an_expectation_that_fails_as_only_some_tables_make_it_changes_nothing_outside(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpbayes.secure.validation import checks as validation

    def fails(batch: Any, one: Any) -> None:
        raise RecursionError("4711")

    with_suite(desk, SUITE[:1])
    monkeypatch.setattr(validation, "_met", fails)
    done = desk.run("release", desk.study, "--period", PERIOD)
    assert done.exit_code == 0
    assert "4711" not in done.output + done.stderr
