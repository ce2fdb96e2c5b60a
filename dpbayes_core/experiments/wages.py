"""Hourly wages regressed on who earns them: of a public census table, or simulated in its shape."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Columns
from dpbayes_core.bounds import Bounds
from dpbayes_core.draws.regression import RegressionSubject
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema

TABLE = "cpssw8"  # earnings of full-time workers in 2004, 61,395 of them
GENDERS = ("female", "male")
REGIONS = ("Northeast", "Midwest", "South", "West")
AGES = tuple(range(21, 65))
SCHOOLING = (6, 8, 9, 10, 11, 12, 13, 14, 16, 18, 19, 20)
EARNINGS = Bounds(2.0, 72.2)  # the range of the public table; dollars an hour
SIGMA = 0.25  # of standardised earnings: 8.8 dollars
SPREAD = 8.6  # of simulated earnings around their mean, dollars
ROWS = 61395

EQUATION = "wage equation"
LEVELS = "a column a level"
NO, YES = "no", "yes"


def wage_subject(covariates: str) -> RegressionSubject:
    """Coefficients in a ball of radius 1, a normal prior of deviation 1 cut to it."""
    response = Continuous("earnings", EARNINGS)
    columns: tuple[Continuous | Factor, ...]
    if covariates == EQUATION:
        columns = (
            Continuous("age", Bounds(AGES[0], AGES[-1])),
            Continuous("age_squared", Bounds(AGES[0] ** 2, AGES[-1] ** 2)),
            Continuous("education", Bounds(SCHOOLING[0], SCHOOLING[-1])),
            Factor("gender", GENDERS),
            Factor("region", REGIONS),
        )
    else:
        columns = tuple(Factor(name, (NO, YES)) for name in _level_names())
    return RegressionSubject(schema=RegressionSchema(response, columns), radius=1.0, sigma=SIGMA, prior_precision=1.0)


def encoded(covariates: str, table: Columns) -> dict[str, NDArray[Any]]:
    """The table's columns as the regression wants them: numbers, and codes of levels."""
    earnings = np.clip(table["earnings"], EARNINGS.low, EARNINGS.high)
    if covariates == EQUATION:
        age = table["age"].astype(np.float64)
        levels = {"gender": GENDERS, "region": REGIONS}
        codes = {name: (table[name][:, None] == np.array(known)).argmax(axis=1) for name, known in levels.items()}
        numbers = {"age": age, "age_squared": age**2, "education": table["education"].astype(np.float64)}
        return {"earnings": earnings, **numbers, **{name: code.astype(np.int32) for name, code in codes.items()}}
    found = {name: (table[column] == level).astype(np.int32) for name, (column, level) in _level_names().items()}
    return {"earnings": earnings, **found}


def _level_names() -> dict[str, tuple[str, Any]]:
    known: dict[str, tuple[Any, ...]] = {"age": AGES, "education": SCHOOLING, "gender": GENDERS, "region": REGIONS}
    return {f"{column}={level}": (column, level) for column, levels in known.items() for level in levels[1:]}


def simulated_wages(generator: np.random.Generator, rows: int = ROWS) -> dict[str, NDArray[Any]]:
    """Columns like the table's: wages rise with schooling, rise and fall with age, differ by gender and region."""
    age, schooling = generator.choice(AGES, rows), generator.choice(SCHOOLING, rows)
    gender, region = generator.integers(0, 2, rows), generator.integers(0, 4, rows)
    mean = 17 + 1.6 * (schooling - 13) + 0.2 * (age - 42) - 0.012 * (age - 42) ** 2 + 4 * gender - 0.5 * region
    return {
        "earnings": np.clip(mean + SPREAD * generator.standard_normal(rows), EARNINGS.low, EARNINGS.high),
        "age": age,
        "education": schooling,
        "gender": np.array(GENDERS)[gender],
        "region": np.array(REGIONS)[region],
    }
