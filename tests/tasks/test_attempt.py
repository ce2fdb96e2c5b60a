"""When a scheduled run tries again what failed."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from dpbayes.study.load import load_study
from dpbayes_core.errors import DpbayesError, StudyInvalid
from tasks.attempt import attempts_of, pause_after, tried
from tests.support.desk import PERIOD, Desk


def test_what_may_pass_by_itself_is_tried_soon_and_then_ever_more_rarely() -> None:
    minutes = [pause_after(1, tries) / timedelta(minutes=1) for tries in (1, 2, 3, 4, 5, 6, 7, 8, 1000)]
    assert minutes == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert {pause_after(code, tries) for code in (2, 3, 4, 5) for tries in (1, 9)} == {timedelta(hours=1)}


def next_try(study_file: Path, failure: DpbayesError) -> timedelta:
    study = load_study(study_file)
    with pytest.raises(type(failure)), tried(study, PERIOD):
        raise failure
    attempt = attempts_of(study).read()[PERIOD]
    assert isinstance(attempt.next_try, datetime)
    assert attempt.ended is not None
    return attempt.next_try - attempt.ended


def test_the_record_of_a_failure_says_when_it_is_tried_again(tmp_path: Path) -> None:
    desk = Desk.set_up(tmp_path)
    found = [next_try(desk.study, DpbayesError("a server is gone")) for _ in range(3)]
    assert [round(each / timedelta(minutes=1)) for each in found] == [1, 2, 4]
    assert round(next_try(desk.study, StudyInvalid("a typing error")) / timedelta(minutes=1)) == 60
