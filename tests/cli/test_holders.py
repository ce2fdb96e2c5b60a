"""A table that two offices hold, through the real command: one pass, a charge and a crate for each of them."""

import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dpbayes.analyses.stored_releases import newest_releases
from dpbayes.study.load import load_study
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.privacy.accounting import cap_rho_units
from dpbayes_core.releases import release_from_record
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.page import Page
from tests.cli.test_release_killed import files, run
from tests.support.canaries import places
from tests.support.command import dpbayes
from tests.support.desk import PERIOD, Desk
from tests.support.killed import CHARGED
from tests.support.offices import OFFICES, offices, staff, write_staff
from tests.support.schemas import flaws_of_record

pytestmark = pytest.mark.usefixtures("prefect_home")
TIMES = {"fixed": 1, "movable": 4, "undeclared": 2}  # what both offices' charges come to, in rho


def counts() -> list[int]:
    return [staff()["office"].count(office) for office in OFFICES]


def spent(document: dict[str, Any], cap: str = "lifetime") -> float:
    return next(one["totals"]["spent"]["rho"] for one in document["caps"] if one["cap"] == cap)


def charges(desk: Desk) -> list[dict[str, Any]]:
    with AnchoredLedger.open(desk.study) as anchored:
        return [entry.payload for entry in anchored.ledger.entries() if entry.kind == "charge"]


@pytest.mark.parametrize(
    ("membership", "paths"),
    [
        ("fixed", False),
        ("movable", True),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in (("fixed", True), ("movable", False))),
        *(pytest.param("undeclared", paths, marks=pytest.mark.slow) for paths in (False, True)),
    ],
)
def test_every_office_has_its_charge_its_crate_and_its_line(tmp_path: Path, membership: str, paths: bool) -> None:
    desk = offices(tmp_path, membership, paths=paths)
    released = desk.release()["releases"]
    assert [(one["release"], one["holder"], one["status"]) for one in released] == [
        ("pay-regression", office, "released") for office in OFFICES
    ]
    one, other = (Path(each["crate"]) for each in released)
    for office, crate in zip(OFFICES, (one, other), strict=True):
        record = json.loads((crate / "release.json").read_text())
        assert (record["holder"], record["neighbours"]) == (
            office,
            "add-remove" if membership == "movable" else "replace-one",
        )
        assert release_from_record(record["statistics"]).protected
        assert flaws_of_record(crate) == []
        assert f" at {office}" in (crate / "registry.yaml").read_text()
        assert f"-at-{office}-r1-" in crate.name
    assert [each["rows"] for each in released] == ([None, None] if membership == "movable" else counts())
    cost = released[0]["cost"]["rho"]
    assert spent(released[1]) == pytest.approx(TIMES[membership] * cost, rel=1e-12)
    again = desk.release()["releases"]
    assert [each["status"] for each in again] == ["already-released"] * 2
    assert [each["digest"] for each in again] == [each["digest"] for each in released]
    assert desk.document("audit", desk.home)["ok"]


@pytest.mark.slow
def test_people_read_which_office_a_line_is_about(tmp_path: Path) -> None:
    desk = offices(tmp_path)
    desk.edit_study("covariates: [age, female, region]", "covariates: [age]")  # is planned in half the time
    assert "for each of its holders: n, s" in desk.run("check", desk.study, "--source", "--period", PERIOD).output
    page = tmp_path / "plan.html"
    assert "n, s: a charge of that cost for each" in desk.run("plan", desk.study, "--html", page).output
    assert "n, s: a charge of that cost for each" in page.read_text()
    said = desk.run("release", desk.study, "--period", PERIOD).output
    assert "Released pay-regression at n for 2026-01" in said
    assert "Released pay-regression at s for 2026-01" in said
    assert "holders n, s (fixed)" in desk.run("ledger", "show", desk.study).output
    history = [entry["what"] for entry in desk.document("ledger", "history", desk.study)["entries"]]
    assert history[1].endswith("; holders by office: n, s (fixed)")
    assert history[-1] == "pay-regression of 2026-01 at s, gaussian"
    assert desk.document("ledger", "show", desk.study)["accounts"][0]["holders"]["membership"] == "fixed"


