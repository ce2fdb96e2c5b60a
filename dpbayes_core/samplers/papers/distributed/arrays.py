"""The arrays that the kernels share: each holder's noisy moments and noise, the state of a chain, its record."""

from typing import NamedTuple

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.mechanisms.noise_law import GAUSSIAN
from dpbayes_core.regression.pool import Evidence, parts_of
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.samplers.labels import entry_names
from dpbayes_core.samplers.naive import repaired

FIXED, WALK, SOLVE = 0, 1, 2  # moves of the holders' moments: none, a random walk, perturb and solve


class Problem(NamedTuple):
    """Every holder's noisy moments of (1, x, y) and the variances of their noise, and the prior's moments and shape."""

    noisy: Floats  # (holders, m + 1, m + 1), the response last
    variances: Floats
    prior: Floats  # (m + 1, m + 1)
    shape: float


class Holder(NamedTuple):
    """One holder's noisy moments and the variances of their noise."""

    noisy: Floats
    variances: Floats


class Law(NamedTuple):
    """The parameters; given these the holders' moments are independent. `spread` is a Cholesky factor."""

    theta: Floats
    variance: float
    mean: Floats
    spread: Floats


class Step(NamedTuple):
    """A move of theta at this residual variance: its reach, or a draw that is always accepted."""

    variance: float
    reach: float
    unconditional: bool


class State(NamedTuple):
    """The state of a chain; `tuning` is the log variance, its log step, theta's reach, the walks' log degrees."""

    moments: Floats  # (holders, size, size)
    theta: Floats
    tuning: Floats


class Span(NamedTuple):
    """Which iterations to make, and the move of the holders' moments in each."""

    proposal: int
    begun: int
    warmup: int
    iterations: int


class Record(NamedTuple):
    """Draws after warm-up, a row each."""

    parameters: Floats
    latent: Floats


DISPERSED = 2.0  # of the starts, in standard deviations of the noise
FLOOR = 0.01  # least variance of any combination of variables where a chain starts, standardised units


def refusal_of(evidence: Evidence, *, levels: bool) -> str | None:
    """Why these samplers do not take this evidence, or None; some take no columns with levels either."""
    schema, parts = evidence.schema, parts_of(evidence)
    if any(part.rows is None for part in parts):
        return "it takes releases whose number of rows is public only: replace-one, one row each, none left out"
    if any(part.mechanism.law is not GAUSSIAN for part in parts):
        return "it knows gaussian noise only"
    if not getattr(schema, "intercept", True):
        return "it takes regressions with an intercept only"
    if not levels and any(variable.kind != "continuous" for variable in schema.variables):
        return "it takes continuous columns only: columns with levels have moments that it would not keep"
    if any(part.rows is not None and part.rows <= schema.m for part in parts):
        return f"it needs more than {schema.m} rows in each release, the number of encoded variables"
    return None


def problem_of(evidence: Evidence, prior: Prior) -> Problem:
    """The arrays that kernels read."""
    parts, schema = parts_of(evidence), evidence.schema
    return Problem(
        noisy=np.stack([part.matrix() for part in parts]),
        variances=np.stack([_variances(part) for part in parts]),
        prior=np.ascontiguousarray(prior.conjugate.response_matrix(schema)),
        shape=prior.conjugate.noise_shape,
    )


def _variances(part: Release) -> Floats:
    rows, columns = np.array(part.entries).T
    found = np.zeros((part.schema.m + 1, part.schema.m + 1))
    found[rows, columns] = found[columns, rows] = np.asarray(part.mechanism.scales) ** 2
    return found


def plugged_in(problem: Problem, size: int) -> Floats:
    """Each holder's moments of the first `size` variables, repaired where these are impossible."""
    return np.stack([np.ascontiguousarray(repaired(one[:size, :size])) for one in problem.noisy])


def scattered_starts(problem: Problem, size: int, generator: np.random.Generator) -> Floats:
    """Starting moments of the first `size` variables: the released ones with more noise, repaired."""
    found: list[Floats] = []
    for noisy, variances in zip(problem.noisy, problem.variances, strict=True):
        shock = np.triu(generator.standard_normal((size, size)))
        moved = noisy[:size, :size] + DISPERSED * np.sqrt(variances[:size, :size]) * (shock + np.triu(shock, 1).T)
        rows, mean = moved[0, 0], moved[0, 1:] / moved[0, 0]
        values, vectors = np.linalg.eigh(moved[1:, 1:] - rows * np.outer(mean, mean))
        moved[1:, 1:] = (vectors * np.maximum(values, FLOOR * rows)) @ vectors.T + rows * np.outer(mean, mean)
        found.append(moved)
    return np.stack(found)


def latent_names(evidence: Evidence, variables: int) -> list[str]:
    """Names of every holder's moments of the first variables (the constant aside), in the order of the record."""
    entries = evidence.schema.entries
    names = entry_names(evidence.schema, entries)
    chosen = [name for name, (_, j) in zip(names, entries, strict=True) if j <= variables]
    parts = parts_of(evidence)
    if len(parts) == 1:
        return chosen
    return [f"{name} (part {place})" for place in range(1, len(parts) + 1) for name in chosen]
