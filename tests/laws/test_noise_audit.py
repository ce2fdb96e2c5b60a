"""The real noise under attack: what an adversary who knows everything but one row can tell, and no more or less.

Neighbours are worst cases of real regressions, through `encode`, exact sums, the output grid and `release`. The attack
is the best there is, the likelihood ratio, and its curve of hits against false alarms is known exactly.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import signal, stats

from dpbayes_core.arrays import Floats
from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.mechanisms import (
    MECHANISMS,
    GaussianMechanism,
    GeometricMechanism,
    LaplaceMechanism,
    gaussian_for,
    laplace_for,
)
from dpbayes_core.privacy.noise import OpenDPNoise
from dpbayes_core.privacy.sensitivity import Sensitivity
from dpbayes_core.regression.fixed_point import UNIT
from dpbayes_core.regression.moments import grid_for, on_grid
from dpbayes_core.regression.schema import Continuous, Covariate, Factor, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from tests.support.reference_encoding import block_products, encode

ALPHA = 1e-6
RUNS = 100_000
FEWER = 2_500
GRID = grid_for(1000)
CUTS = 24  # places on the curve
CELL = 2.0**-12  # of the distribution of a log likelihood ratio, rounded both ways
AGE, WAGE = Bounds(16, 80), Bounds(0, 5)


# --- neighbours -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Two rows that move the statistics as far as declared in one norm; standardised, two levels as -1 and 1."""

    numbers: tuple[tuple[float, ...], tuple[float, ...]]
    choices: tuple[tuple[int, ...], tuple[int, ...]]
    norm: str

    @property
    def schema(self) -> RegressionSchema:
        covariates: list[Covariate] = [Continuous(f"age{i}", AGE) for i in range(len(self.numbers[0]) - 1)]
        covariates += [Factor(f"choice{i}", ("no", "yes")) for i in range(len(self.choices[0]))]
        return RegressionSchema(Continuous("wage", WAGE), tuple(covariates))

    def pair(self) -> tuple[Floats, Floats]:
        """The statistics of two tables of 300 rows that differ in the last, on the output grid."""
        generator, count = np.random.default_rng(1), 299
        rest = generator.uniform(-1, 1, (count, len(self.numbers[0])))
        chosen = generator.choice([-1, 1], (count, len(self.choices[0])))
        one, other = (self._sums(rest, chosen, row) for row in (0, 1))
        return one, other

    def _sums(self, rest: np.ndarray, chosen: np.ndarray, row: int) -> Floats:
        numbers, choices = np.vstack([rest, self.numbers[row]]), np.vstack([chosen, self.choices[row]])
        columns: dict[str, np.ndarray] = {"wage": WAGE.middle + WAGE.width / 2 * numbers[:, -1]}
        columns |= {f"age{i}": AGE.middle + AGE.width / 2 * numbers[:, i] for i in range(numbers.shape[1] - 1)}
        columns |= {f"choice{i}": (choices[:, i] > 0).astype(int) for i in range(choices.shape[1])}
        encoded = encode(self.schema, columns)
        assert np.abs(encoded.matrix).max() <= UNIT
        return on_grid(block_products(encoded), GRID)


SPREAD = Case(((1.0, 1.0), (-1 / 3, -1 / 3)), ((), ()), "l1")  # every entry moves
CORNERS = Case(((1.0,) * 5, (1.0, 1.0, -1.0, -1.0, -1.0)), ((), ()), "l2")  # no square moves
SQUARES = Case(((1.0,) * 3, (0.0,) * 3), ((1,), (-1,)), "l2")  # half of the distance is in the weighted squares


def moved(case: Case, mechanism: Any) -> Floats:
    """How far the neighbours are apart in units of the noise's scale, entry by entry."""
    one, other = case.pair()
    apart = (one - other) / mechanism.scales
    declared = mechanism.sensitivity / mechanism.scale
    reached = np.abs(apart).sum() if case.norm == "l1" else np.linalg.norm(apart)
    assert (1 - 1e-4) * declared <= reached <= declared
    return apart


