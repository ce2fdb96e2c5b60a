"""One record against a network's tables and signed sums: every pair of small tables, every pair of records."""

import itertools
from collections import Counter

import numpy as np
import pytest

from dpbayes_core.networks.release import What, released_nodes
from dpbayes_core.networks.schema import NetworkSchema
from dpbayes_core.networks.sensitivity import ADD_REMOVE, most_odd, signs_move, table_move
from dpbayes_core.networks.tables import FamilyTables
from dpbayes_core.privacy.sensitivity import REPLACE_ONE
from tests.support.networks import naive_bayes, network

Record = tuple[int, ...]

SMALL = {
    "one binary node": network((2,)),
    "one node of four levels": network((4,)),
    "chain": network((2, 3), b="a"),
    "two apart": network((2, 3)),
    "collider": network((2, 2, 2), c="ab"),
    "naive Bayes": network((2, 2, 3), b="a", c="a"),
}
BINARY = {
    "one node": network((2,)),
    "chain": network((2, 2), b="a"),
    "two apart": network((2, 2)),
    "collider": network((2, 2, 2), c="ab"),
    "naive Bayes": network((2, 2, 2, 2), b="a", c="a", d="a"),
    "triangle": network((2, 2, 2), b="a", c="ab"),
}
RELATIONS = (REPLACE_ONE, ADD_REMOVE)


def records(schema: NetworkSchema) -> list[Record]:
    return list(itertools.product(*(range(count) for count in schema.levels)))


def sums(schema: NetworkSchema, what: What, neighbours: str, rows: tuple[Record, ...]) -> np.ndarray:
    """What would be released of these rows, without noise, by a plain count."""
    parts = list[int]()
    for nodes in released_nodes(schema, what, neighbours):
        if what == "signed-sums":
            parts.append(sum((-1) ** sum(row[node] for node in nodes) for row in rows))
        else:
            seen = Counter(tuple(row[node] for node in nodes) for row in rows)
            parts += [seen[cell] for cell in itertools.product(*(range(n) for n in schema.shape(nodes)))]
    return np.array(parts)


def pairs(schema: NetworkSchema, neighbours: str, rows: int) -> list[tuple[tuple[Record, ...], tuple[Record, ...]]]:
    """Every pair of neighbouring tables of that many rows, order set aside."""
    every = records(schema)
    found = list[tuple[tuple[Record, ...], tuple[Record, ...]]]()
    for rest in itertools.combinations_with_replacement(every, rows - 1):
        for one in every:
            others = [(*rest, other) for other in every] if neighbours == REPLACE_ONE else [rest]
            found += [((*rest, one), other) for other in others]
    return found


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("what", ["all-families", "maximal-families"])
def test_no_pair_of_tables_is_further_apart_than_declared_and_one_is_as_far(
    name: str, neighbours: str, what: What
) -> None:
    schema = SMALL[name]
    released = released_nodes(schema, what, neighbours)
    known = {}
    for rows in (1, 2, 3):
        apart = list[np.ndarray]()
        for one, other in pairs(schema, neighbours, rows):
            for table in (one, other):
                known.setdefault(table, sums(schema, what, neighbours, table))
            apart.append(np.abs(known[one] - known[other]))
        moves = np.array(apart)
        assert moves.sum(axis=1).max() == len(released) * table_move(neighbours)  # whatever the levels
        assert moves.max() == 1
        ends = np.cumsum([schema.cells(nodes) for nodes in released])[:-1]
        for own in np.split(moves, ends, axis=1):
            assert own.sum(axis=1).max() == table_move(neighbours)  # table by table: shares of epsilon may differ


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("name", BINARY)
def test_no_pair_moves_the_signed_sums_further_than_declared_and_one_does(name: str, neighbours: str) -> None:
    schema = BINARY[name]
    released = released_nodes(schema, "signed-sums", neighbours)
    for rows in (1, 2):
        reached, largest = 0, 0
        for one, other in pairs(schema, neighbours, rows):
            apart = np.abs(
                sums(schema, "signed-sums", neighbours, one) - sums(schema, "signed-sums", neighbours, other)
            )
            reached, largest = max(reached, int(apart.sum())), max(largest, int(apart.max()))
        assert reached == signs_move(released, neighbours)
        assert largest == table_move(neighbours)