@pytest.mark.parametrize(
    "membership", ["movable", *(pytest.param(each, marks=pytest.mark.slow) for each in ("fixed", "undeclared"))]
)
def test_what_is_planned_is_what_is_then_spent(tmp_path: Path, membership: str) -> None:
    desk = offices(tmp_path, membership)
    desk.edit_study("covariates: [age, female, region]", "covariates: [age]")  # is planned in half the time
    (planned,) = desk.document("plan", desk.study, "--period", PERIOD)["releases"]
    assert planned["holders"] == list(OFFICES)
    assert planned["neighbours"] == ("add-remove" if membership == "movable" else "replace-one")
    foretold = {cap["cap"]: cap["after"] for cap in planned["caps"]}
    released = desk.release()["releases"][-1]
    assert foretold == {cap["cap"]: cap["spent"] for cap in released["caps"]}
    (again,) = desk.document("plan", desk.study, "--period", PERIOD)["releases"]
    assert again["status"] == "already-released"
    assert {cap["cap"]: cap["after"] for cap in again["caps"]} == foretold


@pytest.mark.parametrize("membership", ["undeclared", pytest.param("movable", marks=pytest.mark.slow)])
def test_what_all_offices_would_cost_together_is_refused_before_anything_is_charged(
    tmp_path: Path, membership: str
) -> None:
    desk = offices(tmp_path, membership)
    desk.edit_study("covariates: [age, female, region]", "covariates: [age]")  # is planned in half the time
    largest = desk.document("plan", desk.study, "--period", PERIOD)["releases"][0]["largest_epsilon"]
    delta, times = Decimal("1e-6"), TIMES[membership]
    fits, fits_not = (times * cap_rho_units(Decimal(str(largest)) + more, delta) for more in (0, Decimal("0.01")))
    assert fits <= cap_rho_units(Decimal(3), delta) < fits_not
    desk.edit_study("epsilon: 1\n", "epsilon: 2.9\n")
    refused = desk.release(exit_code=3)["error"]["message"]
    assert "pay-regression of 2026-01 at n, s" in refused
    assert f"Ask for epsilon {largest:g} or less" in refused
    assert desk.document("ledger", "show", desk.study)["charges"] == 0
    desk.edit_study("epsilon: 2.9\n", f"epsilon: {largest:g}\n")
    assert [one["status"] for one in desk.release()["releases"]] == ["released"] * 2


@pytest.mark.slow
def test_a_release_that_died_between_two_offices_charged_neither_and_makes_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, append = offices(tmp_path), Page.append

    def dying(page: Page, kind: str, key: str, *arguments: Any, **named: Any) -> Any:
        if kind == "charge" and json.loads(key)[3] == "s":
            raise KeyboardInterrupt
        return append(page, kind, key, *arguments, **named)

    monkeypatch.setattr(Page, "append", dying)
    desk.run("release", desk.study, "--period", PERIOD)
    assert charges(desk) == []
    assert list((desk.home / "keys").glob("unfinished-*"))  # what was summed waits for the next attempt
    (planned,) = desk.document("plan", desk.study, "--period", PERIOD)["releases"]
    assert planned["status"] == "planned"
    monkeypatch.undo()
    assert [one["status"] for one in desk.release()["releases"]] == ["released"] * 2
    assert [one["holder"] for one in charges(desk)] == ["n", "s"]
    assert [one["status"] for one in desk.release()["releases"]] == ["already-released"] * 2
    assert not list((desk.home / "keys").glob("unfinished-*"))


@pytest.mark.slow
@pytest.mark.parametrize("boundary", ["during-pass", "between-holders", "after-commit", "before-manifest"])
def test_a_release_of_two_offices_that_was_killed_is_completed_by_running_it_again(
    tmp_path: Path, boundary: str
) -> None:
    desk = offices(tmp_path, "movable")
    assert run(boundary, "alone", desk.study, PERIOD).returncode == -9
    before = [one["digest"] for one in charges(desk)]
    assert len(before) == (2 if boundary in CHARGED else 0)  # of both offices, or of neither
    first = run("never", "alone", desk.study, PERIOD)
    assert first.returncode == 0, first.stderr
    assert first.stdout.split()[: len(before)] == before
    assert [one["holder"] for one in charges(desk)] == list(OFFICES)
    published = files(desk.home / "archive")
    assert run("never", "alone", desk.study, PERIOD).stdout == first.stdout
    assert files(desk.home / "archive") == published
    assert desk.document("audit", desk.home)["ok"]


