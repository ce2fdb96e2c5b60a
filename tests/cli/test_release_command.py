"""What a steward sees of `dpbayes release`: once, again, refused, and with a table of another shape."""

import shutil

import numpy as np
import pytest

from tests.support.desk import PERIOD, Desk, people


def test_a_second_release_answers_the_same_bytes_and_charges_nothing(desk: Desk) -> None:
    first, second = desk.release(), desk.release()
    assert first["releases"][0]["status"] == "released"
    assert second["releases"][0]["status"] == "already-released"
    assert second["releases"][0]["digest"] == first["releases"][0]["digest"]
    assert desk.document("ledger", "show", desk.study)["charges"] == 1


def test_steps_are_told_as_they_begin_where_nobody_watches(desk: Desk) -> None:
    said = desk.run("release", desk.study, "--period", PERIOD, "--json").stderr.splitlines()
    assert said[0] == "reading the table"
    assert said.index("charged and released") < said.index("writing the crate")
    assert len(said) == len(set(said)), "once each"
    again = desk.run("release", desk.study, "--period", PERIOD, "--json").stderr.splitlines()
    assert "writing the crate" not in again


def test_the_release_document_keeps_its_contract(desk: Desk) -> None:
    document = desk.release()
    assert document.keys() >= {"study", "period", "releases"}
    release = document["releases"][0]
    assert release.keys() >= {"release", "revision", "status", "digest", "cost", "caps", "crate"}
    assert release["cost"].keys() >= {"epsilon", "rho", "delta"}
    for cap in release["caps"]:
        assert cap.keys() >= {"cap", "window", "limit", "spent", "remaining"}


def test_a_release_beyond_a_cap_is_refused_in_one_sentence_and_leaves_no_trace(desk: Desk) -> None:
    desk.edit_study("epsilon: 1\n", "epsilon: 2.5\n")
    before = desk.document("ledger", "show", desk.study)
    refused = desk.release(exit_code=3)["error"]
    assert refused["kind"] == "budget-exceeded"
    assert "Ask for epsilon" in refused["message"]
    assert "or less" in refused["message"]
    assert desk.document("ledger", "show", desk.study) == before


def test_the_epsilon_that_a_refusal_offers_is_then_admitted(desk: Desk) -> None:
    desk.edit_study("epsilon: 1\n", "epsilon: 2.5\n")
    offered = desk.release(exit_code=3)["error"]["message"].split("Ask for epsilon ")[1].split(" ")[0]
    desk.edit_study("epsilon: 2.5\n", f"epsilon: {offered}\n")
    assert desk.release()["releases"][0]["status"] == "released"


def test_a_table_without_a_declared_column_is_another_shape_and_costs_nothing(desk: Desk) -> None:
    columns = people()
    del columns["age"]
    desk.write_table(columns)
    assert desk.release(exit_code=4)["error"]["kind"] == "shape-mismatch"
    assert desk.document("ledger", "show", desk.study)["charges"] == 0


def test_a_release_without_a_ledger_is_a_wrong_argument(desk: Desk) -> None:
    shutil.rmtree(desk.home)
    assert desk.release(exit_code=2)["error"]["kind"] == "ledger-missing"


def test_another_definition_under_the_same_name_is_refused(desk: Desk) -> None:
    desk.release()
    desk.edit_study("age: {bounds: [16, 80]}", "age: {bounds: [16, 90]}")
    assert desk.release(exit_code=2)["error"]["kind"] == "request-changed"


def test_a_change_that_does_not_touch_the_release_keeps_its_answer(desk: Desk) -> None:
    first = desk.release()
    desk.edit_study("draws: 500", "draws: 700")
    assert desk.release()["releases"][0]["digest"] == first["releases"][0]["digest"]


def test_a_revision_is_charged_again_and_supersedes(desk: Desk) -> None:
    first = desk.release()
    second = desk.release("--revision", "2", "--reason", "the source was wrong")
    assert second["releases"][0]["status"] == "released"
    assert second["releases"][0]["digest"] != first["releases"][0]["digest"]
    assert desk.document("ledger", "show", desk.study)["charges"] == 2


BROKEN = {
    "a null": ("pay", None),
    "a NaN": ("pay", float("nan")),
    "a huge number": ("pay", 1e308),
    "an infinity": ("age", float("-inf")),
    "an unknown level": ("region", "atlantis"),
    "a null level": ("female", None),
    "a null person": ("person", None),
}


@pytest.fixture(scope="module")
def clean(shared_desk: Desk) -> tuple[object, ...]:
    """What is seen of a table that breaks no rule."""
    return seen(shared_desk, people())


@pytest.mark.parametrize("rule", BROKEN)
def test_a_value_that_breaks_a_rule_changes_nothing_that_can_be_seen(
    shared_desk: Desk, clean: tuple[object, ...], rule: str
) -> None:
    column, value = BROKEN[rule]
    columns = people()
    columns[column] = list(columns[column])
    columns[column][17] = value
    assert seen(shared_desk, columns) == clean


def test_an_empty_row_group_changes_nothing_that_can_be_seen(desk: Desk) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    clean = seen(desk, people())
    table = pa.table(people())
    with pq.ParquetWriter(desk.table(), table.schema) as writer:
        writer.write_table(table)
        writer.write_table(table.slice(0, 0))
    assert outcome(desk) == clean


def seen(desk: Desk, columns: dict[str, object]) -> tuple[object, ...]:
    desk.write_table(columns)
    return outcome(desk)


def outcome(desk: Desk) -> tuple[object, ...]:
    """Exit code and terminal output of a fresh release, its random digest blotted out."""
    shutil.rmtree(desk.home, ignore_errors=True)
    assert desk.run("ledger", "create", desk.study).exit_code == 0
    result = desk.run("release", desk.study, "--period", PERIOD)
    digest = next(line.split()[-1] for line in result.output.splitlines() if "digest" in line)
    blotted = result.output.replace(digest, "D").replace(digest[:16], "D")
    return result.exit_code, blotted, result.stderr


def test_the_comparison_can_fail(desk: Desk) -> None:
    clean = seen(desk, people())
    desk.edit_study("epsilon: 1\n", "epsilon: 0.9\n")
    assert seen(desk, people()) != clean
    assert np.isfinite(people()["pay"]).all()
