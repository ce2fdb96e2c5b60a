"""Exact draws: the truncated laws themselves, no atoms at their edges, and what they may not be asked."""

import itertools
import json
import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, special, stats

from dpbayes_core.bounds import Bounds
from dpbayes_core.canonical import canonical_json
from dpbayes_core.draws.design import (
    DrawDesign,
    grid_map,
    network_draws,
    network_map,
    regression_draws,
    tempered,
)
from dpbayes_core.draws.dirichlet import LogGamma, gamma_excess, log_mass, rate_for, truncated_dirichlet
from dpbayes_core.draws.log_concave import Hull
from dpbayes_core.draws.network import NetworkSubject
from dpbayes_core.draws.regression import RegressionSubject, ball_gaussian
from dpbayes_core.draws.release import MapRelease, PosteriorDrawRelease
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.privacy.accounting import UNITS
from dpbayes_core.privacy.noise import OpenDPNoise, SeededNoise
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema
from tests.support.networks import naive_bayes, network

ALPHA = 1e-6
CHAIN = network((2, 3), b="a")
REGRESSION = RegressionSchema(
    Continuous("wage", Bounds(0, 5)), (Continuous("age", Bounds(16, 80)), Factor("job", ("a", "b", "c")))
)


def seeded(seed: int = 1) -> SeededNoise:
    return SeededNoise(seed, i_know_this_is_not_private=True)


# gamma and Dirichlet above a floor


@pytest.mark.parametrize("shape", [0.01, 0.1, 1.0, 18.1, 500.0])
@pytest.mark.parametrize(("rate", "floor", "room"), [(1.0, 1e-7, 1.0), (30.0, 1e-3, 0.9), (900.0, 0.05, 0.9)])
def test_gamma_numbers_in_an_interval_have_their_law(shape: float, rate: float, floor: float, room: float) -> None:
    hull = Hull(LogGamma.of(np.array([shape]), np.array([rate]), floor, room))
    excess = gamma_excess(seeded(), hull, np.zeros(20_000, int), floor)
    assert 0 <= excess.min() <= excess.max() <= room * (1 + 1e-12)
    places = np.linspace(0, math.log1p(room / floor), 40_001)  # of log(x / floor)
    logs = shape * places - rate * floor * np.expm1(places)
    cumulative = integrate.cumulative_simpson(np.exp(logs - logs.max()), x=places, initial=0)
    cumulative /= cumulative[-1]

    def cdf(x: np.ndarray) -> np.ndarray:
        return np.interp(np.log1p(x / floor), places, cumulative)

    assert stats.kstest(excess, cdf).pvalue > ALPHA
    assert stats.kstest(excess * 3, cdf).pvalue < ALPHA  # the check can fail


SHAPES, FLOORS = (0.01, 0.1, 1.0, 18.1, 500.0), (1e-11, 1e-7, 1e-3, 0.05, 0.3)


def beta_cdf(first: float, second: float, floor: float) -> Callable[[np.ndarray], np.ndarray]:
    """The law of the first of two levels, by quadrature over log odds."""
    odds = np.linspace(math.log(floor) - math.log1p(-floor), math.log1p(-floor) - math.log(floor), 200_001)
    logs = first * odds - (first + second) * np.logaddexp(0, odds)
    cumulative = integrate.cumulative_simpson(np.exp(logs - logs.max()), x=odds, initial=0)
    return lambda p: np.interp(np.log(p) - np.log1p(-p), odds, cumulative / cumulative[-1])