def test_the_weighted_entries_take_part_in_one_of_the_cases() -> None:
    mechanism = gaussian_of(SQUARES, rho=0.5)
    assert sorted(set(mechanism.weights)) == [1.0, 2.0]
    apart = moved(SQUARES, mechanism)
    heavy = np.array(mechanism.weights) > 1
    assert 0.4 < (apart[heavy] ** 2).sum() / (apart**2).sum() < 0.6


def gaussian_of(case: Case, **loss: float) -> GaussianMechanism:
    return gaussian_for(regression_sensitivity(case.schema), grid=GRID, **loss)


def laplace_of(case: Case, epsilon: float) -> LaplaceMechanism:
    entries = len(case.schema.entries)
    return laplace_for(regression_sensitivity(case.schema), epsilon=epsilon, grid=GRID, entries=entries)


# --- the exact curve ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """P(log likelihood ratio > cut) without and with the row, each between two bounds."""

    cuts: Floats
    alarms: tuple[Floats, Floats]
    hits: tuple[Floats, Floats]


def gaussian_curve(apart: Floats) -> Curve:
    distance = float(np.linalg.norm(apart))
    cuts = np.linspace(-3.5, 3.5, CUTS) * distance
    alarms = stats.norm.sf(cuts / distance + distance / 2)
    hits = stats.norm.sf(cuts / distance - distance / 2)
    return Curve(cuts, (alarms, alarms), (hits, hits))


def laplace_curve(apart: Floats) -> Curve:
    """The ratio is a sum of independent ones, each within [-t, t] with atoms at the ends; cells bound it both ways."""
    steps = [abs(float(t)) for t in apart]
    without = _summed([_cells(t) for t in steps])
    reach, slack = sum(math.ceil(t / CELL) for t in steps), len(steps) + 1
    cuts = np.linspace(-0.95, 0.95, CUTS) * sum(steps)
    below = np.concatenate([[0.0], np.cumsum(without)])  # below[k] = P(cell < k), cells shifted by `reach`

    def above(cut: float, shift: int) -> float:
        place = math.ceil(cut / CELL) + reach + shift
        return float(1 - below[min(max(place, 0), len(without))])

    alarms = tuple(np.array([above(cut, shift) for cut in cuts]) for shift in (slack, -slack))
    # with the row the ratio is minus what it is without, in distribution
    hits = tuple(np.array([1 - above(-cut, shift) for cut in cuts]) for shift in (-slack, slack))
    return Curve(cuts, (alarms[0], alarms[1]), (hits[0], hits[1]))


def _cells(step: float) -> Floats:
    """Masses of |x| - |x - t| by cells, x standard Laplace: P(<= u) = 1 - exp(-(u + t) / 2) / 2 for -t <= u < t."""
    count = math.ceil(step / CELL)
    edges = np.clip(np.arange(-count, count + 1) * CELL, -step, step)
    at_most = 1 - np.exp(-(edges + step) / 2) / 2
    at_most[-1] = 1.0
    return np.diff(at_most, prepend=0.0)


def _summed(parts: list[Floats]) -> Floats:
    total = parts[0]
    for part in parts[1:]:
        total = np.maximum(signal.fftconvolve(total, part), 0)
    return total / total.sum()


def test_the_laplace_curve_is_that_of_one_entry_known_in_closed_form() -> None:
    curve = laplace_curve(np.array([1.0]))
    exact = np.exp(-(curve.cuts + 1) / 2) / 2
    assert (curve.alarms[0] <= exact).all()
    assert (exact <= curve.alarms[1]).all()
    assert np.max(curve.alarms[1] - curve.alarms[0]) < 4 * CELL
    hits = 1 - np.exp(-(1 - curve.cuts) / 2) / 2
    assert (curve.hits[0] <= hits).all()
    assert (hits <= curve.hits[1]).all()


@pytest.mark.parametrize("apart", [(0.2, 0.3, 0.1), (1.0, -0.5, 0.0, 0.25)])
def test_the_laplace_curve_is_that_of_plain_simulation(apart: tuple[float, ...]) -> None:
    t = np.array(apart)
    noise = np.random.default_rng(2).laplace(size=(400_000, len(t)))
    assert outside(laplace_curve(t), ratios("laplace", noise, t), ratios("laplace", noise + t, t)) == 0


