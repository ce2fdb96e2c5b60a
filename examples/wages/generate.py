"""Synthetic wages with known coefficients: the same people every month, who age, change jobs, move and graduate."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.errors import StudyInvalid
from storage.ledger.periods import Period

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

PERIODS = ("2026-01", "2026-02", "2026-03")
ROWS = 50_000
SEED = 20_260_101
ROW_GROUP = 8_192
FIRST = "2026-01"  # a month is the same whether the months before it are written or not

TRUTH: Mapping[str, float] = MappingProxyType(
    {
        "(intercept)": 1.80,
        "age": 0.008,
        "tenure": 0.012,
        "female[yes]": -0.12,
        "education[college]": 0.15,
        "education[degree]": 0.40,
        "region[south]": -0.08,
        "region[east]": -0.03,
        "region[west]": 0.06,
        "sigma": 0.35,
    }
)
FEMALE = ("no", "yes")
EDUCATION = ("school", "college", "degree")
REGION = ("north", "south", "east", "west")

_PERSISTENCE = 0.98  # of the unexplained part of a wage, from month to month
_NEW_JOBS, _MOVES, _GRADUATIONS = 0.012, 0.004, 0.001  # shares of people in a month


@dataclass(frozen=True)
class People:
    """The state of everybody in one month, in fixed order."""

    age: Floats
    tenure: Floats
    female: Codes
    education: Codes
    region: Codes
    unexplained: Floats  # standard normal

    def log_wage(self) -> Floats:
        """Everybody's log wage, by the true coefficients."""
        effects = {
            "female": np.array([0, TRUTH["female[yes]"]]),
            "education": np.array([0, *(TRUTH[f"education[{level}]"] for level in EDUCATION[1:])]),
            "region": np.array([0, *(TRUTH[f"region[{level}]"] for level in REGION[1:])]),
        }
        explained = TRUTH["(intercept)"] + TRUTH["age"] * self.age + TRUTH["tenure"] * self.tenure
        levels = sum(effects[name][getattr(self, name)] for name in effects)
        return explained + levels + TRUTH["sigma"] * self.unexplained


def generate(
    folder: Path | str, periods: Sequence[str] = PERIODS, rows: int = ROWS, *, seed: int = SEED
) -> tuple[Path, ...]:
    """Write `data/wages-{period}.parquet` and `data/truth.json` under a folder; return the tables' paths."""
    data = Path(folder) / "data"
    data.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name in periods:
        path = data / f"wages-{Period.parse(name, 'month').name}.parquet"
        _write(path, table(name, rows, seed=seed))
        written.append(path)
    (data / "truth.json").write_text(json.dumps(dict(TRUTH), indent=2) + "\n")
    return tuple(written)


def table(period: str, rows: int = ROWS, *, seed: int = SEED) -> Any:
    """One month as an Arrow table, determined by period, rows and seed."""
    import pyarrow as pa

    people = everybody(period, rows, seed=seed)
    order = np.random.default_rng([seed, 1]).permutation(rows)  # identifiers do not show the order of rows
    return pa.table(
        {
            "person_id": pa.array(100_000 + order),
            "log_wage": pa.array(people.log_wage()),
            "age": pa.array(people.age),
            "tenure": pa.array(people.tenure),
            "female": pa.array(np.array(FEMALE)[people.female]),
            "education": pa.array(np.array(EDUCATION)[people.education]),
            "region": pa.array(np.array(REGION)[people.region]),
        }
    )


def everybody(period: str, rows: int = ROWS, *, seed: int = SEED) -> People:
    """Everybody's state in one month, simulated month by month from the first."""
    if Period.parse(period, "month") < Period.parse(FIRST, "month"):
        raise StudyInvalid(f"cannot generate wages of {period}: the example begins in {FIRST}. Ask for a later month.")
    months = Period.range(f"{FIRST}..{period}", "month")
    people = _first_month(np.random.default_rng([seed, 0, 0]), rows)
    for month in range(1, len(months)):
        people = _next_month(np.random.default_rng([seed, 0, month]), people)
    return people


def _first_month(random: np.random.Generator, rows: int) -> People:
    age = 18 + 49 * random.beta(1.6, 1.7, rows)
    started = random.random(rows) ** 2.2  # most are rather new with their employer
    education = random.choice(3, rows, p=[0.38, 0.35, 0.27])
    return People(
        age=age,
        tenure=np.minimum(started * (age - 17), 39.0),
        female=(random.random(rows) < 0.47).astype(np.int64),
        education=np.where((education == 2) & (age < 22), 1, education),
        region=random.choice(4, rows, p=[0.30, 0.25, 0.20, 0.25]),
        unexplained=random.standard_normal(rows),
    )


def _next_month(random: np.random.Generator, people: People) -> People:
    rows = len(people.age)
    new_job, moves, graduates = (random.random(rows) < share for share in (_NEW_JOBS, _MOVES, _GRADUATIONS))
    fresh = random.standard_normal(rows)
    return replace(
        people,
        age=np.minimum(people.age + 1 / 12, 80.0),
        tenure=np.where(new_job, 0.0, np.minimum(people.tenure + 1 / 12, 40.0)),
        education=np.minimum(people.education + graduates, 2),
        region=np.where(moves, random.integers(0, 4, rows), people.region),
        unexplained=_PERSISTENCE * people.unexplained + np.sqrt(1 - _PERSISTENCE**2) * fresh,
    )


def _write(path: Path, content: Any) -> None:
    import pyarrow.parquet as pq

    partial = path.with_suffix(".partial")
    pq.write_table(content, partial, row_group_size=ROW_GROUP)
    partial.replace(path)  # an interrupted run leaves no incomplete table
