"""One charge and one release, whatever dies and whoever else is asking."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent


def drive(*arguments: object) -> Any:
    command = [sys.executable, "-m", "tests.laws.ledger_driver", *map(str, arguments)]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=120).stdout)


def test_rivals_get_exactly_the_charges_that_fit_and_share_what_is_shared(tmp_path: Path) -> None:
    processes, attempts, fitting = 4, 50, 40
    workers = drive("rivals", tmp_path, processes, attempts)
    answers = [(name, seq, digest) for worker in workers for name, seq, digest in worker]
    assert len(answers) == processes * attempts
    admitted = {(name, seq, digest) for name, seq, digest in answers if seq is not None}
    assert len(admitted) == fitting == len({seq for _, seq, _ in admitted}) == len({name for name, _, _ in admitted})
    shared = Counter(name for name, seq, _ in answers if seq is not None and name.startswith("shared"))
    assert max(shared.values()) == processes  # rivals for one name got one answer
    refused = {name for name, seq, _ in answers if seq is None}
    assert not refused & {name for name, _, _ in admitted}


def test_a_release_killed_at_any_statement_is_made_once_by_running_again(tmp_path: Path) -> None:
    runs = drive("release", tmp_path)
    killed = [run for run in runs if not run["finished"]]
    assert len(killed) > 20
    assert runs[-1]["finished"]
    for run in runs:
        first, second = run["again"]
        assert first == second
        assert run["after"]["releases"] == [first[2]]
        assert run["after"]["ok"]
        assert run["after"]["entries"] == 3
        assert run["found"]["ok"]
        if run["found"]["releases"]:
            assert run["found"]["releases"] == [first[2]]  # what was committed is what is answered
        else:
            assert run["found"]["entries"] == 1  # neither account nor charge
    windows = Counter(len(run["found"]["releases"]) for run in killed)
    assert windows[0] > 0
    assert windows[1] > 0


def test_a_ledger_killed_while_it_is_made_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    runs = drive("creation", tmp_path)
    assert all(run["after"] == {"entries": 1, "ok": True, "releases": []} for run in runs)
    windows = Counter(run["stood"] for run in runs if not run["finished"])
    assert windows[False] > 0
    assert windows[True] > 0
