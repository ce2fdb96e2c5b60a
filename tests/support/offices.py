"""A desk whose table is split between two offices, by a column or into files."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.desk import PERIOD, STUDY, Desk, people

OFFICES = ("n", "s")
BY_COLUMN = "holder: {{column: office, values: [n, s], membership: {membership}}}"
BY_PATHS = (
    'holder: {{paths: {{n: "data/n-{{period}}.parquet", s: "data/s-{{period}}.parquet"}}, membership: {membership}}}'
)


def study_of(membership: str, *, paths: bool = False) -> str:
    """The desk's study with two offices, and without an analysis."""
    holder = (BY_PATHS if paths else BY_COLUMN).format(membership=membership)
    table = "" if paths else 'path: "data/pay-{period}.parquet", '
    text = STUDY.replace('path: "data/pay-{period}.parquet", ', table).replace(
        "unit: person}", f"unit: person, {holder}}}"
    )
    text = text.replace(
        "per-period: {epsilon: 2}", "per-period: {epsilon: 3}"
    )  # people who move count four times in rho
    start, end = text.index("analyses:"), text.index("schedule:")
    return text[:start] + text[end:]


def staff(rows: int = 2000) -> dict[str, Any]:
    """The desk's people, three in five of them with the office of the north."""
    north = np.random.default_rng(3).uniform(size=rows) < 0.6
    return people(rows) | {"office": np.where(north, "n", "s").tolist()}


def write_staff(desk: Desk, columns: dict[str, Any], *, paths: bool = False, period: str = PERIOD) -> None:
    """One table, or one of each office without the column."""
    if not paths:
        desk.write_table(columns, period)
        return
    table = pa.table(columns)
    for office in OFFICES:
        file = desk.folder / "data" / f"{office}-{period}.parquet"
        file.parent.mkdir(exist_ok=True)
        mine = pa.array([one == office for one in columns["office"]])
        pq.write_table(table.filter(mine).drop_columns(["office"]), file, row_group_size=300)


def offices(folder: Path, membership: str = "fixed", *, paths: bool = False) -> Desk:
    """A desk with a month's table, a home and a ledger."""
    desk = Desk(folder)
    folder.mkdir(exist_ok=True)
    desk.study.write_text(study_of(membership, paths=paths))
    write_staff(desk, staff(), paths=paths)
    assert desk.run("ledger", "create", desk.study).exit_code == 0
    return desk
