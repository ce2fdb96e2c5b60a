"""Parts that are alike: coordinates relative to the best known one, and the stretch that knows what couples them."""

import numpy as np
import pytest

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.pool import Evidence, pooled
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.schema import Covariate
from dpbayes_core.samplers.collapsed import whitening
from dpbayes_core.samplers.collapsed.arrays import REFERENCE, Target, work_for
from dpbayes_core.samplers.collapsed.density import log_density
from dpbayes_core.samplers.collapsed.layout import Layout
from dpbayes_core.samplers.collapsed.sampler import CollapsedProblem
from dpbayes_core.samplers.collapsed.start import start_of
from dpbayes_core.samplers.collapsed.target import build_target
from dpbayes_core.samplers.collapsed.whitened_space import Stretch, stretched, stretched_back
from dpbayes_core.samplers.registry import SAMPLERS
from tests.support.regressions import JOB, SEX, example, schema_of

NAMES = tuple("abcde")


def parts(*sizes: int, scale: float, name: str = "gaussian", columns: tuple[Covariate | str, ...] = NAMES) -> Evidence:
    return pooled(
        [example(schema_of(*columns), rows, name=name, scale=scale, seed=seed) for seed, rows in enumerate(sizes)],
        alike=True,
    )


PRIORS = {"in residual sds": Prior(), "independent of sigma": IndependentPrior()}


def prepared(evidence: Evidence, prior: Prior = PRIORS["in residual sds"]) -> tuple[Target, CollapsedProblem]:
    layout, schema = Layout.of(evidence.schema), evidence.schema
    target, _ = start_of(build_target(evidence, prior, layout), layout, prior, schema)
    return target, SAMPLERS["collapsed"].prepare(evidence, prior)


def stretch_of(problem: CollapsedProblem) -> Stretch:
    blocks, reference = problem.stretch, int(problem.numbers[REFERENCE])
    transposed = blocks.transpose(0, 2, 1).copy()
    return Stretch(problem.starts, blocks, transposed, problem.cross, reference, problem.directions, problem.scaling)


def matrix_of(stretch: Stretch) -> Floats:
    """Coordinates of each standard number."""
    size = int(stretch.starts[-1])
    found = np.zeros((size, size))
    for row, own in zip(found, np.eye(size), strict=True):
        stretched(stretch, own, row)
    return found.T


def curvature(target: Target, centre: Floats) -> Floats:
    """Minus the second derivatives by central differences of the whole gradient."""
    found, work = np.zeros((centre.size, centre.size)), work_for(target)
    for i in range(centre.size):
        ahead, behind, step = np.zeros(centre.size), np.zeros(centre.size), np.zeros(centre.size)
        step[i] = 1e-5
        log_density(centre + step, target, work, ahead)
        log_density(centre - step, target, work, behind)
        found[i] = (behind - ahead) / 2e-5
    return (found + found.T) / 2


@pytest.mark.parametrize(("prior", "ridge"), [(Prior(), 0.02), (IndependentPrior(), 0.1)], ids=PRIORS.keys())
@pytest.mark.parametrize("columns", [NAMES[:2], (*NAMES[:2], JOB)])
def test_the_stretch_is_the_inverse_root_of_the_curvature(
    columns: tuple[Covariate | str, ...], prior: Prior, ridge: float
) -> None:
    """Where noise is small every ridge is small beside the curvature, and coupling is strong.

    The coordinates of the second prior are standard already, and the ridge is a tenth of that.
    """
    target, problem = prepared(parts(400, 900, 300, scale=3.0, columns=columns), prior)
    assert problem.cross.size > 0, "relative to the best known one"
    root = matrix_of(stretch_of(problem))
    stretched = root.T @ curvature(target, problem.centre) @ root
    np.testing.assert_allclose(stretched, np.eye(len(root)), atol=ridge)


@pytest.mark.parametrize("columns", [NAMES[:2], (*NAMES[:2], JOB)])
def test_slopes_come_back_by_the_transposed_stretch(columns: tuple[Covariate | str, ...]) -> None:
    stretch = stretch_of(prepared(parts(40, 90, 30, scale=3.0, columns=columns))[1])
    root, slopes = matrix_of(stretch), np.random.default_rng(1).standard_normal(int(stretch.starts[-1]))
    back = np.zeros_like(slopes)
    stretched_back(stretch, slopes, back)
    np.testing.assert_allclose(back, root.T @ slopes, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
@pytest.mark.parametrize(("sizes", "scale"), [((27, 973), 20.0), ((333, 333, 334), 20.0), ((200,) * 5, 40.0)])
@pytest.mark.parametrize("columns", [NAMES, pytest.param((*NAMES[:2], SEX, JOB), marks=pytest.mark.slow)])
def test_small_parts_that_noise_hides_take_short_trajectories(
    sizes: tuple[int, ...], scale: float, columns: tuple[Covariate | str, ...], prior: Prior
) -> None:
    """Each part by itself, stretched at the mode, took 1,023 gradients a draw: the most that is allowed."""
    sampler, evidence = SAMPLERS["collapsed"], parts(*sizes, scale=scale, columns=columns)
    problem = sampler.prepare(evidence, prior)
    state, _ = sampler.run_block(problem, sampler.start(problem, 1, 0), sampler.warmup(0))
    _, block = sampler.run_block(problem, state, 100)
    most = 511 if isinstance(prior, IndependentPrior) else 255  # parts told relative to one lean on its slopes, too
    assert block.gradients <= most * 100
    assert block.divergences <= 2


@pytest.mark.slow
def test_a_hundred_parts_agree_with_their_own_statistics_summed_where_noise_is_small() -> None:
    """Of 2,700 coordinates; with so little noise the sum of the parts knows as much as the parts."""
    sampler, evidence = SAMPLERS["collapsed"], parts(*(np.arange(100) * 3 + 20), scale=1e-3, columns=NAMES[:1])
    problem = sampler.prepare(evidence, Prior())
    state, _ = sampler.run_block(problem, sampler.start(problem, 1, 0), sampler.warmup(0))
    _, block = sampler.run_block(problem, state, 400)
    exact = np.sum([release.matrix() for release in evidence.parts], axis=0)  # type: ignore[union-attr]
    theta = np.linalg.solve(exact[:-1, :-1] + Prior().response_matrix(evidence.schema)[:-1, :-1], exact[:-1, -1])
    error = block.parameters[:, :-1].std(axis=0) / np.sqrt(100)
    assert np.all(np.abs(block.parameters[:, :-1].mean(axis=0) - theta) < 4 * error)


def test_parts_are_stretched_alone_where_coupling_is_too_dear(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = parts(40, 90, scale=3.0, columns=NAMES[:2])
    _, coupled = prepared(evidence)
    monkeypatch.setattr(whitening, "MOST_OF_COUPLING", 0.0)
    sampler, (_, alone) = SAMPLERS["collapsed"], prepared(evidence)
    assert len(coupled.directions) > 0
    assert len(alone.directions) == 0
    _, block = sampler.run_block(alone, sampler.start(alone, 1, 0), sampler.warmup(0) + 50)
    assert np.isfinite(block.parameters).all()
