"""What a design is worth before spending, and what probabilities say about records."""

import itertools
import math

import numpy as np
import pytest

from dpbayes_core.draws.design import network_draws
from dpbayes_core.draws.utility import estimate, largest_cell_error, simulated_accuracy, table_noise
from dpbayes_core.networks.design import NetworkDesign, counts_design, fourier_design
from dpbayes_core.networks.marginals import family_tables
from dpbayes_core.networks.prediction import class_probabilities, posterior_means, simulated, tables_of
from dpbayes_core.privacy.noise import SeededNoise
from tests.support.networks import naive_bayes, network

BAYES = naive_bayes(16)
MIXED = network((2, 2, 3), b="a", c="b")
PUBLISHED = counts_design(BAYES, epsilon=1.0, families="all", budget="equal", noise="laplace")


def random_probabilities(schema: object, seed: int = 1) -> np.ndarray:
    generator = np.random.default_rng(seed)
    tables = [generator.gamma(1.0, size=schema.shape(family)) for family in schema.families]  # pyright: ignore
    return posterior_means(schema, tables, (0.05,) * len(tables))  # pyright: ignore[reportArgumentType]


# noise


@pytest.mark.parametrize(
    ("design", "due"),
    [
        (PUBLISHED, 48.083),
        (counts_design(BAYES, epsilon=1.0, families="all", budget="equal"), 48.083),
        (fourier_design(BAYES, epsilon=1.0, noise="laplace"), 39.192),
        (fourier_design(BAYES, epsilon=1.0), 39.192),
    ],
)
def test_a_two_way_cell_of_naive_bayes_has_the_known_deviation(design: NetworkDesign, due: float) -> None:
    assert table_noise(design)[1].deviation == pytest.approx(due, rel=0.01)
    exact = 48.0833 * 64 / 68 * math.sqrt(3) / 2 if design.what == "signed-sums" else 34 * math.sqrt(2)
    assert table_noise(design)[1].deviation == pytest.approx(exact, rel=1e-4)


def test_with_the_published_sensitivity_a_cell_of_signed_sums_would_be_no_better_than_a_count() -> None:
    tight = fourier_design(BAYES, epsilon=1.0, noise="laplace")
    noise_on_all_four = table_noise(tight)[1].deviation * 68 / 64 * math.sqrt(4 / 3)  # the paper adds noise to s_0, too
    assert noise_on_all_four == pytest.approx(48.083, rel=1e-4)


def test_the_expected_error_of_a_laplace_count_is_its_scale() -> None:
    assert table_noise(PUBLISHED)[0].expected_error == pytest.approx(34, rel=1e-9)
    assert table_noise(PUBLISHED)[0].expected_table_error == pytest.approx(68, rel=1e-9)
    assert table_noise(PUBLISHED)[1].expected_table_error == pytest.approx(136, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.2, 3.0, 9.0])
@pytest.mark.parametrize("kind", ["all", "maximal", "fourier", "laplace", "fourier add-remove"])
def test_the_moments_of_a_tables_noise_are_those_of_simulated_releases(epsilon: float, kind: str) -> None:
    schema = network((2, 2, 2), b="a", c="b")
    designs = {
        "all": lambda: counts_design(schema, epsilon=epsilon, families="all"),
        "maximal": lambda: counts_design(schema, epsilon=epsilon),
        "laplace": lambda: counts_design(schema, epsilon=epsilon, noise="laplace", budget="equal"),
        "fourier": lambda: fourier_design(schema, epsilon=epsilon),
        "fourier add-remove": lambda: fourier_design(schema, epsilon=epsilon, neighbours="add-remove"),
    }
    design, source, repeats = designs[kind](), SeededNoise(1, i_know_this_is_not_private=True), 1500
    empty = design.statistic().empty()
    seen = [[table.reshape(-1) for table in family_tables(design.release(source, empty))] for _ in range(repeats)]
    for place, told in enumerate(table_noise(design)):
        noise = np.array([tables[place] for tables in seen])
        error = np.abs(noise).mean(axis=1)
        assert abs(error.mean() - told.expected_error) < 5 * error.std() / math.sqrt(repeats) + 1e-9
        squares = (noise**2).mean(axis=1)
        assert abs(squares.mean() - told.deviation**2) < 5 * squares.std() / math.sqrt(repeats) + 1e-9


