"""What a report says of a regression is true of its form."""

from dataclasses import replace

import numpy as np
import pytest

from dpbayes.kinds.counted import Counted
from dpbayes.kinds.regression.texts import RegressionTexts
from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.mechanisms import gaussian_for
from dpbayes_core.privacy.noise import SeededNoise
from dpbayes_core.regression.ball import Ball
from dpbayes_core.regression.release import RegressionDesign, Release
from dpbayes_core.regression.schema import INTERCEPT, SIGMA, Continuous, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from dpbayes_core.regression.sensitivity.fourth import fourth_sensitivity

TELLING = RegressionTexts()
COLUMNS = (Continuous("age", Bounds(16, 80)), Continuous("rank", Bounds(-2, 2)))


def released(schema: RegressionSchema, *, fourth: bool) -> Release:
    noise = gaussian_for(regression_sensitivity(schema), rho=0.1, grid=20)
    if fourth:
        noise = replace(noise, beside=gaussian_for(fourth_sensitivity(schema), rho=0.02, grid=20))
    design = RegressionDesign(schema=schema, mechanism=noise)
    statistic = design.statistic()
    columns = {name: np.linspace(-3, 70, 100) for name in ("age", "rank", "pay")}
    exact = statistic.sum(statistic.encode(columns))
    return design.release(SeededNoise(1, i_know_this_is_not_private=True), exact)


@pytest.mark.parametrize("fourth", [False, True])
@pytest.mark.parametrize("ball", [None, Ball(0.9, 0.5)])
@pytest.mark.parametrize("intercept", [True, False])
def test_a_report_speaks_of_the_form_that_was_released(intercept: bool, ball: Ball | None, fourth: bool) -> None:
    release = released(RegressionSchema(Continuous("pay", Bounds(0, 10)), COLUMNS, intercept, ball), fourth=fourth)
    assert ("intercept" in TELLING.model(release)) == intercept
    assert (INTERCEPT in TELLING.meanings(release)) == intercept
    shown = [name for group in TELLING.groups(release, release.schema.coefficients) for name in group.names]
    assert set(shown) == {*release.schema.coefficients, SIGMA}
    noise, caveats = " ".join(TELLING.noise(release, Counted("row", 1))), " ".join(TELLING.caveats(release))
    assert ("divided by the size" in noise) == (not intercept)
    assert ("no intercept" in caveats) == (not intercept)
    assert ("shrunk to a length of at most 0.9 " in noise) == ("shrunk rows" in caveats) == (ball is not None)
    pairs = dict(TELLING.noise_pairs(release))
    assert ("three and four covariates" in noise) == ("Third and fourth moments" in pairs) == fourth
    assert len(TELLING.lines(release)) == len(release.values)
