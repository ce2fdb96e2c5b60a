"""Noise on further statistics of one release: its cost is added, its share is kept, and it cannot be left out."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.accounting import UNITS, limit_units
from dpbayes_core.privacy.conversion import cap_rho_units, largest_rho
from dpbayes_core.privacy.mechanisms import GaussianMechanism, LaplaceMechanism, gaussian_for, laplace_for
from dpbayes_core.privacy.noise import SeededNoise
from dpbayes_core.regression.release import RegressionDesign, Release
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from dpbayes_core.regression.sensitivity.fourth import fourth_sensitivity

BOX = Bounds(-1, 1)
SCHEMA = RegressionSchema(
    Continuous("y", BOX), (Continuous("a", BOX), Continuous("b", BOX), Factor("t", ("no", "yes")))
)
NOISE = SeededNoise(1, i_know_this_is_not_private=True)
SMALL = Decimal("1e-6")


def gaussian(rho: float = 0.04, other: float = 0.01, relation: str = "replace-one", most: int = 1) -> GaussianMechanism:
    first = gaussian_for(regression_sensitivity(SCHEMA, relation, most), rho=rho, grid=20)
    return replace(first, beside=gaussian_for(fourth_sensitivity(SCHEMA, relation, most), rho=other, grid=20))


def laplace(relation: str = "replace-one", most: int = 1) -> LaplaceMechanism:
    parts = regression_sensitivity(SCHEMA, relation, most), fourth_sensitivity(SCHEMA, relation, most)
    first, other = (
        laplace_for(one, epsilon=e, grid=20, entries=len(one.weights)) for one, e in zip(parts, (0.4, 0.1), strict=True)
    )
    return replace(first, beside=other)


def released(mechanism: GaussianMechanism | LaplaceMechanism, relation: str = "replace-one", most: int = 1) -> Release:
    design = RegressionDesign(schema=SCHEMA, mechanism=mechanism, neighbours=relation, max_rows_per_unit=most)
    statistic, generator = design.statistic(), np.random.default_rng(2)
    numbers = {name: generator.uniform(-1, 1, 500) for name in "yab"}
    exact = statistic.sum(statistic.encode(numbers | {"t": generator.integers(0, 2, 500)}))
    assert type(exact).from_arrays(exact.to_arrays()) == exact
    assert exact + statistic.empty() == exact
    return design.release(NOISE, exact)  # type: ignore[arg-type]


def test_the_costs_of_both_are_charged() -> None:
    assert gaussian().cost().epsilon is None
    assert gaussian().cost().rho == limit_units(0.04) + limit_units(0.01)
    both, first = laplace(), replace(laplace(), beside=None)
    assert both.cost().epsilon == limit_units(0.4) + limit_units(0.1)
    assert both.beside is not None
    assert both.cost().rho == first.cost().rho + both.beside.cost().rho


def test_at_another_epsilon_each_keeps_its_share_and_no_more_is_charged() -> None:
    for epsilon in map(Decimal, ("0.003", "0.1", "1", "7.7")):
        room = cap_rho_units(float(epsilon), 1e-6)
        assert 0.999 * room <= gaussian().at(epsilon, SMALL).rho <= room
        pure = laplace().restated(epsilon)
        assert isinstance(pure.beside, LaplaceMechanism)
        assert pure.epsilon == pytest.approx(4 * pure.beside.epsilon)
        charged = pure.cost().epsilon
        assert charged is not None
        assert 0 <= limit_units(epsilon) - charged <= UNITS * 1e-12


def test_the_epsilon_that_is_shown_is_that_of_both_together() -> None:
    whole = largest_rho(Decimal(1), SMALL) * (1 - 1e-12)
    both = replace(gaussian(0.8 * whole, 0.2 * whole), epsilon=1.0, delta=1e-6)
    alone = replace(both, beside=None)
    assert both.exact_epsilon is not None
    assert alone.exact_epsilon is not None
    assert alone.exact_epsilon < both.exact_epsilon < 1
    as_one = gaussian_for(regression_sensitivity(SCHEMA), epsilon=Decimal(1), delta=SMALL, grid=20)
    assert both.exact_epsilon == pytest.approx(as_one.exact_epsilon, rel=1e-6)  # a sum of two is one of their rho


@pytest.mark.parametrize(("relation", "most"), [("replace-one", 1), ("replace-one", 3), ("add-remove", 1)])
def test_both_parts_are_released_read_back_and_held_to_their_sensitivity(relation: str, most: int) -> None:
    for make in (lambda: gaussian(relation=relation, most=most), lambda: laplace(relation, most)):
        release = released(make(), relation, most)
        assert release.protected
        assert Release.from_record(release.to_record()) == release
        assert release.fourth is not None
        assert len(release.fourth.moments) == len(release.fourth.entries) == len(release.fourth.scales)
        plain = released(replace(make(), beside=None), relation, most)
        assert plain.fourth is None
        assert plain.protected
        assert len(plain.values) == len(release.values)
        assert plain.digest != release.digest


def test_a_part_that_is_left_out_or_too_quiet_is_found() -> None:
    release = released(gaussian())
    assert not replace(release, higher=()).protected
    assert not replace(release, higher=release.higher[1:]).protected
    assert not replace(release, mechanism=replace(gaussian(), beside=None)).protected
    weak = gaussian()
    assert isinstance(weak.beside, GaussianMechanism)
    quiet = replace(weak, beside=replace(weak.beside, sensitivity=weak.beside.sensitivity * 0.9))
    assert not replace(release, mechanism=quiet).protected
    several = replace(released(gaussian(most=3), most=3), mechanism=replace(gaussian(most=3), beside=weak.beside))
    assert not several.protected


def test_a_release_without_the_statistic_for_its_noise_is_not_protected() -> None:
    design = RegressionDesign(schema=SCHEMA, mechanism=gaussian())
    exact = RegressionDesign(schema=SCHEMA, mechanism=replace(gaussian(), beside=None)).statistic().empty()
    assert not design.release(NOISE, exact).protected


def test_second_moments_are_those_of_a_release_without_the_others() -> None:
    alone, both = (
        RegressionDesign(schema=SCHEMA, mechanism=made).statistic()
        for made in (replace(gaussian(), beside=None), gaussian())
    )
    columns = {name: np.linspace(-1, 1, 300) ** power for power, name in enumerate("yab", 1)} | {"t": np.ones(300, int)}
    assert both.sum(both.encode(columns)).second == alone.sum(alone.encode(columns))  # type: ignore[union-attr]
    assert both.columns == alone.columns


def test_records_that_contradict_themselves_are_refused() -> None:
    record = gaussian().to_record()
    record["beside"] = {**record["beside"], "scale": record["beside"]["scale"] / 2}
    with pytest.raises(ValueError, match="contradict"):
        GaussianMechanism.from_record(record)
    assert "beside" not in replace(gaussian(), beside=None).to_record()
    with pytest.raises(ValueError, match="exceeds"):
        replace(gaussian_for(regression_sensitivity(SCHEMA), epsilon=1.0, delta=1e-6, grid=20), beside=gaussian())
