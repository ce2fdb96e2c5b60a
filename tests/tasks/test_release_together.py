"""Where people move, one release counts one choice of rows: of one pass, in one home, over one state of the table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpbayes.analyses.stored_releases import newest_releases
from dpbayes.audit.audit import audit
from dpbayes.secure.read_table import read_statistics
from dpbayes.study.load import load_study
from dpbayes_core.errors import DpbayesError, StudyInvalid
from dpbayes_core.privacy.noise import NoiseSource, OpenDPNoise
from dpbayes_core.privacy.release import Design
from storage.home.home import Home
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.charging import Answer
from storage.ledger.entries import Entry, Stamp
from storage.ledger.ledger import Ledger
from storage.ledger.page import Page
from storage.ledger.request import AccountSpec, Request
from storage.ledger.verify import verify
from tasks.orders import ReleaseOrder
from tasks.publish_release import publish_once
from tasks.release_statistics import release_once
from tests.support.accounts import open_account_of
from tests.support.desk import PERIOD, Desk
from tests.support.ledger_cases import STAMP
from tests.support.offices import OFFICES, staff, study_of, write_staff

PEOPLE, RELEASE = 200, "pay-regression"
VICTIM = 0  # the row of the one who moves
COMMIT_ALL, APPEND, TOGETHER = Ledger.commit_all, Page.append, AccountSpec.released_together


class Dead(BaseException):
    """Nothing after this happens."""


class Offices:
    """Two offices whose people move, one ledger, two homes, and the rows that every charge has counted."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.desk, self._folder, self._patch = Desk(folder), folder, patch
        text = study_of("movable").replace("per-period: {epsilon: 3}", "per-period: {epsilon: 5}")  # for a revision
        self.desk.study.write_text(text)
        self.counted: dict[str | None, int] = {}
        self.write(office="n")
        for home in ("one", "two"):
            self.be_at(home)
            with AnchoredLedger.create(Home.create(folder), STAMP):
                open_account_of(self.desk.study)
        self.be_at("one")
        self._older = False
        patch.setattr(Ledger, "commit_all", lambda ledger, *of, stamp: self._committed(ledger, *of, stamp=stamp))

    def be_at(self, home: str) -> None:
        """Whose keys and archive are used from here on."""
        self._patch.setenv("DPBAYES_HOME", str(self._folder / home))

    def write(self, *, office: str | None) -> None:
        """The table, with the victim at that office, or with a row at each."""
        columns = {name: list(values) for name, values in staff(PEOPLE).items()}
        columns["office"][VICTIM] = office or "n"
        if office is None:
            for values in columns.values():
                values.append(values[VICTIM])
            columns["office"][-1], columns["age"][-1] = "s", 21.0
        write_staff(self.desk, columns)
        self.at_n = columns["office"][:PEOPLE].count("n")

    def let_choose(self, home: str, office: str) -> None:
        """Give a home a contribution key by which the victim's row at that office counts."""
        wanted, study = self.at_n if office == "n" else self.at_n - 1, load_study(self.desk.study)
        for number in range(100):
            key = bytes([number]) * 32
            found = read_statistics(study.table(RELEASE, PERIOD), study.statistic(RELEASE), key=key).statistics
            if found.parts[0].rows == wanted:
                (self._folder / home / "keys" / "contribution.key").write_bytes(key)
                return
        raise AssertionError("no key chooses that row")

    def order(self, **more: Any) -> ReleaseOrder:
        """The release of both offices."""
        return ReleaseOrder(study=str(self.desk.study), release=RELEASE, period=PERIOD, **more)

    def release(self, noise: OpenDPNoise | None = None, **more: Any) -> tuple[str, ...]:
        """The real pass and commit."""
        return release_once(self.order(**more), noise or OpenDPNoise())

    def release_and_die_between(self) -> None:
        """A release that is killed as the second office's entry is to be written."""

        def dying(page: Page, kind: str, *arguments: Any, **named: Any) -> Entry:
            if kind == "charge" and '"s"' in arguments[0]:
                raise Dead
            return APPEND(page, kind, *arguments, **named)

        with self._patch.context() as patched:
            patched.setattr(Page, "append", dying)
            with pytest.raises(Dead):
                self.release()

    def be_older(self, older: bool = True) -> None:
        """Commit as versions before this rule did, or as this one: office by office, each by itself."""
        self._older = older
        self._patch.setattr(AccountSpec, "released_together", () if older else TOGETHER)

    def _committed(
        self, ledger: Ledger, asked: Request, design: Design, exacts: Any, noise: NoiseSource, *, stamp: Stamp
    ) -> tuple[Answer, ...]:
        done: list[Answer] = []
        for group in [{one: exacts[one]} for one in exacts] if self._older else [exacts]:
            answers = COMMIT_ALL(ledger, asked, design, group, noise, stamp=stamp)
            self.counted |= {one: group[one].rows for one, each in zip(group, answers, strict=True) if each.made}
            done += answers
        return tuple(done)

    def unmet(self) -> list[str]:
        """The checks that an audit of this home finds wanting."""
        with AnchoredLedger.open(self.desk.study) as anchored:
            trusted = anchored.home.signer().trusted
            checks = audit(anchored.ledger.entries(), anchored.anchors, anchored.archive, trusted).checks
        return [check.check for check in checks if not check.ok]

    def charges(self) -> list[Entry]:
        """The charges of a ledger that verifies and whose every entry this home has anchored."""
        with AnchoredLedger.open(self.desk.study) as anchored:
            assert [check for check in verify(anchored.ledger.entries()) if not check.ok] == []
            assert anchored.anchors.newest() == anchored.ledger.head.seq
            return [entry for entry in anchored.ledger.entries() if entry.kind == "charge"]


