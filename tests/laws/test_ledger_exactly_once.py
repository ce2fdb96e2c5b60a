"""One charge and one release, whatever dies and whoever else is asking."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpbayes_core.errors import BudgetExceeded, RequestChanged
from dpbayes_core.noise import OpenDPNoise
from storage.ledger.entries import Entry
from storage.ledger.ledger import Ledger
from storage.ledger.refusal import PeriodClosed
from tests.storage.ledger_cases import ROWS, SCHEMA, STAMP, VALUES, commit, laplace, new_ledger, request, url

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


class OvertakenNoise(OpenDPNoise):
    """Real noise during whose drawing something else happens: after every early check, before the lock."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self.meanwhile = meanwhile

    def laplace(self, values: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
        self.meanwhile()
        return super().laplace(values, scale)


@pytest.fixture
def rival(tmp_path: Path) -> Iterator[Ledger]:
    with new_ledger(tmp_path) as ledger:
        yield ledger


def overtaken(folder: Path, meanwhile: Callable[[], object]) -> Entry:
    noise = OvertakenNoise(meanwhile)
    with Ledger.open(url(folder)) as ledger:
        return ledger.commit(request(), laplace(0.6), VALUES, noise, schema=SCHEMA, rows=ROWS, stamp=STAMP)


def test_who_comes_second_returns_the_winners_bytes(rival: Ledger, tmp_path: Path) -> None:
    won: list[Entry] = []
    answer = overtaken(tmp_path, lambda: won.append(commit(rival, request(), laplace(0.6))))
    assert [answer] == won
    assert rival.count("charge") == 1


def test_who_comes_second_with_another_definition_is_refused(rival: Ledger, tmp_path: Path) -> None:
    with pytest.raises(RequestChanged):
        overtaken(tmp_path, lambda: commit(rival, request(definition={}), laplace(0.6)))
    assert rival.count("charge") == 1


def test_caps_are_read_again_under_the_lock(rival: Ledger, tmp_path: Path) -> None:
    with pytest.raises(BudgetExceeded):
        overtaken(tmp_path, lambda: commit(rival, request(release="hours"), laplace(0.6)))
    assert rival.count("charge") == 1


def test_closed_periods_are_read_again_under_the_lock(rival: Ledger, tmp_path: Path) -> None:
    def close() -> None:
        rival.open_account(request().account, STAMP)
        rival.close("employees", "2026-01", reason="published", stamp=STAMP)

    with pytest.raises(PeriodClosed):
        overtaken(tmp_path, close)
    assert rival.count("charge") == 0


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
