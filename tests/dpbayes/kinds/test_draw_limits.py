"""What pages, plans and commands say that draws cannot be is true of the draws, and comes near what is drawn."""

import math
import re

import numpy as np
import pytest

from dpbayes.kinds.draws.texts import between
from dpbayes.kinds.registry import KINDS
from dpbayes_core.draws.design import DrawDesign, grid_map, network_draws, network_map, tempered
from dpbayes_core.draws.network import NetworkSubject, epsilon_for_floor
from dpbayes_core.draws.regression import RegressionSubject
from dpbayes_core.privacy.noise import SeededNoise
from tests.support.ledger_cases import SCHEMA
from tests.support.networks import network

ROWS, DRAWS = 10**6, 40
THREE, MIXED, MANY = network((2, 2, 2)), network((2, 3), b="a"), network((2,) * 9)

DESIGNS: dict[str, DrawDesign] = {
    "three columns of two levels at epsilon 1": network_draws(THREE, epsilon=1.0),
    "unequal levels": network_draws(MIXED, epsilon=0.2),
    "many draws": network_draws(THREE, epsilon=1.0, draws=20),
    "tempered": network_draws(MIXED, epsilon=1.0, tempering=0.2),
    "people come and go": network_draws(THREE, epsilon=1.0, neighbours="add-remove"),
    "small epsilon": network_draws(MIXED, epsilon=0.001),
    "large epsilon": network_draws(MIXED, epsilon=30.0),
    "a stated floor": network_map(MIXED, epsilon=0.5, floor=0.05),
    "floors of their own": network_map(MIXED, epsilon=0.5, floor={"a": 0.3, "b": 0.001}),
}


def subject_of(design: DrawDesign) -> NetworkSubject:
    assert isinstance(design.subject, NetworkSubject)
    return design.subject


def drawn_where_everybody_is_alike(design: DrawDesign) -> dict[str, np.ndarray]:
    """All probabilities of each node, drawn again and again after a table of one kind of person."""
    statistic, noise = design.statistic(), SeededNoise(5, i_know_this_is_not_private=True)
    exact = statistic.sum(statistic.encode({name: np.zeros(ROWS, int) for name in statistic.columns}), None)
    drawn = np.concatenate([design.release(noise, exact).draws() for _ in range(DRAWS)])
    schema = subject_of(design).schema
    ends = np.cumsum([schema.cells(family) for family in schema.families])[:-1]
    return dict(zip(schema.names, np.split(drawn, ends, axis=1), strict=True))


@pytest.mark.parametrize("name", DESIGNS)
def test_no_draw_is_outside_the_range_that_is_told_and_some_are_at_its_ends(name: str) -> None:
    design = DESIGNS[name]
    told = {
        column: (float(low), float(high))
        for low, high, columns in re.findall(
            r"between ([\d.e-]+) and ([\d.]+)(?: for ((?:(?!between)[\w, ])+))?", between(subject_of(design))
        )
        for column in (re.findall(r"\b[abc]\b", columns) or subject_of(design).schema.names)
    }
    for column, values in drawn_where_everybody_is_alike(design).items():
        low, high = told[column]
        assert (values >= low).all()
        assert (values <= high).all()
        assert values.min() - low < 0.12 * (high - low)  # of which a tenth is what is rounded outwards
        assert high - values.max() < 0.12 * (high - low)


def test_the_range_told_is_that_of_the_release_s_own_definition() -> None:
    assert between(subject_of(DESIGNS["three columns of two levels at epsilon 1"])) == "between 0.458 and 0.542"
    for epsilon, tempering, draws in ((1.0, 1.0, 1), (0.3, 0.5, 4), (6.0, 1.0, 2)):
        design = network_draws(THREE, epsilon=epsilon, tempering=tempering, draws=draws)
        due = 1 / (1 + math.exp(epsilon / (2 * 3 * tempering * draws)))
        assert subject_of(design).floors == pytest.approx((due,) * 3)
        again = epsilon_for_floor(THREE, due, draws=draws, tempering=tempering, neighbours="replace-one")
        assert again == pytest.approx(epsilon)
    needed = epsilon_for_floor(MIXED, 0.01, draws=1, tempering=1, neighbours="add-remove")
    assert max(subject_of(network_draws(MIXED, epsilon=needed, neighbours="add-remove")).floors) == pytest.approx(0.01)


def test_plan_says_the_range_and_what_a_lower_floor_would_take() -> None:
    told = dict(KINDS["posterior-draw"].texts.foresight(network_draws(THREE, epsilon=1.0), 1000))
    assert told["Probabilities"].startswith("between 0.458 and 0.542, whatever the table says")
    assert told["Probabilities down to 0.1"] == "would take epsilon 13.2"
    assert told["Probabilities down to 0.01"] == "would take epsilon 27.6"
    stated = dict(KINDS["map"].texts.foresight(DESIGNS["a stated floor"], 1000))
    assert "0.050" in stated["Probabilities"]
    assert not any("down to" in term for term in stated)


def test_a_ball_and_a_grid_are_said_too_and_many_columns_in_few_words() -> None:
    ball = tempered(RegressionSubject(schema=SCHEMA, radius=0.75, sigma=0.3, prior_precision=1), epsilon=1.0)
    assert "no longer than 0.75" in KINDS["posterior-draw"].texts.limits(ball)
    grid = grid_map(network((2,)), epsilon=1.0, values=(0.1, 0.5, 0.9))
    assert "one of 0.1, 0.5 and 0.9" in KINDS["map"].texts.limits(grid)
    mixed = network_draws(network((2, 3) * 6), epsilon=1.0)
    assert between(subject_of(mixed)).count("and 5 other columns") == 2
    assert "for " not in between(subject_of(network_draws(MANY, epsilon=1.0)))
