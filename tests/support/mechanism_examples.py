"""Examples of every registered mechanism with statistics that it takes, for the contract tests."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from dpbayes_core.privacy.mechanisms import (
    MECHANISMS,
    GeometricMechanism,
    gaussian_for,
    laplace_for,
)


@dataclass(frozen=True)
class Bound:
    """The parts of a sensitivity that mechanisms read."""

    l1: float
    l2: float
    weights: tuple[float, ...]


TWO_COLUMNS = Bound(16 / 3, math.sqrt(8), (1.0, 1.0, 1.0, 1.0, 1.0))
WEIGHTED = Bound(20.4167, 6.0, (1.0, 2.0, 1.0, 1.0, 2.0, 1.0))


def numbers(count: int) -> Any:
    return np.linspace(-40.0, 900.0, count)


def counts(*shape: int) -> Any:
    return np.arange(math.prod(shape), dtype=np.int64).reshape(shape)


EXAMPLES: Mapping[str, list[tuple[Any, Any]]] = {  # mechanism, statistics or None
    "laplace": [
        (laplace_for(TWO_COLUMNS, epsilon=0.5, grid=30, entries=5), numbers(5)),
        (laplace_for(WEIGHTED, epsilon=Decimal("0.1"), grid=12, entries=6), numbers(6)),
    ],
    "gaussian": [
        (gaussian_for(TWO_COLUMNS, epsilon=1, delta=1e-6, grid=30), numbers(5)),
        (gaussian_for(WEIGHTED, epsilon=Decimal("0.1"), delta=Decimal("1e-5"), grid=12), numbers(6)),
        (gaussian_for(WEIGHTED, rho=0.02, grid=30), numbers(6)),
    ],
    "geometric": [
        (
            GeometricMechanism(epsilon=e, sizes=(4, 8), sensitivities=(2, 2), largest_move=1, shares=(1.0, 2.0)),
            counts(12),
        )
        for e in (1.0, 8.0)
    ],
    "posterior-draw": [(MECHANISMS["posterior-draw"](epsilon=1.0, draws=4, tempering=0.5, oscillation=0.5), None)],
    "exponential": [(MECHANISMS["exponential"](epsilon=1.0, values=5, points=900, shares=(1.0, 3.0)), counts(2, 5))],
    "centre-scale": [(MECHANISMS["centre-scale"](epsilon=1.0, values=n), counts(2, n)) for n in (50, 380)],
}
