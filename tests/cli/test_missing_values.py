"""Missing values as a steward meets them: complete rows count, codes are nulls, and every page says what was done."""

import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from tests.support.desk import PERIOD, Desk, people

pytestmark = pytest.mark.usefixtures("prefect_home")

CODE = -200.0
RELEASE = "    mechanism: gaussian\n"
TRUTH = {"age": 0.04, "female[yes]": -0.4}  # as `people` makes them


def gaps(columns: dict[str, Any], seed: int = 3) -> np.ndarray:
    """Takes values away: pay in 18% of the rows, more at higher ages, half of them by a code; some ages and regions."""
    random, rows = np.random.default_rng(seed), len(columns["person"])
    missing = random.random(rows) < 0.36 * (columns["age"] - 18) / 52
    columns["pay"] = np.where(missing, np.where(random.random(rows) < 0.5, CODE, np.nan), columns["pay"])
    ages = random.random(rows) < 0.01
    columns["age"] = [None if gone else age for age, gone in zip(columns["age"], ages, strict=True)]
    regions = random.random(rows) < 0.01
    columns["region"] = ["-9" if gone else region for region, gone in zip(columns["region"], regions, strict=True)]
    return missing | ages | regions


def make_complete(desk: Desk) -> None:
    desk.edit_study(RELEASE, f"{RELEASE}    rows: complete\n")
    desk.edit_study("bounds: [0, 10]}", "bounds: [0, 10], missing: [-200]}")
    desk.edit_study("[north, south, east]}", '[north, south, east], missing: ["-9"]}')


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory, workers: None) -> tuple[Desk, dict[str, Any], int]:
    """A month of a table with gaps, released and analysed, and how many of its rows are complete."""
    desk = Desk.set_up(tmp_path_factory.mktemp("gaps"))
    columns = people()
    incomplete = gaps(columns)
    desk.write_table(columns)
    make_complete(desk)
    return desk, desk.document("run", desk.study, "--period", PERIOD), int((~incomplete).sum())


def released(desk: Desk) -> dict[str, Any]:
    (crate,) = desk.home.glob("archive/releases/**/release.json")
    return json.loads(crate.read_text())


def words(page: Path) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html.unescape(page.read_text())).split())


@pytest.mark.slow
def test_the_rows_that_count_are_the_complete_ones_and_their_number_is_noisy(
    analysed: tuple[Desk, dict[str, Any], int],
) -> None:
    desk, _, complete = analysed
    statistics = released(desk)["statistics"]
    assert statistics["noisy"]["rows"] is None
    assert statistics["noisy"]["entries"][0] == [0, 0]
    assert statistics["schema"]["cases"] == "complete"
    scale = statistics["mechanism"]["scale"]
    assert 0 < abs(statistics["noisy"]["values"][0] - complete) < 5 * scale
    assert complete < 0.85 * 2000


def test_the_ledger_charged_for_rows_that_may_count_or_not(analysed: tuple[Desk, dict[str, Any], int]) -> None:
    desk, _, _ = analysed
    record = released(desk)
    schema = RegressionSchema(
        Continuous("pay", Bounds(0, 10)),
        (
            Continuous("age", Bounds(16, 80)),
            Factor("female", ("no", "yes")),
            Factor("region", ("north", "south", "east")),
        ),
        cases="complete",
    )
    declared = regression_sensitivity(schema)
    assert record["neighbours"] == "replace-one"
    assert declared.l2 < record["mechanism"]["sensitivity"] < declared.l2 * (1 + 1e-6)  # and a step of the grid
    assert record["mechanism"]["weights"] == list(declared.weights)
    assert record["definition"]["cases"] == "complete"
    assert record["definition"]["columns"]["pay"] == {"bounds": [0.0, 10.0], "missing": [CODE], "nulls": None}
    assert record["definition"]["columns"]["region"]["unknown"] is None


def test_intervals_hold_what_made_the_table(analysed: tuple[Desk, dict[str, Any], int]) -> None:
    _, document, _ = analysed
    (analysis,) = document["analyses"]
    assert (analysis["status"], analysis["sampler"]) == ("converged", "collapsed")
    found = {line["name"]: line for line in analysis["coefficients"]}
    for name, truth in TRUTH.items():
        assert abs(found[name]["mean"] - truth) < 4 * found[name]["sd"]


def test_the_crates_pass_their_audit_and_a_changed_rule_fails_it(analysed: tuple[Desk, dict[str, Any], int]) -> None:
    desk, _, _ = analysed
    report = desk.document("audit", desk.study)
    assert report["ok"], [check for check in report["checks"] if not check["ok"]]


