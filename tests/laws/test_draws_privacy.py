"""What neighbours can tell from a draw: every small table, every pair of records; never more than is charged."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from scipy import integrate, stats

from dpbayes_core.draws.design import DrawDesign, grid_map, network_draws, network_map
from dpbayes_core.draws.grid import GridSubject
from dpbayes_core.draws.network import NetworkSubject
from dpbayes_core.draws.regression import regression_oscillation
from dpbayes_core.networks.design import counts_design, fourier_design
from dpbayes_core.networks.release import NetworkRelease
from dpbayes_core.networks.schema import NetworkSchema
from dpbayes_core.networks.tables import ExactTables, FamilyTables
from dpbayes_core.privacy.noise import OpenDPNoise
from tests.support.networks import network

ALPHA = 1e-6
ONE, PAIR = network((2,)), network((2, 2), b="a")
Rows = tuple[tuple[int, ...], ...]


@cache
def log_mass(first: float, second: float, floor: float) -> float:
    """log of the integral of p^(first-1) (1-p)^(second-1) over the probabilities above the floor, by quadrature."""
    mode = min(max((first - 1) / max(first + second - 2, 1e-9), floor), 1 - floor)

    def exponent(p: float) -> float:
        return (first - 1) * math.log(p) + (second - 1) * math.log1p(-p)

    area = integrate.quad(lambda p: math.exp(exponent(p) - exponent(mode)), floor, 1 - floor, points=[mode], limit=200)
    return exponent(mode) + math.log(area[0])


def largest_ratio(tables: list[np.ndarray], others: list[np.ndarray], floor: float, tempering: float) -> float:
    """The largest log density ratio of a draw, exact: tables of binary rows (rows, 2), prior pseudo-counts of 1.

    In each row the log ratio of likelihoods is monotone, so that it is largest at an end of the range.
    """
    total = 0.0
    for one, other in zip(np.concatenate(tables), np.concatenate(others), strict=True):
        if (one == other).all():
            continue
        normalisers = [log_mass(*(1 + tempering * row), floor) for row in (one, other)]  # pyright: ignore
        change = tempering * (one - other)
        total += max(change @ np.log(ends) for ends in ([floor, 1 - floor], [1 - floor, floor]))
        total += normalisers[1] - normalisers[0]
    return total


def tables_of(schema: NetworkSchema, rows: Rows) -> list[np.ndarray]:
    found = list[np.ndarray]()
    for family in schema.families:
        table = np.zeros(schema.shape(family))
        for row in rows:
            table[tuple(row[node] for node in family)] += 1
        found.append(table.reshape(-1, 2))
    return found


def neighbours_of(schema: NetworkSchema, rows: int, relation: str) -> list[tuple[Rows, Rows]]:
    every = list(itertools.product(*(range(count) for count in schema.levels)))
    found = list[tuple[Rows, Rows]]()
    for rest in itertools.combinations_with_replacement(every, rows - 1):
        for one in every:
            if relation == "replace-one":
                found += [((*rest, one), (*rest, other)) for other in every if other != one]
            else:
                found += [((*rest, one), rest), (rest, (*rest, one))]
    return found


# draws of a network


def test_fifty_records_of_one_node_are_told_apart_as_far_as_known_and_no_further() -> None:
    reached = 0.0
    for count in range(50):
        one, other = (np.array([[c, 50 - c]], dtype=float) for c in (count, count + 1))
        for pair in ((one, other), (other, one)):
            reached = max(reached, largest_ratio([pair[0]], [pair[1]], 0.1, 1.0))
    assert reached == pytest.approx(4.2121, abs=5e-5)
    subject = NetworkSubject(schema=ONE, floors=(0.1,), concentrations=(1.0,))
    assert subject.oscillation("replace-one") == pytest.approx(4.3944, abs=5e-5)
    assert reached <= subject.oscillation("replace-one")


def test_with_many_records_nearly_the_whole_oscillation_is_reached() -> None:
    one, other = np.array([[0.0, 3000.0]]), np.array([[1.0, 2999.0]])
    reached = largest_ratio([other], [one], 0.1, 1.0)
    assert 0.999 * 2 * math.log(9) < reached <= 2 * math.log(9)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("epsilon", [0.3, 2.0, 12.0])
@pytest.mark.parametrize("kind", ["draw", "map"])
def test_every_small_table_keeps_its_draws_within_epsilon_of_every_neighbours(
    relation: str, epsilon: float, kind: str
) -> None:
    if kind == "draw":
        design = network_draws(PAIR, epsilon=epsilon, neighbours=relation)
    else:
        design = network_map(PAIR, epsilon=epsilon, floor=0.2, neighbours=relation)
    assert isinstance(design.subject, NetworkSubject)
    floor, tempering = design.subject.floors[0], design.mechanism.tempering
    reached = 0.0
    for rows in (1, 2, 3):
        for one, other in neighbours_of(PAIR, rows, relation):
            pair = tables_of(PAIR, one), tables_of(PAIR, other)
            reached = max(reached, largest_ratio(*pair, floor, tempering))
    assert 0.45 * epsilon < reached <= epsilon


def test_a_clamped_draw_would_cost_more_than_it_says() -> None:
    floor, epsilon = 0.1, 2 * math.log(9)
    atoms = [stats.beta.sf(1 - floor, 1 + count, 51 - count) for count in range(51)]
    assert max(abs(math.log(a / b)) for a, b in itertools.pairwise(atoms)) > epsilon


@pytest.mark.parametrize("schema", [network((2, 3), b="a"), network((3, 2)), network((4,))])
def test_every_pair_of_records_moves_the_likelihood_within_the_oscillation_and_one_fills_it(
    schema: NetworkSchema,
) -> None:
    floors = tuple(0.4 / count for count in schema.levels)
    subject = NetworkSubject(schema=schema, floors=floors, concentrations=(1.0,) * len(floors))
    corners = list[list[np.ndarray]]()
    for floor, family in zip(floors, schema.families, strict=True):
        levels = schema.levels[family[-1]]
        ends = [np.log(np.full(levels, floor) + (1 - levels * floor) * np.eye(levels)[top]) for top in range(levels)]
        rows = schema.cells(family) // levels
        corners.append([np.concatenate(chosen) for chosen in itertools.product(ends, repeat=rows)])
    every = list(itertools.product(*(range(count) for count in schema.levels)))

    def likelihood(point: tuple[np.ndarray, ...], record: tuple[int, ...]) -> float:
        return sum(
            table[np.ravel_multi_index(tuple(record[node] for node in family), schema.shape(family))]
            for table, family in zip(point, schema.families, strict=True)
        )

    values = np.array([[likelihood(point, record) for record in every] for point in itertools.product(*corners)])
    apart = values[:, :, None] - values[:, None, :]
    assert np.ptp(apart, axis=0).max() == pytest.approx(subject.oscillation("replace-one"), rel=1e-9)
    assert np.ptp(values, axis=0).max() == pytest.approx(subject.oscillation("add-remove"), rel=1e-9)


# draws from a grid


def grid_laws(design: DrawDesign, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Masses and the exact probabilities of each point."""
    subject, statistic = design.subject, design.statistic()
    assert isinstance(subject, GridSubject)
    assert isinstance(statistic, FamilyTables)
    columns = {name: np.array([row[place] for row in rows], int) for place, name in enumerate(subject.schema.names)}
    masses = subject.masses(statistic.sum(statistic.encode(columns), None))
    weights = np.exp(design.mechanism.tempering * masses)
    return masses, weights / weights.sum()