def test_the_largest_cell_error_is_a_quantile_that_more_epsilon_lowers() -> None:
    errors = [largest_cell_error(counts_design(BAYES, epsilon=e), repeats=300) for e in (0.5, 1.0, 2.0)]
    assert errors[0] > errors[1] > errors[2] > 0
    alike = counts_design(network((2,)), epsilon=1.0, noise="laplace", budget="equal")
    both = 2 * -math.log(1 - math.sqrt(0.9))  # two Laplace cells of scale 2
    assert largest_cell_error(alike, 0.9, repeats=8000) == pytest.approx(both, rel=0.06)


# accuracy


def test_accuracy_rises_with_epsilon_towards_that_without_privacy() -> None:
    probabilities = random_probabilities(naive_bayes(6), seed=3)
    found = [
        simulated_accuracy(
            counts_design(naive_bayes(6), epsilon=epsilon),
            naive_bayes(6),
            probabilities,
            "class",
            rows=200,
            repeats=20,
        )
        for epsilon in (0.05, 1.0, 1e4)
    ]
    assert found[0].private < found[1].private <= found[2].private + 0.02
    assert found[2].private == pytest.approx(found[2].without_privacy, abs=1e-3)
    assert all(accuracy.private_error < 0.1 for accuracy in found)


def test_draws_have_an_accuracy_as_well_and_strangers_have_none() -> None:
    schema = naive_bayes(3)
    accuracy = simulated_accuracy(
        network_draws(schema, epsilon=20.0), schema, random_probabilities(schema), "class", rows=300, repeats=5
    )
    assert 0.3 < accuracy.private <= 1
    with pytest.raises(ValueError, match="not of a network"):
        estimate(object(), (1.0,))


# prediction


def joint(schema: object, probabilities: np.ndarray) -> np.ndarray:
    """The whole table of a small network."""
    table = np.ones(schema.levels)  # pyright: ignore
    for own, family in zip(tables_of(schema, probabilities), schema.families, strict=True):  # pyright: ignore
        for cell in itertools.product(*(range(count) for count in schema.levels)):  # pyright: ignore
            table[cell] *= own[tuple(cell[node] for node in family)]
    return table


@pytest.mark.parametrize("node", ["a", "b", "c"])
def test_class_probabilities_are_the_joint_given_all_others(node: str) -> None:
    draws = np.stack([random_probabilities(MIXED, seed) for seed in range(4)])
    records = np.array(list(itertools.product(range(2), range(2), range(3))))
    found = class_probabilities(MIXED, draws, node, records)
    assert found.shape == (4, 12, MIXED.levels[MIXED.names.index(node)])
    place = MIXED.names.index(node)
    for draw, own in zip(draws, found, strict=True):
        whole = joint(MIXED, draw)
        conditional = whole / whole.sum(axis=place, keepdims=True)
        for record, given in zip(records, own, strict=True):
            line = tuple(slice(None) if at == place else code for at, code in enumerate(record))
            assert given == pytest.approx(conditional[line], abs=1e-12)
    assert class_probabilities(MIXED, draws[0], node, records) == pytest.approx(found[0])


def test_a_record_that_cannot_be_says_nothing_about_its_class() -> None:
    schema = network((2, 2), b="a")
    certain = np.array([0.5, 0.5, 1.0, 0.0, 1.0, 0.0])
    assert class_probabilities(schema, certain, "a", np.array([[0, 1], [0, 0]])).tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_simulated_records_follow_the_network() -> None:
    probabilities = random_probabilities(MIXED, 7)
    records = simulated(MIXED, probabilities, 50_000, np.random.default_rng(1))
    seen = np.zeros(MIXED.levels)
    np.add.at(seen, tuple(records.T), 1 / 50_000)
    expected = joint(MIXED, probabilities)
    assert np.abs(seen - expected).max() < 5 * math.sqrt(0.25 / 50_000)
    turned = network((3, 2), a="b")  # a parent declared after its child
    other = simulated(turned, random_probabilities(turned, 2), 50_000, np.random.default_rng(1))
    counts = np.zeros((3, 2))
    np.add.at(counts, tuple(other.T), 1 / 50_000)
    assert np.abs(counts - joint(turned, random_probabilities(turned, 2))).max() < 5 * math.sqrt(0.25 / 50_000)
