"""What a run says of itself: public documents in, sentences, facts and tables out, and nothing else of a parameter."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from prefect.client.schemas.actions import ArtifactCreate

from dpbayes_core.errors import BudgetExceeded, DpbayesError, IntegrityFailure, ShapeMismatch, StudyInvalid
from dpbayes_core.privacy.noise import OpenDPNoise
from tasks import progress
from tasks.notice_board import LOG, Announcer, JsonLines, announced
from tasks.notices import Notice, Page, Subject, analysed_notice, failed_notice, summary
from tasks.orders import AnalysisOrder, CratesOrder, InspectOrder, ReleaseOrder
from tasks.progress import ChainsSoFar
from tasks.publish_release import publish_once
from tasks.release_statistics import release_once
from tasks.run_names import task_name
from tests.support.canaries import finds, forms_of
from tests.support.desk import PERIOD, people
from tests.support.place import Place

SUBJECT = Subject("pay", "staff", PERIOD)
SECRET = "Zebulon-Quirk-Canary"
GOLDEN = Path(__file__).parents[1] / "golden" / "documents" / "analyse-stored.json"


class Heap:
    """A board that keeps what is put up."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        self.shares: list[tuple[str, float]] = []
        self.said: list[str] = []

    def put(self, notice: Notice) -> None:
        self.notices.append(notice)

    def show(self, subject: Subject, step: str, share: float, said: str) -> None:
        self.shares.append((step, share))
        self.said.append(said)


class Broken(Heap):
    """A board that fails."""

    def put(self, notice: Notice) -> None:
        raise OSError("no server")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def release(place: Place, boards: Sequence[Any]) -> list[dict[str, Any]]:
    """Release as the flow does, and announce it."""
    order = ReleaseOrder(study=str(place.desk.study), release="pay-regression", period=PERIOD)
    with progress.watched(Announcer(SUBJECT, boards)):
        statuses = release_once(order, OpenDPNoise())
        progress.charged(order.release, statuses)
        documents = publish_once(order, statuses)
        progress.published(documents)
    return documents


def posterior(**changed: Any) -> dict[str, Any]:
    return json.loads(GOLDEN.read_text())["analyses"][0] | {"releases": []} | changed


def assert_fits(page: Page | None) -> None:
    """Prefect accepts the page as an artifact."""
    assert page is not None
    data = page.data if isinstance(page.data, str) else json.dumps(page.data)
    ArtifactCreate(key=page.key, type=page.kind, description=page.heading, data=data)
    assert re.fullmatch(r"[a-z0-9-]+", page.key)


def test_a_release_is_announced_step_by_step_with_its_cost_and_what_it_leaves(place: Place) -> None:
    heap = Heap()
    (document,) = release(place, [heap])
    assert [notice.message.partition(": ")[2] for notice in heap.notices][:3] == [
        "reading the table",
        "validating",
        "charged pay-regression",
    ]
    last = heap.notices[-1]
    assert (last.event, last.awaited) == ("released", True)
    assert document["digest"] == last.facts["digest"]
    assert heap.shares[-1] == ("reading the table", 1.0)
    assert_fits(last.page)
    rows = {row["what"]: row["value"] for row in last.page.data}  # type: ignore[union-attr, index]
    assert rows["cost"] == "epsilon 1 at delta 1e-06 (rho 0.02436)"
    assert rows["remains in per-period 2026-01"] == "epsilon 1.678 of 2"
    assert rows["crate"] == document["crate"]
    assert summary({"releases": [document]}) == "pay-regression released at epsilon 1 at delta 1e-06 (rho 0.02436)"


def test_a_second_run_says_that_nothing_is_spent_again(place: Place) -> None:
    release(place, [])
    heap = Heap()
    release(place, [heap])
    assert next(notice.message for notice in heap.notices) == (
        f"pay {PERIOD}: pay-regression was charged before, and nothing is spent again"
    )
    assert heap.notices[-1].facts["status"] == "already-released"


def test_nothing_of_a_row_is_in_what_is_announced(place: Place) -> None:
    columns = people(200)
    columns["pay"][11], columns["person"][12], columns["region"][13] = 90817.26354, SECRET, "atlantis-canary"
    place.desk.write_table(columns)
    heap = Heap()
    release(place, [heap])
    needles = {form for value in (90817.26354, SECRET, "atlantis-canary") for form in forms_of(value)}
    assert len(heap.notices) > 3
    assert not finds(repr([vars(notice) for notice in heap.notices]).encode(), needles)


def test_json_lines_are_one_document_each(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    release(place, [JsonLines()])
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {line["level"] for line in lines} == {"INFO"}
    assert {(line["study"], line["period"]) for line in lines} == {("pay", PERIOD)}
    assert [line["event"] for line in lines][-1] == "released"
    assert lines[-1]["cost"]["epsilon"] == 1


def test_another_value_of_the_setting_is_refused_before_anything_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOG, "yaml")
    with pytest.raises(StudyInvalid, match="it knows json alone"), announced():
        pytest.fail("a run began")


def test_a_board_that_fails_stops_no_release(place: Place) -> None:
    assert release(place, [Broken()])[0]["status"] == "released"


