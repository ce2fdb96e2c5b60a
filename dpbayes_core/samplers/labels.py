"""Draws of a regression's parameters by name, in the user's units, and names for its latent statistic."""

from collections.abc import Mapping, Sequence

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.pool import Evidence, parts_of
from dpbayes_core.regression.schema import SIGMA, RegressionSchema


def regression_draws(evidence: Evidence, parameters: Floats) -> Mapping[str, Floats]:
    """Coefficients and sigma from standardised draws, (chains, draws, coefficients + 1)."""
    theta, sigma = evidence.schema.to_user_units(parameters[..., :-1], parameters[..., -1])
    return {**{name: theta[..., place] for place, name in enumerate(evidence.schema.coefficients)}, SIGMA: sigma}


def regression_moments(evidence: Evidence, expected: Floats) -> Mapping[str, tuple[Floats, Floats]]:
    """Means and variances by coefficient; `expected` is (chains, draws, 2 coefficients), means less the offset."""
    names = evidence.schema.coefficients
    if expected.shape[-1] != 2 * len(names):
        return {}
    offset, _ = evidence.schema.to_user_units(np.zeros(len(names)), np.zeros(()))
    means, variances = np.split(expected, 2, axis=-1)
    return {name: (means[..., k] + offset[k], variances[..., k]) for k, name in enumerate(names)}


def unit_matrix(schema: RegressionSchema) -> Floats:
    """The matrix from standardised coefficients to the user's, up to the offset of the intercept."""
    size = len(schema.coefficients)
    offset, _ = schema.to_user_units(np.zeros(size), np.zeros(()))
    return (schema.to_user_units(np.eye(size), np.zeros(size))[0] - offset).T.copy()


def latent_draws(evidence: Evidence, latent: Floats) -> Mapping[str, Floats]:
    """The latent statistics' entries by name; empty where nothing is latent."""
    names = statistic_names(evidence)[: latent.shape[-1]]
    return {name: latent[..., place] for place, name in enumerate(names)}


def statistic_names(evidence: Evidence) -> list[str]:
    """A name for each released entry of each part."""
    releases = parts_of(evidence)
    if len(releases) == 1:
        return entry_names(evidence.schema, releases[0].entries)
    numbered = enumerate(releases, start=1)
    return [f"{name} of part {k}" for k, release in numbered for name in entry_names(release.schema, release.entries)]


def entry_names(schema: RegressionSchema, entries: Sequence[tuple[int, int]]) -> list[str]:
    """A name for each entry: the number of rows, a sum, or a sum of products of standardised variables."""
    labels = ["", *(variable.label for variable in schema.variables)]
    return ["rows" if j == 0 else f"sum {labels[j]}" if i == 0 else f"sum {labels[i]}*{labels[j]}" for i, j in entries]
