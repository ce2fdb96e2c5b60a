"""Several releases analysed as one: periods of people who never come back, offices of one table, crates of anybody."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbayes.crates.files import load
from dpbayes.crates.format import pack
from dpbayes.study.load import load_study
from tests.support.desk import STUDY, Desk, people
from tests.support.offices import OFFICES, offices
from tests.support.schemas import flaws_of_record

pytestmark = pytest.mark.usefixtures("workers")

PERIODS = ("2026-01", "2026-02", "2026-03")
SAMPLER = "auto"
ANALYSIS = f"""\
analyses:
  pay-posterior:
    release: pay-regression
    periods: all
    sampler: {SAMPLER}
    chains: 2
    draws: 1000
"""
QUICK = ("--chains", "2", "--draws", "1000", "--sampler", SAMPLER)


def arrivals(text: str = STUDY) -> str:
    """The desk's study of people who are in one month only, with an analysis of all months."""
    start, end = text.index("analyses:"), text.index("schedule:")
    return text[:start].replace("people: same", "people: disjoint") + ANALYSIS + text[end:]


def months(folder: Path, *periods: str, text: str | None = None) -> Desk:
    """A desk that released some months."""
    folder.mkdir(exist_ok=True)
    desk = Desk(folder)
    desk.study.write_text(text or arrivals())
    for number, period in enumerate(PERIODS):
        desk.write_table(people(1000 + 200 * number, seed=number), period)
    assert desk.run("ledger", "create", desk.study).exit_code == 0
    for period in periods:
        release(desk, period)
    return desk


def release(desk: Desk, period: str, *more: str, study: Path | None = None) -> dict[str, Any]:
    """One month, released."""
    return desk.document("release", study or desk.study, "--period", period, *more)["releases"][0]


def analyse(desk: Desk, period: str, exit_code: int = 0) -> dict[str, Any]:
    """The analysis of the months up to one."""
    document = desk.document("analyse", desk.study, "--period", period, exit_code=exit_code)
    return document if exit_code else document["analyses"][0]


def fetched(desk: Desk, folder: Path) -> list[Path]:
    """The crates of all releases, in a folder of somebody else."""
    folder.mkdir()
    crates = sorted((desk.home / "archive" / "releases" / "pay").glob("*/*"))
    return [Path(shutil.copytree(each, folder / f"{each.parent.name}-{each.name}")) for each in crates]


def key_of(desk: Desk) -> str:
    return f"SHA256:{next((desk.home / 'keys' / 'public').iterdir()).stem}"


def pooled(desk: Desk, crates: list[Path], to: Path, exit_code: int = 0) -> dict[str, Any]:
    """The analysis of several crates."""
    named = [word for crate in crates for word in ("--from", str(crate))]
    return desk.document("analyse", *named, "--to", to, "--key", key_of(desk), *QUICK, exit_code=exit_code)


def releases_of(analysis: dict[str, Any]) -> list[str]:
    return [link["period"] for link in analysis["releases"]]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, prefect_home: Path) -> Desk:
    return months(tmp_path_factory.mktemp("arrivals"), *PERIODS)


@pytest.fixture(scope="module")
def analysis(desk: Desk) -> dict[str, Any]:
    return analyse(desk, "2026-03")


@pytest.mark.slow
def test_periods_of_different_people_give_one_posterior_of_all_rows(desk: Desk, analysis: dict[str, Any]) -> None:
    alone = analyse(desk, "2026-01")
    assert releases_of(alone) == ["2026-01"]
    assert releases_of(analysis) == list(PERIODS)
    sds = [{line["name"]: line["sd"] for line in each["coefficients"]}["age"] for each in (alone, analysis)]
    assert sds[1] < 0.8 * sds[0]  # 3,600 rows instead of 1,000


def test_the_crate_holds_and_names_every_release(desk: Desk, analysis: dict[str, Any]) -> None:
    crate = Path(analysis["crate"])
    assert flaws_of_record(crate) == []
    record = json.loads((crate / "posterior.json").read_text())
    assert record["origin"] == "study"
    assert all(link["attestation"]["signed_by"] == key_of(desk) for link in record["releases"])
    for link in record["releases"]:
        stored = desk.home / "archive" / link["crate"]
        for name in ("release.json", "noisy.parquet", "entry.json", "attestation.json", "study.yaml"):
            held = crate / "releases" / link["digest"][:16] / name
            assert held.read_bytes() == (stored / name).read_bytes()


