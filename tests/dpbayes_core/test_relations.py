"""Correlations before any row is read: stated ones stay, the rest is filled in with what can be."""

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.mechanisms import laplace_for
from dpbayes_core.regression.planning.expected_moments import EXPLAINED, Expectation, Expected
from dpbayes_core.regression.planning.relations import (
    UNSTATED,
    Relations,
    explained_by,
    implied_by,
    matrix_of,
    own_shares,
)
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity

THREE = {"a": True, "b": True, "c": True}


def pairs(**stated: float) -> dict[frozenset[str], float]:
    """ab=0.9 is the pair of a and b."""
    return {frozenset(name): value for name, value in stated.items()}


def test_numbers_are_correlated_by_a_quarter_where_nothing_is_stated_and_levels_are_not() -> None:
    found = matrix_of({"a": True, "b": True, "f": False}, "y", UNSTATED)
    assert found == pytest.approx(np.array([[1, 0.25, 0], [0.25, 1, 0], [0, 0, 1]]))


@pytest.mark.parametrize("otherwise", [0.25, 0.85])
@pytest.mark.parametrize("stated", [{"ab": 0.9, "bc": 0.9}, {"ab": -0.8}, {"ab": 0.99, "bc": 0.2}, {"ab": 0.85}])
def test_what_is_stated_stays_and_the_rest_leaves_every_column_something_of_its_own(
    stated: dict[str, float], otherwise: float
) -> None:
    relations = Relations(pairs(**stated), otherwise=otherwise)
    found = matrix_of(THREE, None, relations)
    for pair, value in stated.items():
        assert found["abc".index(pair[0]), "abc".index(pair[1])] == pytest.approx(value)
    implied = implied_by(tuple(THREE), relations)
    assert np.linalg.eigvalsh(found)[0] > 0
    usual = own_shares(np.full((3, 3), otherwise) + (1 - otherwise) * np.eye(3))
    assert (own_shares(found) > np.minimum(usual, own_shares(implied) / 2) - 1e-5).all()


def test_what_the_stated_imply_leaves_other_pairs_related_through_them_alone() -> None:
    found = implied_by(tuple(THREE), Relations(pairs(ab=0.9, bc=0.8)))
    assert found[0, 2] == pytest.approx(0.72, abs=1e-4)
    inverse = np.linalg.inv(implied_by((*THREE, "d"), Relations(pairs(ab=0.9, bc=0.8, cd=-0.5, ad=-0.4))))
    assert np.abs([inverse[0, 2], inverse[1, 3]]).max() < 1e-3


@pytest.mark.parametrize("stated", [{"ab": 0.9, "bc": 0.9, "ac": -0.9}, {"ab": 0.9, "ay": 0.9, "by": -0.5}])
def test_correlations_that_no_columns_have_are_refused(stated: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="no columns have"):
        matrix_of(THREE, "y", Relations(pairs(**stated)))


@pytest.mark.parametrize("otherwise", [0.25, 0.85])
def test_correlations_with_the_response_never_explain_more_than_there_is(otherwise: float) -> None:
    relations = Relations(pairs(ay=0.9, by=0.9, cy=-0.3), otherwise=otherwise)
    found = matrix_of(THREE, "y", relations)
    assert 0.81 <= explained_by(list(THREE), "y", found, relations) < 1


def test_a_chain_of_many_columns_is_filled_in() -> None:
    names = {f"x{k}": True for k in range(12)}
    chain = {frozenset((f"x{k}", f"x{k + 1}")): 0.8 for k in range(11)}
    for otherwise in (0.25, 0.85):
        found = matrix_of(names, "y", Relations(chain, otherwise=otherwise))
        assert np.linalg.eigvalsh(found)[0] > 0
        assert np.diag(found, 1) == pytest.approx(0.8)
        assert own_shares(found).min() > 0.1


def expectation(relations: Relations) -> Expectation:
    schema = RegressionSchema(
        Continuous("y", Bounds(0, 10)),
        (
            Continuous("a", Bounds(0, 1)),
            Factor("f", ("u", "v", "w")),
            Continuous("b", Bounds(0, 1)),
            Factor("s", ("m", "w")),
        ),
    )
    mechanism = laplace_for(regression_sensitivity(schema), epsilon=1.0, grid=20, entries=len(schema.entries))
    guesses = {"y": Expected(5, 2), "a": Expected(0.5, 0.1)}
    return Expectation.of(schema, mechanism, rows=100, expected=guesses, places=schema.entries, relations=relations)


def test_slopes_and_what_they_explain_are_those_of_the_stated_correlations() -> None:
    known = expectation(Relations({frozenset("ay"): 0.6, frozenset("by"): 0.0, frozenset("ab"): 0.5}))
    a, b = np.linalg.solve([[1, 0.5], [0.5, 1]], [0.6, 0.0])
    assert known.slopes[0] == pytest.approx(a * 0.4 / 0.2)
    assert known.slopes[3] == pytest.approx(abs(b) * 0.4 / 0.5)
    assert known.explained == pytest.approx(0.48 + EXPLAINED * 0.52)
    assert expectation(UNSTATED).explained == EXPLAINED


def test_shares_of_levels_are_those_that_are_stated() -> None:
    known = expectation(Relations(shares={"f": (0.5, 0.49, 0.01), "s": (0.9, 0.1)}))
    assert known.means[1:3] == pytest.approx([0.49, 0.01])
    assert known.covariance[1:3, 1:3] == pytest.approx(np.array([[0.2499, -0.0049], [-0.0049, 0.0099]]))
    assert (known.means[4], known.covariance[4, 4]) == pytest.approx((-0.8, 0.36))