# --- the attack -----------------------------------------------------------------------------------------------------


def ratios(law: str, seen: Floats, apart: Floats) -> Floats:
    """Log likelihood ratio of each run, with the row against without; `seen` in units of scale, centred without."""
    if law == "laplace":
        return (np.abs(seen) - np.abs(seen - apart)).sum(axis=1)
    return seen @ apart - apart @ apart / 2


def outside(curve: Curve, without: Floats, with_row: Floats) -> int:
    """How many places of the curve the runs miss, where all of them together miss one with probability ALPHA."""
    missed = 0
    for drawn, (low, high) in ((without, curve.alarms), (with_row, curve.hits)):
        counts = (drawn[:, None] > curve.cuts).sum(axis=0)
        level = ALPHA / (4 * CUTS)
        missed += int((stats.binom.cdf(counts, len(drawn), low) < level).sum())
        missed += int((stats.binom.sf(counts - 1, len(drawn), high) < level).sum())
    return missed


def attacked(case: Case, mechanism: Any, runs: int, made_by: Any = None) -> int:
    """How far releases of both neighbours are from what the mechanism states; `made_by` may be another, for twins."""
    apart, source = moved(case, mechanism), OpenDPNoise()
    one, other = case.pair()
    release = (made_by or mechanism).release
    seen = [np.array([release(source, sums) for _ in range(runs)]) for sums in (other, one)]
    without, with_row = (ratios(mechanism.name, (noisy - other) / mechanism.scales, apart) for noisy in seen)
    curve = laplace_curve(apart) if mechanism.name == "laplace" else gaussian_curve(apart)
    return outside(curve, without, with_row)


VECTORS: list[tuple[str, Case, Callable[[], Any]]] = [
    ("laplace, every entry", SPREAD, lambda: laplace_of(SPREAD, 1.0)),
    ("gaussian, weighted squares", SQUARES, lambda: gaussian_of(SQUARES, rho=0.5)),
    ("gaussian, corners, as a cap of one", CORNERS, lambda: gaussian_of(CORNERS, epsilon=1.0, delta=1e-6)),
]
NAMES = [name for name, _, _ in VECTORS]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "case", "make"), VECTORS, ids=NAMES)
def test_an_attack_on_a_hundred_thousand_releases_of_each_neighbour_tells_what_is_stated(
    name: str, case: Case, make: Callable[[], Any]
) -> None:
    assert attacked(case, make(), RUNS) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "case", "make"), VECTORS[:2], ids=NAMES[:2])
def test_an_attack_on_a_few_releases_tells_what_is_stated_and_sees_half_the_noise(
    name: str, case: Case, make: Callable[[], Any]
) -> None:
    mechanism = make()
    assert attacked(case, mechanism, FEWER) == 0
    assert attacked(case, mechanism, FEWER, halved(mechanism)) > 0


def halved(mechanism: Any) -> Any:
    """The same mechanism with noise of half the scale: a sensitivity stated at half of what it is."""
    thin = replace(mechanism, sensitivity=mechanism.sensitivity / 2)
    assert thin.scale == pytest.approx(mechanism.scale / 2, rel=1e-9)
    return thin


@pytest.mark.slow
def test_squares_that_weigh_more_than_is_free_are_seen() -> None:
    mechanism = gaussian_of(SQUARES, rho=0.5)
    greedy = replace(mechanism, weights=tuple(4.0 if weight == 2 else weight for weight in mechanism.weights))
    assert attacked(SQUARES, mechanism, FEWER, greedy) > 0


# --- one entry ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """As much of a sensitivity as mechanisms read."""

    l1: float
    l2: float
    weights: tuple[float, ...]


