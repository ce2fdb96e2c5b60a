"""Posterior draws as a mechanism: each draw paid for, no loss below what tempering and oscillation make."""

import json
import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from dpbayes_core.canonical import canonical_json
from dpbayes_core.privacy.accounting import UNITS, limit_units
from dpbayes_core.privacy.mechanisms import PosteriorDrawMechanism, mechanism_from_record
from dpbayes_core.privacy.noise import OpenDPNoise


def mechanism_of_posterior_draw(draws: int = 4) -> PosteriorDrawMechanism:
    return PosteriorDrawMechanism(epsilon=1.0, draws=draws, tempering=0.5, oscillation=2 / draws)


def test_a_posterior_draw_record_survives_canonical_json_and_no_contradiction() -> None:
    mechanism = mechanism_of_posterior_draw()
    record = json.loads(canonical_json(mechanism.to_record()))
    assert mechanism_from_record(record) == mechanism
    for changed in ({"draws": 5}, {"norm": "L1"}, {"tempering": 0.6}, {"epsilon": 0.9}, {"seed": 1}):
        with pytest.raises(ValueError, match="cannot"):
            mechanism_from_record({**record, **changed})


def test_draws_cost_a_bounded_range_each() -> None:
    cost = mechanism_of_posterior_draw(4).cost()
    assert cost.epsilon == UNITS
    assert cost.rho == UNITS // (8 * 4)
    assert mechanism_of_posterior_draw().certified_loss(OpenDPNoise()) == 1.0


def test_what_a_sampler_rounds_is_paid_for() -> None:
    mechanism = mechanism_of_posterior_draw()
    assert mechanism.sampled_tempering == pytest.approx(mechanism.tempering * (1 - 1.2e-7), rel=1e-8)
    left = mechanism.certified_loss(OpenDPNoise()) - 4 * mechanism.sampled_tempering * mechanism.oscillation
    assert left > 1e-7


def worst_rho(loss: float) -> float:
    """The largest divergence over orders, per order, of two laws on two points whose log ratio ranges over `loss`."""
    worst = 0.0
    for first in np.linspace(0.001, 0.999, 500):
        odds = first / (1 - first) * math.exp(loss)
        second = odds / (1 + odds)
        for order in (1.5, 2.0, 4.0, 16.0):
            moment = first**order * second ** (1 - order) + (1 - first) ** order * (1 - second) ** (1 - order)
            worst = max(worst, math.log(moment) / (order - 1) / order)
    return worst


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_rho_of_a_bounded_range_is_never_exceeded_and_nearly_attained(epsilon: float) -> None:
    mechanism = PosteriorDrawMechanism(epsilon=epsilon, draws=1, tempering=1.0, oscillation=epsilon * (1 - 1e-12))
    rho = mechanism.cost().rho / UNITS
    assert 0.8 * rho <= worst_rho(epsilon) <= rho
    assert worst_rho(1.2 * epsilon) > rho  # the check can fail


def test_the_price_at_another_epsilon_keeps_the_number_of_draws() -> None:
    mechanism = mechanism_of_posterior_draw(4)
    cost = mechanism.at(Decimal("0.5"), Decimal("1e-6"))
    assert cost.epsilon == limit_units(0.5)
    assert cost.rho == UNITS // (8 * 4 * 4)


def test_it_adds_no_noise() -> None:
    mechanism = mechanism_of_posterior_draw()
    assert len(mechanism.scales) == len(mechanism.deviations) == 0
    with pytest.raises(ValueError, match="draws parameters instead"):
        mechanism.release(OpenDPNoise(), np.zeros(1))


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"epsilon": math.nan},
        {"draws": 0},
        {"tempering": 0.0},
        {"oscillation": math.inf},
        {"draws": 5},
        {"oscillation": 0.5000001},
    ],
)
def test_draws_that_cost_more_than_stated_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="cannot"):
        replace(mechanism_of_posterior_draw(), **wrong)  # pyright: ignore[reportArgumentType]
