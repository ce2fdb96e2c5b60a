"""Simulated tables with known truths for the coverage study: covariates of many shapes, relations of any strength."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Columns, Floats
from dpbayes_core.bounds import Bounds
from dpbayes_core.experiments.interface import Cell
from dpbayes_core.regression.planning.expected_moments import Expected
from dpbayes_core.regression.schema import Continuous, Covariate, Factor, RegressionSchema

UNCLIPPED_SD = 0.2  # of a response within [-1, 1] that never reaches its bounds
SHAPE, TOP = 0.5, 4.0  # sd of the lognormal law's logarithm, and its upper bound in these sds
SHARES = (0.5, 0.3, 0.1, 0.03, 0.01)  # of the second level, column by column
REACH = 3.5  # sds of a column from its middle to its bounds, where these are not too wide
LONG_REACH = 6.0  # of a response to skewed covariates, which is skewed too
CORRELATION = 0.6  # of any two related numbers
WEIGHTS = (1.0, -0.6, 0.4, 0.8)  # of related numbers, in their sds
GROUP = (0.5, 0.3, 0.2)  # shares of the levels of their factor
EFFECTS = (0.5, -0.4)  # of its levels beyond the first, in the units of WEIGHTS
STANDARD = Expected(0.0, 1.0)
START = 0.2  # the response where every covariate is 0


@dataclass(frozen=True)
class Table:
    """The law of a cell's tables; the truth is that of the response before clipping."""

    schema: RegressionSchema
    covariates: Callable[[np.random.Generator, int], Columns]  # values of a table, within their bounds
    theta: Floats  # intercept and slopes in the table's units, levels as 0 and 1
    sigma: float
    response_sd: float
    spread: float | None  # the least sd of a number, in half widths of its bounds
    related: float = 0.0  # the largest correlation of two columns
    number: Expected = STANDARD  # mean and sd of each number

    def expected(self, guess: float) -> dict[str, Expected]:
        """The expected moments of a study that overstates the response's sd by `guess`, and is right otherwise."""
        numbers = [column.name for column in self.schema.covariates if isinstance(column, Continuous)]
        response = Expected(self.schema.response.bounds.middle, guess * self.response_sd)
        return {**dict.fromkeys(numbers, self.number), self.schema.response.name: response}

    @property
    def truths(self) -> Floats:
        """The true intercept, slopes and sigma."""
        return np.append(self.theta, self.sigma)

    def rows(self, generator: np.random.Generator, count: int) -> Columns:
        """A simulated table, with the response not yet clipped."""
        columns, response = self.covariates(generator, count), self.sigma * generator.standard_normal(count)
        response += self.theta[0]
        place = 1
        for column in self.schema.covariates:
            values = columns[column.name]
            if isinstance(column, Factor):
                effects = np.append(0.0, self.theta[place : place + len(column.levels) - 1])
                response += effects[values]
                place += len(effects) - 1
            else:
                response += self.theta[place] * values
                place += 1
        return {**columns, self.schema.response.name: response}


def table_of(cell: Cell) -> Table:
    """The law of a cell's tables."""
    wide = float(cell["wide"])
    related = {"related": _related, "one": _one, "skewed": _skewed}
    if cell["covariates"] in related:
        return related[cell["covariates"]](cell["explained"], wide, wide if cell["too_wide"] == "all columns" else 1.0)
    return _wages() if cell["covariates"] == "wages" else _independent(cell["covariates"], cell["clipped"])


@dataclass(frozen=True)
class Law:
    """An independent covariate: its draws, and its encoded variables' means and variances."""

    column: Covariate
    draw: Callable[[np.random.Generator, int], NDArray[Any]]
    means: tuple[float, ...]
    variances: tuple[float, ...]


def _normal(name: str) -> Law:
    return Law(Continuous(name, Bounds(-1, 1)), lambda g, n: np.clip(g.normal(0, 0.2, n), -1, 1), (0.0,), (0.04,))


