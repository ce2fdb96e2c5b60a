"""What every sampler here makes of its evidence: arrays of each holder's noisy moments and their noise."""

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.pool import Evidence, parts_of
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.samplers.labels import entry_names
from dpbayes_core.samplers.naive import repaired
from dpbayes_core.samplers.papers.distributed.told import Told

DISPERSED = 2.0  # standard deviations of the noise, between the chains' starts
FLOOR = 0.01  # least variance of any combination of variables where a chain starts, standardised units


def refusal_of(evidence: Evidence, *, levels: bool) -> str | None:
    """What none of these samplers takes; some take no columns with levels either."""
    schema, parts = evidence.schema, parts_of(evidence)
    if any(part.rows is None for part in parts):
        return "it takes releases whose number of rows is public only: replace-one, one row each, none left out"
    if any(part.mechanism.name != "gaussian" for part in parts):
        return "it knows gaussian noise only"
    if not getattr(schema, "intercept", True):
        return "it takes regressions with an intercept only"
    if not levels and any(variable.kind != "continuous" for variable in schema.variables):
        return "it takes continuous columns only: columns with levels have moments that it would not keep"
    if any(part.rows is not None and part.rows <= schema.m for part in parts):
        return f"it needs more than {schema.m} rows in each release, the number of encoded variables"
    return None


def problem_of(evidence: Evidence, prior: Prior) -> Told:
    """The arrays that kernels read."""
    parts, schema = parts_of(evidence), evidence.schema
    return Told(
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


def plugged_in(problem: Told, size: int) -> Floats:
    """Each holder's moments of the first `size` variables, repaired where no data could have them."""
    return np.stack([np.ascontiguousarray(repaired(one[:size, :size])) for one in problem.noisy])


def scattered_starts(problem: Told, size: int, generator: np.random.Generator) -> Floats:
    """Moments of the first `size` variables to start a chain from: noisier than released, and possible."""
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
    kept = [name for name, (_, j) in zip(names, entries, strict=True) if j <= variables]
    parts = parts_of(evidence)
    if len(parts) == 1:
        return kept
    return [f"{name} (part {place})" for place in range(1, len(parts) + 1) for name in kept]