def test_the_report_says_in_plain_words_what_was_pooled(analysis: dict[str, Any]) -> None:
    page = Path(analysis["report"]).read_text()
    for said in (
        "among the staff of 2026-01, 2026-02 and 2026-03, from 3 differentially private releases alone, analysed",
        "Which releases were pooled",
        "3,600",
        "pay-regression of 2026-02",
        "Each of these 3 releases cost",
        "Added up over the releases",
        "no person to be in two",
    ):
        assert said in page, said


@pytest.mark.slow
def test_a_pooled_posterior_passes_every_audit_and_its_replay(desk: Desk, analysis: dict[str, Any]) -> None:
    whole = desk.document("audit", desk.study, "--replay")
    assert whole["ok"]
    assert any(analysis["crate"].endswith(check["detail"].split(":")[0]) for check in whole["checks"])
    checks = desk.document("audit", "--crate", analysis["crate"], "--key", key_of(desk), "--replay")["checks"]
    assert {check["check"] for check in checks if check["ok"]} == {check["check"] for check in checks}
    assert checks[-1]["detail"] == "the same, bit for bit"


def test_any_altered_file_of_a_pooled_crate_fails_its_audit(
    desk: Desk, analysis: dict[str, Any], tmp_path: Path
) -> None:
    whole = load(Path(analysis["crate"]))
    for name, data in whole.items():
        place = tmp_path / "altered.zip"
        place.write_bytes(pack({**whole, name: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]}))
        said = desk.document("audit", "--crate", place, "--key", key_of(desk), exit_code=5)
        assert name in json.dumps(said), name


@pytest.mark.slow
def test_a_late_release_makes_another_analysis_and_a_withdrawn_one_leaves(tmp_path: Path, prefect_home: Path) -> None:
    desk = months(tmp_path / "late", "2026-02")
    first = analyse(desk, "2026-02")
    release(desk, "2026-01")
    second = analyse(desk, "2026-02")
    assert (releases_of(first), releases_of(second)) == (["2026-02"], ["2026-01", "2026-02"])
    assert first["crate"] != second["crate"]
    assert analyse(desk, "2026-02")["seconds"]["sampling"] == 0
    release(desk, "2026-01", "--revision", "2", "--reason", "late answers")
    third = analyse(desk, "2026-02")
    assert [link["revision"] for link in third["releases"]] == [2, 1]
    arguments = ("pay-regression", "--period", "2026-01", "--revision", "2", "--reason", "wrong table")
    assert desk.run("ledger", "withdraw", desk.study, *arguments).exit_code == 0
    assert releases_of(analyse(desk, "2026-02")) == ["2026-02"]
    assert desk.document("audit", desk.study)["ok"]


@pytest.mark.slow
def test_what_earlier_periods_were_released_with_stays_theirs(tmp_path: Path, prefect_home: Path) -> None:
    desk = months(tmp_path / "stronger", "2026-01")
    desk.edit_study("epsilon: 1\n", "epsilon: 2\n")
    release(desk, "2026-02")
    found = analyse(desk, "2026-02")
    assert releases_of(found) == ["2026-01", "2026-02"]
    page = Path(found["report"]).read_text()
    assert "What each release cost stands in the table of releases." in page
    assert "Noise of" in page
    desk.edit_study("age: {bounds: [16, 80]}", "age: {bounds: [16, 90]}")
    release(desk, "2026-03")
    error = analyse(desk, "2026-03", exit_code=2)["error"]
    assert error["message"].startswith("cannot pool releases of different columns or bounds.")


