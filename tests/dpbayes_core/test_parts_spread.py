"""Whether released numbers contradict one residual sd for several releases: rarely where it is one, else surely."""

from dataclasses import replace

import numpy as np
import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.mechanisms import gaussian_for, laplace_for
from dpbayes_core.privacy.noise import SeededNoise
from dpbayes_core.regression.moments import grid_for
from dpbayes_core.regression.parts_spread import SpreadCheck, spread_check
from dpbayes_core.regression.release import RegressionDesign, Release
from dpbayes_core.regression.schema import Continuous, Covariate, Factor, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity, released_entries

BOX = Bounds(-1, 1)
CENTRES = np.array([[-0.4, 0.4], [0.4, -0.4], [-0.2, -0.2], [0.2, 0.2]])
LEVELS = (Factor("sex", ("f", "m")), Factor("region", ("a", "b", "c")))


def schema_of(*more: Covariate) -> RegressionSchema:
    return RegressionSchema(Continuous("y", BOX), (Continuous("a", BOX), Continuous("b", BOX), *more))


def parts(
    sds: tuple[float, ...], rows: int, seed: int, *, law: str = "normal", noise: str = "gaussian", hidden: bool = False
) -> list[Release]:
    """Offices whose covariates differ, of one regression at epsilon 1."""
    random, schema = np.random.default_rng(seed), replace(schema_of(*LEVELS), cases="complete" if hidden else "all")
    moved = regression_sensitivity(schema)
    entries = len(released_entries(schema))
    mechanism = (
        gaussian_for(moved, grid=grid_for(rows), epsilon=1, delta=1e-6)
        if noise == "gaussian"
        else laplace_for(moved, grid=grid_for(rows), epsilon=1, entries=entries)
    )
    design, found = RegressionDesign(schema=schema, mechanism=mechanism), list[Release]()
    for sd, centre in zip(sds, CENTRES, strict=False):
        x = np.clip(centre + 0.25 * random.normal(size=(rows, 2)), -1, 1)
        sex, region = random.integers(0, 2, rows), random.integers(0, 3, rows)
        residuals = {"normal": random.normal(size=rows), "t3": random.standard_t(3, rows) / np.sqrt(3)}
        residuals["t5"] = random.standard_t(5, rows) / np.sqrt(5 / 3)
        y = np.clip(0.05 + x @ [0.4, -0.3] + 0.1 * sex - 0.1 * (region == 1) + sd * residuals[law], -1, 1)
        statistic = design.statistic()
        sums = statistic.sum(statistic.encode({"a": x[:, 0], "b": x[:, 1], "sex": sex, "region": region, "y": y}))
        found.append(design.release(SeededNoise(int(random.integers(2**31)), i_know_this_is_not_private=True), sums))
    return found


def tried(*arguments: object, **named: object) -> SpreadCheck:
    found = spread_check(parts(*arguments, **named))  # pyright: ignore[reportArgumentType]
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("law", "noise", "hidden"),
    [
        ("normal", "gaussian", False),
        ("t5", "gaussian", False),
        ("t3", "gaussian", True),
        ("normal", "laplace", True),
    ],
)
def test_where_it_is_one_the_alarm_is_rare(law: str, noise: str, hidden: bool) -> None:
    found = [tried((0.2,) * 4, 20_000, seed, law=law, noise=noise, hidden=hidden) for seed in range(60)]
    print(law, noise, "least probability", min(one.probability for one in found))
    assert sum(one.alarm for one in found) <= 3


@pytest.mark.parametrize(("noise", "hidden"), [("gaussian", False), ("gaussian", True), ("laplace", False)])
def test_where_it_differs_by_half_the_alarm_is_raised(noise: str, hidden: bool) -> None:
    for seed in range(10):
        found = tried((0.2, 0.3, 0.2, 0.2), 40_000, seed, noise=noise, hidden=hidden)
        assert found.alarm
        assert found.least == pytest.approx(0.2, abs=0.05)
        assert found.most == pytest.approx(0.3, abs=0.05)


def test_differences_that_bounds_alone_allow_are_seen_where_tails_are_no_heavier_than_said() -> None:
    """What an earlier version, which knew of residuals only their bounds, could not tell from chance."""
    for seed in range(10):
        offices = parts((0.12, 0.135, 0.12, 0.12), 60_000, seed)
        found, earlier = spread_check(offices), spread_check(offices, None)
        assert found is not None
        assert earlier is not None
        assert earlier.probability > 1e-3
        assert found.probability < 1e-3
        assert "kurtosis" in found.to_record()
        assert "kurtosis" not in earlier.to_record()


def test_noise_of_a_residual_variance_is_as_large_as_said() -> None:
    """The same rows released again and again: the variance of what is compared is the noise's alone."""
    from dpbayes_core.regression import parts_spread

    slopes = np.array([0.4, -0.3, 0.05, -0.1, 0.0])
    for hidden in (False, True):
        (part,) = parts((0.2,), 5000, 3, hidden=hidden)
        drawn = np.random.default_rng(1).normal(size=(2000, len(part.values))) * part.mechanism.scales
        again = [replace(part, values=tuple(np.array(part.values) + one)) for one in drawn]
        values = [parts_spread._variance(one, slopes, 0.01)[0] for one in again]  # pyright: ignore[reportPrivateUsage]
        _, said = parts_spread._variance(part, slopes, 0.01)  # pyright: ignore[reportPrivateUsage]
        assert float(np.std(values)) == pytest.approx(said, rel=0.08)


def test_where_noise_hides_the_covariates_nothing_is_told() -> None:
    assert spread_check(parts((0.2, 0.5, 0.2, 0.2), 200, 1)) is None
