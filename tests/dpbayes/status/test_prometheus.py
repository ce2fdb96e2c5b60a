"""The numbers for Prometheus, as Prometheus' own client reads them."""

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from dpbayes.status.prometheus import prometheus_text
from tests.dpbayes.status.status_example import document
from tests.support.command import ROOT


def numbers(document: dict[str, Any]) -> dict[str, dict[tuple[str, ...], float]]:
    """By name and by the values of the labels."""
    return {
        family.name: {tuple(sample.labels.values()): sample.value for sample in family.samples}
        for family in parsed(prometheus_text(document))
    }


def test_every_number_is_that_of_the_document() -> None:
    found = numbers(document())
    assert found["dpbayes_status_exit_code"] == {(): 3}
    assert found["dpbayes_status_timestamp_seconds"] == {(): 1793608200}
    assert found["dpbayes_waits_for_person"]["steward",] == 1
    assert found["dpbayes_waits_for_person"]["auditor",] == 0
    assert found["dpbayes_periods"]["hours", "staff", "refused"] == 1
    assert found["dpbayes_periods"]["pay", "staff", "done"] == 58
    assert found["dpbayes_periods"]["pensions", "staff", "done"] == 0
    assert found["dpbayes_oldest_open_due_timestamp_seconds"]["pay", "staff"] == 1793498400
    assert found["dpbayes_next_due_timestamp_seconds"]["pay", "staff"] == 1796090400
    assert found["dpbayes_last_release_timestamp_seconds"]["pay", "staff"] == 1790812800
    assert set(found["dpbayes_last_release_timestamp_seconds"]) == {("hours", "staff"), ("pay", "staff")}
    assert found["dpbayes_budget_remaining"]["staff", "lifetime", "epsilon-delta"] == pytest.approx(0.4)
    assert found["dpbayes_budget_periods_that_fit"]["staff", "lifetime", "epsilon-delta"] == 5
    assert found["dpbayes_budget_first_refused_timestamp_seconds"] == {
        ("staff", "lifetime", "epsilon-delta"): 1806544800
    }
    assert found["dpbayes_study_deployed"]["hours", "staff"] == 0
    assert found["dpbayes_worker_seen_timestamp_seconds"]["dpbayes", "one"] == 1793608190
    assert found["dpbayes_dead_runs"] == {(): 1}


def test_a_server_that_does_not_answer_is_0_and_without_one_nothing_is_said_of_it() -> None:
    silent = document()
    silent["server"] |= {"answers": False, "sentence": "It does not answer."}
    assert numbers(silent)["dpbayes_server_answers"] == {(): 0}
    assert "dpbayes_dead_runs" not in numbers(silent)
    assert "dpbayes_server_answers" not in numbers(document() | {"server": None})


def test_a_label_is_escaped_whatever_it_contains() -> None:
    hostile = 'a"b\\c\nd} 1'
    changed = document()
    changed["server"]["workers"][0]["worker"] = hostile
    found = numbers(changed)["dpbayes_worker_seen_timestamp_seconds"]
    assert len(found) == 1
    ((_, worker),) = found
    assert worker == 'a"b\\c\\nd} 1'


def test_the_same_document_gives_the_same_bytes() -> None:
    assert prometheus_text(document()) == prometheus_text(document())


def test_every_number_has_its_line_in_the_documentation() -> None:
    text = (ROOT / "docs" / "status.md").read_text()
    assert sorted(name for name in numbers(document()) if f"`{name}`" not in text) == []
    assert len(numbers(document())) >= 15
