"""The noise-aware posteriors of a network: one set of latent tables for all families, or one for each family."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbayes_core.arrays import Floats
from dpbayes_core.networks.posterior.arrangement import monitor_names
from dpbayes_core.networks.posterior.clusters import MOST_CELLS, junction_forest
from dpbayes_core.networks.posterior.evidence import Evidence
from dpbayes_core.networks.posterior.prior import NetworkPrior
from dpbayes_core.networks.posterior.sampling import WARMUP, TablesProblem, run_block, start, tables_problem
from dpbayes_core.networks.release import NetworkRelease

if TYPE_CHECKING:
    from dpbayes_core.sampling.protocol import Block, ChainState


@dataclass(frozen=True)
class _Tables:
    """What both samplers do alike."""

    takes: tuple[str, ...] = ("bayes-net",)
    beside: str | None = "naive-tables"

    def warmup(self, attempt: int) -> int:
        """The same for every attempt: a start is near, and nothing is tuned."""
        return WARMUP

    def start(self, problem: TablesProblem, seed: int, chain: int, *, attempt: int = 0) -> "ChainState":
        """A chain at whole tables near the noisy ones, further from other chains' than the noise."""
        return start(problem, seed, chain, attempt)

    def run_block(self, problem: TablesProblem, state: "ChainState", iterations: int) -> "tuple[ChainState, Block]":
        """Move the latent tables; after warm-up draw every probability given them."""
        return run_block(problem, state, iterations, WARMUP)

    def draws(self, release: NetworkRelease, parameters: Floats) -> Mapping[str, Floats]:
        """The conditional probabilities, by name."""
        return {name: parameters[..., place] for place, name in enumerate(release.schema.coefficients)}

    def monitors(self, release: NetworkRelease, latent: Floats) -> Mapping[str, Floats]:
        """Latent counts by name, each spread evenly over its unit."""
        return {name: latent[..., place] for place, name in enumerate(monitor_names(release.schema))}


@dataclass(frozen=True)
class CollapsedTables(_Tables):
    """Slice sampling of one consistent set of latent integer tables, exact draws of the probabilities given it."""

    name: str = "collapsed-tables"
    target: str = "posterior given the noisy tables or signed sums; the exact tables are sampled, all else integrated"
    calibrated: bool = True
    cost: str = "a sweep takes time in proportion to the cells of the tables that families share"
    caveat: str = "Intervals hold under the network as declared and the stated prior: edges are assumed, not tested."

    def refusal(self, release: NetworkRelease) -> str | None:
        """It takes any network whose shared tables are small enough."""
        if junction_forest(release.schema.levels, release.schema.families) is None:
            return f"the tables that its families share would have more than {MOST_CELLS} cells"
        return None

    def prepare(self, release: NetworkRelease, prior: NetworkPrior) -> TablesProblem:
        """The cliques that carry the whole likelihood, and its density."""
        evidence, weights = Evidence.of(release), prior.concentrations(release.schema.names)
        clusters = junction_forest(evidence.levels, evidence.families)
        if clusters is None:
            raise ValueError("cannot share tables: they have too many cells. Use family-tables.")
        return tables_problem(evidence, weights, prior.most_rows, clusters)


@dataclass(frozen=True)
class FamilyTables(_Tables):
    """The same for each family on its own, with weights of its parents' configurations as nuisance."""

    name: str = "family-tables"
    target: str = "posterior of each family given its own noisy sums alone, its parents' configurations weighted freely"
    calibrated: bool = False
    cost: str = "a sweep takes time in proportion to the cells of the families' tables"
    caveat: str = (
        "Uses part of the information: each table is analysed by itself, with a flat prior on its parents' "
        "configurations. Intervals are about as wide as that allows, and probabilities of different nodes are drawn "
        "independently of each other."
    )

    def refusal(self, release: NetworkRelease) -> str | None:
        """It takes any network."""
        return None

    def prepare(self, release: NetworkRelease, prior: NetworkPrior) -> TablesProblem:
        """The largest families, each with its own density."""
        weights = prior.concentrations(release.schema.names)
        return tables_problem(Evidence.of(release), weights, prior.most_rows, None)