def _uniform(name: str) -> Law:
    return Law(Continuous(name, Bounds(-1, 1)), lambda g, n: g.uniform(-1, 1, n), (0.0,), (1 / 3,))


def _lognormal(name: str) -> Law:
    bounds = Bounds(0, math.exp(SHAPE * TOP))
    mean, square = math.exp(SHAPE**2 / 2), math.exp(2 * SHAPE**2)

    def draw(g: np.random.Generator, n: int) -> Floats:
        return np.minimum(g.lognormal(0, SHAPE, n), bounds.high)

    return Law(Continuous(name, bounds), draw, (mean,), (square - mean**2,))


def _levels(name: str, shares: tuple[float, ...]) -> Law:
    rest = shares[1:]
    return Law(_factor(name, shares), lambda g, n: _drawn(g, n, shares), rest, tuple(s * (1 - s) for s in rest))


def _factor(name: str, shares: tuple[float, ...]) -> Factor:
    return Factor(name, tuple(f"level{k}" for k in range(len(shares))))


def _drawn(generator: np.random.Generator, count: int, shares: tuple[float, ...]) -> NDArray[np.int32]:
    return generator.choice(len(shares), count, p=shares).astype(np.int32)


LAWS: Mapping[str, tuple[Law, ...]] = {
    "normal": tuple(_normal(f"x{k}") for k in range(5)),
    "uniform": tuple(_uniform(f"x{k}") for k in range(5)),
    "lognormal": tuple(_lognormal(f"x{k}") for k in range(5)),
    "binary": tuple(_levels(f"x{k}", (1 - share, share)) for k, share in enumerate(SHARES)),
    "mixed levels": (
        _uniform("x0"),
        _lognormal("x1"),
        _levels("x2", (0.7, 0.3)),
        _levels("x3", (0.5, 0.3, 0.2)),
    ),
}
EXPLAINED = 0.3  # share of the response's variance that independent covariates explain


def _independent(covariates: str, clipped: float) -> Table:
    """Independent covariates with equal explained variances; the share `clipped` of the response is out of bounds."""
    laws = LAWS[covariates]
    total = UNCLIPPED_SD if clipped == 0 else 1 / NormalDist().inv_cdf(1 - clipped / 2)
    means = np.array([m for law in laws for m in law.means])
    variances = np.array([v for law in laws for v in law.variances])
    slopes = np.resize([1.0, -1.0], len(variances)) * total * np.sqrt(EXPLAINED / (len(variances) * variances))
    numbers = [law for law in laws if isinstance(law.column, Continuous)]
    spreads = [math.sqrt(law.variances[0]) / (law.column.bounds.width / 2) for law in numbers]  # type: ignore[union-attr]
    return Table(
        schema=RegressionSchema(Continuous("y", Bounds(-1, 1)), tuple(law.column for law in laws)),
        covariates=lambda g, n: {law.column.name: law.draw(g, n) for law in laws},
        theta=np.append(-slopes @ means, slopes),
        sigma=total * math.sqrt(1 - EXPLAINED),
        response_sd=total,
        spread=min(spreads, default=None),
    )


def _correlated(generator: np.random.Generator, count: int, numbers: int) -> Floats:
    """Standard normal numbers with pairwise correlation CORRELATION, clipped to +-REACH."""
    shared = generator.standard_normal((count, 1))
    own = generator.standard_normal((count, numbers))
    return np.clip(math.sqrt(CORRELATION) * shared + math.sqrt(1 - CORRELATION) * own, -REACH, REACH)


def _strong(explained: float, weights: Floats, covariance: Floats) -> tuple[Floats, float]:
    """Slopes along `weights` that explain this share of a response with sd 1, and the residual sd."""
    slopes = weights * math.sqrt(explained / (weights @ covariance @ weights))
    return slopes, math.sqrt(1 - explained)


