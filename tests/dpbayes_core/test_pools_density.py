"""The density of a pool whose parts differ: against its formulas, its limits, its gradient; other analyses unmoved."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.pool import Pool
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.samplers.collapsed.arrays import DIFFERING, FACTOR, ROWS, Target, work_for
from dpbayes_core.samplers.collapsed.layout import Layout
from dpbayes_core.samplers.collapsed.pool_target import pool_target
from dpbayes_core.samplers.collapsed.pools.common import place_shared
from dpbayes_core.samplers.collapsed.pools.density import place_parts, pool_density
from dpbayes_core.samplers.collapsed.pools.shared import LOGGED, Shared, new_shared
from tests.support.pools_oracle import (
    Common,
    coefficients_law,
    common_prior,
    noise_law,
    part_law,
    responses_law,
    split_law,
)
from tests.support.regressions import JOB, SEX, example, mechanism, schema_of

PRIOR = Prior(correlation=1.7, mean_sd=0.4, variance=0.3)
SCHEMAS = {
    "one number": schema_of("x"),
    "two numbers": schema_of("x", "u"),
    "factors and numbers": schema_of(SEX, JOB, "x", "u"),
    "no intercept": replace(schema_of("x", "u"), intercept=False),
}


@dataclass(frozen=True)
class Case:
    """A pool's target, and places to look at it."""

    schema: RegressionSchema
    pool: Pool
    layout: Layout
    target: Target
    start: Floats

    @classmethod
    def of(
        cls, schema: RegressionSchema, prior: Prior, *, rows_of: tuple[int, ...] = (40, 25, 300), **told: Any
    ) -> "Case":
        name, counted = told.get("name", "gaussian"), told.get("counted", False)
        parts = [example(schema, rows, name=name, scale=3.0, seed=rows) for rows in rows_of]
        pool = Pool(tuple(_counted(part) if counted else part for part in parts))
        layout = Layout.of(schema)
        target, start = pool_target(pool, prior, layout)
        return cls(schema, pool, layout, target, start)

    def place(self, seed: int) -> Floats:
        return self.start + 0.4 * np.random.default_rng(seed).standard_normal(self.start.size)

    def density(self, position: Floats) -> float:
        return pool_density(position, self.target, work_for(self.target), np.zeros(position.size))

    def statistics(self, position: Floats) -> tuple[list[Floats], list[float], Common, Floats]:
        """Moments and rows of every part, what they share, and the taus that are free, at a position."""
        work, shared = work_for(self.target), new_shared(self.target)
        place_parts(position, self.target, work)
        at = int(self.target.numbers[DIFFERING])
        place_shared(position[at:], self.target, shared)
        rows = [float(part[ROWS]) for part in self.target.parts]
        roots = [own[FACTOR] for own in work[:-1]]
        low = 1 - int(self.schema.intercept)
        moments = [(n * root @ root.T)[low:, low:] for n, root in zip(rows, roots, strict=True)]
        groups = 0 if low else 1 + len(self.layout.first)
        free = np.exp(position[at : at + len(shared.root) * groups + 1])
        return moments, rows, _common(shared, float(free[-1]), low), free[:-1]

    def numbers(self, position: Floats) -> Floats:
        """Everything that the density is one of: entries of R, logs of unknown rows, common parameters."""
        moments, rows, common, taus = self.statistics(position)
        places = [self.layout.places(part) for part in self.pool.parts]
        low = 1 - int(self.schema.intercept)
        entries = [own[place[0] - low, place[1] - low] for own, place in zip(moments, places, strict=True)]
        logs = [np.log(n) for n, part in zip(rows, self.pool.parts, strict=True) if part.rows is None]
        entries = [
            own[1:] if part.rows is None else own for own, part in zip(entries, self.pool.parts, strict=True)
        ]  # the first entry is the number of rows itself
        lower = common.scatter[np.tril_indices(len(common.scatter))]
        rest = [common.centre.ravel(), lower, taus, [common.t], common.theta, [np.log(common.sigma)]]
        return np.concatenate([*entries, logs, *rest])

    def log_jacobian(self, position: Floats) -> float:
        step = 1e-6
        columns = [
            (self.numbers(position + step * unit) - self.numbers(position - step * unit)) / (2 * step)
            for unit in np.eye(position.size)
        ]
        return float(np.linalg.slogdet(np.array(columns))[1])

    def formula(self, position: Floats, prior: Prior, law: object = part_law) -> float:
        moments, rows, common, taus = self.statistics(position)
        heads = int(self.schema.intercept) + self.layout.inside
        low = 1 - int(self.schema.intercept)
        value = common_prior(common, prior, taus)
        value += sum(law(own, n, heads, common) for own, n in zip(moments, rows, strict=True))  # pyright: ignore[reportCallIssue]
        added = self.layout.arranged(prior.response_matrix(self.schema))[low:, low:]
        value += responses_law(moments, rows, added, prior.noise_shape)
        value += coefficients_law(moments, rows, added, prior.noise_shape, common)
        for own, part in zip(moments, self.pool.parts, strict=True):
            place = self.layout.places(part)
            noisy = self.layout.arranged(part.matrix(), corner=part.count)[place]
            scales = part.mechanism.scales[: len(part.entries)]
            value += noise_law(noisy, own[place[0] - low, place[1] - low], scales, part.mechanism.name)
        return value