@pytest.mark.slow
def test_the_newest_release_of_every_office_is_found_in_the_declared_order(tmp_path: Path) -> None:
    desk = offices(tmp_path)
    first = desk.release()["releases"]
    second = desk.release("--revision", "2", "--reason", "the source was wrong")["releases"]
    study = load_study(desk.study)
    with AnchoredLedger.open(desk.study) as anchored:
        found = newest_releases(study, "pay-regression", PERIOD, anchored)
    assert [entry.payload["holder"] for entry in found] == list(OFFICES)
    assert [entry.payload["digest"] for entry in found] == [one["digest"] for one in second]
    assert {one["digest"] for one in first}.isdisjoint(one["digest"] for one in second)


BROKEN = {"an unknown office": "atlantis", "no office": None, "the other office": "s"}
REST = ("no office", "the other office")


@pytest.mark.parametrize("rule", ["an unknown office", *(pytest.param(each, marks=pytest.mark.slow) for each in REST)])
def test_where_people_move_whose_a_row_is_changes_nothing_that_can_be_seen(tmp_path: Path, rule: str) -> None:
    desk = offices(tmp_path, "movable")
    columns = staff()
    clean = outcome(desk, columns)
    columns["office"][columns["office"].index("n")] = BROKEN[rule]
    assert outcome(desk, columns) == clean


def outcome(desk: Desk, columns: dict[str, Any]) -> tuple[object, ...]:
    """Exit code and terminal output of a fresh release, its random digests blotted out."""
    write_staff(desk, columns)
    shutil.rmtree(desk.home, ignore_errors=True)
    assert desk.run("ledger", "create", desk.study).exit_code == 0
    result = desk.run("release", desk.study, "--period", PERIOD)
    said = result.output
    for line in said.splitlines():
        if "digest" in line:
            said = said.replace(line.split()[-1], "D").replace(line.split()[-1][:16], "D")
    return result.exit_code, said, result.stderr


@pytest.mark.slow
def test_an_office_without_a_row_is_released_like_any_other(tmp_path: Path) -> None:
    desk, columns = offices(tmp_path), staff()
    columns["office"] = ["n"] * len(columns["office"])
    write_staff(desk, columns)
    assert [one["rows"] for one in desk.release()["releases"]] == [2000, 0]


def test_the_steward_reads_in_the_vault_who_was_with_several_offices_or_with_none(tmp_path: Path) -> None:
    desk, columns = offices(tmp_path), staff()
    columns["person"][1] = columns["person"][0]
    columns["office"][:3] = ["n", "s", "elsewhere"]
    write_staff(desk, columns)
    desk.release()
    vault = desk.home / "vault" / "pay" / PERIOD / "pay-regression-r1"
    profile = json.loads((vault / "profile.json").read_text())
    assert profile["several_holders"] == 1
    assert profile["columns"]["office"]["unknown_levels"] == 1
    assert "people with several holders" in (vault / "validation.html").read_text()
    unmet = [one for one in json.loads((vault / "validation.json").read_text())["expectations"] if not one["met"]]
    found = {(one["column"], one["count"]) for one in unmet}
    assert found >= {(None, "several_holders"), ("office", "unknown_levels")}


@pytest.mark.slow
@pytest.mark.parametrize("paths", [False, True])
def test_planted_values_and_strange_offices_appear_nowhere(tmp_path: Path, paths: bool) -> None:
    canaries = (90817.26354, "Zebulon-Quirk-Canary", "atlantis-canary")
    desk, columns = offices(tmp_path, paths=paths), staff()
    columns["pay"][11], columns["person"][12] = canaries[:2]
    columns["region" if paths else "office"][13] = canaries[2]
    write_staff(desk, columns, paths=paths)
    done = dpbayes("release", desk.study, "--period", PERIOD, "--debug", cwd=desk.folder)
    assert done.returncode == 0, done.stderr
    assert all(str(value) not in done.stdout + done.stderr for value in canaries)
    assert places(desk.folder, canaries, skip=[desk.table().parent]) == []