def test_the_mass_at_a_point_moves_as_far_as_declared() -> None:
    subject = GridSubject(schema=ONE, values=(0.3, 0.7), concentrations=(1.0,))
    assert subject.difference("replace-one") == pytest.approx(0.4, abs=1e-12)
    design = grid_map(ONE, epsilon=1.0, values=(0.3, 0.7))
    one, other = (grid_laws(design, ((code,),))[0] for code in (0, 1))
    assert np.abs(one - other).max() == pytest.approx(0.4, abs=1e-12)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize(("schema", "most"), [(ONE, 12), (PAIR, 3)], ids=["one node", "pair"])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_no_point_of_a_grid_is_further_from_a_neighbours_than_epsilon(
    relation: str, schema: NetworkSchema, most: int, epsilon: float
) -> None:
    design = grid_map(schema, epsilon=epsilon, values=(0.1, 0.4, 0.7), neighbours=relation)
    assert isinstance(design.subject, GridSubject)
    moved, reached, known = 0.0, 0.0, dict[Rows, tuple[np.ndarray, np.ndarray]]()
    for rows in range(1, most + 1):
        for pair in neighbours_of(schema, rows, relation):
            for table in pair:
                known.setdefault(table, grid_laws(design, table))
            (mass, law), (other_mass, other_law) = (known[table] for table in pair)
            moved = max(moved, np.abs(mass - other_mass).max())
            reached = max(reached, np.log(law / other_law).max())
    assert moved <= design.subject.difference(relation)
    assert 0.08 * epsilon < reached <= epsilon  # two points in turn, not one of many, would reach it


