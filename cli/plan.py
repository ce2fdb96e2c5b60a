"""Planning: what releases would cost and how long the budget lasts, before anything is spent or read."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpbayes.plans.document import plan_document
from dpbayes.plans.plan import period_to_plan, plan
from dpbayes.study.load import load_study
from dpbayes_core.errors import DpbayesError, StudyInvalid
from storage.home.home import Home
from storage.ledger.account_snapshot import Position


def plan_study(path: Path, period: str | None, page: Path | None, keys: Sequence[str] = ()) -> dict[str, Any]:
    """The plan of a period, by default the one after the last charged; with `page` also written as a web page."""
    if page is not None and page.suffix != ".html":
        raise StudyInvalid(f"cannot write the plan to {page}: its name does not end in .html. Choose one that does.")
    study = load_study(path)
    named = None if period is None else study.parse_period(period)
    with Position.near(study.path, study.account(), study.study, keys) as position:
        chosen = named or period_to_plan(study, position, datetime.now(UTC))
        document = plan_document(study, position, plan(study, position, chosen))
    if page is not None:
        _write(page, document)
    return document | {"home": Home.looked_in(study.path), "page": None if page is None else str(page)}


def _write(page: Path, document: dict[str, Any]) -> None:
    from dpbayes.pages.plan.page import render

    try:
        page.write_text(render(document), encoding="utf-8")
    except OSError as error:
        raise DpbayesError(f"cannot write the plan to {page}: {error.strerror}. Choose another file.") from error