def test_of_two_flows_the_outer_one_stays_silent_while_the_inner_one_is_watched(place: Place) -> None:
    outer = Heap()
    with progress.watched(Announcer(SUBJECT, [outer])):
        release(place, [])
        assert outer.notices == []
        progress.report("sampling", 0.0)
    assert [notice.event for notice in outer.notices] == ["step"]


def test_a_bar_of_chains_says_their_draws_and_diagnostics() -> None:
    heap = Heap()
    with progress.watched(Announcer(SUBJECT, [heap])):
        progress.report("sampling", 0.0)
        progress.report_chains(ChainsSoFar(draws=500, of=1000, ess=300.0, rhat=1.02, seconds_left=20.0))
        progress.report("sampling", 1.0)
    assert heap.said == ["", "500 of 1,000 draws, ESS 300, R-hat 1.020, about 20 s left"]


def test_a_posterior_is_announced_by_what_may_be_done_with_it() -> None:
    good = analysed_notice(SUBJECT, posterior())
    assert (good.event, good.facts["next"]) == ("analysed", "Read the report, then publish the crate.")
    assert_fits(good.page)
    bad = analysed_notice(SUBJECT, posterior(status="not-converged", why="R-hat is 1.2", advice="Draw more."))
    assert bad.event == "not-converged"
    assert bad.facts["next"] == "Do not publish it. R-hat is 1.2. Draw more."
    assert bad.page is not None
    assert "NOT converged" in bad.page.heading
    assert len(bad.page.data) == len(posterior()["coefficients"])


class TableLate(DpbayesError):
    """A table that was waited for in vain."""

    kind = "table-late"
    exit_code = 4


@pytest.mark.parametrize(
    ("failure", "event", "who"),
    [
        (BudgetExceeded("pay of 2026-01", "the lifetime cap", "2", "1", 1), "refused", "steward"),  # type: ignore[arg-type]
        (IntegrityFailure("cannot read it: it was altered. Keep it."), "integrity", "auditor"),
        (ShapeMismatch("cannot read it: no column. Declare it."), "failed", "steward"),
        (TableLate("the table of 2026-01 is late"), "late", "steward"),
        (StudyInvalid("cannot read study: it is empty. Fill it."), "failed", "steward"),
        (DpbayesError("cannot go on: the disk is full. Free some space and run again."), "failed", "operator"),
    ],
)
def test_a_failure_says_why_what_to_do_and_who_has_to(failure: DpbayesError, event: str, who: str) -> None:
    notice = failed_notice(SUBJECT, failure)
    assert notice.event == event
    assert notice.facts["who"] == who
    assert_fits(notice.page)
    assert str(failure).partition(". ")[0] in str(notice.page.data)  # type: ignore[union-attr]
    assert ("**What to do:**" in str(notice.page.data)) == (". " in str(failure))  # type: ignore[union-attr]


def test_a_message_cannot_write_markdown_of_its_own() -> None:
    notice = failed_notice(SUBJECT, StudyInvalid("cannot read <script>: [here](http://evil). # No\u202e."))
    assert notice.page is not None
    assert "\\<script\\>" in notice.page.data
    assert "\\[here\\](" in notice.page.data
    assert "\u202e" not in f"{notice.page.data}{notice.message}"


def test_an_unforeseen_error_is_announced_once_and_by_its_type_alone() -> None:
    heap = Heap()
    error = ValueError(SECRET)
    Announcer(SUBJECT, [heap]).failed(error)
    Announcer(SUBJECT, [heap]).failed(error)
    (notice,) = heap.notices
    assert "an unforeseen ValueError" in notice.message
    assert SECRET not in repr(vars(notice))


def test_a_task_is_named_by_study_period_and_part_and_by_no_other_parameter(place: Place) -> None:
    folder = place.desk.folder / SECRET
    folder.mkdir()
    study = str(place.desk.study.rename(folder / "study.yaml"))
    common: dict[str, Any] = {"study": study, "period": PERIOD, "actor": SECRET}
    names = {
        "pay-regression": ReleaseOrder(**common, release="pay-regression", reason=SECRET, revision=2, holder=SECRET),
        "pay-posterior": AnalysisOrder(**common, analysis="pay-posterior"),
    }
    for part, order in names.items():
        assert task_name("verb")(parameters={"order": order, "statuses": [SECRET]}) == f"verb pay {PERIOD} {part}"
    inspected = InspectOrder(**common, holder=SECRET)
    assert task_name("verb")(parameters={"order": inspected}) == f"verb pay {PERIOD}"


@pytest.mark.parametrize("period", [SECRET, f"{PERIOD}/../{SECRET}", ""])
def test_a_task_of_an_order_that_is_refused_is_named_by_its_verb(place: Place, period: str) -> None:
    order = ReleaseOrder(study=str(place.desk.study), release="pay-regression", period=period)
    assert task_name("verb")(parameters={"order": order}) == "verb"
    crates = CratesOrder(crates=[f"https://{SECRET}@store.example/crate"], keys=[], to=SECRET)
    assert task_name("verb")(parameters={"order": crates}) == "verb"