def _common(shared: Shared, t: float, low: int) -> Common:
    scatter = shared.root @ shared.root.T
    sigma = float(np.exp(shared.numbers[LOGGED]))
    return Common(shared.centre, shared.spread, scatter, t, shared.theta[low:], sigma)


def _counted(release: Release) -> Release:
    assert release.rows is not None
    told = mechanism(release.mechanism.name, 3.0, len(release.values) + 1)
    values = (release.rows + 2.0, *release.values)
    return replace(release, rows=None, values=values, mechanism=told, neighbours="add-remove")


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_density_is_that_of_the_formulas(name: str) -> None:
    case = Case.of(SCHEMAS[name], PRIOR, name="laplace" if name == "two numbers" else "gaussian")
    away = [
        case.density(position) - case.formula(position, PRIOR) - case.log_jacobian(position)
        for position in map(case.place, range(4))
    ]
    np.testing.assert_allclose(np.subtract(away, away[0]), 0.0, atol=2e-5)


def test_unknown_rows_have_their_share_of_the_normalising_constants() -> None:
    case = Case.of(SCHEMAS["one number"], PRIOR, counted=True)
    away = [
        case.density(position) - case.formula(position, PRIOR) - case.log_jacobian(position)
        for position in map(case.place, range(4))
    ]  # the prior is flat in log n
    np.testing.assert_allclose(np.subtract(away, away[0]), 0.0, atol=2e-5)


def test_parts_that_hardly_differ_have_the_law_of_people_who_are_dealt_out() -> None:
    case = Case.of(SCHEMAS["two numbers"], PRIOR)
    at = int(case.target.numbers[DIFFERING])
    away: list[float] = []
    for position in map(case.place, range(4)):
        position[at : at + 3] = np.log(1e-6)
        away.append(case.density(position) - case.formula(position, PRIOR, split_law) - case.log_jacobian(position))
    np.testing.assert_allclose(np.subtract(away, away[0]), 0.0, atol=5e-3)


@pytest.mark.parametrize("prior", [PRIOR, IndependentPrior()])
@pytest.mark.parametrize("name", SCHEMAS)
def test_the_gradient_is_that_of_differences(name: str, prior: Prior) -> None:
    case = Case.of(SCHEMAS[name], prior, counted=name == "factors and numbers")
    position = case.place(1)
    gradient = np.zeros(position.size)
    pool_density(position, case.target, work_for(case.target), gradient)
    steps = 1e-5 * np.eye(position.size)
    differences = [(case.density(position + step) - case.density(position - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(gradient, differences, rtol=1e-5, atol=1e-5)


def test_a_part_with_fewer_rows_than_variables_has_the_gradient_of_differences() -> None:
    case = Case.of(schema_of("x", "u", "v"), PRIOR, rows_of=(50, 3, 2, 1))
    position = case.place(1)
    gradient = np.zeros(position.size)
    pool_density(position, case.target, work_for(case.target), gradient)
    steps = 1e-5 * np.eye(position.size)
    differences = [(case.density(position + step) - case.density(position - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(gradient, differences, rtol=1e-5, atol=1e-5)