@pytest.mark.slow
def test_another_split_of_the_same_people_is_refused(tmp_path: Path) -> None:
    desk = offices(tmp_path)
    desk.release()
    for old, new in (("membership: fixed", "membership: movable"), ("values: [n, s]", "values: [s, n]")):
        desk.edit_study(old, new)
        assert desk.release(exit_code=2)["error"]["kind"] == "request-changed"
        refused = desk.document("release", desk.study, "--period", "2026-02", exit_code=2)["error"]["message"]
        assert "another split over holders" in refused
        desk.edit_study(new, old)


MISTAKES = [
    ("column: office, ", "", "Write one of column, paths"),
    ("column: office", "column: person", "names people, not holders"),
    ("column: office", "column: region", "names the holders and is declared"),
    ("values: [n, s], ", "", "the holders have no names"),
    ("values: [n, s]", "values: [n]", "at least 2"),
    ("membership: fixed", "membership: loose", "membership"),
    ("column: office, values: [n, s]", "paths: {n: 'n-{period}.csv', s: 's-{period}.csv'}", "given together"),
]


@pytest.mark.parametrize(("old", "new", "why"), MISTAKES)
def test_what_cannot_be_declared_of_holders_is_refused_at_its_line(
    tmp_path: Path, old: str, new: str, why: str
) -> None:
    desk = offices(tmp_path)
    desk.edit_study(old, new)
    assert why in desk.document("check", desk.study, exit_code=2)["error"]["message"]


def test_a_release_of_another_kind_is_not_made_holder_by_holder(tmp_path: Path) -> None:
    desk = offices(tmp_path)
    desk.edit_study(
        "releases:\n", "releases:\n  net: {kind: bayes-net, nodes: [female, region], edges: {}, epsilon: 1}\n"
    )
    refused = desk.document("check", desk.study, exit_code=2)["error"]["message"]
    assert "a bayes-net release is not made holder by holder" in refused
    assert "in a study of the same population that names no holder" in refused


@pytest.mark.slow
def test_a_release_of_one_office_is_withdrawn_by_its_name(tmp_path: Path) -> None:
    desk = offices(tmp_path)
    desk.release()
    name = ("ledger", "withdraw", desk.study, "pay-regression", "--period", PERIOD, "--reason", "a wrong column")
    assert "Add --holder and one of n, s" in desk.document(*name, exit_code=2)["error"]["message"]
    done = desk.document(*name, "--holder", "s")
    assert done["entry"]["what"] == "pay-regression of 2026-01 at s withdrawn"
    with (
        AnchoredLedger.open(desk.study) as anchored,
        pytest.raises(StudyInvalid, match="at s: its newest revision was withdrawn"),
    ):
        newest_releases(load_study(desk.study), "pay-regression", PERIOD, anchored)


def test_an_analysis_of_offices_that_were_not_all_released_is_refused(tmp_path: Path) -> None:
    desk = offices(tmp_path)
    study = load_study(desk.study)
    with (
        AnchoredLedger.open(desk.study) as anchored,
        pytest.raises(StudyInvalid, match="pay-regression of 2026-01 at n: nothing"),
    ):
        newest_releases(study, "pay-regression", PERIOD, anchored)


@pytest.mark.parametrize("paths", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_an_office_alone_is_released_where_the_others_are_elsewhere(tmp_path: Path, paths: bool) -> None:
    desk = offices(tmp_path, paths=paths)
    if paths:
        (desk.folder / "data" / f"n-{PERIOD}.parquet").unlink()
    (alone,) = desk.release("--holder", "s")["releases"]
    assert (alone["holder"], alone["status"], alone["rows"]) == ("s", "released", counts()[1])
    assert spent(alone) == pytest.approx(alone["cost"]["rho"], rel=1e-12)
    assert desk.document("audit", desk.home)["ok"]
    if paths:
        assert desk.release(exit_code=4)["error"]["kind"] == "shape-mismatch"
        write_staff(desk, staff(), paths=True)
    released = desk.release()["releases"]
    assert [one["status"] for one in released] == ["released", "already-released"]
    assert released[1]["digest"] == alone["digest"]


def test_an_office_is_not_released_alone_where_people_move_nor_one_that_is_none(tmp_path: Path) -> None:
    desk = offices(tmp_path, "movable")
    refused = desk.release("--holder", "s", exit_code=2)["error"]["message"]
    assert "so all are released together. Leave --holder out." in refused
    desk.edit_study("membership: movable", "membership: fixed")
    assert "Name one of n, s" in desk.release("--holder", "west", exit_code=2)["error"]["message"]
