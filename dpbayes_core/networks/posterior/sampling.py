"""The steps that both collapsed samplers share: problem, start, block."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbayes_core.networks.posterior.arrangement import layout_of, output_of
from dpbayes_core.networks.posterior.clusters import Clusters, family_clusters
from dpbayes_core.networks.posterior.evidence import Evidence
from dpbayes_core.networks.posterior.flipping import flips_of
from dpbayes_core.networks.posterior.model import Model, separate_terms, tied_terms
from dpbayes_core.networks.posterior.starts import start_cells

if TYPE_CHECKING:
    from dpbayes_core.sampling.protocol import Block, ChainState


WARMUP = 300
SWEEPS = 2  # moves in an iteration for each latent cell


@dataclass(frozen=True)
class TablesProblem:
    """What was released, which nodes share a latent table, and the density of the tables."""

    evidence: Evidence
    clusters: Clusters
    model: Model


def tables_problem(
    evidence: Evidence, concentrations: tuple[float, ...], most_rows: int, clusters: Clusters | None
) -> TablesProblem:
    """Latent tables of these clusters, tied where they meet; without clusters one for each family, on its own."""
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
    """A chain at tables near the noisy ones."""
    from dpbayes_core.sampling.protocol import ChainState  # its package lists this sampler
    from dpbayes_core.sampling.streams import stream, to_words

    generator = stream(seed, chain, attempt)
    cells = start_cells(problem.evidence, problem.clusters, problem.model.most_rows, generator)
    return ChainState(chain=chain, attempt=attempt, iteration=0, numbers=cells, generator=to_words(generator))


def run_block(problem: TablesProblem, state: "ChainState", iterations: int, warmup: int) -> "tuple[ChainState, Block]":
    """The chain `iterations` later; the numbers of a state are the latent cells, which are whole."""
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
