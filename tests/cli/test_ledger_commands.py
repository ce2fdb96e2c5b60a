"""What a steward does to the ledger by hand, and what everybody sees of it afterwards."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from dpbayes.study.load import load_study
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.refusal import PeriodClosed
from tests.support.charged import charge
from tests.support.desk import PERIOD, Desk


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with an account and no charge."""
    return Desk.set_up(tmp_path_factory.mktemp("opened")).folder


@pytest.fixture
def desk(opened: Path, tmp_path: Path) -> Desk:
    shutil.copytree(opened, tmp_path / "desk")
    return Desk(tmp_path / "desk")


def refused(desk: Desk, *arguments: str | Path) -> str:
    return str(desk.document("ledger", *arguments, exit_code=2)["error"]["message"])


def head(desk: Desk) -> int:
    return int(desk.document("ledger", "show", desk.study)["head"]["seq"])


# --- raise ------------------------------------------------------------------------------------------------------------


def test_a_raised_cap_stands_with_its_reason_and_actor(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPBAYES_ACTOR", "controller")
    done = desk.document("ledger", "raise", desk.study, "lifetime", "12.5", "--reason", "council decision 7")
    assert done["status"] == "recorded"
    assert done["entry"]["what"] == "lifetime cap of staff raised to 12.5"
    assert (done["entry"]["actor"], done["entry"]["reason"]) == ("controller", "council decision 7")
    assert next(cap for cap in done["accounts"][0]["caps"] if cap["cap"] == "lifetime")["limit"] == 12.5
    again = desk.document("ledger", "raise", desk.study, "lifetime", "12.50", "--reason", "again")
    assert (again["status"], again["entry"]) == ("already-recorded", done["entry"])


def test_a_raise_is_needed_to_pass_a_cap_and_enough(desk: Desk) -> None:
    desk.edit_study("epsilon: 1\n", "epsilon: 2.5\n")
    study = load_study(desk.study)
    with AnchoredLedger.open(desk.study) as anchored, pytest.raises(Exception, match="per-period cap of staff"):
        anchored.ledger.check(study.request("pay-regression", PERIOD), study.design("pay-regression").mechanism)
    desk.document("ledger", "raise", desk.study, "per-period", "2.5", "--reason", "council decision 8")
    assert charge(desk.study).kind == "charge"
    assert desk.document("audit", desk.study, exit_code=5)["checks"]  # no crate was made: nothing else is wrong
    desk.edit_study("per-period: {epsilon: 2}", "per-period: {epsilon: 2.5}")  # the study may follow, or stay
    assert charge(desk.study).seq == 4


@pytest.mark.parametrize(
    ("cap", "limit", "words"),
    [
        ("lifetime", "8", "is 8 now and only goes up"),
        ("lifetime", "2", "is 8 now and only goes up"),
        ("lifetime", "a lot", "the limit is no privacy loss"),
        ("lifetime", "NaN", "the limit is no privacy loss"),
        ("lifetime", "inf", "the limit is no privacy loss"),
        ("lifetime", "1e999999999", "the limit is no privacy loss"),
        ("programme labour", "12", "staff has no such cap. Its caps are lifetime, per-period"),
    ],
)
def test_a_raise_that_is_none_is_refused_without_a_trace(desk: Desk, cap: str, limit: str, words: str) -> None:
    before = head(desk)
    assert words in refused(desk, "raise", desk.study, cap, limit, "--reason", "wish")
    assert head(desk) == before


@pytest.mark.parametrize("act", [("raise", "lifetime", "12"), ("close", "--period", PERIOD)])
def test_nothing_is_changed_without_a_reason(desk: Desk, act: tuple[str, ...]) -> None:
    assert desk.run("ledger", act[0], desk.study, *act[1:]).exit_code == 2
    assert "no reason is given" in refused(desk, act[0], desk.study, *act[1:], "--reason", "  ")
    assert head(desk) == 2


def test_a_programme_is_raised_by_its_name(desk: Desk, tmp_path: Path) -> None:
    text = desk.study.read_text().replace("per-period: {epsilon: 2}", "programme: {name: labour, epsilon: 20}")
    text = text.replace("study: pay", "study: lessons").replace("population: staff", "population: students")
    (desk.folder / "other.yaml").write_text(text)
    desk.document("ledger", "create", desk.folder / "other.yaml")
    done = desk.document("ledger", "raise", desk.folder / "other.yaml", "programme labour", "30", "--reason", "decided")
    students = next(one for one in done["accounts"] if one["account"] == "students")
    assert next(cap for cap in students["caps"] if cap["cap"] == "programme labour")["limit"] == 30


# --- close, withdraw, note --------------------------------------------------------------------------------------------


def test_a_closed_period_takes_no_charge(desk: Desk) -> None:
    done = desk.document("ledger", "close", desk.study, "--period", PERIOD, "--reason", "published")
    assert done["entry"]["what"] == "2026-01 of staff closed"
    again = desk.document("ledger", "close", desk.study, "--period", PERIOD, "--reason", "published")
    assert again["status"] == "already-recorded"
    with pytest.raises(PeriodClosed):
        charge(desk.study)
    assert charge(desk.study, "2026-02").kind == "charge"
    assert "not the canonical name" in refused(desk, "close", desk.study, "--period", "2026-1", "--reason", "x")


def test_a_closed_period_is_exit_3_for_a_release(desk: Desk, prefect_home: Path) -> None:
    desk.document("ledger", "close", desk.study, "--period", PERIOD, "--reason", "published")
    assert desk.release(exit_code=3)["error"]["kind"] == "period-closed"


def test_a_release_is_withdrawn_by_its_name_and_stays_paid_for(desk: Desk) -> None:
    charge(desk.study)
    charge(desk.study, revision=2)
    spent = desk.document("ledger", "show", desk.study)["accounts"]
    name = ("withdraw", desk.study, "pay-regression", "--period", PERIOD)
    done = desk.document("ledger", *name, "--revision", "2", "--reason", "wrong table")
    assert done["entry"]["what"] == "pay-regression of 2026-01, revision 2 withdrawn"
    assert [one["caps"] for one in done["accounts"]] == [one["caps"] for one in spent]
    again = desk.document("ledger", *name, "--revision", "2", "--reason", "wrong table")
    assert again["status"] == "already-recorded"
    desk.edit_study("pay-regression", "pay-model")  # the study may have moved on
    assert desk.document("ledger", *name, "--reason", "also wrong")["status"] == "recorded"
    assert "nothing was released under that name" in refused(desk, *name, "--revision", "3", "--reason", "x")


def test_a_note_is_for_those_who_read_the_history(desk: Desk) -> None:
    desk.document("ledger", "note", "held for a day by hand", desk.study)
    [note] = [entry for entry in ledger_lines(desk) if entry["kind"] == "note"]
    assert note["reason"] == "held for a day by hand"
    for empty in ("", " "):
        assert refused(desk, "note", empty, desk.study) == "cannot write the note: it is empty. Say what happened."


# --- history and export -----------------------------------------------------------------------------------------------


def ledger_lines(desk: Desk) -> list[dict[str, object]]:
    return list(desk.document("ledger", "history", desk.study)["entries"])


def test_the_history_tells_who_did_what_when_at_what_cost_and_why(desk: Desk) -> None:
    charge(desk.study, actor="robot")
    desk.document("ledger", "raise", desk.study, "lifetime", "12", "--reason", "council decision 7")
    lines = ledger_lines(desk)
    assert [(line["seq"], line["kind"]) for line in lines] == [
        (1, "genesis"),
        (2, "account"),
        (3, "charge"),
        (4, "raise"),
    ]
    charged = lines[2]
    assert charged.keys() >= {"seq", "date", "actor", "kind", "what", "cost", "reason"}
    assert (charged["actor"], charged["what"]) == ("robot", "pay-regression of 2026-01, gaussian")
    assert charged["cost"] == {"epsilon": None, "rho": "0.02436"}
    assert "lifetime epsilon 8 at delta 1e-6" in str(lines[1]["what"])
    shown = desk.run("ledger", "history", desk.study).output
    for word in ("robot", "pay-regression of 2026-01", "rho 0.02436", "council decision 7"):
        assert word in shown


def test_what_people_wrote_neither_drives_the_terminal_nor_a_spreadsheet(desk: Desk, tmp_path: Path) -> None:
    texts = ["\x1b[2Jgone", "[red]loud[/red]", "=HYPERLINK(1)", "+1", "-1", "@x", "\t=1", " =1", "\uff1d1", "plain"]
    for text in texts:
        assert desk.run("ledger", "note", "--", text, desk.study).exit_code == 0
    shown = desk.run("ledger", "history", desk.study).output
    assert "\x1b" not in shown
    assert "[red]loud[/red]" in shown
    desk.document("ledger", "export", tmp_path / "out.csv", desk.study)
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        reasons = [row["reason"] for row in csv.DictReader(file) if row["kind"] == "note"]
    assert [reason.removeprefix("'") for reason in reasons] == texts
    assert [reason.startswith("'") for reason in reasons] == [False, False, *[True] * 7, False]


def test_a_spreadsheet_has_a_line_an_entry_and_the_costs_in_columns(desk: Desk, tmp_path: Path) -> None:
    charge(desk.study)
    charge(desk.study, revision=2)
    done = desk.document("ledger", "export", tmp_path / "out.csv", desk.study)
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == done["entries"] == 4
    last = rows[-1]
    assert (last["study"], last["release"], last["period"], last["revision"]) == ("pay", "pay-regression", PERIOD, "2")
    assert (last["epsilon"], last["rho"], last["reason"]) == ("", "0.02436", "the source was wrong")


def test_an_export_is_a_new_file_of_a_known_kind(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text("mine")
    assert "the file exists" in refused(desk, "export", tmp_path / "out.json", desk.study)
    assert (tmp_path / "out.json").read_text() == "mine"
    assert "neither .json nor .csv" in refused(desk, "export", tmp_path / "out.xlsx", desk.study)
    failed = desk.document("ledger", "export", tmp_path / "nowhere" / "out.json", desk.study, exit_code=1)
    assert "cannot export" in failed["error"]["message"]


def test_every_command_says_what_it_did_to_people_too(desk: Desk, tmp_path: Path) -> None:
    charge(desk.study)
    said = [
        desk.run("ledger", "raise", desk.study, "lifetime", "9", "--reason", "decided").output,
        desk.run("ledger", "rotate-key", desk.study, "--reason", "yearly").output,
        desk.run("ledger", "export", tmp_path / "out.json", desk.study).output,
        desk.run("ledger", "recover", desk.study).output,
        desk.run("ledger", "raise", desk.study, "lifetime", "9", "--reason", "decided").output,
    ]
    assert said[0].startswith("Entry 4: lifetime cap of staff raised to 9 (study pay, account staff).")
    assert "Give auditors the new fingerprint: SHA256:" in said[1]
    assert "Check it anywhere: dpbayes audit --ledger" in said[2]
    assert said[3].startswith("Nothing was lost")
    assert "It is on record already" in said[4]


@pytest.mark.parametrize("act", [("raise", "lifetime", "9"), ("close", "--period", PERIOD), ("withdraw",)])
def test_a_second_reason_is_not_recorded_and_people_are_told_so(desk: Desk, act: tuple[str, ...]) -> None:
    charge(desk.study)
    what = act[1:] if act[0] != "withdraw" else ("pay-regression", "--period", PERIOD)
    first = desk.document("ledger", act[0], desk.study, *what, "--reason", "a wrong column")
    command = ("ledger", act[0], desk.study, *what, "--reason")
    same, other = desk.run(*command, "a wrong column").stdout, desk.run(*command, "another one").stdout
    recorded = f"It is on record already, since {first['entry']['date']}: a wrong column"
    assert recorded in same
    assert "not recorded" not in same
    assert recorded in other
    assert "The reason given now was not recorded: to add it, use `dpbayes ledger note`." in other
    assert first["reason_recorded"]
    again = desk.document(*command, "another one")
    assert (again["status"], again["reason_recorded"]) == ("already-recorded", False)


def test_a_withdrawal_names_its_study_once(desk: Desk) -> None:
    charge(desk.study)
    said = desk.run("ledger", "withdraw", desk.study, "pay-regression", "--period", PERIOD, "--reason", "x").stdout
    assert said.startswith(f"Entry 4: pay-regression of {PERIOD} withdrawn (study pay, account staff).\n")


def test_a_withdrawal_of_what_was_never_released_names_it(desk: Desk) -> None:
    charge(desk.study)
    message = refused(desk, "withdraw", desk.study, "pay-regresion", "--period", PERIOD, "--reason", "x")
    assert message.startswith(f"cannot withdraw pay-regresion of {PERIOD}, revision 1: ")
    assert "the study pay" in message
    assert head(desk) == 3


@pytest.mark.parametrize("act", [("raise", "lifetime", "12"), ("close", "--period", PERIOD)])
def test_an_account_that_is_unknown_is_answered_with_those_that_are_known(desk: Desk, act: tuple[str, ...]) -> None:
    desk.edit_study("population: staff", "population: staf")
    message = refused(desk, act[0], desk.study, *act[1:], "--reason", "decided")
    assert "staf was never opened in this ledger (it has accounts of staff)" in message


def test_the_history_says_whose_a_withdrawal_and_a_note_are(desk: Desk, tmp_path: Path) -> None:
    charge(desk.study, revision=1)
    desk.document("ledger", "withdraw", desk.study, "pay-regression", "--period", PERIOD, "--reason", "a wrong column")
    desk.document("ledger", "note", "held for a day by hand", desk.study)
    desk.document("ledger", "note", "the office moved", desk.folder)
    *_, withdrawn, of_study, of_home = ledger_lines(desk)
    whose = ("study", "account", "period")
    assert [withdrawn[name] for name in whose] == ["pay", "staff", PERIOD]
    assert withdrawn["what"] == f"pay-regression of {PERIOD} withdrawn"
    assert [of_study[name] for name in whose] == ["pay", "staff", None]
    assert [of_home[name] for name in whose] == [None, None, None]
    rows = [line.split() for line in desk.run("ledger", "history", desk.study).stdout.splitlines()]
    assert [row[3:6] for row in rows[-3:-1]] == [["withdraw", "staff", "pay"], ["note", "staff", "pay"]]
    desk.document("ledger", "export", tmp_path / "ledger.csv", desk.study)
    cells = list(csv.DictReader((tmp_path / "ledger.csv").read_text().splitlines()))[-3]
    assert [cells[name] for name in (*whose, "release", "revision")] == ["pay", "staff", PERIOD, "pay-regression", "1"]
    assert desk.document("audit", desk.study, exit_code=5)["checks"][0][
        "ok"
    ]  # no crate was made: nothing else is wrong


def test_a_note_of_a_study_whose_account_is_not_open_is_refused(desk: Desk) -> None:
    desk.edit_study("population: staff", "population: staf")
    message = refused(desk, "note", "held for a day by hand", desk.study)
    assert message.startswith("cannot write the note: staf was never opened in this ledger (it has accounts of staff)")
    assert head(desk) == 2


def test_what_was_closed_and_withdrawn_is_shown_with_its_account(desk: Desk) -> None:
    charge(desk.study)
    clean = desk.document("ledger", "show", desk.study)["accounts"][0]
    assert (clean["closed"], clean["withdrawn"]) == ([], [])
    desk.document("ledger", "withdraw", desk.study, "pay-regression", "--period", PERIOD, "--reason", "a wrong column")
    desk.document("ledger", "close", desk.study, "--period", "2026-02", "--reason", "published")
    account = desk.document("ledger", "show", desk.study)["accounts"][0]
    (closed,), (withdrawn,) = account["closed"], account["withdrawn"]
    assert (closed["period"], closed["reason"], closed["entry"]) == ("2026-02", "published", 5)
    assert (withdrawn["study"], withdrawn["period"], withdrawn["reason"]) == ("pay", PERIOD, "a wrong column")
    shown = desk.run("ledger", "show", desk.study).stdout
    assert "  closed periods, which take no charges: 2026-02\n" in shown
    said = f"pay-regression of {PERIOD} withdrawn (study pay) on {withdrawn['date']}: a wrong column"
    assert f"  {said}\n" in shown


def test_opening_an_account_says_whether_it_was_open(desk: Desk, opened: Path) -> None:
    again = desk.run("ledger", "create", desk.study).stdout
    assert again.startswith(f"Already open: account staff (study pay, home {desk.home}).\n")
    desk.edit_study("study: pay", "study: hours")
    desk.edit_study("population: staff", "population: pupils")
    assert desk.run("ledger", "create", desk.study).stdout.startswith("Opened: account pupils (study hours, home ")
    assert desk.document("ledger", "create", desk.study)["status"] == "already-open"


def test_the_commands_find_the_home_from_the_folder_one_is_in(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk.folder)
    desk.document("ledger", "note", "here")
    assert [line["reason"] for line in desk.document("ledger", "history")["entries"]][-1] == "here"
    assert json.loads(desk.run("ledger", "show", "--json").stdout)["head"]["seq"] == 3
