"""Coverage of 95% intervals where the model is wrong: covariates far from normal, responses clipped at their bounds."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.bounds import Bounds
from dpbayes_core.experiments.interface import Box, Cell, Experiment, Figure, Panel, Row
from dpbayes_core.mechanisms import GaussianMechanism, gaussian_for
from dpbayes_core.noise import SeededNoise
from dpbayes_core.priors import Prior
from dpbayes_core.regression import RegressionDesign
from dpbayes_core.release import Release
from dpbayes_core.schema import Continuous, Covariate, Factor, RegressionSchema
from dpbayes_core.second_moments import SecondMoments
from dpbayes_core.sensitivity import regression_sensitivity
from dpbayes_core.statistics import grid_for, on_grid

Floats = NDArray[np.float64]
Columns = Mapping[str, NDArray[Any]]

EPSILON, DELTA = 1.0, 1e-6
EXPLAINED = 0.3  # of the response's variance
UNCLIPPED_SD = 0.2  # of a response within [-1, 1] that never reaches its bounds
SHAPE, TOP = 0.5, 4.0  # of the lognormal law, and where it ends, in sds of its logarithm
SHARES = (0.5, 0.3, 0.1, 0.03, 0.01)  # of yes, column by column
DATA_SETS, QUICK_DATA_SETS = 200, 3
CHAINS, DRAWS = 2, 500
NAMES = {"binary": "two levels, 50% to 1%", "mixed levels": "mixed with levels"}  # as docs/coverage.md has them
TAIL = 0.025


@dataclass(frozen=True)
class _Law:
    """A covariate, its draws, and its encoded variables' variances."""

    column: Covariate
    draw: Callable[[np.random.Generator, int], NDArray[Any]]
    means: tuple[float, ...]
    variances: tuple[float, ...]


def _normal(name: str) -> _Law:
    return _Law(Continuous(name, Bounds(-1, 1)), lambda g, n: g.normal(0, 0.2, n), (0.0,), (0.04,))


def _uniform(name: str) -> _Law:
    return _Law(Continuous(name, Bounds(-1, 1)), lambda g, n: g.uniform(-1, 1, n), (0.0,), (1 / 3,))


def _lognormal(name: str) -> _Law:
    bounds = Bounds(0, math.exp(SHAPE * TOP))
    mean, square = math.exp(SHAPE**2 / 2), math.exp(2 * SHAPE**2)

    def draw(g: np.random.Generator, n: int) -> Floats:
        return np.minimum(g.lognormal(0, SHAPE, n), bounds.high)

    return _Law(Continuous(name, bounds), draw, (mean,), (square - mean**2,))


def _levels(name: str, shares: tuple[float, ...]) -> _Law:
    names = tuple(f"level{k}" for k in range(len(shares)))
    rest = shares[1:]
    return _Law(
        Factor(name, names),
        lambda g, n: g.choice(len(shares), n, p=shares).astype(np.int32),
        rest,
        tuple(share * (1 - share) for share in rest),
    )


