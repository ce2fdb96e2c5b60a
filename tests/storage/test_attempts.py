"""What was tried last of each period: who is at work, who died, and what came of it."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from storage.home.attempts import SILENCE, Attempts
from tests.support.command import ROOT

PERIOD = "2026-01"
BEGIN = "import sys, time; from datetime import UTC, datetime; from pathlib import Path; "
BEGIN += "from storage.home.attempts import Attempts; "
BEGIN += "Attempts(Path(sys.argv[1]), 'pay').begin('2026-01', datetime.now(UTC)); print('begun', flush=True); "
BEGIN += "time.sleep(100)"


def now() -> datetime:
    return datetime.now(UTC)


def attempts(folder: Path) -> Attempts:
    return Attempts(folder / "runs", "pay")


def test_an_attempt_says_who_works_and_then_what_came_of_it(tmp_path: Path) -> None:
    runs = attempts(tmp_path)
    assert runs.read() == {}
    running = runs.begin(PERIOD, now(), "a flow run")
    assert running is not None
    known = runs.read()[PERIOD]
    assert (known.outcome, known.pid, known.flow_run_id, known.ended) == ("running", os.getpid(), "a flow run", None)
    assert known.alive(now())
    again = now().replace(microsecond=0) + timedelta(hours=1)
    running.end("refused", now(), kind="budget-exceeded", exit_code=3, message="cannot charge.", next_try=again)
    ended = runs.read()[PERIOD]
    assert not ended.alive(now())
    assert not ended.dead(now())
    assert (ended.outcome, ended.kind, ended.exit_code) == ("refused", "budget-exceeded", 3)
    assert (ended.message, ended.tries) == ("cannot charge.", 1)
    assert ended.ended is not None
    assert ended.next_try == again
    assert ended.begun.tzinfo is not None


def test_of_two_who_begin_one_is_told_that_the_other_is_at_work(tmp_path: Path) -> None:
    runs = attempts(tmp_path)
    first = runs.begin(PERIOD, now())
    assert first is not None
    assert attempts(tmp_path).begin(PERIOD, now()) is None
    other = runs.begin("2026-02", now())
    assert other is not None
    other.end("done", now())
    first.end("failed", now())
    second = runs.begin(PERIOD, now())
    assert second is not None
    assert second.before is not None
    assert second.before.outcome == "failed"
    assert second.end("failed", now()).tries == 2


def test_a_killed_process_is_dead_at_once_and_its_period_can_begin_again(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BEGIN, str(tmp_path / "runs")]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        runs = attempts(tmp_path)
        assert runs.read()[PERIOD].alive(now())
        assert runs.reap(now()) == ()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close() if process.stdout else None
    assert runs.read()[PERIOD].dead(now())
    (dead,) = runs.reap(now())
    assert dead.outcome == "died"
    assert dead.message is not None
    assert dead.message.endswith(f"(process {process.pid}) died before its end.")
    assert runs.read()[PERIOD].outcome == "died"
    assert runs.reap(now()) == ()
    again = runs.begin(PERIOD, now())
    assert again is not None
    again.end("done", now())


def test_an_attempt_of_another_machine_is_dead_after_a_minute_of_silence(tmp_path: Path) -> None:
    runs = attempts(tmp_path)
    running = runs.begin(PERIOD, now())
    assert running is not None
    path = tmp_path / "runs" / "pay" / f"{PERIOD}.json"
    text = path.read_text().replace(f'"host": "{running.attempt.host}"', '"host": "elsewhere"')
    path.write_text(text)
    assert runs.read()[PERIOD].host == "elsewhere"
    assert runs.read()[PERIOD].alive(now())
    assert runs.read()[PERIOD].dead(now() + SILENCE + timedelta(seconds=1))
    running.end("done", now())
    assert runs.read()[PERIOD].outcome == "running"  # what took its place is not ours to end


def test_signs_of_life_go_to_the_attempt_that_was_begun_and_to_no_other(tmp_path: Path, monkeypatch) -> None:
    import storage.home.attempts as module

    monkeypatch.setattr(module, "BEAT", 0.02)
    runs = attempts(tmp_path)
    running = runs.begin(PERIOD, now())
    assert running is not None
    path = tmp_path / "runs" / "pay" / f"{PERIOD}.json"
    os.utime(path, (0, 0))
    deadline = now() + timedelta(seconds=5)
    while path.stat().st_mtime == 0:
        assert now() < deadline
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    os.utime(other, (0, 0))
    other.rename(path)
    running.end("done", now())
    monkeypatch.undo()


def test_what_cannot_be_read_is_as_good_as_none_and_nobody_else_may_look(tmp_path: Path) -> None:
    runs = attempts(tmp_path)
    running = runs.begin(PERIOD, now())
    assert running is not None
    running.end("done", now())
    folder = tmp_path / "runs" / "pay"
    assert [each.stat().st_mode & 0o077 for each in (folder, folder.parent, *folder.iterdir())] == [0] * 4
    for text in ("", "{", "[]", '{"study": "pay"}', "null"):
        (folder / "2026-02.json").write_text(text)
        assert list(runs.read()) == [PERIOD]
    (folder / "2026-02.json").write_bytes((folder / f"{PERIOD}.json").read_bytes())
    assert list(runs.read()) == [PERIOD]  # a file by another name is another's
    begun = runs.begin("2026-02", now())
    assert begun is not None
    begun.end("done", now())
    assert list(runs.read()) == [PERIOD, "2026-02"]


def test_a_record_from_the_future_is_not_alive(tmp_path: Path) -> None:
    runs = attempts(tmp_path)
    assert runs.begin(PERIOD, now()) is not None
    tomorrow = (now() + timedelta(days=1)).timestamp()
    os.utime(tmp_path / "runs" / "pay" / f"{PERIOD}.json", (tomorrow, tomorrow))
    assert runs.read()[PERIOD].dead(now())
    assert runs.begin(PERIOD, now()) is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [("pid", 1 << 60), ("pid", "1"), ("tries", "2"), ("exit_code", []), ("next_try", "2026-01-01T00:00:00")],
)
def test_a_record_with_a_field_that_makes_no_sense_is_as_good_as_none(tmp_path: Path, name: str, value: object) -> None:
    runs = attempts(tmp_path)
    running = runs.begin(PERIOD, now())
    assert running is not None
    running.end("done", now())
    file = tmp_path / "runs" / "pay" / f"{PERIOD}.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {name: value}))
    assert runs.read() == {}


@pytest.mark.parametrize("period", ["../../places", "/tmp/2026-01", ".2026-01"])
def test_no_name_of_a_period_leads_out_of_the_folder(tmp_path: Path, period: str) -> None:
    with pytest.raises(ValueError, match="no name of a period"):
        attempts(tmp_path).begin(period, now())


def test_runs_that_died_are_kept_until_the_server_was_told(tmp_path: Path) -> None:
    runs, file = attempts(tmp_path), tmp_path / "runs" / "pay" / f"{PERIOD}.json"
    for flow_run in ("first", "second"):
        assert runs.begin(PERIOD, now(), flow_run) is not None
        os.utime(file, (0, 0))  # it died
    assert runs.reap(now())[0].untold == ("first", "second")
    running = runs.begin(PERIOD, now(), "third")
    assert running is not None
    assert running.attempt.untold == ("first", "second")
    runs.told({"first"}, now())  # nothing is written over an attempt under way
    assert runs.read()[PERIOD].untold == ("first", "second")
    running.told({"first"})
    running.end("done", now())
    assert runs.read()[PERIOD].untold == ("second",)
    runs.told({"second"}, now())
    assert runs.read()[PERIOD].untold == ()
