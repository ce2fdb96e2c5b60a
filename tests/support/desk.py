"""A steward's desk: a small study with its table, home and ledger, and the command run in this process."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner, Result

from cli.commands import app

PERIOD = "2026-01"
ROWS = 2000

STUDY = """\
study: pay
population: staff
source: {path: "data/pay-{period}.parquet", rows: 2000, unit: person}
period: {grain: month, people: same}
columns:
  pay: {bounds: [0, 10]}
  age: {bounds: [16, 80]}
  female: {levels: [no, yes]}
  region: {levels: [north, south, east]}
privacy:
  neighbours: replace-one
  delta: 1e-6
  budget:
    lifetime: {epsilon: 8}
    per-period: {epsilon: 2}
releases:
  pay-regression:
    kind: regression
    response: pay
    covariates: [age, female, region]
    mechanism: gaussian
    epsilon: 1
analyses:
  pay-posterior:
    release: pay-regression
    chains: 2
    draws: 500
schedule: {cron: "0 2 1 * *"}
"""


def people(rows: int = ROWS, seed: int = 7) -> dict[str, Any]:
    """Columns of a made-up table."""
    random = np.random.default_rng(seed)
    age = random.uniform(18, 70, rows)
    female = random.integers(0, 2, rows)
    region = random.integers(0, 3, rows)
    pay = 3 + 0.04 * (age - 40) - 0.4 * female + 0.3 * (region == 1) + random.normal(0, 1, rows)
    return {
        "person": [f"P{number:06d}" for number in range(rows)],
        "pay": pay,
        "age": age,
        "female": np.array(["no", "yes"])[female].tolist(),
        "region": np.array(["north", "south", "east"])[region].tolist(),
    }


@dataclass(frozen=True)
class Desk:
    """A steward's folder, and the commands run in it."""

    folder: Path

    @classmethod
    def set_up(cls, folder: Path) -> "Desk":
        """A study, one month's table, a home and a ledger."""
        desk = cls(folder)
        desk.study.write_text(STUDY)
        desk.write_table(people())
        assert desk.run("ledger", "create", desk.study).exit_code == 0
        return desk

    @property
    def study(self) -> Path:
        """The study file."""
        return self.folder / "study.yaml"

    @property
    def home(self) -> Path:
        """The home that `ledger create` made."""
        return self.folder / ".dpbayes"

    def table(self, period: str = PERIOD) -> Path:
        """The confidential table."""
        return self.folder / "data" / f"pay-{period}.parquet"

    def write_table(self, columns: dict[str, Any], period: str = PERIOD, rows_per_group: int = 500) -> None:
        """Write a month's table, also over an earlier one."""
        self.table(period).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), self.table(period), row_group_size=rows_per_group)

    def edit_study(self, old: str, new: str) -> None:
        """Change the study file's text."""
        text = self.study.read_text()
        assert old in text
        self.study.write_text(text.replace(old, new))

    def run(self, *arguments: str | Path) -> Result:
        """The command, in this process."""
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    def document(self, *arguments: str | Path, exit_code: int = 0) -> dict[str, Any]:
        """The JSON document that the command prints."""
        result = self.run(*arguments, "--json")
        assert result.exit_code == exit_code, result.output
        return json.loads(result.stdout)

    def release(self, *more: str, exit_code: int = 0) -> dict[str, Any]:
        """Release the month."""
        return self.document("release", self.study, "--period", PERIOD, *more, exit_code=exit_code)
