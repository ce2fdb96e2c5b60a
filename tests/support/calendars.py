"""A desk whose study has been due for months by the real clock: no test hands one in."""

from datetime import UTC, datetime
from pathlib import Path

from storage.ledger.periods import Period
from tests.support.desk import PERIOD, Desk, people

CRON = "0 0 1 * *"
QUICK = ("draws: 500", "draws: 300\n    sampler: naive")
ROWS = 300


def last_months(number: int) -> list[str]:
    """The names of the months that are over, the newest one last."""
    found = [Period.previous(datetime.now(UTC), "month")]
    while len(found) < number:
        found.append(Period.previous(datetime.combine(found[-1].first_day, datetime.min.time()), "month"))
    return [period.name for period in reversed(found)]


def owing(folder: Path, months: list[str], ready: str = "") -> Desk:
    """A desk that owes these months and all since, with a table for each; chains are quick."""
    folder.mkdir(exist_ok=True)
    desk = Desk.set_up(folder)
    desk.table(PERIOD).unlink()
    desk.edit_study('{cron: "0 2 1 * *"}', f'{{cron: "{CRON}", first: {months[0]}}}')
    desk.edit_study(*QUICK)
    if ready:
        desk.edit_study("unit: person}", f"unit: person, ready: {ready}}}")
    for month in months:
        desk.write_table(people(ROWS), month)
    return desk


def charged(desk: Desk) -> list[str]:
    """The periods that the ledger has charges for, in the order in which they were made."""
    entries = desk.document("ledger", "history", desk.study)["entries"]
    return [entry["period"] for entry in entries if entry["kind"] == "charge"]
