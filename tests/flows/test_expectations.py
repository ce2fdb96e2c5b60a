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
    {"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": "select * from {batch}"}},
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


def test_a_suite_changes_neither_the_request_nor_the_answer(desk: Desk) -> None:
    first = desk.release()["releases"][0]
    second = with_suite(desk).release()["releases"][0]
    assert (second["status"], second["digest"]) == ("already-released", first["digest"])


MALFORMED = {
    "not JSON": ("{", "it is not JSON"),
    "NaN": ('{"expectations": [{"type": "a", "kwargs": {"b": NaN}}]}', "it is not JSON"),
    "a list": ("[]", "it has no list of expectations"),
    "no type": ([{"kwargs": {}}], "expectation 1 is not a type with arguments"),
    "an unknown type": ([*SUITE, {"type": "expect_nothing"}], "expectation 6 is none that Great Expectations knows"),
    "a lacking argument": ([{"type": "expect_column_max_to_be_between"}], "lacks an argument"),
    "a column of rows": (
        [{"type": "expect_column_max_to_be_between", "kwargs": {"column": "age"}}],
        "speaks of age, which no profile has",
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


def test_what_it_finds_changes_nothing_that_can_be_seen_or_found_elsewhere(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    columns = people()
    columns["person"][7], columns["region"][8] = "Zebulon-Quirk-Canary", "atlantis-canary"
    desk.write_table(columns)
    with caplog.at_level(logging.DEBUG, "great_expectations"):
        done = with_suite(desk).run("release", desk.study, "--period", PERIOD)
    assert done.exit_code == 0
    assert not [one for one in caplog.records if one.name.startswith("great_expectations")]
    assert places(desk.folder, ("Zebulon-Quirk-Canary", "atlantis-canary"), skip=[desk.table().parent]) == []
    assert places(Path(os.environ["PREFECT_HOME"]), ("expect_column", "region.unknown_levels")) == []
    assert places(desk.home / "archive", ("expect_column", "unknown_levels")) == []


def test_an_expectation_about_a_column_that_a_release_does_not_read_is_left_out_there(desk: Desk) -> None:
    with_suite(desk)
    desk.edit_study("covariates: [age, female, region]", "covariates: [female, region]")
    refused = desk.release(exit_code=2)["error"]["message"]
    assert "speaks of age.nulls" in refused  # no release of the study reads it
    other = "  other: {kind: regression, response: pay, covariates: [age], mechanism: gaussian, epsilon: 0.5}\n"
    desk.edit_study("releases:\n", f"releases:\n{other}")
    desk.release()
    assert found(desk) == MET[1:]
