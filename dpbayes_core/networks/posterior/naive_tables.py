"""The conjugate posterior of the clipped noisy counts, as if they were exact: for comparison only."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.networks.marginals import clipped, family_tables
from dpbayes_core.networks.posterior.arrangement import output_of
from dpbayes_core.networks.posterior.clusters import family_clusters
from dpbayes_core.networks.posterior.evidence import Evidence
from dpbayes_core.networks.posterior.model import Output
from dpbayes_core.networks.posterior.prior import NetworkPrior
from dpbayes_core.networks.release import NetworkRelease
from dpbayes_core.sampling.independent import IndependentDraws


@dataclass(frozen=True)
class NaiveTablesProblem:
    """The counts of every family, one after the other, and the map to draws."""

    counts: Floats
    output: Output


@dataclass(frozen=True)
class NaiveTables(IndependentDraws):
    """Independent draws from the Dirichlet posteriors of the clipped noisy counts."""

    name: str = "naive-tables"
    takes: tuple[str, ...] = ("bayes-net",)
    compared_with: str | None = None
    target: str = "Dirichlet posteriors, as if the clipped noisy counts were exact"
    calibrated: bool = False
    cost: str = "a draw takes time in proportion to the cells of the families' tables"
    caveat: str = (
        "Takes the noisy counts for exact: the intervals leave out the privacy noise and are too narrow, "
        "and clipping draws small probabilities up."
    )

    def refusal(self, release: NetworkRelease) -> str | None:
        """None: any network's release is taken."""
        return None

    def prepare(self, release: NetworkRelease, prior: NetworkPrior) -> NaiveTablesProblem:
        """Clip the noisy counts."""
        evidence = Evidence.of(release)
        clusters, weights = family_clusters(evidence.families), prior.concentrations(release.schema.names)
        tables = clipped(family_tables(release), release.rows)
        counts = np.concatenate([table.ravel() for table in tables])
        return NaiveTablesProblem(counts, output_of(evidence, clusters, weights))

    def draw(self, problem: NaiveTablesProblem, generator: np.random.Generator, count: int) -> Floats:
        """Every conditional probability."""
        from dpbayes_core.networks.posterior.chain import draw_exact  # numba

        parameters = np.zeros((count, len(problem.counts)))
        draw_exact(generator, problem.output, problem.counts, parameters)
        return parameters

    def draws(self, release: NetworkRelease, parameters: Floats) -> Mapping[str, Floats]:
        """The conditional probabilities, by name."""
        return {name: parameters[..., place] for place, name in enumerate(release.schema.coefficients)}