@pytest.mark.parametrize("floor", FLOORS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tempering", [1.0, 0.0362])
def test_empty_tables_and_their_neighbours_are_drawn_with_their_laws(
    shape: float, floor: float, tempering: float
) -> None:
    cell = (1 - 2 * floor) * 2.0**-28
    for counts in ((0, 0), (1, 0), (0, 1), (499, 1), (500, 0)):
        first, second = (shape + tempering * count for count in counts)
        drawn = truncated_dirichlet(seeded(), np.tile([first, second], (4000, 1)), floor)[:, 0]
        cdf = beta_cdf(first, second, floor)
        cells = np.rint((drawn - floor) / cell)  # by rank among cells: chi-square over those of even probability
        edges = np.unique(np.rint((np.quantile(drawn, np.linspace(0.05, 0.95, 10)) - floor) / cell))
        edges = edges[(edges > 0) & (edges < 2.0**28)]
        ends = np.concatenate([[0.0], cdf(np.minimum(floor + edges * cell, 1 - floor)), [1.0]])
        due = np.diff(ends)
        seen = np.bincount(np.searchsorted(edges, cells, side="right"), minlength=len(due))
        assert np.abs(seen / 4000 - due).max() < 5.5 * 0.5 / math.sqrt(4000)
        at_floor = float(cdf(np.array([floor + cell]))[0])  # the grid's first cell, and no atom beside it
        assert abs((cells == 0).mean() - at_floor) < 5.5 * math.sqrt(at_floor * (1 - at_floor) / 4000) + 2e-3


class Counting(SeededNoise):
    """Counts the uniform numbers it was asked for."""

    def __init__(self) -> None:
        super().__init__(1, i_know_this_is_not_private=True)
        self.drawn = 0

    def uniform(self, count: int) -> np.ndarray:
        self.drawn += count
        return super().uniform(count)


CORNERS = (0.01, 0.5, 0.99, 1.0, 1.01, 18.1, 500.0, 1e6, 1e9)


@pytest.mark.parametrize("floor", [1e-11, 1e-7, 1e-3, 0.05, 0.3, 0.49, 0.499999])
def test_a_beta_number_takes_as_many_proposals_whatever_the_table(floor: float) -> None:
    for pair in itertools.product(CORNERS, repeat=2):
        noise = Counting()
        truncated_dirichlet(noise, np.tile(pair, (400, 1)), floor)
        assert 3 * 400 / noise.drawn > 0.46  # by concavity


@pytest.mark.parametrize("floor", [1e-11, 1e-7, 1e-3, 0.05, 0.3, 0.333333])
def test_three_levels_take_a_few_proposals_whatever_the_table(floor: float) -> None:
    for shapes in itertools.combinations_with_replacement(CORNERS, 3):
        noise = Counting()
        truncated_dirichlet(noise, np.tile(shapes, (50, 1)), floor)
        assert noise.drawn / 50 < 100


@pytest.mark.parametrize("floor", [1e-11, 1e-7, 1e-3, 0.2, 0.33333])
@pytest.mark.parametrize("shape", [0.01, 0.3, 0.999])
def test_the_mass_of_a_narrow_level_is_its_integral(floor: float, shape: float) -> None:
    shapes, reach = np.full((1, 3), shape), math.log1p((1 - 3 * floor) / floor)
    rate = float(rate_for(shapes, floor)[0])
    mass = log_mass(shapes, np.array([rate]), floor)[0, 0] - shape * math.log(floor)

    def integrand(place: float) -> float:
        return math.exp(shape * place - rate * floor * math.expm1(place))

    due = integrate.quad(integrand, 0, reach, epsabs=0, epsrel=1e-12, limit=500)[0]
    assert mass == pytest.approx(math.log(due), abs=1e-11)


def test_a_draw_that_doubles_cannot_hold_is_refused_before_it_begins() -> None:
    with pytest.raises(ValueError, match="cannot draw exactly"), np.errstate(all="ignore"):
        truncated_dirichlet(seeded(), np.full((1, 2), 1.5e308), 0.1)


@pytest.mark.parametrize("shapes", [(0.01, 0.01, 0.01), (0.01, 0.3, 0.9), (0.5, 0.5, 0.5), (1.0, 0.01, 0.2)])
@pytest.mark.parametrize("floor", [1e-7, 1e-3, 0.05, 0.3])
def test_three_levels_of_which_none_is_wide_have_their_law(shapes: tuple[float, float, float], floor: float) -> None:
    count = 20_000
    drawn = truncated_dirichlet(seeded(5), np.tile(shapes, (count, 1)), floor)
    for place in range(3):
        own, others = shapes[place], [shape for at, shape in enumerate(shapes) if at != place]
        lowest, highest = math.log(floor / (1 - floor)), math.log1p(-2 * floor) - math.log(2 * floor)
        logs = np.linspace(lowest, highest, 1001)  # log odds, fine at either end; four times as many move 1e-5
        value, rest = special.expit(logs), special.expit(-logs)
        share = np.clip(floor / rest, 0, 0.5)  # of the other two; its own law is a beta number's on log odds
        reach = np.log1p(-share) - np.log(share)
        odds = reach[:, None] * np.linspace(-1, 1, 401)
        inner = np.exp(others[0] * odds - sum(others) * np.logaddexp(0, odds))
        mass = integrate.simpson(inner, x=np.linspace(-1, 1, 401), axis=1) * reach
        density = value**own * rest ** sum(others) * mass
        cumulative = integrate.cumulative_trapezoid(density, logs, initial=0)
        cumulative /= cumulative[-1]
        seen = special.logit(drawn[:, place])
        for quantile in (0.1, 0.5, 0.9):
            at = np.interp(quantile, cumulative, logs)
            due = float(np.interp(at, logs, cumulative))
            assert abs((seen <= at).mean() - due) < 5.5 * math.sqrt(0.25 / count) + 1e-3


@pytest.mark.parametrize(
    ("first", "second", "floor"),
    [
        (3, 5, 0.1),
        (1, 51, 0.1),
        (0.3, 0.2, 0.05),
        (1000, 200, 0.3),
        (1e6, 2e6, 0.1),
        (1, 1, 0.492648),
        (20, 400, 0.49),
        (0.01, 30, 0.01),
    ],
)
def test_two_levels_are_a_truncated_beta(first: float, second: float, floor: float) -> None:
    drawn = truncated_dirichlet(seeded(), np.tile([first, second], (20_000, 1)).astype(float), floor)
    assert np.allclose(drawn.sum(axis=1), 1, atol=1e-15)
    assert drawn.min() >= floor * (1 - 1e-15)
    low, high = special.betainc(first, second, floor), special.betainc(first, second, 1 - floor)
    if high - low > 1e-9:
        assert (
            stats.kstest(drawn[:, 0], lambda p: (special.betainc(first, second, p) - low) / (high - low)).pvalue > ALPHA
        )
    else:
        near, far = min(first, second), max(first, second)
        steep = (far - 1) / (1 - floor) - (near - 1) / floor  # falls from the floor on, nearly exponentially
        assert abs((drawn.min(axis=1) - floor).mean() * steep - 1) < 0.05


def test_no_draw_is_an_atom_at_the_floor() -> None:
    for counts in ((1.0, 200.0), (200.0, 1.0)):
        drawn = truncated_dirichlet(seeded(), np.tile(counts, (50_000, 1)), 0.3)
        assert (drawn == drawn.min()).mean() < 1e-3
        assert len(np.unique(drawn[:, 0])) > 49_000


@pytest.mark.parametrize(
    ("shapes", "floor"),
    [((2.0, 3.0, 4.0), 0.05), ((1.0, 1.0, 1.0), 0.3), ((0.5, 8.0, 2.0), 0.15), ((60.0, 10.0, 5.0), 0.2)],
)
def test_three_levels_have_the_marginals_of_the_truncated_dirichlet(
    shapes: tuple[float, float, float], floor: float
) -> None:
    drawn = truncated_dirichlet(seeded(3), np.tile(shapes, (30_000, 1)), floor)
    assert np.allclose(drawn.sum(axis=1), 1, atol=1e-15)
    assert drawn.min() >= floor * (1 - 1e-15)
    for place in range(3):
        own, others = shapes[place], [shape for at, shape in enumerate(shapes) if at != place]
        grid = np.linspace(floor, 1 - 2 * floor, 4001)
        room = np.clip(floor / (1 - grid), 0, 0.5)
        mass = special.betainc(*others, 1 - room) - special.betainc(*others, room)
        log_density = (own - 1) * np.log(grid) + (sum(others) - 1) * np.log1p(-grid)
        density = np.exp(log_density - log_density.max()) * mass
        cumulative = integrate.cumulative_trapezoid(density, grid, initial=0)
        cumulative /= cumulative[-1]
        assert stats.kstest(drawn[:, place], lambda p, g=grid, c=cumulative: np.interp(p, g, c)).pvalue > ALPHA


def test_many_levels_are_drawn_in_a_few_proposals_each() -> None:
    for shapes, floor in (((100.0,) * 10, 0.0939), ((1000.0,) + (1.0,) * 9, 0.0939), ((0.5,) * 20, 0.01)):
        noise = Counting()
        truncated_dirichlet(noise, np.tile(shapes, (500, 1)), floor)
        assert noise.drawn / 500 < 100 * len(shapes)


@pytest.mark.parametrize("floor", [0.0, -0.1, 0.5, 0.6])
def test_a_floor_outside_its_range_is_refused(floor: float) -> None:
    with pytest.raises(ValueError, match="the floor is not between"):
        truncated_dirichlet(seeded(), np.ones((1, 2)), floor)
    with pytest.raises(StudyInvalid, match="the floor of a is not between 0 and 1/2"):
        network_map(network((2,)), epsilon=1.0, floor=floor)


# a Gaussian inside a ball


def test_the_ball_sampler_has_the_known_moments() -> None:
    precision = np.array([[6.0, 2.0], [2.0, 3.0]])
    drawn = ball_gaussian(seeded(), precision, precision @ [4.0, 3.0], 1.0, 100_000)
    lengths = np.linalg.norm(drawn, axis=1)
    assert lengths.max() <= 1
    assert drawn.mean(axis=0) == pytest.approx([0.8212, 0.4740], abs=5 * 0.25 / math.sqrt(100_000) + 5e-5)
    assert abs((lengths > 0.9).mean() - 0.9434) < 5 * math.sqrt(0.9434 * 0.0566 / 100_000) + 5e-5
    assert len(np.unique(lengths)) > 99_000  # none is pulled back to the edge


@pytest.mark.parametrize(("mean", "radius"), [(0.3, 1.0), (3.0, 0.5), (0.0, 5.0), (50.0, 1.0)])
def test_in_one_dimension_it_is_the_truncated_normal(mean: float, radius: float) -> None:
    drawn = ball_gaussian(seeded(), np.array([[4.0]]), np.array([4.0 * mean]), radius, 20_000)[:, 0]
    low, high = (-radius - mean) * 2, (radius - mean) * 2
    assert stats.kstest(drawn, stats.truncnorm(low, high, loc=mean, scale=0.5).cdf).pvalue > ALPHA
    assert stats.kstest(drawn * 0.8, stats.truncnorm(low, high, loc=mean, scale=0.5).cdf).pvalue < ALPHA


def test_a_thousand_draws_of_many_coefficients_take_seconds() -> None:
    generator, size = np.random.default_rng(1), 54
    rows = generator.uniform(-1, 1, (400, size)) / math.sqrt(size)
    precision = rows.T @ rows / 400 * 1e6 + np.eye(size)
    for length in (0.5, 1.0, 1.2):
        direction = generator.normal(size=size)
        mean = length * direction / np.linalg.norm(direction)
        began = time.process_time()
        drawn = ball_gaussian(OpenDPNoise(), precision, precision @ mean, 1.0, 1000)
        assert time.process_time() - began < 5
        assert drawn.shape == (1000, size)
        assert np.linalg.norm(drawn, axis=1).max() <= 1


@pytest.mark.parametrize("radius", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("prior", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("weight", [0.0, 1.0, 1e4])  # epsilon times rows, at most
def test_balls_of_every_allowed_size_are_drawn_from_whatever_the_rows(
    radius: float, prior: float, weight: float
) -> None:
    scale = weight / max(radius, radius**2)
    for rows in (np.ones((1, 3)), np.diag([1.0, 1.0, 0.0]), np.eye(3)):
        for response in (0.0, 0.5, 1.0):
            noise = Counting()
            precision = scale * rows.T @ rows + prior * np.eye(3)
            drawn = ball_gaussian(noise, precision, scale * response * rows.sum(axis=0), radius, 50)
            assert np.linalg.norm(drawn, axis=1).max() <= radius
            assert noise.drawn / 4 / 50 < 30 * math.sqrt(1 + weight)  # more rows press harder against the edge


def test_nonsense_about_a_ball_is_refused() -> None:
    for precision, radius, draws in ((np.eye(2), 0.0, 1), (np.eye(2), 1.0, 0), (np.zeros((2, 2)), 1.0, 1)):
        with pytest.raises(ValueError, match="cannot draw inside a ball"):
            ball_gaussian(seeded(), precision, np.zeros(2), radius, draws)


# calibration


def test_the_floor_follows_from_epsilon() -> None:
    schema = naive_bayes(16)
    design = network_draws(schema, epsilon=1.0)
    assert isinstance(design.subject, NetworkSubject)
    assert design.subject.floors == pytest.approx((0.492648,) * 17, abs=5e-7)
    assert design.mechanism.tempering == 1
    came = network_draws(schema, epsilon=1.0, neighbours="add-remove").subject
    assert isinstance(came, NetworkSubject)
    assert came.floors[0] == pytest.approx(1 / (1 + math.exp(1 / 17)), rel=1e-12)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 15.0])
@pytest.mark.parametrize("draws", [1, 7])
@pytest.mark.parametrize("tempering", [1.0, 0.25])
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_draws_cost_what_was_stated_whatever_the_levels(
    epsilon: float, draws: int, tempering: float, neighbours: str
) -> None:
    schema = network((2, 5, 3), b="a", c="ab")
    design = network_draws(schema, epsilon=epsilon, draws=draws, tempering=tempering, neighbours=neighbours)
    mechanism = design.mechanism
    assert mechanism.draws * mechanism.tempering * mechanism.oscillation == pytest.approx(epsilon, rel=1e-6)
    assert mechanism.cost().epsilon is not None
    assert mechanism.certified_loss(OpenDPNoise()) * UNITS <= mechanism.cost().epsilon


def test_an_epsilon_beyond_any_use_still_makes_draws() -> None:
    schema = network((2, 20), b="a")
    design = network_draws(schema, epsilon=3000.0)
    statistic = design.statistic()
    for rows in (0, 100_000):
        exact = statistic.sum(statistic.encode({"a": np.zeros(rows, int), "b": np.arange(rows) % 20}), None)
        release = design.release(seeded(), exact)
        assert release.protected
        assert np.isfinite(release.draws()).all()
        assert release.draws().min() >= 1e-11


def test_the_map_tempers_as_far_as_epsilon_goes() -> None:
    design = network_map(network((2,)), epsilon=10.0, floor=0.1)
    assert design.mechanism.oscillation == pytest.approx(2 * math.log(9), rel=1e-12)
    assert design.mechanism.tempering == pytest.approx(10 / (2 * math.log(9)), rel=1e-12)
    assert design.mechanism.tempering > 1


@pytest.mark.parametrize(("radius", "sigma", "due"), [(0.5, 1.0, 2.0), (2.0, 1.0, 9.0), (0.5, 2.0, 0.5)])
def test_a_regression_costs_what_its_bounds_say(radius: float, sigma: float, due: float) -> None:
    from dpbayes_core.draws.regression import regression_oscillation

    assert regression_oscillation(1, 1, radius, sigma, records=2) == due
    assert regression_oscillation(1, 1, radius, sigma, records=1) == due / 2


def test_a_regression_of_bounded_columns_knows_the_length_of_a_row() -> None:
    subject = RegressionSubject(schema=REGRESSION, radius=0.1, sigma=1.0, prior_precision=1.0)
    assert subject.oscillation("replace-one") == pytest.approx(4 * math.sqrt(3) * 0.1, rel=1e-12)
    design = regression_draws(subject, draws=3)
    assert design.mechanism.epsilon == pytest.approx(3 * 4 * math.sqrt(3) * 0.1, rel=1e-12)
    assert tempered(subject, epsilon=0.5).mechanism.tempering == pytest.approx(0.5 / (0.4 * math.sqrt(3)), rel=1e-12)


# releases


def designs() -> dict[str, tuple[DrawDesign, dict[str, np.ndarray]]]:
    generator = np.random.default_rng(4)
    records = {"a": generator.integers(0, 2, 400), "b": generator.integers(0, 3, 400)}
    rows = {"wage": generator.uniform(0, 5, 400), "age": generator.uniform(16, 80, 400)}
    rows["job"] = generator.integers(0, 3, 400)
    subject = RegressionSubject(schema=REGRESSION, radius=0.5, sigma=0.5, prior_precision=1.0)
    pair = network((2, 2), b="a")
    bits = {name: column % 2 for name, column in records.items()}
    return {
        "network": (network_draws(CHAIN, epsilon=2.0, draws=3), records),
        "network add-remove": (network_draws(CHAIN, epsilon=2.0, neighbours="add-remove"), records),
        "map": (network_map(CHAIN, epsilon=200.0, floor=0.05), records),
        "grid": (grid_map(pair, epsilon=2.0, values=(0.1, 0.3, 0.5, 0.7, 0.9)), bits),
        "regression": (regression_draws(subject, draws=2), rows),
    }


@pytest.mark.parametrize("name", designs())
def test_draws_survive_canonical_json_and_say_they_are_protected(name: str) -> None:
    design, columns = designs()[name]
    statistic = design.statistic()
    exact = statistic.sum(statistic.encode(columns), None)
    release = design.release(OpenDPNoise(), exact)
    kind = MapRelease if name in ("map", "grid") else PosteriorDrawRelease
    back = kind.from_record(json.loads(canonical_json(release.to_record())))
    assert back == release
    assert release.kind == kind.kind
    assert release.protected
    assert release.draws().shape == (design.mechanism.draws, len(release.names))
    assert release.rows == (None if design.neighbours == "add-remove" else 400)
    assert not replace(release, values=release.values * 2).protected
    assert not replace(release, values=((0.5,),) * design.mechanism.draws).protected
    less = design.mechanism.oscillation * (1 - 1e-9)
    cheaper = replace(design.mechanism, oscillation=less)
    assert not replace(release, mechanism=cheaper).protected
    with pytest.raises(ValueError, match="leaves out a part"):
        replace(design, mechanism=cheaper)
    record = release.to_record()
    record["noisy"]["names"] = record["noisy"]["names"][::-1]
    with pytest.raises(ValueError, match="contradict"):
        kind.from_record(record)


def test_the_map_is_near_the_mode_where_epsilon_is_large() -> None:
    design, columns = designs()["map"]
    statistic = design.statistic()
    exact = statistic.sum(statistic.encode(columns), None)
    drawn = design.release(seeded(), exact).draws()[0]
    share = float((columns["a"] == 0).mean())
    assert drawn[0] == pytest.approx(share, abs=5 * math.sqrt(0.25 / 400 / design.mechanism.tempering) + 1e-3)


def test_regression_draws_are_those_of_the_posterior_of_the_rows() -> None:
    subject = RegressionSubject(schema=REGRESSION, radius=3.0, sigma=0.5, prior_precision=2.0)
    columns = designs()["regression"][1]
    statistic = subject.statistic()
    exact = statistic.sum(statistic.encode(columns), None)
    drawn = subject.draw(seeded(), exact, 0.5, 4000)
    job = columns["job"]
    x = np.column_stack([np.ones(400), (columns["age"] - 48) / 32, job == 1, job == 2])
    precision = 0.5 * x.T @ x / 0.25 + 2 * np.eye(4)
    mean = np.linalg.solve(precision, 0.5 * x.T @ ((columns["wage"] - 2.5) / 2.5) / 0.25)
    sd = np.sqrt(np.diag(np.linalg.inv(precision)))  # the ball is far away
    assert np.abs((drawn.mean(axis=0) - mean) / sd).max() < 5 / math.sqrt(4000)
    assert np.abs(drawn.std(axis=0) / sd - 1).max() < 5 / math.sqrt(2 * 4000)


# refusals


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: network_map(CHAIN, epsilon=1.0, floor=0.1, score="density"), "moves it without limit"),
        (lambda: network_map(CHAIN, epsilon=1.0, floor=0.1, score="taste"), "not known"),
        (lambda: network_map(CHAIN, epsilon=1.0, floor=0.4), "floor of b is not between 0 and 1/3"),
        (lambda: network_map(CHAIN, epsilon=1.0, floor={"a": 0.1}), "does not name every node"),
        (lambda: network_draws(CHAIN, epsilon=1.0, concentration=0.0), "not between 0.01 and 1000000"),
        (lambda: network_map(CHAIN, epsilon=1.0, floor=0.1, concentration=1e-6), "not between 0.01 and 1000000"),
        (lambda: network_map(CHAIN, epsilon=1.0, floor=0.1, concentration=1e300), "not between 0.01 and 1000000"),
        (lambda: network_map(CHAIN, epsilon=1.0, floor=1e-12), "below 1e-11"),
        (lambda: network_map(network((2,)), epsilon=1.0, floor=0.5 - 1e-11), "leaves no room"),
        (lambda: network_map(network((2,)), epsilon=2.0, floor=0.4999999999), "between 0 and a million"),
        (lambda: network_draws(CHAIN, epsilon=1.0, tempering=0.0), "between 0 and a million"),
        (lambda: grid_map(network((2,)), epsilon=1.0, values=(0.1, 0.9), concentration=1e7), "not between 0.01"),
        (lambda: network_draws(CHAIN, epsilon=1.0, draws=0), "number of draws"),
        (lambda: network_draws(CHAIN, epsilon=1e-12), "too small to share"),
        (lambda: grid_map(CHAIN, epsilon=1.0, values=(0.1, 0.9)), "two levels"),
        (lambda: grid_map(naive_bayes(16), epsilon=1.0, values=(0.1, 0.9)), "more than 65536 points"),
        (lambda: grid_map(network((2,)), epsilon=1.0, values=(0.0, 0.9)), "between 0 and 1"),
        (lambda: grid_map(network((2,)), epsilon=1.0, values=(0.5,)), "two or more"),
        (
            lambda: RegressionSubject(schema=REGRESSION, radius=1e-170, sigma=1.0, prior_precision=1.0),
            "radius or sigma is not between",
        ),
        (
            lambda: RegressionSubject(schema=REGRESSION, radius=1.0, sigma=math.inf, prior_precision=1.0),
            "radius or sigma is not between",
        ),
        (
            lambda: RegressionSubject(schema=REGRESSION, radius=1.0, sigma=1.0, prior_precision=1e-10),
            "prior precision is not between",
        ),
    ],
)
def test_draws_that_cannot_be_are_refused_with_the_reason(call: object, reason: str) -> None:
    with pytest.raises(StudyInvalid, match=reason):
        call()  # pyright: ignore[reportCallIssue]
