"""Draws of a regression's parameters by name, in the user's units, and names for its latent statistic."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.pool import Evidence
from dpbayes_core.schema import SIGMA, RegressionSchema

Floats = NDArray[np.float64]


def regression_draws(release: Evidence, parameters: Floats) -> Mapping[str, Floats]:
    """Coefficients and sigma from standardised draws, (chains, draws, d + 2)."""
    theta, sigma = release.schema.to_user_units(parameters[..., :-1], parameters[..., -1])
    return {**{name: theta[..., place] for place, name in enumerate(release.schema.coefficients)}, SIGMA: sigma}


def latent_draws(release: Evidence, latent: Floats) -> Mapping[str, Floats]:
    """The latent statistic's entries by name; nothing where nothing is latent."""
    names = statistic_names(release.schema)[: latent.shape[-1]]
    return {name: latent[..., place] for place, name in enumerate(names)}


def statistic_names(schema: RegressionSchema) -> list[str]:
    """A name for each released entry: the sum or sum of products of standardised variables that it is."""
    labels = [variable.label for variable in schema.variables]
    return [f"sum {labels[j - 1]}" if i == 0 else f"sum {labels[i - 1]}*{labels[j - 1]}" for i, j in schema.entries]