def test_a_draw_from_a_grid_has_the_exact_law() -> None:
    design = grid_map(ONE, epsilon=6.0, values=(0.1, 0.4, 0.7))
    statistic = design.statistic()
    exact = statistic.sum(statistic.encode({"a": np.array([0, 1, 1])}), None)
    drawn = design.subject.draw(OpenDPNoise(), exact, design.mechanism.tempering, 50_000)
    seen = [(drawn[:, 1] == value).sum() for value in (0.1, 0.4, 0.7)]
    law = grid_laws(design, ((0,), (1,), (1,)))[1]
    assert stats.chisquare(seen, law * 50_000).pvalue > ALPHA


# draws of a regression


@pytest.mark.parametrize(("radius", "sigma"), [(0.5, 1.0), (2.0, 1.0), (1.0, 0.3)])
def test_no_pair_of_rows_moves_a_regressions_likelihood_beyond_the_oscillation_and_one_does(
    radius: float, sigma: float
) -> None:
    angle = np.linspace(0, 2 * math.pi, 721)
    inside = np.concatenate([length * np.stack([np.cos(angle), np.sin(angle)], axis=1) for length in (0.5, 1.0)])
    theta = radius * inside
    generator = np.random.default_rng(6)
    declared = {records: regression_oscillation(1, 1, radius, sigma, records=records) for records in (1, 2)}

    def loss(x: np.ndarray, y: float) -> np.ndarray:
        return (y - theta @ x) ** 2 / (2 * sigma**2)

    def extreme(x: np.ndarray, y: float, other_x: np.ndarray, other_y: float) -> float:
        return float(np.ptp(loss(other_x, other_y) - loss(x, y)))

    reached = {1: 0.0, 2: 0.0}
    for _ in range(400):
        x, other = (v / max(1.0, float(np.linalg.norm(v))) for v in generator.normal(size=(2, 2)))
        y, other_y = generator.choice([-1.0, 1.0], 2) * generator.choice([1.0, generator.uniform()], 2)
        reached[1] = max(reached[1], float(np.ptp(loss(x, y))))
        reached[2] = max(reached[2], extreme(x, y, other, other_y))
    turn = math.acos(max(-1.0, -1 / radius))  # each is fitted exactly where the other is missed by most
    worst = extreme(np.array([1.0, 0.0]), 1.0, np.array([math.cos(turn), math.sin(turn)]), 1.0)
    reached = {1: max(reached[1], float(np.ptp(loss(np.array([1.0, 0.0]), 1.0)))), 2: max(reached[2], worst)}
    for records, due in declared.items():
        assert reached[records] <= due * (1 + 1e-12)
        assert reached[records] > 0.99 * due


# black boxes, by an attacker who knows everything but one record


def least_epsilon(with_record: np.ndarray, without: np.ndarray) -> float:
    """A lower confidence bound on epsilon from an event's frequencies."""
    at_least = stats.beta.ppf(ALPHA, with_record.sum(), len(with_record) - with_record.sum() + 1)
    at_most = stats.beta.ppf(1 - ALPHA, without.sum() + 1, len(without) - without.sum())
    return math.log(at_least / at_most)


def counted(schema: NetworkSchema, rows: Rows) -> ExactTables:
    statistic = FamilyTables(schema)
    columns = {name: np.array([row[place] for row in rows]) for place, name in enumerate(schema.names)}
    return statistic.sum(statistic.encode(columns), None)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["tables", "signed sums"])
