"""Centre, scale and clipped mean: each part exactly priced, every part private whatever the values."""

import json
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from dpbayes_core.canonical import canonical_json
from dpbayes_core.privacy.accounting import UNITS, limit_units
from dpbayes_core.privacy.mechanisms.centre_scale import CELLS, MEAN_FROM, POINTS, UNIT, CentreScaleMechanism
from dpbayes_core.privacy.noise import OpenDPNoise


def mechanism_of_centre_scale(epsilon: float = 1.0, values: int = 1000) -> CentreScaleMechanism:
    return CentreScaleMechanism(epsilon=epsilon, values=values)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("values", [100, 1000])
def test_a_record_survives_and_the_certified_loss_is_charged(epsilon: float, values: int) -> None:
    mechanism = mechanism_of_centre_scale(epsilon, values)
    record = json.loads(canonical_json(mechanism.to_record()))
    assert CentreScaleMechanism.from_record(record) == mechanism
    with pytest.raises(ValueError, match="cannot read"):
        CentreScaleMechanism.from_record({**record, "scale": 1.0})
    certified, charged = Fraction(mechanism.certified_loss(OpenDPNoise())) * UNITS, mechanism.cost().epsilon
    assert charged == limit_units(epsilon)
    assert charged * (1 - Fraction(1, 10**13)) <= certified <= charged
    assert mechanism.at(Decimal("0.2"), Decimal("1e-6")) == mechanism_of_centre_scale(0.2, values).cost()


def test_a_mean_follows_where_it_is_worth_its_share() -> None:
    assert mechanism_of_centre_scale(MEAN_FROM / 1000).entries == 3
    assert mechanism_of_centre_scale(MEAN_FROM / 1000 - 1e-6).entries == 2


def test_one_subset_moves_the_clipped_sum_by_at_most_its_sensitivity_and_some_by_all_of_it() -> None:
    mechanism, generator = mechanism_of_centre_scale(values=5), np.random.default_rng(2)
    worst = 0
    for cell in (0, 100, 400, CELLS - 1):
        locations = generator.integers(0, POINTS, (20, 5))
        for centre in (0, int(generator.integers(0, POINTS)), POINTS - 1):
            for row in locations:
                base = mechanism.clipped_sum(row, centre, cell)
                for other in (0, POINTS - 1, centre):
                    moved = row.copy()
                    moved[0] = other
                    worst = max(worst, abs(mechanism.clipped_sum(moved, centre, cell) - base))
    assert worst == 2 * UNIT


def test_the_released_centre_and_scale_are_near_the_middle() -> None:
    generator = np.random.default_rng(1)
    mechanism = mechanism_of_centre_scale()
    locations = np.clip(POINTS // 2 + generator.normal(0, 1e9, 1000), 0, POINTS - 1).astype(np.int64)
    cells = np.clip(300 + generator.normal(0, 1, 1000), 0, CELLS - 1).astype(np.int64)
    centre, cell, _ = mechanism.release(OpenDPNoise(), np.stack([locations, cells])).tolist()
    assert abs(centre - POINTS // 2) < 1e9
    assert abs(cell - 300) <= 3


def test_any_values_of_the_grids_can_be_released() -> None:
    mechanism, noise = mechanism_of_centre_scale(), OpenDPNoise()
    for location in (0, POINTS - 1):
        for cell in (0, CELLS - 1):
            values = np.stack([np.full(1000, location), np.full(1000, cell)]).astype(np.int64)
            assert len(mechanism.release(noise, values)) == 3


def test_what_is_off_the_grids_is_refused() -> None:
    mechanism, noise = mechanism_of_centre_scale(values=4), OpenDPNoise()
    good = np.zeros((2, 4), dtype=np.int64)
    for bad in (good[:1], good - 1, np.full((2, 4), CELLS, dtype=np.int64), good.astype(np.float64)):
        with pytest.raises(ValueError, match="cannot draw medians"):
            mechanism.release(noise, bad)
    for epsilon, values in ((0.0, 10), (math.inf, 10), (1.0, 1)):
        with pytest.raises(ValueError, match="cannot draw centre and scale"):
            mechanism_of_centre_scale(epsilon, values)
