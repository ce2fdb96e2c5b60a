"""Second moments weighed by residuals: whole numbers whatever the cut, and a sensitivity that no pair exceeds."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.accounting import limit_units
from dpbayes_core.privacy.mechanisms import GaussianMechanism, Mechanism, gaussian_for, laplace_for
from dpbayes_core.privacy.mechanisms.additional_noise import additional_noise_of
from dpbayes_core.privacy.noise import OpenDPNoise, SeededNoise
from dpbayes_core.privacy.sensitivity import Sensitivity
from dpbayes_core.regression.fixed_point import UNIT
from dpbayes_core.regression.holders import HolderSums
from dpbayes_core.regression.moments import ExactStatistics, SecondMoments
from dpbayes_core.regression.public_fit import PublicFit, fit_of
from dpbayes_core.regression.release import RegressionDesign, Release
from dpbayes_core.regression.residual_moments import SecondMomentsWithRows, SumsAndRows, residual_entries, residual_sums
from dpbayes_core.regression.schema import Continuous, Covariate, Factor, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from dpbayes_core.regression.sensitivity.residual import residual_sensitivity

BOX = Bounds(-1, 1)
Shape = tuple[int, int, int]  # covariates: continuous, of two levels, of three
SHAPES: list[Shape] = [
    *((1, 0, 0), (2, 0, 0), (3, 0, 0), (5, 0, 0), (7, 0, 0)),
    *((0, 1, 0), (1, 1, 0), (0, 3, 0), (2, 1, 1), (1, 0, 2), (0, 0, 1), (3, 2, 1), (0, 1, 2)),
]
RELATIONS = [("replace-one", 1), ("replace-one", 3), ("add-remove", 1), ("add-remove", 2)]
Columns = dict[str, Any]


def schema_of(shape: Shape) -> RegressionSchema:
    covariates: list[Covariate] = [Continuous(f"x{i}", BOX) for i in range(shape[0])]
    covariates += [Factor(f"t{i}", ("no", "yes")) for i in range(shape[1])]
    covariates += [Factor(f"g{i}", ("a", "b", "c")) for i in range(shape[2])]
    return RegressionSchema(Continuous("y", BOX), tuple(covariates))


def free(schema: RegressionSchema) -> PublicFit:
    """A fit under which the response alone decides the weight: it is the response's square."""
    return fit_of((0.0,) * schema.m, 0.2)


def columns_of(shape: Shape, rows: int, seed: int) -> Columns:
    generator = np.random.default_rng(seed)
    odd = [np.nan, np.inf, -np.inf, 1e308, 5e-324, 1.0, -1.0, 1 - 2.0**-19]
    columns: Columns = {}
    for name in ("y", *(f"x{i}" for i in range(shape[0]))):
        columns[name] = np.where(
            generator.random(rows) < 0.3, generator.choice(odd, rows), generator.uniform(-1.2, 1.2, rows)
        )
    columns |= {f"t{i}": generator.integers(0, 2, rows) for i in range(shape[1])}
    return columns | {f"g{i}": generator.integers(0, 3, rows) for i in range(shape[2])}


def kept(schema: RegressionSchema, columns: Columns) -> SumsAndRows:
    statistic = SecondMomentsWithRows(schema)
    return statistic.sum(statistic.encode(columns))


def summed(schema: RegressionSchema, columns: Columns, fit: PublicFit | None = None) -> ExactStatistics:
    return residual_sums(schema, fit or free(schema), kept(schema, columns).rows)


def reference(schema: RegressionSchema, columns: Columns, fit: PublicFit) -> tuple[int, ...]:
    """Row by row; what is rounded is rounded half to even, in fractions."""
    total = dict.fromkeys(residual_entries(schema), 0)
    for row in SecondMoments(schema).encode(columns).integers.tolist():
        plain = [UNIT]
        for column, value in zip(schema.covariates, row[:-1], strict=True):
            factor = isinstance(column, Factor) and len(column.levels) > 2
            plain += [UNIT * (value == code) for code in (1, 2)] if factor else [value]
        residual = float(row[-1])
        for coefficient, value in zip(fit.coefficients, plain, strict=True):
            residual -= coefficient * value
        root = round(min(abs(residual) / fit.limit, float(UNIT)))
        weighed = [round(Fraction(value * root, UNIT)) for value in plain]
        assert all(abs(value) <= root for value in weighed)  # so the row is w r r' of an r within the box
        for i, j in total:
            total[i, j] += weighed[i] * weighed[j]
    return tuple(total.values())