LAWS: Mapping[str, tuple[_Law, ...]] = {
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


@dataclass(frozen=True)
class _World:
    """Where data sets of a cell come from: the truth is that of the response before it is clipped."""

    schema: RegressionSchema
    laws: tuple[_Law, ...]
    slopes: Floats
    sigma: float

    @classmethod
    def of(cls, covariates: str, clipped: float) -> "_World":
        laws = LAWS[covariates]
        total = UNCLIPPED_SD if clipped == 0 else 1 / NormalDist().inv_cdf(1 - clipped / 2)
        variances = np.array([v for law in laws for v in law.variances])
        signs = np.resize([1.0, -1.0], len(variances))
        slopes = signs * total * np.sqrt(EXPLAINED / (len(variances) * variances))
        schema = RegressionSchema(Continuous("y", Bounds(-1, 1)), tuple(law.column for law in laws))
        return cls(schema, laws, slopes, total * math.sqrt(1 - EXPLAINED))

    def rows(self, generator: np.random.Generator, count: int) -> Columns:
        """A table as it would be read; clipping is left to the encoding."""
        columns: dict[str, NDArray[Any]] = {}
        response, place = self.sigma * generator.standard_normal(count), 0
        for law in self.laws:
            values = columns[law.column.name] = law.draw(generator, count)
            for level, mean in enumerate(law.means, start=1):
                encoded = values if isinstance(law.column, Continuous) else values == level
                response += self.slopes[place] * (encoded - mean)
                place += 1
        return {**columns, "y": response}


def cells(quick: bool) -> tuple[Cell, ...]:
    """Each law of the covariates without clipping, and normal ones with clipped responses."""
    sizes = (1000,) if quick else (1000, 100_000)
    kinds = [(law, 0.0) for law in LAWS] + [("normal", 0.005), ("normal", 0.02)]
    each = QUICK_DATA_SETS if quick else DATA_SETS
    return tuple(
        {"covariates": law, "clipped": share, "rows": rows, "data_sets": each} for rows in sizes for law, share in kinds
    )


def about(cell: Cell) -> dict[str, Any]:
    """What a study is compared with a cell by: see storage/measured.py."""
    world, rows = _World.of(cell["covariates"], cell["clipped"]), int(cell["rows"])
    mechanism, variables = _mechanism(world.schema, rows), world.schema.variables[:-1]
    clipped = f", {100 * cell['clipped']:g}% clipped" if cell["clipped"] else ""
    return {
        "name": f"{NAMES.get(cell['covariates'], cell['covariates'])}{clipped}",
        "noise": float(mechanism.scales.max()) / rows,
        "mechanism": mechanism.name,
        "epsilon": EPSILON,
        "response_sd": world.sigma / math.sqrt(1 - EXPLAINED),
        "explained": EXPLAINED,
        "coefficients": len(variables),
        "levels": sum(variable.kind != "continuous" for variable in variables) / len(variables),
        "related": 0.0,  # columns are independent
        "prior": Prior().to_record(),
    }


def run(cell: Cell, seed: int) -> list[Row]:
    """All methods on the same data sets."""
    world, generator = _World.of(cell["covariates"], cell["clipped"]), np.random.Generator(np.random.Philox(seed))
    found: dict[str, list[tuple[Floats, Floats]]] = {"non-private": [], "naive": [], "collapsed": []}
    for _ in range(cell["data_sets"]):
        release, exact = _release(world, int(cell["rows"]), generator)
        found["non-private"].append(_conjugate(world.schema, exact, exact[0, 0]))
        found["naive"].append(_naive(release))
        found["collapsed"].append(_collapsed(release, int(generator.integers(2**53))))
    truths = np.array([*world.slopes, world.sigma])
    return [row for method, intervals in found.items() for row in _rows(cell, method, np.array(intervals), truths)]


def _release(world: _World, count: int, generator: np.random.Generator) -> tuple[Release, Floats]:
    """A release of new rows, and their exact moments."""
    mechanism = _mechanism(world.schema, count)
    design = RegressionDesign(schema=world.schema, mechanism=mechanism)
    statistic = SecondMoments(world.schema)
    sums = statistic.sum(statistic.encode(world.rows(generator, count)))
    noise = SeededNoise(int(generator.integers(2**31)), i_know_this_is_not_private=True)
    exact = Release(
        schema=world.schema,
        neighbours=design.neighbours,
        rows=count,
        mechanism=mechanism,
        values=tuple(on_grid(sums, mechanism.grid).tolist()),
    )
    return design.release(noise, sums), exact.matrix()


def _mechanism(schema: RegressionSchema, rows: int) -> GaussianMechanism:
    return gaussian_for(regression_sensitivity(schema), grid=grid_for(rows), epsilon=EPSILON, delta=DELTA)


def _naive(release: Release) -> tuple[Floats, Floats]:
    from dpbayes_core.samplers.naive import repaired

    return _conjugate(release.schema, repaired(release.matrix()), release.count)


def _conjugate(schema: RegressionSchema, moments: Floats, rows: float) -> tuple[Floats, Floats]:
    """95% intervals of the slopes and sigma from the conjugate posterior of these moments."""
    from scipy.special import gammaincinv, stdtrit

    prior = Prior()
    whole = prior.response_matrix(schema) + moments
    precision, shape = whole[:-1, :-1], prior.noise_shape + rows / 2
    theta = np.linalg.solve(precision, whole[:-1, -1])
    scale = (whole[-1, -1] - whole[-1, :-1] @ theta) / 2
    reach = stdtrit(2 * shape, 1 - TAIL) * np.sqrt(scale / shape * np.diag(np.linalg.inv(precision)))
    sigmas = np.sqrt(scale / gammaincinv(shape, [1 - TAIL, TAIL]))
    ends = [schema.to_user_units(theta + sign * reach, sigma) for sign, sigma in zip((-1, 1), sigmas, strict=True)]
    low, high = (np.array([*slopes[1:], sigma]) for slopes, sigma in ends)
    return low, high


def _collapsed(release: Release, seed: int) -> tuple[Floats, Floats]:
    """95% intervals from one round of chains, whether or not they would pass the gate."""
    from dpbayes_core.samplers.driver import begin, choose, combine
    from dpbayes_core.samplers.rounds import first_round, run_chain

    choice, current = choose(release, "collapsed"), first_round(DRAWS)
    problem = choice.sampler.prepare(release, Prior())
    chains = begin(choice.sampler, problem, current, chains=CHAINS, seed=seed)
    drawn = [run_chain(choice.sampler, problem, chain, current) for chain in chains]
    posterior = combine(release, choice, drawn, seed=seed)
    values = np.stack([np.ravel(draws) for draws in posterior.draws.values()])[1:]
    low, high = np.quantile(values, (TAIL, 1 - TAIL), axis=1)
    return low, high


def _rows(cell: Cell, method: str, intervals: Floats, truths: Floats) -> list[Row]:
    held = (intervals[:, 0] <= truths) & (truths <= intervals[:, 1])
    widths = np.median(intervals[:, 1] - intervals[:, 0], axis=0)
    parts = {"slopes": np.s_[:, :-1], "sigma": np.s_[:, -1:]}
    rows: list[Row] = []
    for name, part in parts.items():
        each = held[part].mean(axis=1)  # coefficients of one data set go together
        share, count = float(each.mean()), len(each)
        floor = 0.5 / count  # so that no error is told as 0
        error = max(float(each.std(ddof=1)) / math.sqrt(count), floor)
        rows.append(
            {
                "experiment": "coverage",
                "covariates": cell["covariates"],
                "clipped": cell["clipped"],
                "rows": cell["rows"],
                "data_sets": cell["data_sets"],
                "method": method,
                "parameter": name,
                "coverage": share,
                "standard_error": error,
                "width": float(np.mean(widths[part[1]])),
                **about(cell),
            }
        )
    return rows


def figures(rows: Sequence[Row]) -> tuple[Figure, ...]:
    """Coverage of the slopes, then of sigma."""
    return tuple(_figure(parameter, rows) for parameter in ("slopes", "sigma"))


def _figure(parameter: str, rows: Sequence[Row]) -> Figure:
    chosen = [row for row in rows if row["parameter"] == parameter]
    panels: list[Panel] = []
    for method in ("collapsed", "non-private", "naive"):
        boxes = tuple(Box(_place(row), _band(row), 0.95) for row in chosen if row["method"] == method)
        panels.append(Panel(method, boxes))
    return Figure(
        name=f"coverage-{parameter}",
        title=f"Coverage of 95% intervals of {parameter} where the model is wrong",
        words="Share of data sets whose interval holds the truth, with its Monte Carlo error; a dot marks 0.95.",
        axis="coverage",
        limits=(0.0, 1.0),
        panels=tuple(panels),
    )


def _place(row: Row) -> str:
    clipped = f" {100 * row['clipped']:g}%" if row["clipped"] else ""
    return f"{row['covariates']}{clipped} 1e{round(math.log10(row['rows']))}"


def _band(row: Row) -> tuple[float, float, float, float, float]:
    share, error = row["coverage"], row["standard_error"]
    low, lower, upper, high = (min(max(share + z * error, 0.0), 1.0) for z in (-1.645, -0.674, 0.674, 1.645))
    return low, lower, share, upper, high


EXPERIMENT = Experiment(
    name="coverage",
    title="Coverage of 95% intervals with covariates far from normal, and with clipped responses",
    columns=(
        *("experiment", "covariates", "clipped", "rows", "data_sets"),
        *("method", "parameter", "coverage", "standard_error", "width"),
    ),
    cells=cells,
    run=run,
    figures=figures,
    notes=(
        "Five encoded covariates that explain 30% of the response, epsilon 1 at delta 1e-6, Gaussian noise, the "
        "default prior. The truth is that of the response before clipping; a share of it lies outside its bounds, "
        "half on either side.",
        "non-private is the conjugate posterior of the exact sums of the same clipped rows, naive that of the noisy "
        "sums, collapsed one round of 2 chains of 500 draws. Standard errors take the slopes of one data set together.",
    ),
)