@pytest.fixture
def place(ledger_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Offices:
    monkeypatch.setenv("DPBAYES_LEDGER_URL", ledger_url)
    monkeypatch.delenv("DPBAYES_ARCHIVE_URL", raising=False)
    return Offices(tmp_path, monkeypatch)


class Overtaken(OpenDPNoise):
    """Real noise during whose drawing for the second office something happens, once."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self.meanwhile, self.drawn = meanwhile, 0

    def gaussian(self, values: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
        self.drawn += 1
        if self.drawn == 2:
            self.meanwhile()
        return super().gaussian(values, scale)


BOTH_WAYS = pytest.mark.parametrize("older", [False, True])
"""As it is, and as it was: there the very same attack counts the victim twice."""


@BOTH_WAYS
def test_somebody_who_moves_between_a_kill_and_the_next_run_is_counted_once(place: Offices, older: bool) -> None:
    place.be_older(older)
    place.release_and_die_between()
    assert len(place.charges()) == (1 if older else 0)
    place.write(office="s")
    assert place.release() == (("already-released", "released") if older else ("released", "released"))
    assert sum(place.counted.values()) == PEOPLE + older
    assert [charge.payload["holder"] for charge in place.charges()] == list(OFFICES)


@pytest.mark.slow
@BOTH_WAYS
def test_a_second_home_does_not_finish_what_another_began(place: Offices, older: bool) -> None:
    place.be_older(older)
    place.write(office=None)
    place.let_choose("one", "n")
    place.let_choose("two", "s")
    place.release_and_die_between()
    place.be_at("two")
    assert place.release() == (("already-released", "released") if older else ("released", "released"))
    assert sum(place.counted.values()) == PEOPLE + older
    place.be_at("one")
    assert place.release() == ("already-released", "already-released")
    assert len(place.charges()) == 2


@pytest.mark.slow
@BOTH_WAYS
def test_two_homes_that_release_at_once_do_not_share_it(place: Offices, older: bool) -> None:
    place.be_older(older)
    place.write(office=None)
    place.let_choose("one", "n")
    place.let_choose("two", "s")
    said: list[tuple[str, ...]] = []

    def meanwhile() -> None:
        place.be_at("two")
        said.append(place.release())
        place.be_at("one")

    noise = Overtaken(meanwhile)
    said.append(place.release(noise))
    assert sum(place.counted.values()) == PEOPLE + older
    published = [one["digest"] for one in publish_once(place.order(), said[1])]
    assert published == [charge.payload["digest"] for charge in place.charges()]
    if older:
        assert noise.drawn == 2
        assert said == [("already-released", "released"), ("released", "already-released")]
    else:  # and nobody says of another's release that it is theirs
        assert said == [("released", "released"), ("already-released", "already-released")]


@pytest.mark.slow
def test_what_an_older_version_left_incomplete_is_not_completed_but_superseded(place: Offices) -> None:
    place.be_older()
    place.release_and_die_between()
    place.be_older(False)
    table = place.desk.table().read_bytes()
    place.desk.table().unlink()  # refused before anything is read
    with pytest.raises(StudyInvalid, match="released at n only: where people move") as refused:
        place.release()
    assert "Give the next --revision and --reason." in str(refused.value)
    assert "every charge has its crate" in place.unmet()
    place.desk.table().write_bytes(table)
    assert len(place.charges()) == 1
    assert place.release(revision=2, reason="the first was cut off") == ("released", "released")
    assert place.release(revision=2, reason="the first was cut off") == ("already-released", "already-released")
    first, *second = place.charges()
    assert [charge.payload["supersedes"] for charge in second] == [first.key, first.key.replace('"n"', '"s"')]
    with AnchoredLedger.open(place.desk.study) as anchored:
        newest = newest_releases(load_study(place.desk.study), RELEASE, PERIOD, anchored)
    assert [entry.payload["digest"] for entry in newest] == [charge.payload["digest"] for charge in second]
    assert "every charge has its crate" in place.unmet()
    publish_once(place.order(revision=2, reason="the first was cut off"), ("released",) * 2)
    assert place.unmet() == []  # what stood at one office is never published, and nobody waits for it


def test_an_incomplete_release_that_appears_during_the_pass_is_not_completed_either(place: Offices) -> None:
    def meanwhile() -> None:
        place.be_at("two")
        place.be_older()
        place.release_and_die_between()
        place.be_older(False)
        place.be_at("one")

    with pytest.raises(DpbayesError, match="released at n only"):
        place.release(Overtaken(meanwhile))
    assert [charge.payload["holder"] for charge in place.charges()] == ["n"]
