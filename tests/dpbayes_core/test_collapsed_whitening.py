"""Where chains start: the mode of the smoothed target, for any noise and any number of rows, or two of them."""

import numpy as np
import pytest

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.samplers.collapsed.arrays import (
    CORRECTING,
    LAPLACE,
    NOISE,
    SMOOTHED,
    TRANSFORM,
    UNKINKING,
    Target,
    work_for,
)
from dpbayes_core.samplers.collapsed.density import log_density
from dpbayes_core.samplers.collapsed.layout import Layout
from dpbayes_core.samplers.collapsed.start import start_of, unshrunk
from dpbayes_core.samplers.collapsed.target import build_target
from dpbayes_core.samplers.collapsed.whitening import Whitening, whiten
from dpbayes_core.samplers.driver import sample
from dpbayes_core.samplers.registry import SAMPLERS
from tests.support.regressions import JOB, REGION, SEX, example, mechanism, schema_of

SCHEMAS = {"x": schema_of("x"), "levels": schema_of(SEX, REGION, JOB), "all": schema_of("x", SEX, "z", REGION)}


def whitened(release: Release) -> tuple[Target, Whitening]:
    layout, schema = Layout.of(release.schema), release.schema
    target, start = start_of(build_target(release, Prior(), layout), layout, Prior(), schema)
    return target, whiten(target, start, unshrunk(target, layout, Prior(), schema))


def slopes_at_the_centre(target: Target, whitening: Whitening) -> Floats:
    parts = target.parts.copy()
    parts[parts[:, NOISE] == LAPLACE, NOISE] = SMOOTHED
    parts[parts[:, TRANSFORM] == UNKINKING, TRANSFORM] = CORRECTING
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


FIRM = Prior(noise_shape=3.0, noise_scale=3e-6, named=(("x", 0.0, 5.0),))  # the slope is within .01 or so


def against_the_prior(slope: float, scale: float) -> Release:
    """Twenty rows whose slope the prior of 0 rules out, unless the noise is many times as large as it ever is."""
    square = 20 * 0.35**2
    values = (0.0, 0.0, square, slope * square, slope**2 * square + 20e-6)
    noise = mechanism("laplace", scale, 5)
    return Release(schema=schema_of("x"), neighbours="replace-one", rows=20, mechanism=noise, values=values)


@pytest.mark.slow
def test_where_prior_and_release_have_a_mode_each_every_other_chain_starts_at_the_second() -> None:
    posterior = sample(against_the_prior(0.5, 0.052), FIRM, sampler="collapsed", draws=200, seed=1)
    near_the_prior, near_the_release = (posterior.draws["x"][chain::2] for chain in (0, 1))
    assert np.abs(near_the_prior).max() < 0.1
    assert near_the_release.min() > 0.3
    assert not posterior.converged, "they never meet, and started at one of them would have looked as one"


@pytest.mark.slow
def test_a_second_mode_that_outweighs_the_first_beyond_doubt_is_where_all_chains_start() -> None:
    release = against_the_prior(0.8, 0.06)
    posterior = sample(release, FIRM, sampler="collapsed", draws=500, seed=1)
    assert posterior.converged
    assert posterior.draws["x"].min() > 0.5
    for value, latent in zip(release.values, posterior.latent.values(), strict=True):
        assert abs(value - latent.mean()) < 12 * 0.06, "at the first mode some entry is 25 scales from its release"


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [1e-3, 5.0, 500.0])
def test_where_prior_and_release_agree_there_is_no_second_mode(scale: float, name: str) -> None:
    for schema in SCHEMAS.values():
        problem = SAMPLERS["collapsed"].prepare(example(schema, 300, name=name, scale=scale), Prior())
        assert problem.second.size == 0