def test_naive_bayes_of_sixteen_features_has_the_known_sensitivities() -> None:
    schema = naive_bayes(16)
    released = released_nodes(schema, "signed-sums", REPLACE_ONE)
    assert len(released) == 33  # and the number of rows, which is public
    assert signs_move(released, REPLACE_ONE) == 64  # the paper counts the set of no node, too: 68
    assert signs_move(released_nodes(schema, "signed-sums", ADD_REMOVE), ADD_REMOVE) == 34


def test_the_most_odd_sets_are_those_of_plain_enumeration() -> None:
    generator = np.random.default_rng(3)
    for _ in range(30):
        chosen = {tuple(sorted(set(generator.integers(0, 7, 3).tolist()))) for _ in range(12)}
        plain = max(
            sum(len(set(nodes) & set(z)) % 2 for nodes in chosen)
            for size in range(8)
            for z in itertools.combinations(range(7), size)
        )
        assert most_odd(tuple(chosen)) == plain


def test_above_twenty_nodes_the_bound_is_all_sums_and_nothing_of_exponential_size_is_made() -> None:
    schema = naive_bayes(199)
    released = released_nodes(schema, "signed-sums", REPLACE_ONE)
    assert len(released) == 2 * 199 + 1
    assert signs_move(released, REPLACE_ONE) == 2 * (2 * 199 + 1)


@pytest.mark.parametrize("name", SMALL)
def test_the_pass_counts_what_a_plain_count_does_whatever_the_split(name: str) -> None:
    schema, generator = SMALL[name], np.random.default_rng(5)
    codes = np.stack([generator.integers(0, count, 5000) for count in schema.levels], axis=1)
    statistic = FamilyTables(schema)
    columns = {node: codes[:, place] for place, node in enumerate(schema.names)}
    whole = statistic.sum(statistic.encode(columns), None)
    parts = statistic.empty()
    for cut in np.split(generator.permutation(5000), [7, 7, 4100]):
        parts += statistic.sum(statistic.encode({name: column[cut] for name, column in columns.items()}), None)
    assert parts == whole
    rows = tuple(map(tuple, codes.tolist()))
    for what in ("all-families", "maximal-families"):
        released = released_nodes(schema, what, ADD_REMOVE)
        assert np.array_equal(statistic.tables(whole, released), sums(schema, what, ADD_REMOVE, rows))
    if schema.binary:
        released = released_nodes(schema, "signed-sums", ADD_REMOVE)
        assert np.array_equal(statistic.signs(whole, released), sums(schema, "signed-sums", ADD_REMOVE, rows))


def test_a_code_outside_the_public_levels_counts_as_the_first_level() -> None:
    schema = network((2, 3), b="a")
    statistic = FamilyTables(schema)
    wild = {"a": np.array([0, 1, 2, -1, 10**9]), "b": np.array([0, 2, 3, -5, 1])}
    tame = {"a": np.array([0, 1, 0, 0, 0]), "b": np.array([0, 2, 0, 0, 1])}
    assert statistic.sum(statistic.encode(wild), None) == statistic.sum(statistic.encode(tame), None)
    for dtype in (np.int8, np.int16, np.int64, np.uint8):
        typed = {name: column.astype(dtype) for name, column in tame.items()}
        assert statistic.sum(statistic.encode(typed), None) == statistic.sum(statistic.encode(tame), None)


def test_no_rows_make_empty_tables_that_travel_as_arrays() -> None:
    statistic = FamilyTables(network((2, 3), b="a"))
    none = statistic.sum(statistic.encode({"a": np.array([], int), "b": np.array([], int)}), None)
    assert none == statistic.empty()
    one = statistic.sum(statistic.encode({"a": np.array([1]), "b": np.array([2])}), None)
    assert type(one).from_arrays(one.to_arrays()) == one != none
    assert "withheld" in repr(one)
