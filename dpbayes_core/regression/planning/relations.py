"""Correlations of columns for planning: those that are stated, and default ones for all other pairs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from dpbayes_core.arrays import Floats

CORRELATION = 0.25
"""The default correlation of two numeric columns."""

HIGH_CORRELATION = 0.85
"""The default in the less favourable case; real columns have had it."""

STEPS = np.linspace(1, 0, 21)  # weights of the default matrix, against the one that the stated pairs imply
ROUNDS = 500
POSITIVE, FLOOR = 1e-6, 1e-3  # of eigenvalues


@dataclass(frozen=True, eq=False)  # compared by identity, so that results are cached
class Relations:
    """Public guesses: correlations of pairs of columns, shares of levels, and a default correlation of numbers."""

    correlations: Mapping[frozenset[str], float] = field(default_factory=dict[frozenset[str], float])
    shares: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])  # of all levels
    otherwise: float = CORRELATION

    def of(self, first: str, second: str) -> float | None:
        """The stated correlation of a pair, or None."""
        return self.correlations.get(frozenset((first, second)))

    def unstated(self, numbers: Iterable[str]) -> bool:
        """Whether the correlation of some pair of these columns is not stated."""
        known = list(numbers)
        return any(self.of(a, b) is None for place, a in enumerate(known) for b in known[:place])


UNSTATED = Relations()


def matrix_of(columns: Mapping[str, bool], response: str | None, relations: Relations) -> Floats:
    """Correlations of columns (name to True for numbers); ValueError where the stated ones are impossible.

    Unstated pairs of numbers get the correlation `otherwise`, other pairs 0. Where that contradicts the stated pairs,
    or more than halves a column's conditional variance, unstated pairs move towards those that the stated ones imply.
    """
    names, numbers = list(columns), np.array(list(columns.values()), dtype=bool)
    nodes = names if response is None else [*names, response]
    implied = implied_by(tuple(nodes), relations)[: len(names), : len(names)]
    stated = _stated(names, relations)
    plain = np.where(np.logical_and.outer(numbers, numbers), relations.otherwise, 0.0)
    np.fill_diagonal(plain, 1.0)
    defaults = np.where(np.isnan(stated), plain, stated)
    least = np.minimum(own_shares(plain), own_shares(implied) / 2)
    most = (1 + explained_by(names, response, implied, relations)) / 2
    for step in STEPS:
        found = step * defaults + (1 - step) * implied
        possible = np.linalg.eigvalsh(found)[0] > 0 and (own_shares(found) >= least - POSITIVE).all()
        if possible and explained_by(names, response, found, relations) <= most:
            return found
    return implied


def possible(nodes: Sequence[str], relations: Relations) -> bool:
    """Whether columns with all of the stated correlations can exist."""
    try:
        _possible(_stated(nodes, relations))
    except ValueError:
        return False
    return True


@lru_cache(maxsize=16)
def implied_by(nodes: tuple[str, ...], relations: Relations) -> Floats:
    """The correlation matrix with the stated entries in which every other pair is conditionally independent.

    It has the largest determinant, and is found by giving each free entry in turn a partial correlation of 0.
    """
    stated = _stated(nodes, relations)
    found = _possible(stated)
    free = [(i, j) for i, j in np.argwhere(np.isnan(stated)).tolist() if i < j]
    for _ in range(ROUNDS if len(free) < len(nodes) * (len(nodes) - 1) / 2 else 0):
        before = found.copy()
        for i, j in free:
            rest = [k for k in range(len(nodes)) if k not in (i, j)]
            found[i, j] = found[j, i] = found[i, rest] @ np.linalg.solve(found[np.ix_(rest, rest)], found[rest, j])
        if np.abs(found - before).max() < POSITIVE:
            break
    return found


def own_shares(matrix: Floats) -> Floats:
    """The share of each column's variance that the others do not explain."""
    return 1 / np.diag(np.linalg.inv(matrix))


def slopes_of(names: Sequence[str], response: str | None, matrix: Floats, relations: Relations) -> Floats:
    """Standardised regression slopes; NaN for columns whose correlation with the response is not stated."""
    found = np.full(len(names), np.nan)
    with_response = [None if response is None else relations.of(name, response) for name in names]
    known = [place for place, value in enumerate(with_response) if value is not None]
    if known:
        stated = np.array([value for value in with_response if value is not None])
        found[known] = np.linalg.solve(matrix[np.ix_(known, known)], stated)
    return found


def explained_by(names: Sequence[str], response: str | None, matrix: Floats, relations: Relations) -> float:
    """The share of the response's variance explained by columns whose correlation with it is stated."""
    slopes = slopes_of(names, response, matrix, relations)
    known = np.flatnonzero(~np.isnan(slopes))
    return float(slopes[known] @ matrix[np.ix_(known, known)] @ slopes[known])


def _stated(names: Sequence[str], relations: Relations) -> Floats:
    """The stated correlations as a matrix, NaN for unstated pairs."""
    found = np.full((len(names), len(names)), np.nan)
    for i, first in enumerate(names):
        for j, second in enumerate(names):
            value = 1.0 if i == j else relations.of(first, second)
            found[i, j] = np.nan if value is None else value
    return found


def _possible(stated: Floats) -> Floats:
    """A positive definite matrix with the stated entries, by projections in turn; ValueError where there is none."""
    known = ~np.isnan(stated)
    found = np.where(known, stated, 0.0)
    for _ in range(ROUNDS):
        values, vectors = np.linalg.eigh(found)
        if values[0] > POSITIVE:
            return found
        found = np.where(known, stated, (vectors * np.maximum(values, FLOOR)) @ vectors.T)
    raise ValueError("no columns have all of these correlations")
