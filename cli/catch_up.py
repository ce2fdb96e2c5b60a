"""`dpbayes catch-up`: everything that is due and was missed, of a project or a study, in order and each once."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cli import analyse, release
from cli.console import Console, guarded
from cli.environment import prepare
from cli.format import Document, line, study_and_account
from cli.launch import OF_A_PASS, actor
from cli.options import AsJson, Debug, Near
from dpbayes.calendar.caught_up import Unfinished, all_records, studies_at, study_record
from dpbayes.calendar.look import due_analyses_near, states_near
from storage.home.home import Home


def catch_up(place: Near = Path(), *, json: AsJson = False, debug: Debug = False) -> None:
    """Release and analyse all that is due and was missed, oldest first: of a folder of studies, or of one study."""
    with guarded(json, debug) as console:
        try:
            document = _nothing_due(place) or _caught_up(place, console)
        except Unfinished as unfinished:
            found = unfinished.document
            console.keep_partial(lambda: found, show)
            raise
        console.show(document, show)


def _nothing_due(place: Path) -> dict[str, Any] | None:
    """The document where nothing is to be done, without Prefect; None where something is, or in doubt."""
    studies, broken = studies_at(place)
    records: list[dict[str, Any]] = []
    for study in studies:
        try:
            states = states_near(study, datetime.now(UTC)) if study.schedule else ()
        except Exception:
            return None  # the flow says it, and goes on with the other studies
        if not all(state.over for state in states) or due_analyses_near(study, datetime.now(UTC)):
            return None
        records.append(study_record(study, states))
    return all_records(place, records, broken)


def _caught_up(place: Path, console: Console) -> dict[str, Any]:
    studies, _ = studies_at(place)
    home = next((home for study in studies if (home := _home(study.path)) is not None), None)
    prepare(home, "flows.catch_up", *OF_A_PASS)
    from flows.catch_up import catch_up as flow

    with console.progress():
        return flow(str(place.absolute()), actor(), eager=True)


def _home(study: Path) -> Home | None:
    """The home near a study, in which Prefect's own files are kept for this command."""
    try:
        return Home.find(study)
    except Exception:
        return None  # the flow says it of this study


def show(document: Document) -> None:
    """Of each study what was run, then what is left and why."""
    for study in document["studies"]:
        for run in study["runs"]:
            release.show(run)
            analyse.show(run)
            if "error" in run:
                what = run["period"] if "reanalysis" not in run else f"{run['reanalysis']}, made again,"
                line(f"{what} {study_and_account(study)}: FAILED ({run['error']['kind']}).", "bold red")
        for left in study["periods"]:
            line(f"{left['period']} {study_and_account(study)}: {left['state']}. {left['sentence']}")
        if not study["runs"] and not study["periods"] and "error" not in study:
            line(f"Nothing is due {study_and_account(study)}.")
    for broken in document["broken"]:
        line(f"{broken['file']}: not a study that can be used.", "bold red")