def _related(explained: float, wide: float, wide_response: float) -> Table:
    """Four correlated numbers and a factor of three levels."""
    names, rest = tuple(f"x{k}" for k in range(len(WEIGHTS))), np.array(GROUP[1:])
    covariance = np.zeros((6, 6))
    covariance[:4, :4] = CORRELATION + (1 - CORRELATION) * np.eye(4)
    covariance[4:, 4:] = np.diag(rest) - np.outer(rest, rest)
    slopes, sigma = _strong(explained, np.array([*WEIGHTS, *EFFECTS]), covariance)

    def covariates(g: np.random.Generator, n: int) -> Columns:
        return {**dict(zip(names, _correlated(g, n, len(names)).T, strict=True)), "group": _drawn(g, n, GROUP)}

    columns = (*(Continuous(name, Bounds(-REACH * wide, REACH * wide)) for name in names), _factor("group", GROUP))
    return Table(
        schema=RegressionSchema(_response(wide_response), columns),
        covariates=covariates,
        theta=np.append(START, slopes),
        sigma=sigma,
        response_sd=1.0,
        spread=1 / (REACH * wide),
        related=CORRELATION,
    )


def _one(explained: float, wide: float, wide_response: float) -> Table:
    """A single number."""
    slopes, sigma = _strong(explained, np.ones(1), np.ones((1, 1)))
    return Table(
        schema=RegressionSchema(_response(wide_response), (Continuous("x", Bounds(-REACH * wide, REACH * wide)),)),
        covariates=lambda g, n: {"x": _correlated(g, n, 1)[:, 0]},
        theta=np.append(START, slopes),
        sigma=sigma,
        response_sd=1.0,
        spread=1 / (REACH * wide),
    )


def _skewed(explained: float, wide: float, wide_response: float) -> Table:
    """Four lognormal numbers whose logarithms are correlated."""
    names, mean = tuple(f"x{k}" for k in range(len(WEIGHTS))), math.exp(SHAPE**2 / 2)
    relative_variance, relative_covariance = math.expm1(SHAPE**2), math.expm1(CORRELATION * SHAPE**2)
    covariance = mean**2 * (relative_covariance + (relative_variance - relative_covariance) * np.eye(len(names)))
    slopes, sigma = _strong(explained, np.array(WEIGHTS), covariance)
    bounds = Bounds(0, wide * math.exp(SHAPE * REACH))
    return Table(
        schema=RegressionSchema(_response(wide_response, LONG_REACH), tuple(Continuous(x, bounds) for x in names)),
        covariates=lambda g, n: dict(zip(names, np.exp(SHAPE * _correlated(g, n, len(names))).T, strict=True)),
        theta=np.append(START - mean * slopes.sum(), slopes),
        sigma=sigma,
        response_sd=1.0,
        spread=mean * math.sqrt(relative_variance) / (bounds.width / 2),
        related=relative_covariance / relative_variance,
        number=Expected(mean, mean * math.sqrt(relative_variance)),
    )


def _response(wide: float, reach: float = REACH) -> Continuous:
    return Continuous("y", Bounds(-reach * wide, reach * wide))


def _wages() -> Table:
    """The logarithm of a wage on age, its square, sex and region: age and its square are nearly collinear."""
    age, square = Continuous("age", Bounds(16, 80)), Continuous("age2", Bounds(16**2, 80**2))
    regions = (0.4, 0.3, 0.2, 0.1)
    theta, sigma = np.array([1.2, 0.06, -0.0006, -0.15, 0.1, -0.05, 0.05]), 0.45

    def covariates(g: np.random.Generator, n: int) -> Columns:
        years = np.clip(g.normal(42, 12, n), 16, 80)
        sexes = _drawn(g, n, (0.5, 0.5))
        return {"age": years, "age2": years**2, "sex": sexes, "region": _drawn(g, n, regions)}

    return Table(
        schema=RegressionSchema(
            Continuous("log_wage", Bounds(0, 5)),
            (age, square, _factor("sex", (0.5, 0.5)), _factor("region", regions)),
        ),
        covariates=covariates,
        theta=theta,
        sigma=sigma,
        response_sd=0.4846,  # this and the next numbers are from 1,000,000 rows
        spread=0.3325,
        related=0.983,
    )
