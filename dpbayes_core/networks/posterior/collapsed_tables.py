"""The noise-aware posteriors of a network: one set of latent tables for all families, or one for each family.

Chains start at integer tables near the noisy ones; starts differ from each other by about the noise.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.networks.posterior.arrangement import flips_of, layout_of, monitor_names, output_of
from dpbayes_core.networks.posterior.clusters import MOST_CELLS, Clusters, family_clusters, junction_forest
from dpbayes_core.networks.posterior.evidence import Evidence, estimated_table, places_in
from dpbayes_core.networks.posterior.model import Model, separate_terms, tied_terms
from dpbayes_core.networks.posterior.prior import NetworkPrior
from dpbayes_core.networks.release import NetworkRelease
from dpbayes_core.networks.sensitivity import unread_noise

if TYPE_CHECKING:
    from dpbayes_core.sampling.protocol import Block, ChainState

FITS = 30  # passes of proportional fitting
SPREAD = 2.0  # scale of the noise added to starts, over that of the release
LEAST = 1e-3  # of a record, in every cell before proportional fitting, which leaves zeros at zero


def with_more_noise(evidence: Evidence, generator: np.random.Generator) -> Evidence:
    """The evidence with more noise of the same kind, so that starts differ more than draws will."""
    tables = (
        replace(table, counts=table.counts + generator.laplace(0.0, SPREAD * table.scale, table.counts.shape))
        for table in evidence.tables
    )
    signs = (
        replace(sign, value=sign.value + float(generator.laplace(0.0, SPREAD * sign.scale))) for sign in evidence.signs
    )
    return replace(evidence, tables=tuple(tables), signs=tuple(signs))


def start_cells(evidence: Evidence, clusters: Clusters, most_rows: int, generator: np.random.Generator) -> Floats:
    """Integer tables of the clusters, one after the other, equal on the margins that clusters share."""
    near = with_more_noise(evidence, generator)
    families = [(family, estimated_table(near, family)) for family in evidence.families]
    rows = _rows(evidence, [table.sum() for _, table in families], most_rows)
    made: list[Floats] = []
    for cluster, own in enumerate(clusters.nodes):
        shared = clusters.separator(cluster)
        before = clusters.before[cluster]
        given = np.array([float(rows)])
        if before >= 0:
            there = clusters.nodes[before]
            given = np.bincount(places_in(evidence, there, shared), made[before], evidence.cells(shared)).astype(
                np.float64
            )
        fitted = np.full(evidence.cells(own), rows / evidence.cells(own) + LEAST)
        inside = [
            (places_in(evidence, own, family), np.maximum(table, 0.0) + LEAST)
            for family, table in families
            if set(family) <= set(own)
        ]
        for _ in range(FITS if len(inside) > 1 else 1):
            for places, table in inside:
                fitted *= (table / np.bincount(places, fitted, len(table)))[places]
        made.append(_whole(fitted, places_in(evidence, own, shared), given))
    return np.concatenate(made)


def _rows(evidence: Evidence, totals: list[float], most_rows: int) -> int:
    if evidence.rows is not None:
        return evidence.rows
    return int(min(max(round(float(np.median(totals))), 0), most_rows))


def _whole(fitted: Floats, places: Integers, given: Floats) -> Floats:
    """Integers in proportion to `fitted` by largest remainders, that add up to `given` over the cells of each place."""
    found = np.zeros(len(fitted))
    for part, count in enumerate(given):
        cells = np.flatnonzero(places == part)
        share = fitted[cells] * (count / fitted[cells].sum())
        found[cells] = np.floor(share)
        missing = round(count - found[cells].sum())
        last = cells[np.argsort(np.floor(share) - share, kind="stable")]
        found[last[:missing]] += 1.0
    return found


WARMUP = 300
SWEEPS = 2  # moves in an iteration for each latent cell


@dataclass(frozen=True)
class TablesProblem:
    """The evidence, the clusters of latent tables, and their density."""

    evidence: Evidence
    clusters: Clusters
    model: Model


def tables_problem(
    evidence: Evidence, concentrations: tuple[float, ...], most_rows: int, clusters: Clusters | None
) -> TablesProblem:
    """The problem of tied clusters; without clusters, one independent latent table for each maximal family."""
    terms = separate_terms if clusters is None else tied_terms
    found = family_clusters(evidence.families) if clusters is None else clusters
    layout = layout_of(evidence, found, tied=clusters is not None)
    model = Model(
        terms(evidence, found, concentrations),
        layout,
        output_of(evidence, found, concentrations),
        0 if evidence.rows is not None else most_rows,
        SWEEPS * int(layout.offset[-1]),
        flips_of(evidence, found, tied=clusters is not None),
    )
    return TablesProblem(evidence, found, model)


def start(problem: TablesProblem, seed: int, chain: int, attempt: int) -> "ChainState":
    """A chain whose tables are near the noisy ones."""
    from dpbayes_core.sampling.protocol import ChainState  # its package lists this sampler
    from dpbayes_core.sampling.streams import stream, to_words

    generator = stream(seed, chain, attempt)
    cells = start_cells(problem.evidence, problem.clusters, problem.model.most_rows, generator)
    return ChainState(chain=chain, attempt=attempt, iteration=0, numbers=cells, generator=to_words(generator))


def run_block(problem: TablesProblem, state: "ChainState", iterations: int, warmup: int) -> "tuple[ChainState, Block]":
    """Run the chain for `iterations`; a state's numbers are the latent cells, which are integers."""
    from dpbayes_core.networks.posterior.chain import Record, advance, walk_from  # numba
    from dpbayes_core.sampling.protocol import Block, ChainState
    from dpbayes_core.sampling.streams import from_words, to_words

    model, generator, cells = problem.model, from_words(state.generator), state.numbers.copy()
    draws = min(iterations, max(0, state.iteration + iterations - warmup))
    monitors = int(model.output.monitor.max()) + 1
    record = Record(np.zeros((draws, int(model.output.first[-1]))), np.zeros((draws, monitors)))
    advance(generator, model, walk_from(model, cells), record, iterations)
    after = ChainState(
        chain=state.chain,
        attempt=state.attempt,
        iteration=state.iteration + iterations,
        numbers=cells,
        generator=to_words(generator),
    )
    return after, Block(parameters=record.parameters, latent=record.latent, divergences=0, gradients=0)


