"""A release and a prior as the arrays of the Gibbs kernels, and which releases these samplers take."""

from dataclasses import dataclass

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.pool import Evidence, Pool
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.samplers.papers.gibbs.flat import Moments, Noisy

NOISES = ("gaussian", "laplace")


@dataclass(frozen=True)
class NormalProblem:
    """A release under normal rows: `numbers` are those of the covariates' law, see gibbs/flat.py."""

    noisy: Noisy
    numbers: Floats


@dataclass(frozen=True)
class MomentProblem:
    """A release under given moments of the covariates."""

    noisy: Noisy
    law: Moments


def refusal_of(evidence: Evidence) -> str | None:
    """What none of these samplers takes."""
    if isinstance(evidence, Pool):
        return "it takes one release at a time"
    if evidence.rows is None:
        return "it takes releases whose number of rows is public only: replace-one, one row each, none left out"
    if evidence.mechanism.name not in NOISES:
        return f"it knows the noise of these mechanisms only: {', '.join(NOISES)}"
    if not evidence.schema.intercept:
        return "it takes regressions with an intercept only"
    if evidence.rows <= evidence.schema.m:
        return f"it needs more than {evidence.schema.m} rows, the number of encoded variables"
    return None


def kinds_in(schema: RegressionSchema) -> set[str]:
    """Of its covariates."""
    return {variable.kind for variable in schema.variables[:-1]}


def noisy_of(release: Release, prior: Prior, *, squares_known: bool) -> Noisy:
    """The arrays of a release; squares of two-level columns as entries without noise, or as no entries."""
    schema, rows = release.schema, release.count
    known = schema.complete(np.zeros(len(schema.entries)), rows)
    squares = [i for i, variable in enumerate(schema.variables, start=1) if variable.kind == "two-level"]
    tied = [i for i, variable in enumerate(schema.variables, start=1) if variable.kind == "indicator"]
    added = len(squares) if squares_known else 0
    return Noisy(
        numbers=np.array([rows, float(release.mechanism.name == "laplace"), prior.conjugate.noise_shape + rows / 2]),
        entries=np.array([*schema.entries, *((i, i) for i in squares[:added])], dtype=np.int64),
        values=np.array([*release.values, *[rows] * added]),
        scales=np.array([*release.mechanism.scales, *[0.0] * added]),
        known=known,
        tied=np.array(tied, dtype=np.int64),
        prior=np.ascontiguousarray(prior.conjugate.response_matrix(schema)),
    )
