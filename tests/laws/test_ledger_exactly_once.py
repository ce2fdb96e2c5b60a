"""One charge and one release, whatever dies and whoever else is asking."""

from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dpbayes_core.errors import BudgetExceeded, RequestChanged
from dpbayes_core.privacy.accounting import limit_units
from dpbayes_core.privacy.noise import OpenDPNoise
from storage.ledger.entries import Entry
from storage.ledger.ledger import Ledger
from storage.ledger.refusal import PeriodClosed
from tests.support.driver import drive
from tests.support.ledger_cases import EXACT, STAMP, commit, design, laplace, request


@pytest.fixture(params=["sqlite", "postgresql"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the driver makes its ledgers."""
    return request.getfixturevalue("postgresql").new_database() if request.param == "postgresql" else str(tmp_path)


@pytest.mark.parametrize(
    ("processes", "attempts", "epsilon"), [(4, 20, 0.1), pytest.param(8, 200, 0.01, marks=pytest.mark.slow)]
)
def test_rivals_get_exactly_the_charges_that_fit_and_share_what_is_shared(
    base: str, processes: int, attempts: int, epsilon: float
) -> None:
    done = drive("tests.laws.ledger_driver", "rivals", base, processes, attempts, epsilon)
    answers = [(name, seq, hash_) for worker in done["answers"] for name, seq, hash_ in worker]
    assert len(answers) == processes * attempts
    print(f"{len(answers) / done['seconds']:.0f} attempts per second")
    fitting = limit_units(Decimal(4)) // laplace(epsilon).cost().epsilon
    asked_for = {name for name, _, _ in answers}
    admitted = {answer for answer in answers if answer[1] is not None}
    assert fitting < len(asked_for)
    assert len(admitted) == fitting == len({seq for _, seq, _ in admitted})
    assert len({name for name, _, _ in admitted}) == len(admitted)  # one answer to each name, whoever asked
    assert done["after"]["hashes"] == [hash_ for _, _, hash_ in sorted(admitted, key=lambda answer: answer[1])]
    assert done["after"]["ok"]
    shared = Counter(name for name, seq, _ in answers if seq is not None and name.startswith("shared"))
    assert max(shared.values()) == processes
    refused = {name for name, seq, _ in answers if seq is None}
    assert refused == asked_for - {name for name, _, _ in admitted}


class OvertakenNoise(OpenDPNoise):
    """Real noise during whose drawing something else happens: after every early check, before the lock."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self.meanwhile = meanwhile

    def laplace(self, values: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
        self.meanwhile()
        return super().laplace(values, scale)


@pytest.fixture
def rival(ledger_url: str) -> Iterator[Ledger]:
    with Ledger.open(ledger_url) as ledger:
        yield ledger


def overtaken(place: str, meanwhile: Callable[[], object]) -> Entry:
    noise = OvertakenNoise(meanwhile)
    with Ledger.open(place) as ledger:
        return ledger.commit(request(), design(laplace(0.6)), EXACT, noise, stamp=STAMP)


def test_who_comes_second_returns_the_winners_bytes(rival: Ledger, ledger_url: str) -> None:
    won: list[Entry] = []
    answer = overtaken(ledger_url, lambda: won.append(commit(rival, request(), laplace(0.6))))
    assert [answer] == won
    assert rival.count("charge") == 1


def test_who_comes_second_with_another_definition_is_refused(rival: Ledger, ledger_url: str) -> None:
    with pytest.raises(RequestChanged):
        overtaken(ledger_url, lambda: commit(rival, request(definition={}), laplace(0.6)))
    assert rival.count("charge") == 1


def test_caps_are_read_again_under_the_lock(rival: Ledger, ledger_url: str) -> None:
    with pytest.raises(BudgetExceeded):
        overtaken(ledger_url, lambda: commit(rival, request(release="hours"), laplace(0.6)))
    assert rival.count("charge") == 1


def test_closed_periods_are_read_again_under_the_lock(rival: Ledger, ledger_url: str) -> None:
    def close() -> None:
        rival.open_account(request().account, STAMP)
        rival.close("employees", "2026-01", reason="published", stamp=STAMP)

    with pytest.raises(PeriodClosed):
        overtaken(ledger_url, close)
    assert rival.count("charge") == 0


SLOW_ON_POSTGRESQL = pytest.mark.parametrize(
    "base", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True
)


@pytest.mark.slow
@SLOW_ON_POSTGRESQL
def test_a_release_killed_at_any_statement_is_made_once_by_running_again(base: str) -> None:
    runs = drive("tests.laws.ledger_driver", "release", base)
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
            assert run["found"]["entries"] == 2  # the account that was opened before, and no charge
    windows = Counter(len(run["found"]["releases"]) for run in killed)
    assert windows[0] > 0
    assert windows[1] > 0


@pytest.mark.slow
@SLOW_ON_POSTGRESQL
def test_a_release_of_moving_people_killed_at_any_statement_stands_at_all_holders_or_at_none(base: str) -> None:
    runs = drive("tests.laws.ledger_driver", "release-over-holders", base)
    assert runs[-1]["finished"]
    windows = Counter(len(run["found"]["releases"]) for run in runs if not run["finished"])
    assert set(windows) == {0, 3}
    assert windows[0] > 20  # between the holders' entries, too
    for run in runs:
        first, second = run["again"]
        assert first == second == run["after"]["releases"]
        assert run["found"]["releases"] in ([], first)
        assert run["after"]["ok"]
        assert run["after"]["entries"] == 5


@pytest.mark.parametrize(
    ("processes", "attempts", "epsilon"), [(4, 12, 0.2), pytest.param(8, 100, 0.03, marks=pytest.mark.slow)]
)
def test_rivals_never_share_a_release_of_moving_people(
    base: str, processes: int, attempts: int, epsilon: float
) -> None:
    done = drive("tests.laws.ledger_driver", "rivals-over-holders", base, processes, attempts, epsilon)
    answers = [(name, tuple(hashes), made) for worker in done["answers"] for name, hashes, made in worker]
    assert len(answers) == processes * attempts
    fitting = limit_units(Decimal(4)) // (2 * laplace(epsilon).cost().epsilon)
    admitted = {(name, hashes) for name, hashes, _ in answers if hashes}
    assert len(admitted) == fitting < attempts
    assert Counter(name for name, hashes, made in answers if any(made)).most_common(1)[0][1] == 1  # one made each
    assert all(len(set(made)) == 1 for _, hashes, made in answers if hashes)
    charges = done["charges"]
    assert len(charges) == 3 * fitting
    for one in range(0, len(charges), 3):
        release, holders, actors = zip(*charges[one : one + 3], strict=True)
        assert (len(set(release)), holders, len(set(actors))) == (1, ("north", "south", "west"), 1)
    assert done["after"]["ok"]


@pytest.mark.slow
@SLOW_ON_POSTGRESQL
def test_a_ledger_killed_while_it_is_made_is_there_whole_or_not_at_all(base: str) -> None:
    runs = drive("tests.laws.ledger_driver", "creation", base)
    assert all(run["after"] == {"entries": 1, "ok": True, "hashes": [], "releases": []} for run in runs)
    windows = Counter(run["stood"] for run in runs if not run["finished"])
    assert windows[False] > 0
    assert windows[True] > 0