def test_periods_of_the_same_people_are_refused_before_anything_runs(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.study.write_text(arrivals().replace("people: disjoint", "people: same"))
    error = desk.document("check", desk.study, exit_code=2)["error"]
    assert "periods of the same people cannot be pooled" in error["message"]


@pytest.mark.slow
def test_offices_of_one_period_are_pooled_by_themselves(tmp_path: Path, prefect_home: Path) -> None:
    desk = offices(tmp_path / "offices")
    analyses = ANALYSIS.replace("    periods: all\n", "")
    desk.edit_study("schedule:", f"{analyses}schedule:")
    desk.release()
    found = analyse(desk, "2026-01")
    assert [link["holder"] for link in found["releases"]] == list(OFFICES)
    page = Path(found["report"]).read_text()
    assert all(f"at {office}" in page for office in OFFICES)
    assert desk.document("audit", desk.study)["ok"]
    crates = fetched(desk, tmp_path / "crates")
    again = pooled(desk, crates, tmp_path / "out")
    assert [source["holder"] for source in again["sources"]] == list(OFFICES)
    assert desk.document("audit", "--crate", again["analyses"][0]["crate"], "--key", key_of(desk), "--replay")["ok"]


@pytest.mark.slow
def test_crates_of_different_people_are_pooled_in_whatever_order(
    desk: Desk, analysis: dict[str, Any], tmp_path: Path
) -> None:
    crates = fetched(desk, tmp_path / "crates")
    found = pooled(desk, crates, tmp_path / "out")
    assert (found["study"], found["period"]) == ("pay", "2026-01-to-2026-03")
    crate = Path(found["analyses"][0]["crate"])
    assert flaws_of_record(crate) == []
    again = pooled(desk, crates[::-1], tmp_path / "out")
    assert Path(again["analyses"][0]["crate"]) == crate
    whole = pooled(desk, [Path(analysis["crate"])], tmp_path / "out")  # a pooled posterior's crate has them all
    assert Path(whole["analyses"][0]["crate"]) == crate
    checks = desk.document("audit", "--crate", crate, "--key", key_of(desk), "--replay")["checks"]
    assert all(check["ok"] for check in checks)
    twice = pooled(desk, [Path(analysis["crate"]), crates[1]], tmp_path / "out", exit_code=2)["error"]
    assert "cannot pool pay-regression of 2026-02 with itself" in twice["message"]


@pytest.mark.slow
def test_crates_of_people_who_may_be_the_same_are_refused(tmp_path: Path, prefect_home: Path) -> None:
    desk = months(tmp_path / "same", *PERIODS[:2], text=STUDY)
    error = pooled(desk, fetched(desk, tmp_path / "crates"), tmp_path / "out", exit_code=2)["error"]
    assert error["message"] == (
        "cannot pool pay-regression of 2026-01 with pay-regression of 2026-02: they may be of the same people. Pool "
        "different holders of one period, or periods that their studies declare disjoint."
    )


@pytest.mark.slow
def test_crates_of_other_columns_are_refused(desk: Desk, tmp_path: Path, prefect_home: Path) -> None:
    text = arrivals().replace("covariates: [age, female, region]", "covariates: [age]")
    other = months(tmp_path / "other", "2026-01", text=text.replace("population: staff", "population: others"))
    assert load_study(other.study).population == "others"
    crates = [*fetched(desk, tmp_path / "mine"), *fetched(other, tmp_path / "theirs")]
    named = [word for crate in crates for word in ("--from", str(crate))]
    error = desk.document("analyse", *named, "--to", tmp_path / "out", *QUICK, exit_code=2)["error"]
    assert error["message"].startswith("cannot pool releases of different columns or bounds.")


@pytest.mark.slow
def test_two_agencies_are_pooled_and_each_key_is_asked_for(desk: Desk, tmp_path: Path, prefect_home: Path) -> None:
    text = arrivals().replace("study: pay", "study: wages").replace("population: staff", "population: others")
    other = months(tmp_path / "other", "2026-01", text=text)
    (theirs,) = (other.home / "archive" / "releases" / "wages").glob("*/*")
    mine = fetched(desk, tmp_path / "mine")[0]
    named = ("analyse", "--from", mine, "--from", theirs, "--to", tmp_path / "out", *QUICK)
    error = desk.document(*named, "--key", key_of(desk), exit_code=5)["error"]
    assert "none of those trusted" in error["message"]
    keys = ("--key", key_of(desk), "--key", key_of(other))
    found = desk.document(*named, *keys)
    assert (found["study"], found["period"]) == ("pay-and-wages", "2026-01")
    assert any("populations of different names" in each for each in found["not_verified"])
    crate = found["analyses"][0]["crate"]
    assert desk.document("audit", "--crate", crate, *keys, "--replay")["ok"]
    assert not desk.document("audit", "--crate", crate, *keys[:2], exit_code=5)["ok"]
    np.testing.assert_equal([source["study"] for source in found["sources"]], ["pay", "wages"])