SCALAR_PURE: dict[str, Callable[[float], Any]] = {
    "laplace": lambda epsilon: laplace_for(Bound(2.0, 2.0, (1.0,)), epsilon=epsilon, grid=30, entries=1),
    "geometric": lambda epsilon: GeometricMechanism(
        epsilon=epsilon, sizes=(1,), sensitivities=(2,), largest_move=2, shares=(1.0,)
    ),
}


def thrown(mechanism: Any, source: OpenDPNoise, value: float, scale: float) -> Floats:
    """RUNS noisy copies of a value, drawn together."""
    if mechanism.name == "geometric":
        return source.geometric(np.full(RUNS, int(value), np.int64), scale).astype(np.float64)
    return source.laplace(np.full(RUNS, value), scale)


def as_released(mechanism: Any, value: float) -> Any:
    """The value in the type that the mechanism takes."""
    return np.array([int(value)], np.int64) if mechanism.name == "geometric" else np.array([value])


def test_every_pure_mechanism_is_audited_on_one_entry() -> None:
    pure = {name for name, kind in MECHANISMS.items() if kind.norm == "L1"}
    assert pure == set(SCALAR_PURE)


def least_epsilon(without: Floats, with_row: Floats, middle: float) -> float:
    """A lower confidence bound on epsilon from how often releases fall beyond the larger value."""
    hits, alarms = int((with_row >= middle).sum()), int((without >= middle).sum())
    at_least = stats.beta.ppf(ALPHA / 2, hits, len(with_row) - hits + 1)
    at_most = stats.beta.ppf(1 - ALPHA / 2, alarms + 1, len(without) - alarms)
    return math.log(at_least / at_most)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCALAR_PURE)
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
def test_one_entry_tells_nearly_epsilon_and_never_more(name: str, epsilon: float) -> None:
    mechanism, source = SCALAR_PURE[name](epsilon), OpenDPNoise()
    both = [thrown(mechanism, source, value, mechanism.scale) for value in (0.0, mechanism.sensitivity)]
    assert 0.85 * epsilon <= least_epsilon(*both, mechanism.sensitivity) <= epsilon
    thin = [thrown(mechanism, source, value, mechanism.scale / 2) for value in (0.0, mechanism.sensitivity)]
    assert least_epsilon(*thin, mechanism.sensitivity) > epsilon


@pytest.mark.slow
@pytest.mark.parametrize("name", SCALAR_PURE)
def test_one_entry_released_a_hundred_thousand_times_tells_nearly_epsilon(name: str) -> None:
    mechanism, source = SCALAR_PURE[name](1.0), OpenDPNoise()
    values = [as_released(mechanism, value) for value in (0.0, 2.0)]
    both = [np.array([mechanism.release(source, value)[0] for _ in range(RUNS)]) for value in values]
    assert 0.85 <= least_epsilon(*both, 2.0) <= 1.0


# --- the law of every mechanism -------------------------------------------------------------------------------------


def many(mechanism: Any) -> Iterator[Floats]:
    """Noise in units of each entry's scale, until there are RUNS of it."""
    values = np.arange(len(mechanism.scales), dtype=np.float64)
    for _ in range(math.ceil(RUNS / len(values))):
        yield (mechanism.release(OpenDPNoise(), values) - values) / mechanism.scales


@cache
def wide(name: str, loss: float) -> Any:
    """A mechanism of 5,000 entries, a third of them weighted where that is possible."""
    weights = (1.0, 2.0, 1.0, 1.0, 4.0) * 1000
    due = Sensitivity(50.0, 20.0, weights, "replace-one")
    if name == "laplace":
        return laplace_for(due, epsilon=loss, grid=GRID, entries=len(weights))
    return gaussian_for(due, rho=loss, grid=GRID)


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("loss", [1e-4, 0.05, 1.0, 2000.0])
def test_a_hundred_thousand_draws_follow_the_stated_density(name: str, loss: float) -> None:
    noise = np.concatenate(list(many(wide(name, loss))))
    assert len(noise) == RUNS
    law = stats.laplace if name == "laplace" else stats.norm
    assert stats.kstest(noise, law.cdf).pvalue > ALPHA
    assert stats.kstest(noise * 0.85, law.cdf).pvalue < ALPHA