@dataclass(frozen=True)
class _Tables:
    """Base of both samplers."""

    takes: tuple[str, ...] = ("bayes-net",)
    compared_with: str | None = "naive-tables"

    def refusal(self, release: NetworkRelease) -> str | None:
        """A refusal of noise other than geometric or Laplace noise."""
        return unread_noise(release.mechanism)

    def warmup(self, attempt: int) -> int:
        """WARMUP for every attempt: starts are near the posterior, and no parameter is tuned."""
        return WARMUP

    def start(self, problem: TablesProblem, seed: int, chain: int, *, attempt: int = 0) -> "ChainState":
        """A chain at integer tables near the noisy ones, which differ from other chains' by more than the noise."""
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
        """As the base's, and a refusal of cliques with more than MOST_CELLS cells together."""
        if junction_forest(release.schema.levels, release.schema.families) is None:
            return f"the tables that its families share would have more than {MOST_CELLS} cells"
        return super().refusal(release)

    def prepare(self, release: NetworkRelease, prior: NetworkPrior) -> TablesProblem:
        """The problem of a junction forest's cliques."""
        evidence, weights = Evidence.of(release), prior.concentrations(release.schema.names)
        clusters = junction_forest(evidence.levels, evidence.families)
        if clusters is None:
            raise ValueError("cannot share tables: they have too many cells. Use family-tables.")
        return tables_problem(evidence, weights, prior.most_rows, clusters)


@dataclass(frozen=True)
class FamilyTables(_Tables):
    """The same for each family by itself; the weights of its parents' configurations are nuisance parameters."""

    name: str = "family-tables"
    target: str = "posterior of each family given its own noisy sums alone, its parents' configurations weighted freely"
    calibrated: bool = False
    cost: str = "a sweep takes time in proportion to the cells of the families' tables"
    caveat: str = (
        "Uses part of the information: each table is analysed by itself, with a flat prior on its parents' "
        "configurations. Intervals are about as wide as that allows, and probabilities of different nodes are drawn "
        "independently of each other."
    )

    def prepare(self, release: NetworkRelease, prior: NetworkPrior) -> TablesProblem:
        """The problem of the maximal families, each with its own density."""
        weights = prior.concentrations(release.schema.names)
        return tables_problem(Evidence.of(release), weights, prior.most_rows, None)
