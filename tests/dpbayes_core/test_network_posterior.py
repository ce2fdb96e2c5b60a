"""Latent tables of a network: their law against enumeration, the same bytes for every cut, and what is refused."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import lgamma

import numpy as np
import pytest
from scipy.stats import kstest

from dpbayes_core.arrays import Floats
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.networks.posterior.clusters import MOST_CELLS, Clusters, family_clusters, junction_forest
from dpbayes_core.networks.posterior.collapsed_tables import (
    WARMUP,
    CollapsedTables,
    FamilyTables,
    run_block,
    start,
    tables_problem,
)
from dpbayes_core.networks.posterior.evidence import Evidence
from dpbayes_core.networks.posterior.naive_tables import NaiveTables
from dpbayes_core.networks.posterior.prior import NetworkPrior
from dpbayes_core.networks.release import NetworkRelease, NoisySign, NoisyTable
from dpbayes_core.networks.schema import NetworkSchema
from dpbayes_core.regression.schema import Factor
from dpbayes_core.sampling.diagnostics import diagnose
from dpbayes_core.sampling.protocol import ChainState, Sampler
from dpbayes_core.sampling.rounds import ChainDraws, Round, run_chain
from tests.support.noisy_networks import (
    CHAIN,
    COLLIDER,
    DIAMOND,
    FIVE,
    Noise,
    Shape,
    naive_bayes,
    records,
    released,
    truths,
)


def sums_to(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in sums_to(total - first, parts - 1):
            yield (first, *rest)


def margin(table: Floats, nodes: tuple[int, ...]) -> Floats:
    kept = sorted(nodes)
    rest = tuple(node for node in range(table.ndim) if node not in nodes)
    return table.sum(axis=rest).transpose([kept.index(node) for node in nodes])


def enumerated(evidence: Evidence, weights: tuple[float, ...], most: int) -> tuple[Floats, Floats]:
    """Posterior means of all probabilities, and the law of n, by a sum over every joint table of all nodes."""
    sizes = range(most + 1) if evidence.rows is None else [evidence.rows]
    logs, means, rows = list[float](), list[Floats](), list[int]()
    for total in sizes:
        for cells in sums_to(total, int(np.prod(evidence.levels))):
            table = np.array(cells, dtype=np.float64).reshape(evidence.levels)
            log_weight, found = lgamma(total + 1) - sum(lgamma(c + 1) for c in cells), list[Floats]()
            for family, weight in zip(evidence.families, weights, strict=True):
                rows_of = margin(table, family).reshape(-1, evidence.levels[family[-1]])
                for row in rows_of:
                    log_weight += lgamma(weight * row.size) - lgamma(weight * row.size + row.sum())
                    log_weight += sum(lgamma(weight + c) - lgamma(weight) for c in row)
                found.append(((rows_of + weight) / (rows_of + weight).sum(axis=1, keepdims=True)).ravel())
            for part in evidence.tables:
                log_weight -= np.abs(part.counts - margin(table, part.nodes)).sum() / part.scale
            for part in evidence.signs:
                odd = sum((np.indices(evidence.levels)[node] for node in part.nodes), np.zeros(evidence.levels))
                log_weight -= abs(part.value - ((-1.0) ** odd * table).sum()) / part.scale
            logs.append(float(log_weight))
            means.append(np.concatenate(found))
            rows.append(total)
    shares = np.exp(np.array(logs) - max(logs))
    shares /= shares.sum()
    return shares @ np.array(means), np.bincount(rows, shares)


def tables_of(levels: tuple[int, ...], scale: float, **counts: list[float]) -> tuple[NoisyTable, ...]:
    """Noisy tables named by their nodes, as n01 for nodes 0 and 1."""
    named = {tuple(int(digit) for digit in name[1:]): values for name, values in counts.items()}
    return tuple(
        NoisyTable(nodes, np.array(values, dtype=np.float64).reshape([levels[n] for n in nodes]), scale)
        for nodes, values in named.items()
    )


BINARY = (2, 2, 2)
SIGNS = tuple(NoisySign(g, v, 2.0) for g, v in [((0,), 3.0), ((1,), -1.0), ((2,), 6.0), ((0, 1), 2.0), ((1, 2), -4.0)])
SMALL = {
    "class and child": (
        Evidence(
            levels=(2, 3),
            parents=((), (0,)),
            rows=6,
            tables=tables_of((2, 3), 1.5, n0=[4, 1], n01=[1, 3, -1, 2, 0, 1]),
        ),
        (1.0, 0.5),
    ),
    "collider, child named first, one table": (
        Evidence(
            levels=BINARY,
            parents=((2, 1), (), ()),
            rows=5,
            tables=tables_of(BINARY, 2.0, n210=[3, 1, 0, -2, 0, 4, 1, 1]),
        ),
        (1.0, 0.5, 2.0),
    ),
    "chain of signed sums": (
        Evidence(levels=BINARY, parents=((), (0,), (1,)), rows=5, signs=SIGNS),
        (1.0, 1.0, 0.7),
    ),
    "chain, n not public": (
        Evidence(
            levels=BINARY,
            parents=((), (0,), (1,)),
            rows=None,
            tables=tables_of(BINARY, 1.0, n0=[3, 0], n01=[0, 2, 1, -1], n12=[0, 2, 1, 2]),
        ),
        (1.0, 1.0, 0.7),
    ),
    "two components of signed sums, n not public": (
        Evidence(
            levels=BINARY, parents=((), (), (1,)), rows=None, signs=(NoisySign((), 4.0, 2.0), *SIGNS[:3], SIGNS[4])
        ),
        (1.0, 1.0, 0.7),
    ),
}
MOST = 6


def drawn(evidence: Evidence, weights: tuple[float, ...], draws: int, *, tied: bool = True) -> tuple[Floats, Floats]:
    """Draws of two chains, (2, draws, ...), of the probabilities and of the monitored counts."""
    clusters = junction_forest(evidence.levels, evidence.families) if tied else None
    problem = tables_problem(evidence, weights, MOST, clusters)
    blocks = [run_block(problem, start(problem, 3, chain, 0), WARMUP + draws, WARMUP)[1] for chain in range(2)]
    return np.stack([b.parameters for b in blocks]), np.stack([b.latent for b in blocks])


def misfit(evidence: Evidence, weights: tuple[float, ...], aim: Floats, draws: int = 4000) -> float:
    """The largest distance of a mean from its aim, in Monte Carlo errors."""
    parameters, _ = drawn(evidence, weights, draws)
    found = diagnose([str(k) for k in range(len(aim))], np.moveaxis(parameters, 2, 0))
    flat = parameters.reshape(-1, len(aim))
    return float(np.max(np.abs(flat.mean(axis=0) - aim) / (flat.std(axis=0) / np.sqrt(found.ess_bulk))))


@pytest.mark.parametrize("name", SMALL)
def test_draws_have_the_means_of_the_enumerated_posterior(name: str) -> None:
    evidence, weights = SMALL[name]
    aim, rows = enumerated(evidence, weights, MOST)
    assert misfit(evidence, weights, aim) < 4.5
    if evidence.rows is None:
        _, latent = drawn(evidence, weights, 4000)
        family = evidence.cells(evidence.families[0])
        counted = np.floor(latent[..., :family]).sum(axis=-1)
        shares = np.bincount(counted.astype(np.int64).ravel(), minlength=MOST + 1) / counted.size
        assert np.max(np.abs(shares - rows)) < 0.03


def test_the_comparison_with_enumeration_can_fail() -> None:
    evidence, weights = SMALL["class and child"]
    aim, _ = enumerated(evidence, weights, MOST)
    louder = replace(evidence, tables=tuple(replace(table, scale=3 * table.scale) for table in evidence.tables))
    assert misfit(louder, weights, aim) > 10


def test_noise_of_no_size_leaves_the_exact_dirichlet_posterior() -> None:
    generator = np.random.default_rng(4)
    found = records(COLLIDER, truths(COLLIDER, generator), 300, generator)
    evidence = released(COLLIDER, found, Noise("geometric", 1e3), generator)
    assert all(np.all(table.counts >= 0) for table in evidence.tables)
    parameters, latent = drawn(evidence, (0.5, 1.0, 2.0), 1500)
    exact = np.concatenate([table.counts.ravel() for table in evidence.tables])
    assert np.all(np.floor(latent) == exact)
    column = 0
    for table, weight in zip(evidence.tables, (0.5, 1.0, 2.0), strict=True):
        for row in table.counts.reshape(-1, table.counts.shape[-1]):
            for count in row:
                law = (weight + count, weight * row.size + row.sum() - weight - count)
                assert kstest(parameters[..., column].ravel(), "beta", args=law).pvalue > 1e-4
                column += 1
    assert diagnose(["count"], latent[:, :, 0][None]).failures() == []


SHAPES = {
    "chain": (CHAIN, "geometric"),
    "diamond of signed sums": (DIAMOND, "fourier"),
    "five": (FIVE, "laplace"),
    "naive Bayes": (naive_bayes(16), "geometric"),
}


@pytest.mark.parametrize("public", [True, False], ids=["n public", "n latent"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "naive Bayes" else []) for name in SHAPES]
)
def test_chains_mix_from_apart(name: str, public: bool) -> None:
    shape, law = SHAPES[name]
    generator = np.random.default_rng(11)
    found = records(shape, truths(shape, generator), 2000, generator)
    evidence = released(shape, found, Noise(law, 1.0, public_rows=public), generator)
    problem = tables_problem(
        evidence, (1.0,) * len(shape.levels), 10**6, junction_forest(shape.levels, evidence.families)
    )
    states = [start(problem, 1, chain, 0) for chain in range(2)]
    assert np.abs(states[0].numbers - states[1].numbers).max() > evidence_scale(evidence)
    blocks = [run_block(problem, state, WARMUP + 600, WARMUP)[1] for state in states]
    both = np.stack([np.hstack([block.parameters, block.latent]) for block in blocks])
    diagnosis = diagnose([str(k) for k in range(both.shape[2])], np.moveaxis(both, 2, 0))
    assert diagnosis.rhat.max() < 1.06
    assert diagnosis.ess_bulk.min() > 60


def evidence_scale(evidence: Evidence) -> float:
    return min(part.scale for part in (*evidence.tables, *evidence.signs))


SCHEMA = NetworkSchema(
    (Factor("kind", ("a", "b")), Factor("colour", ("red", "green", "blue")), Factor("size", ("s", "l"))),
    {"colour": ("kind",), "size": ("kind",)},
)


def release() -> NetworkRelease:
    from dpbayes_core.networks.design import counts_design

    mechanism = counts_design(SCHEMA, epsilon=1.0).mechanism
    values = (14.0, 3.0, -1.0, 8.0, 12.0, 30.0, 9.0, 11.0, 26.0, 19.0)
    return NetworkRelease(
        schema=SCHEMA, what="maximal-families", neighbours="replace-one", rows=65, mechanism=mechanism, values=values
    )


EVERY = pytest.mark.parametrize("sampler", [CollapsedTables(), FamilyTables(), NaiveTables()], ids=lambda s: s.name)


def chain_bytes(sampler: Sampler, block: int, seed: int = 5) -> bytes:
    problem = pickle.loads(pickle.dumps(sampler.prepare(release(), NetworkPrior())))  # noqa: S301 -- made here
    begun = ChainDraws(state=sampler.start(problem, seed, 1))
    return run_chain(sampler, problem, begun, Round(attempt=0, draws=40), block=block).to_bytes()


@EVERY
def test_one_block_and_many_give_the_same_bytes(sampler: Sampler) -> None:
    whole = chain_bytes(sampler, 100_000)
    assert chain_bytes(sampler, 7) == whole
    assert chain_bytes(sampler, 100_000, seed=6) != whole


@EVERY
def test_a_restored_chain_goes_on_as_it_would_have(sampler: Sampler) -> None:
    problem = sampler.prepare(release(), NetworkPrior())
    first, _ = sampler.run_block(problem, sampler.start(problem, 5, 0), sampler.warmup(0) + 3)
    on, made = sampler.run_block(problem, first, 20)
    again, remade = sampler.run_block(problem, ChainState.from_bytes(first.to_bytes()), 20)
    assert again.to_bytes() == on.to_bytes()
    assert np.array_equal(remade.parameters, made.parameters)


@EVERY
def test_draws_are_named_probabilities_that_sum_to_one(sampler: Sampler) -> None:
    problem = sampler.prepare(release(), NetworkPrior(by_node={"size": 2.0}))
    _, made = sampler.run_block(problem, sampler.start(problem, 5, 0), sampler.warmup(0) + 50)
    draws = sampler.draws(release(), made.parameters[None])
    assert tuple(draws) == SCHEMA.coefficients
    for kind in ("a", "b"):
        rows = [draws[f"P(colour={colour} | kind={kind})"] for colour in ("red", "green", "blue")]
        assert np.allclose(sum(rows), 1.0)
    monitors = sampler.monitors(release(), made.latent[None])
    if made.latent.size:
        assert len(monitors) == made.latent.shape[1]
        assert all(np.all(values >= 0) for values in monitors.values())
        assert np.all(np.floor(monitors["count kind=a"]) + np.floor(monitors["count kind=b"]) == 65)


def test_cliques_carry_naive_bayes_in_its_families_and_refuse_what_is_too_large() -> None:
    wide = naive_bayes(199)
    found = junction_forest(wide.levels, wide.families)
    assert found is not None
    assert sum(2 ** len(own) for own in found.nodes) == 199 * 4
    assert junction_forest(DIAMOND.levels, DIAMOND.families) == Clusters(((0, 1, 2), (1, 2, 3)), (-1, 0))
    side = 13
    place = {pair: number for number, pair in enumerate(product(range(side), repeat=2))}
    grid = [tuple(place[p] for p in ((i - 1, j), (i, j - 1)) if p in place) for i, j in place]
    lattice = Shape((2,) * side**2, tuple(grid))
    assert junction_forest(lattice.levels, lattice.families) is None
    assert sum(2 ** len(own) for own in family_clusters(lattice.families).nodes) <= MOST_CELLS
    schema = NetworkSchema(
        tuple(Factor(f"x{k}", ("a", "b")) for k in range(side**2)),
        {f"x{k}": tuple(f"x{p}" for p in parents) for k, parents in enumerate(grid)},
    )
    too_large = replace(release(), schema=schema)
    assert str(MOST_CELLS) in (CollapsedTables().refusal(too_large) or "")
    assert FamilyTables().refusal(too_large) is None


def test_a_prior_is_positive_and_names_nodes_and_survives_its_record() -> None:
    prior = NetworkPrior(concentration=0.5, by_node={"size": 2.0}, most_rows=10)
    assert NetworkPrior.from_record(prior.to_record()) == prior
    assert prior.concentrations(SCHEMA.names) == (0.5, 0.5, 2.0)
    with pytest.raises(StudyInvalid, match="is no node"):
        prior.concentrations(("kind",))
    for wrong in ({"concentration": 0.0}, {"by_node": {"size": float("nan")}}, {"most_rows": 0}):
        with pytest.raises(StudyInvalid, match="cannot use the prior"):
            NetworkPrior(**wrong)


def test_small_concentrations_give_draws_that_are_numbers() -> None:
    evidence, _ = SMALL["class and child"]
    parameters, _ = drawn(evidence, (1e-3, 1e-3), 400)
    assert np.all(np.isfinite(parameters))
    assert np.allclose(parameters[..., :2].sum(axis=-1), 1.0)
