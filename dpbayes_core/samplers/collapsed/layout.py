"""The order of a regression's variables in the coordinates of the collapsed density."""

from dataclasses import dataclass
from itertools import groupby

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.schema import RegressionSchema


@dataclass(frozen=True)
class Layout:
    """Factors first, then continuous covariates, the response last."""

    order: Integers  # order[position] = index in the release's matrix, the constant at 0
    first: Integers  # first position of each factor
    size: Integers
    step: Floats

    @classmethod
    def of(cls, schema: RegressionSchema, rare: frozenset[int] = frozenset()) -> "Layout":
        """The layout of a schema's variables; levels with indices in `rare`, and their factors, come last."""
        factors = [
            [index for index, _ in group]
            for kind, group in groupby(
                enumerate(schema.variables, start=1), key=lambda pair: (pair[1].kind, pair[1].column)
            )
            if kind[0] != "continuous"
        ]
        factors = [sorted(factor, key=lambda index: index in rare) for factor in factors]
        factors.sort(key=lambda factor: not rare.isdisjoint(factor))
        inside = [index for factor in factors for index in factor]
        others = [index for index in range(schema.m + 1) if index not in inside and index > 0]
        sizes = np.array([len(factor) for factor in factors], dtype=np.int64)
        steps = [2.0 if schema.variables[factor[0] - 1].kind == "two-level" else 1.0 for factor in factors]
        return cls(
            order=np.array([0, *inside, *others], dtype=np.int64),
            first=1 + np.cumsum(sizes) - sizes,
            size=sizes,
            step=np.array(steps),
        )

    @property
    def inside(self) -> int:
        """Number of variables that belong to factors."""
        return int(self.size.sum())

    @property
    def continuous(self) -> range:
        """Positions of continuous variables, the response last."""
        return range(1 + self.inside, len(self.order))

    def places(self, release: Release) -> tuple[Integers, Integers]:
        """Row and column (row >= column) in the layout's order of each released entry."""
        position = np.argsort(self.order)
        pairs = np.sort(position[np.array(release.entries)], axis=1)
        return pairs[:, 1], pairs[:, 0]

    def arranged(self, matrix: Floats, *, corner: float = 0.0) -> Floats:
        """A matrix over (constant, variables) in the layout's order; `corner` fills in for a missing constant."""
        if len(matrix) < len(self.order):
            full = np.zeros((len(self.order),) * 2)
            full[0, 0], full[1:, 1:] = corner, matrix
            matrix = full
        return matrix[np.ix_(self.order, self.order)]
