"""The status of a project: what is done, open, late or failed, who has to act, and the exit code for monitors."""

import json
import os
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import dpbayes.status
from dpbayes.status.document import add_server, status_document
from dpbayes.status.look import project_at, status_of
from dpbayes.status.waits import IDLE
from dpbayes_core.errors import StudyInvalid
from storage.home.attempts import Attempt, Attempts
from storage.ledger.anchored import AnchoredLedger
from tests.support.canaries import finds, forms_of
from tests.support.charged import charge, publish, tamper
from tests.support.desk import PERIOD, Desk
from tests.support.ledger_cases import STAMP, publication

SCHEMA = json.loads((Path(dpbayes.status.__file__).parent / "schemas" / "status-1.json").read_text())
FIRST = ('schedule: {cron: "0 2 1 * *"}', 'schedule: {cron: "0 2 1 * *", first: 2026-01}')
DUE = datetime(2026, 2, 1, 2, tzinfo=UTC)
GONE = 2**22 + 1  # no process has this number


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A study that owes its months from January on."""
    found = Desk.set_up(tmp_path)
    found.edit_study(*FIRST)
    return found


def status(folder: Path, now: datetime = DUE) -> dict[str, Any]:
    """The document, which is what its schema says."""
    document = status_document(status_of(project_at(folder), now))
    assert flaws(document) == []
    return document


def flaws(document: dict[str, Any]) -> list[str]:
    return [error.message for error in Draft202012Validator(SCHEMA).iter_errors(json.loads(json.dumps(document)))]


def tried(desk: Desk, outcome: str, period: str = PERIOD, **said: Any) -> None:
    """An attempt on record, as one that ended in this way leaves it."""
    attempts = Attempts(desk.home / "runs", "pay")
    running = attempts.begin(period, said.pop("begun", DUE))
    assert running is not None
    running.end(outcome, said.pop("ended", DUE), **said)


def released(desk: Desk, period: str = PERIOD, status: str = "converged") -> None:
    """A period with its crate and a posterior."""
    entry = charge(desk.study, period)
    publish(desk.study, period)
    marked = "" if status == "converged" else "-not-converged"
    path = f"posteriors/pay/{period}/pay-posterior{marked}-{'a' * 16}"
    with AnchoredLedger.open(desk.study) as anchored:
        signer = anchored.home.signer().fingerprint
        about = {
            "study": "pay",
            "period": period,
            "analysis": "pay-posterior",
            "status": status,
            "key": f"{period:a<64}",
        }
        one = publication(entry, path=path, signed_by=signer, **about)
        anchored.ledger.publish("staff", one, (), stamp=STAMP)
        anchored.archive.write_folder(path, {"posterior.json": b"{}"})


def test_a_month_that_is_done_and_one_that_is_due_wait_for_nobody(desk: Desk) -> None:
    released(desk)
    document = status(desk.folder, datetime(2026, 3, 1, 2, 5, tzinfo=UTC))
    (study,) = document["studies"]
    assert (document["exit_code"], document["waits"], document["verdict"]) == (0, [], "Nothing waits for a person.")
    assert study["counts"] == {"done": 1, "due": 1}
    assert [one["period"] for one in study["periods"]] == ["2026-02"]
    assert study["next"] == {"period": "2026-03", "due": "2026-04-01T02:00:00+00:00"}
    assert (study["last"]["period"], study["last"]["analysed"], study["last"]["withdrawn"]) == (
        PERIOD,
        "converged",
        False,
    )
    assert study["last"]["day"] == datetime.now(UTC).date().isoformat()
    assert (document["server"], study["deployment"], study["error"]) == (None, None, None)


@pytest.mark.parametrize(
    ("outcome", "code", "who"),
    [
        ("refused", 3, "steward"),
        ("failed", 1, "operator"),
        ("failed", 2, "steward"),
        ("shape-differs", 4, "steward"),
        ("integrity", 5, "auditor"),
    ],
)
def test_a_failure_is_the_exit_code_and_says_who_has_to_act(desk: Desk, outcome: str, code: int, who: str) -> None:
    tried(desk, outcome, exit_code=code, message="cannot do it: a reason. Do that.")
    document = status(desk.folder)
    assert document["exit_code"] == code
    assert document["waits"] == [
        {
            "study": "pay",
            "period": PERIOD,
            "analysis": None,
            "state": outcome,
            "who": who,
            "exit_code": code,
            "sentence": "cannot do it: a reason. Do that.",
        }
    ]
    assert document["verdict"] == f"1 matter waits for a person: {who}."


def test_a_posterior_that_has_not_converged_is_for_the_analyst(desk: Desk) -> None:
    released(desk, status="not-converged")
    document = status(desk.folder)
    assert (document["exit_code"], document["waits"][0]["who"]) == (6, "analyst")
    assert document["studies"][0]["last"]["analysed"] == "not-converged"


def test_a_table_is_waited_for_and_then_late(desk: Desk) -> None:
    desk.edit_study("unit: person}", "unit: person, ready: {after: 3d, retry: 2h}}")
    tried(desk, "awaiting-table", exit_code=4, next_try=DUE + timedelta(hours=2))
    waiting = status(desk.folder)
    assert (waiting["exit_code"], waiting["studies"][0]["counts"]) == (0, {"waiting": 1})
    assert waiting["studies"][0]["periods"][0]["until"] == "2026-02-04T02:00:00+00:00"
    late = status(desk.folder, DUE + timedelta(days=3))
    assert (late["exit_code"], late["waits"][0]["who"], late["waits"][0]["state"]) == (4, "steward", "late")


def test_a_living_run_waits_for_nobody_and_a_dead_one_is_due_again(desk: Desk) -> None:
    now = datetime.now(UTC)
    running = Attempts(desk.home / "runs", "pay").begin(PERIOD, now)
    assert running is not None
    period = status(desk.folder, now)["studies"][0]["periods"][0]
    assert (period["state"], period["attempt"]["pid"]) == ("running", os.getpid())
    path = desk.home / "runs" / "pay" / f"{PERIOD}.json"
    path.write_text(path.read_text().replace(f'"pid": {os.getpid()}', f'"pid": {GONE}'))
    document = status(desk.folder, now)
    period = document["studies"][0]["periods"][0]
    assert period["state"] == "due"
    assert period["sentence"].endswith("died before its end. It is due again.")
    assert document["exit_code"] == 0
    running.end("stopped", now)


def test_a_month_that_nothing_tries_is_for_the_operator_after_a_day(desk: Desk) -> None:
    assert status(desk.folder, DUE + IDLE)["exit_code"] == 0
    document = status(desk.folder, DUE + timedelta(days=30))
    assert (document["exit_code"], [one["period"] for one in document["waits"]]) == (1, [PERIOD])
    assert document["waits"][0]["who"] == "operator"
    assert "nothing has tried it for 30 days. See that a worker runs" in document["waits"][0]["sentence"]


def test_a_broken_study_and_one_without_a_home_stop_no_other(desk: Desk, tmp_path: Path) -> None:
    good = desk.folder
    (good / "broken").mkdir()
    (good / "broken" / "study.yaml").write_text(desk.study.read_text().replace("epsilon: 1\n", "epsilon: -1\n"))
    document = status(good)
    assert [study["study"] for study in document["studies"]] == ["pay"]
    assert document["broken"][0]["file"].endswith("broken/study.yaml")
    assert (document["exit_code"], document["waits"][0]["who"]) == (2, "steward")
    assert document["waits"][0]["study"] == document["broken"][0]["file"]


def test_a_study_without_a_home_has_its_sentence(tmp_path: Path, desk: Desk) -> None:
    text = desk.study.read_text()
    alone = tmp_path.parent / f"{tmp_path.name}-alone"
    alone.mkdir()
    (alone / "study.yaml").write_text(text)
    document = status(alone)
    (study,) = document["studies"]
    assert (study["home"], study["error"]["kind"], document["exit_code"]) == (None, "ledger-missing", 2)
    assert "dpbayes ledger create" in study["error"]["message"]
    assert document["budget"] == []


def test_other_terms_than_those_of_the_ledger_are_said_of_their_study_alone(desk: Desk) -> None:
    other = desk.folder / "other" / "study.yaml"
    other.parent.mkdir()
    other.write_text(desk.study.read_text().replace("study: pay", "study: hours").replace("epsilon: 8", "epsilon: 9"))
    document = status(desk.folder)
    errors = {study["study"]: study["error"] for study in document["studies"]}
    assert errors["pay"] is None
    assert "opened with another lifetime cap" in errors["hours"]["message"]
    assert document["studies"][0]["counts"] == {"due": 1}
    assert {tuple(one["studies"]) for one in document["budget"]} == {("pay",)}


def test_an_altered_ledger_is_for_the_auditor(desk: Desk) -> None:
    charge(desk.study)
    tamper(desk.home, "UPDATE entry SET payload = replace(payload, 'tester', 'nobody') WHERE kind = 'charge'")
    document = status(desk.folder)
    assert (document["exit_code"], document["waits"][0]["who"]) == (5, "auditor")
    assert document["studies"][0]["error"]["kind"] == "integrity-failure"


def test_one_study_alone_and_a_folder_without_any(desk: Desk, tmp_path: Path) -> None:
    assert status(desk.study)["studies"] == status(desk.folder)["studies"]
    (tmp_path / "empty").mkdir()
    document = status(tmp_path / "empty")
    assert (document["studies"], document["budget"], document["exit_code"]) == ([], [], 0)
    with pytest.raises(StudyInvalid):
        status(tmp_path / "nowhere")


def test_a_study_without_a_schedule_shows_its_last_release(desk: Desk) -> None:
    charge(desk.study)
    publish(desk.study)
    desk.edit_study(f"{FIRST[1]}\n", "")
    (study,) = status(desk.folder)["studies"]
    assert (study["schedule"], study["next"], study["counts"]) == (None, None, {})
    assert (study["last"]["period"], study["last"]["analysed"]) == (PERIOD, None)


def test_looking_writes_nothing(desk: Desk) -> None:
    released(desk)
    before = {path: path.stat().st_mtime_ns for path in desk.home.rglob("*") if not path.name.startswith("ledger.db-")}
    status(desk.folder)
    after = {path: path.stat().st_mtime_ns for path in desk.home.rglob("*") if not path.name.startswith("ledger.db-")}
    assert after == before


def test_what_a_server_says_changes_neither_states_nor_exit_code(desk: Desk) -> None:
    document = status(desk.folder)
    deployment = {"name": "run/pay", "paused": False, "scheduled": True, "next_run": "2026-03-01T02:00:00+00:00"}
    run = {"deployment": "run/pay", "flow_run_id": "0", "began": None, "life": "dead", "sentence": "It is dead."}
    worker = {"pool": "dpbayes", "worker": "one", "online": False, "seen": None}
    server = {"url": "http://here", "answers": True, "sentence": None, "catch_up": None, "workers": [worker]}
    found = add_server(document, {**server, "runs": [run], "deployments": {str(desk.study): deployment}})
    assert flaws(found) == []
    assert found["studies"][0]["deployment"] == deployment
    assert found["exit_code"] == document["exit_code"]
    assert flaws(found | {"server": {"url": 1}})


def test_the_schema_can_fail(desk: Desk) -> None:
    document = status(desk.folder)
    del document["studies"][0]["next"]
    assert flaws(document)
    assert flaws(status(desk.folder) | {"exit_code": "0"})


def test_names_of_hosts_are_those_of_attempts_and_nothing_of_the_vault_is_shown(desk: Desk) -> None:
    (desk.home / "vault" / "secret").write_text("a canary of the vault")
    tried(desk, "failed", exit_code=1, message="cannot go on.")
    text = json.dumps(status(desk.folder))
    assert socket.gethostname() in text
    assert not finds(text.encode(), forms_of("a canary of the vault"))


def test_the_attempt_of_another_study_is_not_taken_for_ours(desk: Desk) -> None:
    record = Attempt(study="hours", period=PERIOD, begun=DUE, host="elsewhere", pid=1, seen=DUE).to_record()
    (desk.home / "runs" / "pay").mkdir(parents=True)
    (desk.home / "runs" / "pay" / f"{PERIOD}.json").write_text(json.dumps(record))
    assert status(desk.folder)["studies"][0]["periods"][0]["attempt"] is None


EACH_YEAR = ("chains: 2\n", 'chains: 2\n    schedule: {cron: "0 3 15 2 *"}\n')


def test_an_analysis_that_is_made_again_is_due_failed_or_forgotten(desk: Desk) -> None:
    released(desk)
    desk.edit_study(*EACH_YEAR)
    fired = datetime(2026, 2, 15, 3, tzinfo=UTC)
    (study,) = status(desk.folder, fired)["studies"]
    assert study["again"] == [
        {"analysis": "pay-posterior", "due": "2026-02-15T03:00:00+00:00", "made": None, "attempt": None}
    ]
    assert status(desk.folder, fired)["exit_code"] == 0
    forgotten = status(desk.folder, fired + timedelta(days=2))
    assert (forgotten["exit_code"], forgotten["waits"][0]["analysis"]) == (1, "pay-posterior")
    tried(desk, "failed", "analysis-pay-posterior", begun=fired, ended=fired, exit_code=5, message="cannot trust it.")
    failed = status(desk.folder, fired)
    assert (failed["exit_code"], failed["waits"][0]["who"]) == (5, "auditor")
    tried(desk, "done", "analysis-pay-posterior", begun=fired, ended=fired)
    done = status(desk.folder, fired)
    assert (done["exit_code"], done["studies"][0]["again"][0]["due"]) == (0, None)
    assert done["studies"][0]["again"][0]["made"] == "2026-02-15T03:00:00+00:00"
