"""The JSON documents that programs read say what they said: the same keys, types, numbers and names."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import dpbayes
from tests.support.golden import HERE, NOWHERE, Case, differences, restore
from tests.support.golden_cases import ANSWERS, REFUSALS

Stand = Callable[[str], Path]


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Stand:
    place, made = tmp_path_factory.mktemp("golden"), {}

    def of(family: str) -> Path:
        if family not in made:
            made[family] = restore(family, place / family)
        return made[family]

    return of


DEAR = ("kinds-plan-kinds", "scaffold-plan-study", "plan-charged", "plan-closed")


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.name in DEAR else [])
        for case in (*ANSWERS, *REFUSALS)
    ],
)
def test_a_document_is_what_it_was(standing: Stand, case: Case) -> None:
    recorded = json.loads(case.file.read_text())
    assert list(differences(recorded, case.document(standing(case.family)))) == []


@pytest.mark.slow
def test_a_refusal_by_the_budget_is_what_it_was(tmp_path: Path) -> None:
    folder = restore(NOWHERE, tmp_path / NOWHERE)
    dpbayes("ledger", "create", "dear.yaml", cwd=folder, check=True)
    refused = dpbayes("release", "dear.yaml", "--period", "2026-01", "--json", cwd=folder)
    assert refused.returncode == 3, refused.stderr
    recorded = json.loads(Case("beyond-the-budget", NOWHERE, ()).file.read_text())
    assert list(differences(recorded, json.loads(refused.stdout.replace(str(folder), HERE)))) == []


def _renamed(document: Any) -> Any:
    document["budget"] = document.pop("accounts")
    return document


def _another_number(document: Any) -> Any:
    document["accounts"][0]["caps"][0]["spent"] *= 1 + 1e-8
    return document


def _whole_number(document: Any) -> Any:
    document["accounts"][0]["caps"][0]["limit"] = int(document["accounts"][0]["caps"][0]["limit"])
    return document


def _another_name(document: Any) -> Any:
    document["accounts"][0]["account"] += "s"
    return document


def _one_less(document: Any) -> Any:
    del document["accounts"][0]["caps"][-1]
    return document


def _nothing_said(document: Any) -> Any:
    document["detail"] = " "
    return document


@pytest.mark.parametrize("change", [_renamed, _another_number, _whole_number, _another_name, _one_less, _nothing_said])
def test_the_comparison_can_fail(change: Callable[[Any], Any]) -> None:
    def of() -> Any:
        (case,) = (case for case in ANSWERS if case.name == "wages-ledger-show")
        return json.loads(case.file.read_text()) | {"detail": "Some words."}

    assert list(differences(of(), of())) == []
    assert list(differences(of(), change(of())))


def test_words_may_change_where_they_are_words() -> None:
    assert list(differences({"detail": "Nine entries."}, {"detail": "9 entries"})) == []
    assert list(differences({"detail": ["One.", "Two."]}, {"detail": ["1.", "2."]})) == []
    assert list(differences({"detail": "Nine entries."}, {"detail": None}))
