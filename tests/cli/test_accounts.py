"""Opening an account is an act: a slip in a study's population opens no fresh budget."""

from pathlib import Path

import pytest

from dpbayes_core.errors import StudyInvalid
from tests.support.charged import charge
from tests.support.desk import PERIOD, STUDY, Desk
from tests.support.place import Place


@pytest.fixture
def slipped(desk: Desk) -> Desk:
    """A study whose population lost a letter, and whose table is gone: nothing of it may be looked at."""
    desk.edit_study("population: staff", "population: staf")
    desk.table().unlink()
    return desk


def head(desk: Desk) -> int:
    return int(desk.document("ledger", "show", desk.study)["head"]["seq"])


@pytest.mark.slow
@pytest.mark.parametrize("command", ["release", "run"])
def test_a_slip_in_the_population_is_refused_and_leaves_no_trace(
    slipped: Desk, command: str, prefect_home: Path
) -> None:
    slipped.edit_study("study: pay", "study: earnings")  # a study that nobody heard of
    before = head(slipped)
    refused = slipped.document(command, slipped.study, "--period", PERIOD, exit_code=2)["error"]
    assert refused["kind"] == "account-missing"
    assert "the population staf has no account in this ledger (it has accounts of staff)" in refused["message"]
    assert "open an account with `dpbayes ledger create STUDY`" in refused["message"]
    assert head(slipped) == before


@pytest.mark.parametrize("command", ["release", "run", "analyse"])
def test_a_slip_in_the_population_of_a_released_month_is_named_first(
    desk: Desk, command: str, prefect_home: Path
) -> None:
    charge(desk.study)
    desk.edit_study("population: staff", "population: staf")
    refused = desk.document(command, desk.study, "--period", PERIOD, exit_code=2)["error"]["message"]
    assert "was defined otherwise" not in refused
    assert "the ledger knows it under the population staff" in refused


def test_a_scheduled_run_opens_no_account_either(slipped: Desk, prefect_home: Path) -> None:
    from flows.run import run_study

    with pytest.raises(StudyInvalid, match="staf"):
        run_study(str(slipped.study), PERIOD)
    assert [one["account"] for one in slipped.document("ledger", "show", slipped.study)["accounts"]] == ["staff"]


@pytest.mark.parametrize("known", ["by its account", "by its charge"])
def test_a_study_stays_with_the_people_that_the_ledger_knows_it_for(tmp_path: Path, known: str) -> None:
    desk = Place(tmp_path).desk  # its account was opened without a study's name, as older versions did
    if known == "by its charge":
        charge(desk.study)
    else:
        desk.edit_study("population: staff", "population: pupils")
        desk.document("ledger", "create", desk.study)
        desk.edit_study("population: pupils", "population: staff")
    other = "staff" if known == "by its charge" else "pupils"
    desk.edit_study("population: staff", "population: staf")
    before = head(desk)
    for command in (("ledger", "create", desk.study), ("plan", desk.study), ("check", desk.study)):
        refused = desk.document(*command, exit_code=2)["error"]["message"]
        assert f"the ledger knows it under the population {other}. State that one, or give the study" in refused
    assert head(desk) == before
    desk.edit_study("study: pay", "study: earnings")
    assert len(desk.document("ledger", "create", desk.study)["accounts"]) == (2 if known == "by its charge" else 3)


@pytest.mark.slow
def test_plan_and_check_say_that_the_account_is_not_open(slipped: Desk) -> None:
    slipped.edit_study("study: pay", "study: earnings")
    planned, checked = slipped.document("plan", slipped.study), slipped.document("check", slipped.study)
    assert (planned["account"], planned["known_accounts"]) == ("as stated", ["staff"])
    assert (checked["account_status"], checked["known_accounts"]) == ("not open", ["staff"])
    for command in ("plan", "check"):
        words = " ".join(slipped.run(command, slipped.study).output.split())
        assert "not open yet" in words
        assert "The ledger has accounts of staff. Open it with `dpbayes ledger create STUDY`" in words
    slipped.document("ledger", "create", slipped.study)
    assert slipped.document("check", slipped.study)["account_status"] == "open"


def test_a_study_is_checked_without_a_ledger_and_says_that_there_is_none(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.study.write_text(STUDY)
    assert desk.document("check", desk.study)["account_status"] == "no ledger"


def test_an_account_is_opened_in_the_nearest_ledger_and_founds_no_second_one(desk: Desk) -> None:
    below = desk.folder / "deep" / "down" / "study.yaml"
    below.parent.mkdir(parents=True)
    below.write_text(STUDY.replace("study: pay", "study: marks").replace("population: staff", "population: pupils"))
    made = desk.document("ledger", "create", below)
    assert [one["account"] for one in made["accounts"]] == ["staff", "pupils"]
    assert list(desk.folder.rglob(".dpbayes")) == [desk.home]


def test_a_new_folder_has_one_account_that_all_its_examples_share(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "wages")
    desk.document("init", desk.folder)
    for name in ("networks.yaml", "questions.yaml"):
        assert desk.document("check", desk.folder / name)["account_status"] == "open"
        text = (desk.folder / name).read_text()
        (desk.folder / name).write_text(text.replace("population: employees", "population: employes"))
        refused = desk.document("ledger", "create", desk.folder / name, exit_code=2)["error"]["message"]
        assert "the ledger knows it under the population employees" in refused


@pytest.mark.slow
def test_a_mistyped_home_makes_no_second_budget(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slip = tmp_path / ".dpbaeys"
    monkeypatch.setenv("DPBAYES_HOME", str(slip))
    said = desk.document("ledger", "show", desk.study, exit_code=2)["error"]["message"]
    assert said == (
        f"cannot find a home: DPBAYES_HOME names {slip}, which is none; one is at {desk.home}. "
        "Correct or unset DPBAYES_HOME."
    )
    refused = desk.document("ledger", "create", desk.study, exit_code=2)["error"]["message"]
    assert f"cannot make a home at {slip}: {desk.home} is one already" in refused
    assert "Unset DPBAYES_HOME" in refused
    assert not slip.exists()
    for command in ("check", "plan"):
        assert f"DPBAYES_HOME names {slip}, which is no home" in " ".join(desk.run(command, desk.study).output.split())


def test_a_second_home_on_purpose_is_made_where_there_is_none_above(
    desk: Desk, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "study.yaml").write_text(desk.study.read_text())
    monkeypatch.setenv("DPBAYES_HOME", str(elsewhere / "second"))
    desk.document("ledger", "create", elsewhere / "study.yaml")
    assert desk.document("ledger", "create", desk.study)["accounts"]  # now the environment names a home


def test_init_makes_no_home_below_another(desk: Desk) -> None:
    refused = desk.document("init", desk.folder / "wages", exit_code=2)["error"]["message"]
    assert f"{desk.home} is one already, and each has a budget of its own. Choose a folder without one" in refused
    assert not (desk.folder / "wages").exists()