def test_pages_say_what_became_of_missing_values(analysed: tuple[Desk, dict[str, Any], int]) -> None:
    desk, document, complete = analysed
    (report,) = desk.home.glob("archive/**/report.html")
    said = words(report)
    assert "if missing, the row is left out (-200 counts as missing)" in said.replace("−", "-")
    assert "if missing, the row is left out; what is no level is left out too (-9 counts as missing)" in said
    assert "Rows with a missing value were left out, except in columns" in said
    assert "how many count is one of the noisy numbers" in said
    assert "The number of them is the same in both, and public" not in said
    assert re.search(rf"(?<![\w.]){complete}(?![\w.])", json.dumps(document)) is None
    assert f"{complete:,}" not in said
    (registry,) = desk.home.glob("archive/releases/**/registry.yaml")
    assert "rows with a missing value are left out" in " ".join(registry.read_text().split())


def test_the_stewards_page_counts_the_rows_that_were_left_out_without_an_alarm(
    analysed: tuple[Desk, dict[str, Any], int],
) -> None:
    desk, _, complete = analysed
    (page,) = desk.home.glob("vault/**/validation.html")
    said = words(page).replace(" ", "")
    assert f"rowsleftoutforamissingvalue{2000 - complete}" in said
    assert "rowsbeyondthosethatcountofaperson0" in said
    validation = json.loads((page.parent / "validation.json").read_text())
    unmet = [(one["column"], one["count"]) for one in validation["expectations"] if not one["met"]]
    assert unmet == [("pay", "out_of_bounds")]  # as without gaps


@pytest.mark.slow
def test_without_rows_complete_every_row_counts_and_the_page_names_the_constant(desk: Desk, workers: None) -> None:
    columns = people()
    gaps(columns)
    desk.write_table(columns)
    desk.edit_study("bounds: [0, 10]}", "bounds: [0, 10], missing: [-200]}")
    desk.document("run", desk.study, "--period", PERIOD)
    assert released(desk)["statistics"]["noisy"]["rows"] == 2000
    assert "cases" not in released(desk)["statistics"]["schema"]
    (report,) = desk.home.glob("archive/**/report.html")
    said = words(report)
    assert "if missing, becomes 5 (−200 counts as missing)" in said
    assert "A missing value entered as the constant or level that the columns’ table names" in said


SILENT = "nothing is stated of missing values of age, female, region and pay"


@pytest.mark.slow
def test_columns_without_a_rule_are_pointed_at_before_anything_is_read(desk: Desk) -> None:
    for command in (("check", desk.study), ("plan", desk.study), ("inspect", desk.study, "--period", PERIOD)):
        document = desk.document(*command)
        assert document["missing"].startswith(SILENT)
        assert f"missing values: {SILENT}" in desk.run(*command).output
    page = desk.folder / "plan.html"
    desk.run("plan", desk.study, "--html", page)
    assert SILENT.capitalize() in words(page)
    (release,) = desk.document("check", desk.study)["releases"]
    assert "age: becomes 48, for nothing is stated" in release["missing"]


@pytest.mark.slow
def test_a_table_without_a_missing_value_is_pointed_at_like_any_other(desk: Desk) -> None:
    plain = desk.run("inspect", desk.study, "--period", PERIOD).output
    columns = people()
    gaps(columns)
    desk.write_table(columns)
    with_gaps = desk.run("inspect", desk.study, "--period", PERIOD).output
    assert re.sub(r"entry \d+", "", with_gaps) == re.sub(r"entry \d+", "", plain)


@pytest.mark.slow
def test_what_is_stated_is_said_and_not_pointed_at(desk: Desk) -> None:
    make_complete(desk)
    document = desk.document("check", desk.study)
    assert document["missing"] is None
    (release,) = document["releases"]
    assert release["missing"] == (
        "age: the row is left out; female: the row is left out; what is no level is left out too; "
        "region: the row is left out; what is no level is left out too (-9 counts as missing); "
        "pay: the row is left out (−200 counts as missing)"
    )
    assert release["entries"] == 17
    (planned,) = desk.document("plan", desk.study)["releases"]
    assert {"term": "Missing values", "value": release["missing"]} in planned["foreseen"]
    constants = ("bounds: [0, 10], missing: [-200]", "bounds: [16, 80]", "levels: [no, yes]", 'missing: ["-9"]')
    for old, new in zip(constants, ("nulls: 3", "nulls: 40", "unknown: no", "unknown: east"), strict=True):
        desk.edit_study(old, f"{old}, {new}")
    desk.edit_study("    rows: complete\n", "")
    (release,) = desk.document("check", desk.study)["releases"]
    assert release["missing"].startswith("age: becomes 40; female: becomes no, as does what is no level; ")
    assert desk.document("check", desk.study)["missing"] is None