@pytest.mark.parametrize("shape", SHAPES)
def test_sums_equal_python_integers(shape: Shape) -> None:
    schema, columns = schema_of(shape), columns_of(shape, 300, seed=3)
    some = np.random.default_rng(2).normal(size=schema.m) / 3
    for fit in (free(schema), fit_of(tuple(some.tolist()), 0.05)):
        assert summed(schema, columns, fit) == ExactStatistics(300, reference(schema, columns, fit))


def test_order_and_cut_do_not_change_a_digit() -> None:
    shape, rows = (3, 1, 1), 70_000
    schema, columns = schema_of(shape), columns_of(shape, rows, seed=4)
    fit = fit_of((0.1, 0.3, -0.2, 0.123, 0.05, -0.1, 0.2), 0.07)
    whole = kept(schema, columns)
    order = np.random.default_rng(5).permutation(rows)
    parts = SecondMomentsWithRows(schema).empty()
    for a, b in ((0, 1), (1, 40_001), (40_001, rows)):
        parts += kept(schema, {name: values[order][a:b] for name, values in columns.items()})
    again = SumsAndRows.from_arrays(parts.to_arrays())
    assert residual_sums(schema, fit, whole.rows) == residual_sums(schema, fit, again.rows)
    assert whole.second == again.second == SecondMoments(schema).sum(SecondMoments(schema).encode(columns))
    nothing = SecondMomentsWithRows(schema).empty()
    assert residual_sums(schema, fit, nothing.rows).sums == (0,) * len(residual_entries(schema))
    assert (SumsAndRows.from_arrays(nothing.to_arrays()) + again).second == again.second
    assert (SumsAndRows.from_arrays(nothing.to_arrays()) + again).second == again.second
    assert "withheld" in repr(whole)


def contributions(shape: Shape, numbers: Any, levels: Any, weights: Any) -> Any:
    """Entries of each row alone, computed apart from the code; levels are codes, two-level columns first."""
    parts = [np.ones((len(numbers), 1)), numbers, 2.0 * levels[:, : shape[1]] - 1]
    for place in range(shape[1], shape[1] + shape[2]):
        parts.append(levels[:, place, None] == np.array([1, 2]))
    whole = np.concatenate(parts, axis=1)
    places = np.array(residual_entries(schema_of(shape)))
    return weights[:, None] * whole[:, places[:, 0]] * whole[:, places[:, 1]]


def rows_of(shape: Shape, numbers: Any, levels: Any, weights: Any) -> Columns:
    columns = {"y": np.sqrt(weights)} | {f"x{i}": numbers[:, i] for i in range(shape[0])}
    columns |= {f"t{i}": levels[:, i] for i in range(shape[1])}
    return columns | {f"g{i}": levels[:, shape[1] + i] for i in range(shape[2])}


def shares(shape: Shape, pair: list[Columns], declared: Sensitivity) -> dict[str, Fraction]:
    """Change of the exact sums over what is declared (squared, for L2), for rows that went through the real code."""
    schema = schema_of(shape)
    one, other = (summed(schema, rows).sums for rows in pair)
    change = [Fraction(a - b, UNIT**2) for a, b in zip(one, other, strict=True)]
    weighted = [Fraction(weight) * moved for weight, moved in zip(declared.weights, change, strict=True)]
    return {
        "l1": sum(map(abs, change), Fraction(0)) / Fraction(declared.l1),
        "l2": sum((w**2 for w in weighted), Fraction(0)) / Fraction(declared.l2) ** 2,
    }


