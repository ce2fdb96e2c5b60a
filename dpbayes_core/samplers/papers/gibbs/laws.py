"""Fixed moments of the covariates' law: from the default prior, or as released."""

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import combinations_with_replacement

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.samplers.papers.gibbs.arrays import Moments
from dpbayes_core.samplers.papers.gibbs.repair import diagonalise, rebuild, repair

Places = tuple[int, ...]


def declared_moments(schema: RegressionSchema, prior: Prior) -> Moments:
    """The marginal law of a row in the covariates' default prior: symmetric, columns uncorrelated, levels equal."""
    mean, spread = prior.mean_sd**2, prior.variance
    several = sum(variable.kind == "continuous" for variable in schema.variables[:-1])
    alike = 1 / (2 * prior.correlation - 1 + several)  # mean square of a correlation under the LKJ law
    square, fourth = mean + spread, 3 * mean**2 + 6 * mean * spread + 6 * spread**2
    both = mean**2 + 2 * mean * spread + spread**2 * (1 + 2 * alike)
    by_powers: dict[Places, float] = {(): 1.0, (2,): square, (4,): fourth, (2, 2): both}
    sizes = Counter(variable.column for variable in schema.variables)

    def of(places: Places) -> float:
        powers = Counter(places)
        numbers = sorted(p for i, p in powers.items() if schema.variables[i - 1].kind == "continuous")
        if any(power % 2 for power in numbers):
            return 0.0
        value = by_powers[tuple(numbers)]
        for i, power in powers.items():
            variable = schema.variables[i - 1]
            if variable.kind == "two-level":
                value *= 1.0 - power % 2
            elif variable.kind == "indicator":
                value /= sizes[variable.column] + 1
        return value

    return moments_of(schema, of)


def noisy_moments(schema: RegressionSchema, second: Floats, higher: Mapping[Places, float]) -> Moments:
    """Second moments of (1, x) and the released third and fourth, all divided by the rows."""

    def of(places: Places) -> float:
        padded = (0,) * (4 - len(places)) + places
        return float(second[padded[2], padded[3]]) if len(places) < 3 else higher[padded]

    return moments_of(schema, of)


def moments_of(schema: RegressionSchema, of: Callable[[Places], float]) -> Moments:
    """Repaired moments from the means of products of up to four variables.

    `of` is called only for products without a known square: no level twice, no two levels of one column.
    """
    size = schema.d + 1
    pairs = list(combinations_with_replacement(range(size), 2))
    number = np.zeros((size, size), dtype=np.int64)
    for place, (i, j) in enumerate(pairs):
        number[i, j] = number[j, i] = place
    known: dict[Places | None, float] = {None: 0.0}

    def value(places: Places) -> float:
        short = shortened(schema, places)
        if short not in known:
            known[short] = of(short or ())
        return known[short]

    mean = np.array([value(pair) for pair in pairs])
    products = np.array([[value((*pair, *other)) for other in pairs] for pair in pairs])
    covariance, root = _semidefinite(products - np.outer(mean, mean))
    second = mean[number]
    scatter, vectors, factor = np.zeros((3, size - 1, size - 1))
    repair(second, scatter, vectors, factor, 0.0)
    return Moments(number, second[np.triu_indices(size)], covariance, root.T.copy(), *_semidefinite(second))


def shortened(schema: RegressionSchema, places: Places) -> Places | None:
    """The variables that remain of a product, sorted; None where it is always 0."""
    left: list[int] = []
    for place in sorted(place for place in places if place > 0):
        variable = schema.variables[place - 1]
        if variable.kind == "two-level" and place in left:
            left.remove(place)  # the square of a two-level variable is 1
        elif variable.kind == "indicator" and place in left:
            continue  # an indicator equals its square
        elif variable.kind == "indicator" and any(schema.variables[i - 1].column == variable.column for i in left):
            return None
        else:
            left.append(place)
    return tuple(left)


def _semidefinite(matrix: Floats) -> tuple[Floats, Floats]:
    """The nearest positive semidefinite matrix, and a root of it."""
    values, vectors = matrix.copy(), np.zeros_like(matrix)
    diagonalise(values, vectors)
    root = vectors.T * np.sqrt(np.maximum(np.diag(values), 0.0))
    rebuild(values, vectors, 0.0)
    return values, np.ascontiguousarray(root)