WRONG = [
    ("bounds: [0, 10]}", "bounds: [0, 10], missing: -200}", "the codes of missing values are a list"),
    ("bounds: [0, 10]}", "bounds: [0, 10], missing: [-200, -200]}", "code -200.0 is given twice"),
    ("bounds: [0, 10]}", "bounds: [0, 10], missing: [none]}", "is text, which counts as missing"),
    ("bounds: [0, 10]}", "bounds: [0, 10], missing: [2026-01-01]}", "the bounds are numbers and this is a date"),
    ("[no, yes]}", "[no, yes], missing: [-9]}", "a column of levels has codes of text"),
    ("[no, yes]}", '[no, yes], missing: ["yes"]}', "is one of the levels"),
    (RELEASE, RELEASE + "    rows: some\n", "is not known here"),
    (RELEASE, RELEASE + "    rows: complete\n    moments: fourth\n", "it needs a public number of rows"),
    ("draws: 500", "draws: 500\n    sampler: gibbs-ss-update", "needs a public number of rows"),
    ("draws: 500", "draws: 500\n    sampler: fixed-s", "needs a public number of rows"),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG)
def test_what_is_not_covered_is_refused_in_a_sentence(desk: Desk, old: str, new: str, message: str) -> None:
    if "sampler" in new:
        desk.edit_study(RELEASE, RELEASE + "    rows: complete\n")
    desk.edit_study(old, new)
    done = desk.run("check", desk.study)
    assert done.exit_code == 2
    assert message in done.output


INDICATOR = [
    ("age: {bounds: [16, 80]}", "age: {bounds: [16, 80], nulls: 48}\n  age_gone: {levels: [no, yes], missing_of: age}"),
    ("covariates: [age,", "covariates: [age, age_gone,"),
]


@pytest.mark.slow
def test_a_column_may_tell_where_another_is_missing_and_that_one_then_counts_as_its_constant(desk: Desk) -> None:
    columns = people()
    gone = np.random.default_rng(5).random(len(columns["person"])) < 0.4
    columns["age"] = [None if each else age for age, each in zip(columns["age"], gone, strict=True)]
    columns["pay"][:300] = np.nan
    desk.write_table(columns)
    make_complete(desk)
    for old, new in INDICATOR:
        desk.edit_study(old, new)
    (checked,) = desk.document("check", desk.study)["releases"]
    assert "age: becomes 48; age_gone: is never missing: it indicates where age is missing; " in checked["missing"]
    desk.document("check", desk.study, "--source", "--period", PERIOD)
    (planned,) = desk.document("plan", desk.study)["releases"]
    assert "age_gone[yes]" in [one["coefficient"] for one in planned["predicted"]]
    desk.release()
    record = released(desk)
    noisy, scale = record["statistics"]["noisy"], record["statistics"]["mechanism"]["scale"]
    values = dict(zip(map(tuple, noisy["entries"]), noisy["values"], strict=True))
    count, signs = 1700, float(np.sum(2.0 * gone[300:] - 1))  # of two levels the second is 1, the first -1
    assert abs(values[0, 0] - count) < 5 * scale
    assert abs(values[0, 2] - signs) < 5 * scale
    assert record["definition"]["columns"]["age_gone"]["missing_of"] == "age"
    assert record["definition"]["columns"]["age"]["nulls"] == 48
    assert desk.document("audit", desk.study)["ok"]


WRONG_INDICATORS = [
    ("nulls: 48}", "missing: [-9]}", "nothing is stated of what a missing"),
    ("missing_of: age}", "missing_of: aged}", "is no column of the table"),
    ("missing_of: age}", "missing_of: age_gone}", "is no column of the table"),
    ("[no, yes], missing_of", "[no, yes, some], missing_of", "has two levels"),
    ("missing_of: age}", "missing_of: age, unknown: no}", "is never missing"),
    (
        "regression\n    response: pay\n    covariates: [age, age_gone, female, region]\n    mechanism: gaussian\n",
        "ridge\n    response: pay\n    covariates: [age, age_gone]\n",
        "ridge release takes no indicator of missing values",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG_INDICATORS)
def test_a_column_that_cannot_tell_is_refused(desk: Desk, old: str, new: str, message: str) -> None:
    for one, other in INDICATOR:
        desk.edit_study(one, other)
    assert desk.run("check", desk.study).exit_code == 0
    desk.edit_study(old, new)
    done = desk.run("check", desk.study)
    assert done.exit_code == 2
    assert message in done.output