def worst_pair(shape: Shape, norm: str) -> list[Columns]:
    """The best of many pairs, rows and weights nudged at random and kept where that moves the sums further."""
    generator, pairs, rounds = np.random.default_rng(6), 200, 700
    declared = residual_sensitivity(schema_of(shape), "replace-one", 1)
    by = np.array(declared.weights) if norm == "l2" else 1.0
    most = np.array([2] * shape[1] + [3] * shape[2], dtype=np.int64)

    def moved(numbers: Any, levels: Any, weights: Any) -> Any:
        flat = (numbers.reshape(2 * pairs, -1), levels.reshape(2 * pairs, -1), weights.reshape(2 * pairs))
        values = contributions(shape, *flat)
        changes = (values[:pairs] - values[pairs:]) * by
        return np.abs(changes).sum(axis=1) if norm == "l1" else np.linalg.norm(changes, axis=1)

    at, on = (2, pairs, shape[0]), (2, pairs, shape[1] + shape[2])
    numbers, levels = generator.uniform(-1, 1, at), generator.integers(0, most, on)
    weights = generator.random((2, pairs))
    reached = moved(numbers, levels, weights)
    for number in range(rounds):
        step = 10 ** (-3 * number / rounds)
        tried = numbers + generator.normal(size=at) * step * (generator.random(at) < 0.5)
        tried = np.clip(np.where(generator.random(at) < 0.08, generator.choice([-1, 1], at), tried), -1, 1)
        weighs = weights + generator.normal(size=weights.shape) * step * (generator.random(weights.shape) < 0.5)
        ends = generator.choice([0.0, 1.0], weights.shape)
        weighs = np.clip(np.where(generator.random(weights.shape) < 0.1, ends, weighs), 0, 1)
        other = np.where(generator.random(on) < 0.15, generator.integers(0, most, on), levels)
        further = moved(tried, other, weighs)
        better = further > reached
        numbers[:, better], levels[:, better], weights[:, better] = (
            tried[:, better],
            other[:, better],
            weighs[:, better],
        )
        reached = np.maximum(further, reached)
    best = int(reached.argmax())
    one = slice(best, best + 1)
    return [rows_of(shape, numbers[row, one], levels[row, one], weights[row, one]) for row in (0, 1)]


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_adversary_who_chooses_weights_too_attains_what_is_declared_and_no_more(shape: Shape, norm: str) -> None:
    share = shares(shape, worst_pair(shape, norm), residual_sensitivity(schema_of(shape), "replace-one", 1))[norm]
    near = Fraction(98, 100)
    assert (near if norm == "l1" else near**2) <= share <= 1


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("neighbours", "most"), RELATIONS)
def test_no_random_persons_exceed_what_is_declared(shape: Shape, neighbours: str, most: int) -> None:
    generator, declared = np.random.default_rng(7), residual_sensitivity(schema_of(shape), neighbours, most)
    for seed in range(25):
        drawn = columns_of(shape, 2 * most, seed)
        count = most if most == 1 else int(generator.integers(0, most + 1))
        one = {name: values[:most] for name, values in drawn.items()}
        other = {name: values[most : most + count * (neighbours == "replace-one")] for name, values in drawn.items()}
        assert all(share <= 1 for share in shares(shape, [one, other], declared).values())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("most", [1, 2])
def test_rows_of_ones_that_come_or_go_attain_what_is_declared_for_them(shape: Shape, most: int) -> None:
    ones = (np.ones((most, shape[0])), np.ones((most, shape[1] + shape[2]), int), np.ones(most))
    rows = rows_of(shape, *ones)
    declared = residual_sensitivity(schema_of(shape), "add-remove", most)
    found = shares(shape, [rows, {name: values[:0] for name, values in rows.items()}], declared)
    assert found["l1"] == 1
    assert 1 - Fraction(1, 10**12) <= found["l2"] <= 1


def test_the_search_would_catch_who_forgets_that_a_weight_can_vanish() -> None:
    shape = (1, 0, 0)
    declared = residual_sensitivity(schema_of(shape), "replace-one", 1)
    forgotten = Fraction(9, 4)  # what two rows of the constant and one covariate differ by, both of weight 1
    assert shares(shape, worst_pair(shape, "l1"), declared)["l1"] * Fraction(declared.l1) > Fraction(13, 10) * forgotten


def mechanism_for(schema: RegressionSchema, name: str) -> Mechanism:
    """Nine tenths and one of a loss of 1."""
    first, second = regression_sensitivity(schema), residual_sensitivity(schema, "replace-one", 1)
    if name == "gaussian":
        return replace(gaussian_for(first, grid=20, rho=0.9), beside=gaussian_for(second, grid=20, rho=0.1))
    own, other = (laplace_for(s, epsilon=e, grid=20, entries=len(s.weights)) for s, e in ((first, 0.9), (second, 0.1)))
    return replace(own, beside=other)


