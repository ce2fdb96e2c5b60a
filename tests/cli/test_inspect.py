"""What a steward sees of `dpbayes inspect`: a page in the vault, a note in the ledger, and nothing charged."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.desk import PERIOD, Desk, people

pytestmark = pytest.mark.usefixtures("prefect_home")
BROKEN = ("pay", "female", "region", "age", "person")


def inspect(desk: Desk, *more: str, exit_code: int = 0) -> dict[str, Any]:
    return desk.document("inspect", desk.study, "--period", PERIOD, *more, exit_code=exit_code)


def notes(desk: Desk) -> list[str]:
    lines = desk.document("ledger", "history", desk.study)["entries"]
    return [line["reason"] for line in lines if line["kind"] == "note"]


def release_page(desk: Desk) -> Path:
    return desk.home / "vault" / "pay" / PERIOD / "pay-regression-r1" / "validation.html"


def named_on(page: Path) -> dict[str, str]:
    """What a validation page says that it is about."""
    (kicker,) = re.findall('<p class="kicker">(.*)</p>', page.read_text())
    return dict(re.findall(r"([a-z ]+) <strong>([^<]*)</strong>", kicker.replace(" · ", "")))


def test_a_table_is_looked_at_on_record_and_nothing_is_charged(desk: Desk) -> None:
    before = desk.document("ledger", "show", desk.study)
    document = inspect(desk)
    assert {name: document[name] for name in ("study", "account", "period")} == {
        "study": "pay",
        "account": "staff",
        "period": PERIOD,
    }
    (found,) = document["inspected"]
    assert (found["release"], found["holder"]) == ("pay-regression", None)
    page = Path(found["page"])
    assert page.is_relative_to(desk.home / "vault")
    assert "out of bounds" in page.read_text()
    assert "nothing was charged, which the ledger records" in page.read_text()
    assert named_on(page) == {
        "study": "pay",
        "account": "staff",
        "period": PERIOD,
        "release": "pay-regression",
        "ledger entry": str(document["entry"]["seq"]),
    }
    after = desk.document("ledger", "show", desk.study)
    assert (after["charges"], after["accounts"]) == (0, before["accounts"])
    assert document["entry"] == {"seq": after["head"]["seq"]}
    assert notes(desk) == [f"table of pay for {PERIOD} was inspected before its release: pay-regression"]
    last = desk.document("ledger", "history", desk.study)["entries"][-1]
    assert [last[name] for name in ("study", "account", "period")] == ["pay", "staff", PERIOD]
    assert desk.document("audit", desk.study)["ok"]


def test_every_look_is_a_note_and_says_whether_the_release_was_made(desk: Desk) -> None:
    inspect(desk)
    inspect(desk)
    desk.release()
    inspect(desk)
    before = f"table of pay for {PERIOD} was inspected before its release: pay-regression"
    assert notes(desk) == [before, before, before.replace("before", "after")]


def test_a_look_cannot_happen_without_its_note(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[list[str]] = []

    def stop(*_: object, **__: object) -> None:
        heard.append(notes(desk))
        raise ValueError("zebra-4711")

    monkeypatch.setattr("tasks.secure_pass.read_statistics", stop)
    done = desk.run("inspect", desk.study, "--period", PERIOD)
    assert done.exit_code == 1
    assert "ValueError stopped it" in done.output
    assert "4711" not in done.output
    assert heard == [notes(desk)]
    assert len(heard[0]) == 1


def test_a_table_of_another_shape_is_refused_before_anything_is_noted(desk: Desk) -> None:
    columns = people()
    del columns["age"]
    desk.write_table(columns)
    assert inspect(desk, exit_code=4)["error"]["kind"] == "shape-mismatch"
    assert notes(desk) == []


def test_without_a_ledger_nothing_is_looked_at(desk: Desk) -> None:
    shutil.rmtree(desk.home)
    assert inspect(desk, exit_code=2)["error"]["kind"] == "ledger-missing"


def test_an_account_that_is_stated_otherwise_is_refused_as_of_a_release(desk: Desk) -> None:
    desk.edit_study("lifetime: {epsilon: 8}", "lifetime: {epsilon: 9}")
    assert "was opened with another lifetime cap" in inspect(desk, exit_code=2)["error"]["message"]
    assert notes(desk) == []


def test_an_account_that_nobody_opened_is_refused_as_of_a_release(desk: Desk) -> None:
    desk.edit_study("population: staff", "population: staf")
    assert inspect(desk, exit_code=2)["error"] == desk.release(exit_code=2)["error"]
    assert notes(desk) == []


def test_a_full_budget_does_not_stop_a_look(desk: Desk) -> None:
    desk.edit_study("epsilon: 1\n", "epsilon: 3\n")
    desk.release(exit_code=3)
    assert len(inspect(desk)["inspected"]) == 1


@pytest.mark.slow
def test_nothing_of_the_pass_is_kept_and_the_release_after_it_is_as_any_other(desk: Desk) -> None:
    inspect(desk)
    assert list((desk.home / "vault" / "unfinished").rglob("*")) == []
    assert not list(desk.home.joinpath("keys").glob("unfinished-*"))
    profile = Path(inspect(desk)["inspected"][0]["page"]).with_name("profile.json").read_text()
    assert desk.release()["releases"][0]["status"] == "released"
    assert release_page(desk).with_name("profile.json").read_text() == profile


@pytest.mark.slow
def test_what_is_seen_outside_the_vault_does_not_hang_on_a_value(desk: Desk) -> None:
    clean = desk.run("inspect", desk.study, "--period", PERIOD)
    columns = people()
    for name in BROKEN:
        columns[name] = [None, *columns[name][1:]]
    desk.write_table(columns)
    broken = desk.run("inspect", desk.study, "--period", PERIOD)
    assert broken.exit_code == clean.exit_code == 0
    assert broken.stdout.replace("entry 4 ", "entry 3 ") == clean.stdout
    assert broken.stderr == clean.stderr
    page = desk.home / "vault" / "pay" / PERIOD / "pay-regression-inspected" / "validation.html"
    assert "are not met" in page.read_text()


@pytest.mark.slow
def test_a_release_names_its_validation_page_when_it_is_made_and_ever_after(desk: Desk) -> None:
    made, stored = desk.release()["releases"][0], desk.release()["releases"][0]
    assert made["validation"] == stored["validation"] == str(release_page(desk))
    about = {"study": "pay", "account": "staff", "period": PERIOD, "release": "pay-regression", "revision": "1"}
    assert named_on(release_page(desk)) == about
    said = desk.run("release", desk.study, "--period", PERIOD).output
    assert "validation, confidential: " in said
    shutil.rmtree(desk.home / "vault")
    assert desk.release()["releases"][0]["validation"] is None


@pytest.mark.slow
def test_one_holder_alone_is_looked_at_where_the_others_are_elsewhere(desk: Desk) -> None:
    shutil.rmtree(desk.home)
    desk.edit_study(
        'source: {path: "data/pay-{period}.parquet", rows: 2000, unit: person}',
        "source: {rows: 2000, unit: person, holder: {membership: fixed, paths: "
        '{n: "data/pay-{period}.parquet", s: "elsewhere/pay-{period}.parquet"}}}',
    )
    assert desk.run("ledger", "create", desk.study).exit_code == 0
    assert inspect(desk, exit_code=4)["error"]["kind"] == "shape-mismatch"
    found = inspect(desk, "--holder", "n")["inspected"]
    assert [(one["holder"], Path(one["page"]).parent.name) for one in found] == [("n", "pay-regression-at-n-inspected")]
    assert named_on(Path(found[0]["page"]))["holder"] == "n"
    assert notes(desk) == [f"table of pay for {PERIOD} at n was inspected before its release: pay-regression"]
    assert inspect(desk, "--holder", "m", exit_code=2)["error"]["kind"] == "study-invalid"


@pytest.fixture(scope="module")
def wages(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """The example studies with their tables, home and ledger."""
    desk = Desk(tmp_path_factory.mktemp("examples") / "wages")
    assert desk.run("init", desk.folder).exit_code == 0
    return desk


@pytest.mark.parametrize("name", ["study.yaml", "networks.yaml", "questions.yaml"])
def test_a_sound_table_of_every_example_has_a_page_without_an_alarm(wages: Desk, name: str) -> None:
    document = wages.document("inspect", wages.folder / name, "--period", "2026-01")
    assert document["inspected"]
    for found in document["inspected"]:
        assert json.loads(Path(found["page"]).with_name("validation.json").read_text())["success"]


@pytest.mark.slow
def test_what_a_study_has_rules_for_raises_no_alarm(desk: Desk) -> None:
    shutil.rmtree(desk.home)
    desk.edit_study("pay: {bounds: [0, 10]}", "pay: {bounds: [0, 10], nulls: 3}")
    desk.edit_study("levels: [north, south, east]", "levels: [north, south, east], unknown: east")
    desk.edit_study("unit: person", "unit: person, max_rows_per_unit: 3")
    assert desk.run("ledger", "create", desk.study).exit_code == 0
    columns = people()
    columns["pay"] = [None, float("nan"), *columns["pay"][2:].clip(0, 10)]
    columns["region"] = ["west", None, *columns["region"][2:]]
    columns["person"] = [f"P{place // 5}" for place in range(len(columns["person"]))]
    desk.write_table(columns)
    page = Path(inspect(desk)["inspected"][0]["page"])
    assert json.loads(page.with_name("validation.json").read_text())["success"]
    text = page.read_text()
    assert 'class="no"' not in text
    for words in ("pay, missing", "pay, not a number", "region, unknown level", "rows beyond those that count"):
        assert words in text.split("Counted without an alarm")[1]
    columns["age"] = [None, *columns["age"][1:]]
    desk.write_table(columns)
    inspect(desk)
    assert "1 of" in page.read_text()
    assert 'class="no"' in page.read_text()