def test_an_attacker_of_noisy_sums_learns_nearly_epsilon_and_never_more(what: str) -> None:
    schema, runs, epsilon = network((2,)), 20_000, 1.0
    design = counts_design(schema, epsilon=epsilon) if what == "tables" else fourier_design(schema, epsilon=epsilon)
    rest = ((0,), (1,), (1,))
    source, bounds = OpenDPNoise(), list[np.ndarray]()
    for last in ((0,), (1,)):
        exact = counted(schema, (*rest, last))
        drawn = np.array([design.release(source, exact).values for _ in range(runs)])
        if what == "tables":
            bounds.append((drawn[:, 0] >= 2) & (drawn[:, 1] <= 2))
        else:
            bounds.append(drawn[:, 0] >= 0)
    reached = least_epsilon(*bounds)
    assert 0.75 * epsilon < reached <= epsilon


@pytest.mark.slow
def test_an_attacker_of_a_draw_learns_nearly_what_is_known_and_catches_one_that_is_undercharged() -> None:
    subject, runs = NetworkSubject(schema=ONE, floors=(0.1,), concentrations=(1.0,)), 200_000
    epsilon, source = subject.oscillation("replace-one"), OpenDPNoise()
    rows: tuple[Rows, Rows] = (((0,),), ((1,),))
    known = largest_ratio(*(tables_of(ONE, own) for own in rows), 0.1, 1.0)  # pyright: ignore[reportCallIssue]

    def attacked(tempering: float) -> float:
        one, other = (subject.draw(source, counted(ONE, own), tempering, runs)[:, 0] > 0.87 for own in rows)
        return least_epsilon(one, other)

    assert 0.8 * known < attacked(1.0) <= known <= epsilon
    assert attacked(3.0) > epsilon


@pytest.mark.parametrize("concentration", [0.01, 1.0, 1e6])
@pytest.mark.parametrize("floor", [1e-11, 1e-7, 1e-3, 0.3, 0.499999])
def test_no_attacker_tells_tables_at_the_corners_apart(concentration: float, floor: float) -> None:
    design, runs, source = network_map(ONE, epsilon=1.0, floor=floor, concentration=concentration), 4_000, OpenDPNoise()
    for pair in (((500, 0), (499, 1)), ((1, 0), (0, 1)), ((250, 250), (249, 251))):
        one, other = (
            design.subject.draw(source, ExactTables(sum(counts), np.array(counts)), design.mechanism.tempering, runs)
            for counts in pair
        )
        every = np.concatenate([one[:, 1], other[:, 1]])
        assert every.min() >= floor * (1 - 1e-15)
        for edge in np.quantile(every, (0.0, 0.02, 0.2, 0.5, 0.8, 0.98)):
            below = one[:, 1] <= edge, other[:, 1] <= edge
            for inside in (below, below[::-1], tuple(~event for event in below)):
                if inside[0].any() and not inside[1].all():
                    assert least_epsilon(inside[0], inside[1]) <= 1.0


@pytest.mark.parametrize("floor", [1e-11, 1e-3, 0.3])
def test_an_attacker_at_the_corners_catches_a_draw_that_is_undercharged(floor: float) -> None:
    design, source = network_map(ONE, epsilon=1.0, floor=floor, concentration=1.0), OpenDPNoise()
    one, other = (
        design.subject.draw(source, ExactTables(1, np.array(counts)), 300 * design.mechanism.tempering, 4_000)[:, 1]
        for counts in ((1, 0), (0, 1))
    )
    assert least_epsilon(one < 0.5, other < 0.5) > 1.0


@pytest.mark.parametrize("counts", [(0, 0), (10**9, 0), (0, 1), (10**9, 10**9)])
def test_no_table_is_told_by_a_warning_or_a_draw_that_does_not_end(counts: tuple[int, int]) -> None:
    for concentration, floor in itertools.product((0.01, 1.0, 1e6), (1e-11, 1e-3, 0.499999)):
        subject = NetworkSubject(schema=ONE, floors=(floor,), concentrations=(concentration,))
        for tempering in (1e-12, 1.0, 1e6):
            drawn = subject.draw(OpenDPNoise(), ExactTables(sum(counts), np.array(counts)), tempering, 200)
            assert np.isfinite(drawn).all()  # a warning would be an error here


def test_releases_of_an_attacked_network_are_protected() -> None:
    release = counts_design(ONE, epsilon=1.0).release(OpenDPNoise(), counted(ONE, ((0,), (1,))))
    assert isinstance(release, NetworkRelease)
    assert release.protected
