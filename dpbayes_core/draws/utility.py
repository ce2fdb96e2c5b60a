"""The utility of a design before any release: noise of cells, errors of tables, accuracy on simulated records.

No data are read: noise is that of the public design, and records are simulated from public probabilities.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.draws.release import PosteriorDrawRelease
from dpbayes_core.networks.design import NetworkDesign
from dpbayes_core.networks.marginals import clipped, family_tables, sources
from dpbayes_core.networks.prediction import class_probabilities, posterior_means, simulated
from dpbayes_core.networks.release import NetworkRelease, released_nodes
from dpbayes_core.networks.schema import NetworkSchema, Nodes
from dpbayes_core.networks.sensitivity import ADD_REMOVE
from dpbayes_core.networks.tables import ExactTables, FamilyTables
from dpbayes_core.privacy.mechanisms import GeometricMechanism
from dpbayes_core.privacy.noise import SeededNoise
from dpbayes_core.privacy.release import Design


@dataclass(frozen=True)
class TableNoise:
    """The noise of one family's unclipped table: exact moments of its law."""

    node: str
    cells: int
    deviation: float  # of one cell
    expected_error: float  # of one cell: the mean of its absolute noise

    @property
    def expected_table_error(self) -> float:
        """The mean of the whole table's L1 distance from the exact one."""
        return self.cells * self.expected_error


def table_noise(design: NetworkDesign) -> tuple[TableNoise, ...]:
    """The noise of each node's family, in the order of the nodes."""
    schema, found = design.schema, list[TableNoise]()
    discrete = isinstance(design.mechanism, GeometricMechanism)
    for name, family in zip(schema.names, schema.families, strict=True):
        terms, divisor = _terms(design, family)
        law = _Law(terms, discrete)
        deviation = math.sqrt(law.variance) / divisor
        found.append(TableNoise(name, schema.cells(family), deviation, law.mean_absolute() / divisor))
    return tuple(found)


def _terms(design: NetworkDesign, family: Nodes) -> tuple[tuple[tuple[int, float], ...], int]:
    """A cell's noise: how many independent values of each scale it sums, and the divisor of the sum."""
    scales = design.mechanism.scales
    if design.what == "signed-sums":
        subsets = 2 ** len(family)
        free = 0 if design.neighbours == ADD_REMOVE else 1
        return ((subsets - free, float(scales[0])),), subsets
    released = released_nodes(design.schema, design.what, design.neighbours)
    first = np.cumsum([0, *(design.schema.cells(nodes) for nodes in released)])
    places = sources(released, family)
    summed = (design.schema.cells(released[place]) // design.schema.cells(family) for place in places)
    return tuple((count, float(scales[first[place]])) for count, place in zip(summed, places, strict=True)), len(places)


@dataclass(frozen=True)
class _Law:
    """The law of a sum of independent two-sided geometric or Laplace values, with the number of each scale."""

    terms: tuple[tuple[int, float], ...]
    discrete: bool

    @property
    def variance(self) -> float:
        return sum(count * self._variance_of_one(scale) for count, scale in self.terms)

    def _variance_of_one(self, scale: float) -> float:
        return 1 / (2 * math.sinh(0.5 / scale) ** 2) if self.discrete else 2 * scale**2

    def mean_absolute(self) -> float:
        """The mean absolute value, from the characteristic function by quadrature."""
        from scipy.integrate import quad

        reach = math.pi if self.discrete else math.inf
        split = min(20 / math.sqrt(self.variance), reach)
        parts = [(0.0, split), (split, reach)] if split < reach else [(0.0, reach)]
        return sum(quad(self._integrand, *part, limit=500)[0] for part in parts)

    def _integrand(self, t: float) -> float:
        """(1 - phi(t)) / (pi (1 - cos t)), since |k| = 1/pi int_0^pi (1 - cos kt) / (1 - cos t) dt; or its limit."""
        if t < 1e-9:
            return self.variance / math.pi
        half = math.sin(t / 2) ** 2
        if self.discrete:
            log_phi = -sum(count * math.log1p(half / math.sinh(0.5 / scale) ** 2) for count, scale in self.terms)
            return -math.expm1(log_phi) / (2 * math.pi * half)
        return -2 * math.expm1(-sum(n * math.log1p((scale * t) ** 2) for n, scale in self.terms)) / (math.pi * t * t)


def largest_cell_error(design: NetworkDesign, probability: float = 0.9, *, repeats: int = 2000, seed: int = 1) -> float:
    """The error that, with this probability, no cell of any family's table exceeds; simulated from the noise's law."""
    empty = design.statistic().empty()
    noise, worst = SeededNoise(seed, i_know_this_is_not_private=True), list[float]()
    for _ in range(repeats):
        tables = family_tables(design.release(noise, empty))
        worst.append(max(float(np.abs(table).max()) for table in tables))
    return float(np.quantile(worst, probability))


@dataclass(frozen=True)
class Accuracy:
    """How often the likeliest class is right on simulated records: means and their standard errors."""

    private: float
    private_error: float
    without_privacy: float
    without_privacy_error: float


def simulated_accuracy(
    design: Design,
    schema: NetworkSchema,
    probabilities: Floats,
    target: str,
    *,
    rows: int,
    test_rows: int = 2000,
    repeats: int = 50,
    concentrations: tuple[float, ...] | None = None,
    seed: int = 1,
) -> Accuracy:
    """Accuracy in classifying `target` after learning from simulated rows, by `estimate` and without privacy."""
    generator, noise = np.random.default_rng(seed), SeededNoise(seed, i_know_this_is_not_private=True)
    prior = concentrations or (1.0,) * len(schema.nodes)
    statistic, place, hits = FamilyTables(schema), schema.names.index(target), list[tuple[float, float]]()
    for _ in range(repeats):
        train, test = (simulated(schema, probabilities, size, generator) for size in (rows, test_rows))
        exact = statistic.sum(statistic.encode(dict(zip(schema.names, train.T, strict=True))), None)
        learnt = (estimate(design.release(noise, exact), prior), _exact_means(statistic, exact, prior))
        guesses = [class_probabilities(schema, own, target, test).argmax(axis=-1) for own in learnt]
        hits.append(tuple(float(np.mean(guess == test[:, place])) for guess in guesses))  # pyright: ignore[reportArgumentType]
    means = np.mean(hits, axis=0)
    errors = np.std(hits, axis=0, ddof=1) / math.sqrt(repeats) if repeats > 1 else np.zeros(2)
    return Accuracy(float(means[0]), float(errors[0]), float(means[1]), float(errors[1]))


def estimate(release: Any, concentrations: tuple[float, ...]) -> Floats:
    """Flat probabilities from a release: its first draw, or posterior means as if its clipped counts were exact."""
    if isinstance(release, PosteriorDrawRelease):
        return release.draws()[0]
    if not isinstance(release, NetworkRelease):
        raise ValueError("cannot estimate probabilities: the release is not of a network. Give one that is.")
    return posterior_means(release.schema, clipped(family_tables(release), release.rows), concentrations)


def _exact_means(statistic: FamilyTables, exact: ExactTables, concentrations: tuple[float, ...]) -> Floats:
    tables = [statistic.table(exact, family) for family in statistic.schema.families]
    return posterior_means(statistic.schema, [table.astype(np.float64) for table in tables], concentrations)
