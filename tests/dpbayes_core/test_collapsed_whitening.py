"""Where chains start: the mode of the smoothed target, for any noise and any number of rows."""

import numpy as np
import pytest
from numpy.typing import NDArray

from dpbayes_core.priors import Prior
from dpbayes_core.release import Release
from dpbayes_core.samplers.collapsed_density import log_density
from dpbayes_core.samplers.flat import BENT, KINKED, LAPLACE, NOISE, SMOOTHED, STEADIED, Target, work_for
from dpbayes_core.samplers.layout import Layout
from dpbayes_core.samplers.reference import referred
from dpbayes_core.samplers.target import build_target
from dpbayes_core.samplers.whitening import Whitening, whiten
from dpbayes_core.schema import RegressionSchema
from tests.support.regressions import JOB, REGION, SEX, example, mechanism, schema_of

Floats = NDArray[np.float64]

SCHEMAS = {"x": schema_of("x"), "levels": schema_of(SEX, REGION, JOB), "all": schema_of("x", SEX, "z", REGION)}


def whitened(release: Release) -> tuple[Target, Whitening]:
    layout, schema = Layout.of(release.schema), release.schema
    target, start = referred(build_target(release, Prior(), layout), layout, Prior(), schema)
    return target, whiten(target, start)


def slopes_at_the_centre(target: Target, whitening: Whitening) -> Floats:
    parts = target.parts.copy()
    parts[parts[:, NOISE] == LAPLACE, NOISE] = SMOOTHED
    parts[parts[:, BENT] == KINKED, BENT] = STEADIED
    gradient = np.zeros(whitening.centre.size)
    smooth = target._replace(parts=parts)
    assert np.isfinite(log_density(whitening.centre, smooth, work_for(target), gradient))
    return whitening.stretch[0].T @ gradient


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [1e-3, 5.0, 500.0])
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_the_centre_is_a_mode_whatever_the_noise(schema: RegressionSchema, scale: float, name: str) -> None:
    for rows in (schema.m + 1, 300, 20_000):
        target, whitening = whitened(example(schema, rows, name=name, scale=scale))
        assert np.abs(slopes_at_the_centre(target, whitening)).max() < 1e-2, rows


def test_a_hundred_million_rows_are_no_harder_than_a_few() -> None:
    small = example(schema_of("x", SEX), 1000, scale=4.0)
    large = Release(
        schema=small.schema,
        neighbours="replace-one",
        rows=100_000_000,
        mechanism=mechanism("gaussian", 4.0, len(small.values)),
        values=tuple(1e5 * value for value in small.values),
    )
    target, whitening = whitened(large)
    assert np.abs(slopes_at_the_centre(target, whitening)).max() < 0.05


def test_noisy_shares_outside_the_simplex_still_give_a_start() -> None:
    schema = schema_of(REGION)
    made = example(schema, 40, scale=1.0)
    impossible = Release(
        schema=schema,
        neighbours="replace-one",
        rows=40,
        mechanism=mechanism("laplace", 60.0, len(made.values)),
        values=(-80.0, 300.0, -5.0, *made.values[3:]),
    )
    target, whitening = whitened(impossible)
    assert np.isfinite(slopes_at_the_centre(target, whitening)).all()
