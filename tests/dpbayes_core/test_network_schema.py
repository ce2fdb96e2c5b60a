"""A network in public terms: what it is made of, and what is refused with the reason."""

import json

import pytest

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.networks.schema import MOST_CELLS, NetworkSchema
from dpbayes_core.regression.schema import Factor
from tests.support.networks import naive_bayes, network


def test_a_family_is_the_parents_and_the_node_in_the_declared_order() -> None:
    schema = network((2, 3, 4), b="a", c="ba")
    assert schema.families == ((0,), (0, 1), (1, 0, 2))
    assert schema.maximal_families == ((1, 0, 2),)
    assert [schema.cells(family) for family in schema.families] == [2, 6, 24]


def test_probabilities_are_named_by_child_and_parents_last_node_fastest() -> None:
    schema = network((2, 3), b="a")
    assert schema.coefficients[:3] == ("P(a=l0)", "P(a=l1)", "P(b=l0 | a=l0)")
    assert schema.coefficients[-1] == "P(b=l2 | a=l1)"
    assert len(schema.coefficients) == 2 + 6
    assert network((2, 2, 2), c="ab").probabilities(2)[3] == "P(c=l1 | a=l0, b=l1)"


def test_a_schema_survives_its_record_and_is_its_own_key() -> None:
    schema = network((2, 3, 4), b="a", c="ba")
    back = NetworkSchema.from_record(json.loads(canonical_json(schema.to_record())))
    assert back == schema
    assert len({back, schema}) == 1
    assert back != network((2, 3, 4), b="a", c="ab")


@pytest.mark.parametrize(
    ("parents", "reason"),
    [
        ({"a": ("a",)}, "cycle"),
        ({"a": ("b",), "b": ("c",), "c": ("a",)}, "a, b, c stand on a cycle"),
        ({"a": ("d",)}, "d, which is no node"),
        ({"d": ("a",)}, "d, which is no node"),
        ({"a": ("b", "b")}, "named twice"),
    ],
)
def test_edges_that_make_no_network_are_refused(parents: dict[str, tuple[str, ...]], reason: str) -> None:
    nodes = tuple(Factor(name, ("no", "yes")) for name in "abc")
    with pytest.raises(StudyInvalid, match=reason):
        NetworkSchema(nodes, parents)


def test_no_node_and_a_node_given_twice_are_refused() -> None:
    with pytest.raises(StudyInvalid, match="no nodes"):
        NetworkSchema((), {})
    with pytest.raises(StudyInvalid, match="occurs twice"):
        NetworkSchema((Factor("a", ("x", "y")), Factor("a", ("x", "y"))), {})


def test_a_table_above_the_limit_is_refused_and_one_at_it_is_not() -> None:
    nodes = tuple(Factor(f"x{i}", ("no", "yes")) for i in range(21))
    parents = tuple(node.name for node in nodes[:-1])
    with pytest.raises(StudyInvalid, match=f"the table of x20 has more than {MOST_CELLS} cells"):
        NetworkSchema(nodes, {"x20": parents})
    assert NetworkSchema(nodes, {"x20": parents[1:]}).cells(tuple(range(1, 21))) == MOST_CELLS


def test_of_naive_bayes_only_the_class_table_is_contained_in_another() -> None:
    schema = naive_bayes(16)
    assert len(schema.families) == 17
    assert schema.maximal_families == schema.families[1:]
