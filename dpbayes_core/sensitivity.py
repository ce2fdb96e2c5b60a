"""How far one replaced row can move the released second moments; every formula is proved in docs/sensitivity.md."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from dpbayes_core.schema import RegressionSchema

Point = tuple[Fraction, Fraction]

REPLACE_ONE = "replace-one"
EDGES = (Fraction(0), Fraction(1))


@dataclass(frozen=True)
class Sensitivity:
    """Largest change of the standardised entries between neighbours; the exact supremum, as the next double up."""

    l1: float  # of the entries themselves
    l2: float  # of the entries multiplied by their weights: an upper bound without them, too
    weights: tuple[float, ...]  # powers of two, in the order of schema.entries
    neighbours: str


def regression_sensitivity(schema: RegressionSchema) -> Sensitivity:
    """L1, and L2 with the free weights on squares of continuous columns, when one row is replaced by another."""
    shape = _Shape.of(schema)
    weight = float(2 ** _weight_bits(shape))
    return Sensitivity(
        l1=_float_above(_largest_l1(shape)),
        l2=_root_above(_largest_squared_l2(shape)),
        weights=tuple(weight if i == j and i > 0 else 1.0 for i, j in schema.entries),
        neighbours=REPLACE_ONE,
    )


@dataclass(frozen=True)
class _Shape:
    """What the sensitivity depends on: numbers of columns by kind; numbers of levels drop out."""

    continuous: int  # the response included
    two_level: int
    factors: int  # of three levels or more

    @classmethod
    def of(cls, schema: RegressionSchema) -> "_Shape":
        kinds = {variable.column: variable.kind for variable in schema.variables}
        counts = [list(kinds.values()).count(kind) for kind in ("continuous", "two-level", "indicator")]
        return cls(*counts)


def _weight_bits(shape: _Shape) -> int:
    """Largest k with 4**k <= (p + 2q + 2C + 3) / 2: squares of continuous columns may weigh 2**k for free."""
    return (_twice_weight_limit(shape).bit_length() - 2) // 2


def _twice_weight_limit(shape: _Shape) -> int:
    return shape.continuous + 2 * (shape.two_level + shape.factors) + 3


def _largest_squared_l2(shape: _Shape) -> int:
    """Exact square of the weighted L2 sensitivity (docs/sensitivity.md, theorem 2)."""
    columns = shape.continuous + shape.two_level
    span = columns + 1 + shape.factors
    if shape.factors >= columns:
        return span**2 - (shape.factors - columns + 1)
    weight_is_at_its_limit = 2 * 4 ** _weight_bits(shape) == _twice_weight_limit(shape)
    if span % 2 == 0 or (weight_is_at_its_limit and shape.factors < shape.two_level):
        return span**2
    return span**2 - 1


@cache
def _largest_l1(shape: _Shape) -> Fraction:
    """Exact L1 sensitivity (docs/sensitivity.md, theorem 1): the best of small concave problems, in fractions."""
    p, q, factors = shape.continuous, shape.two_level, shape.factors
    n = 1 + p + q
    fixed = Fraction(n * (n - 1) + 1 + q, 2) + p + factors * (p + 2 * q) + factors * (factors + 1)
    return fixed + max(
        _Split(a, p - a, 1 + q - 2 * flipped, factors).largest() for flipped in range(q + 1) for a in range(p + 1)
    )


@dataclass(frozen=True)
class _Split:
    """The other row: `ups` coordinates at alpha, `downs` at -beta; `pull` sums its constant and two-level columns."""

    ups: int
    downs: int
    pull: int
    factors: int

    def largest(self) -> Fraction:
        """Maximum over the unit square; exact, because a concave quadratic peaks inside or on an edge."""
        return max(self._value(*point) for point in self._candidates())

    def _value(self, alpha: Fraction, beta: Fraction) -> Fraction:
        total = self.pull + self.ups * alpha - self.downs * beta
        squares = self.ups * alpha**2 + self.downs * beta**2
        return self.factors * (self.ups * alpha + self.downs * beta) - (total**2 + squares) / 2

    def _candidates(self) -> Iterator[Point]:
        up, down = self.factors - self.pull, self.factors + self.pull  # gradients at the origin, per coordinate
        determinant = self.ups + self.downs + 1
        inside = (
            Fraction((self.downs + 1) * up + self.downs * down, determinant),
            Fraction((self.ups + 1) * down + self.ups * up, determinant),
        )
        if all(0 <= coordinate <= 1 for coordinate in inside):
            yield inside
        for edge in EDGES:
            yield edge, _into_unit((down + self.ups * edge) / (self.downs + 1))
            yield _into_unit((up + self.downs * edge) / (self.ups + 1)), edge


def _into_unit(value: Fraction) -> Fraction:
    return min(max(value, Fraction(0)), Fraction(1))


def _float_above(value: Fraction) -> float:
    """The smallest double not below `value`."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def _root_above(square: int) -> float:
    """The smallest double whose square is not below `square`."""
    root = math.sqrt(square)
    return root if Fraction(root) ** 2 >= square else math.nextafter(root, math.inf)