def released(name: str = "gaussian", shape: Shape = (2, 1, 1), rows: int = 2000) -> Release:
    design = RegressionDesign(
        schema=schema_of(shape), mechanism=mechanism_for(schema_of(shape), name), besides="residuals"
    )
    return design.release(
        SeededNoise(1, i_know_this_is_not_private=True), kept(design.schema, columns_of(shape, rows, 8))
    )


@pytest.mark.parametrize("name", ["gaussian", "laplace"])
def test_both_steps_together_cost_what_is_stated_and_protect_what_they_release(name: str) -> None:
    release, cost = released(name), mechanism_for(schema_of((2, 1, 1)), name).cost()
    stated = cost.epsilon if name == "laplace" else cost.rho
    assert stated is not None
    assert stated == limit_units(0.9) + limit_units(0.1)
    assert 0 <= limit_units(1.0) - stated <= 1  # of 2^64
    assert release.mechanism.cost() == cost
    assert release.protected
    assert Release.from_record(release.to_record()) == release
    certified = OpenDPNoise()
    beside = additional_noise_of(release.mechanism)
    assert beside is not None
    for part in (release.mechanism, beside):
        assert isinstance(part, GaussianMechanism) == (name == "gaussian")
        assert part.certified_loss(certified) <= (0.9 if part is release.mechanism else 0.1)


def test_a_release_is_not_protected_by_less_noise_or_by_a_fit_that_its_own_numbers_do_not_give() -> None:
    release = released()
    assert release.residuals is not None
    assert isinstance(release.mechanism, GaussianMechanism)
    assert isinstance(release.mechanism.beside, GaussianMechanism)
    less = replace(release.mechanism.beside, sensitivity=release.mechanism.beside.sensitivity * 0.99)
    both = replace(release, mechanism=replace(release.mechanism, beside=less))
    assert not replace(both, residuals=replace(release.residuals, mechanism=less)).protected
    assert not both.protected
    exact = replace(release.residuals.fit, sigma=release.residuals.fit.sigma * 1.001)
    assert not replace(release, residuals=replace(release.residuals, fit=exact)).protected
    assert not replace(release, residuals=None).protected
    assert not replace(release, residuals=replace(release.residuals, values=release.residuals.values[1:])).protected


def test_the_fit_is_finite_and_its_limit_bounded_whatever_the_noisy_numbers_are() -> None:
    release, generator = released(), np.random.default_rng(3)
    for size in (0.0, 1.0, 1e3, 1e12):
        for rows in (0, 1, 2000):
            values = tuple((size * generator.normal(size=len(release.values))).tolist())
            fit = replace(release, rows=rows, values=values, residuals=None).fit()
            assert np.isfinite([*fit.coefficients, fit.sigma]).all()
            assert 2.0**-10 <= fit.limit <= 2.0


def test_of_complete_cases_only_rows_that_count_are_kept_and_weighed() -> None:
    shape: Shape = (2, 1, 1)
    columns, schema = columns_of(shape, 500, seed=5), replace(schema_of(shape), cases="complete")
    columns["g0"] = np.where(columns["x0"] > 0.9, -1, columns["g0"])  # of no level
    numbers = np.isnan([columns["y"], columns["x0"], columns["x1"]]).any(axis=0)
    present = ~numbers & (columns["g0"] >= 0)
    assert 0 < present.sum() < 500
    alone = {name: values[present] for name, values in columns.items()}
    found, fit = kept(schema, columns), free(schema)
    assert sum(map(len, found.rows)) == found.second.rows == present.sum()
    assert summed(schema, columns, fit).sums == summed(replace(schema, cases="all"), alone, fit).sums
    assert summed(schema, columns, fit).sums != summed(replace(schema, cases="all"), columns, fit).sums


def test_rows_are_not_kept_by_holder_whatever_their_values() -> None:
    with pytest.raises(TypeError, match="cannot sum by holder and keep rows"):
        HolderSums(
            SecondMomentsWithRows(RegressionSchema(Continuous("y", Bounds(0, 1)), (Continuous("x", Bounds(0, 1)),))),
            "office",
            ("n", "s"),
        )
