"""The sensitivity of the released second moments to one person; every formula is proved in docs/sensitivity.md."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache

from dpbayes_core.privacy.sensitivity import NEIGHBOURS, REPLACE_ONE, Sensitivity
from dpbayes_core.regression.schema import Cases, RegressionSchema
from dpbayes_core.regression.sensitivity.row_change import (
    Moved,
    lowest_of,
    lowest_once_shrunk,
    moved_in_ball,
    moved_without_intercept,
)
from dpbayes_core.rounding import float_up, root_up

Point = tuple[Fraction, Fraction]

EDGES = (Fraction(0), Fraction(1))


def count_is_public(neighbours: str, max_rows_per_unit: int = 1, cases: Cases = "all") -> bool:
    """Whether neighbours always have the same number of rows: if one row that counts is replaced by another."""
    return neighbours == REPLACE_ONE and max_rows_per_unit == 1 and cases == "all"


def released_entries(
    schema: RegressionSchema, neighbours: str = REPLACE_ONE, max_rows_per_unit: int = 1
) -> tuple[tuple[int, int], ...]:
    """The entries that are released with noise; the count (0, 0) comes first where it is not public."""
    public = count_is_public(neighbours, max_rows_per_unit, schema.cases)
    return schema.entries if public else schema.entries_with_count


@lru_cache(maxsize=64)  # used with every charge and every release that is read
def regression_sensitivity(
    schema: RegressionSchema, neighbours: str = REPLACE_ONE, max_rows_per_unit: int = 1
) -> Sensitivity:
    """The sensitivity in L1 and in L2, with the largest weights on squares that do not increase it.

    With complete cases a row counts or not; the bound covers every weight of a row in [0, 1].
    """
    _check_relation(neighbours, max_rows_per_unit)
    return _sensitivity(schema, _moved(schema, weighted=neighbours == REPLACE_ONE), neighbours, max_rows_per_unit)


def understated_sensitivity(
    schema: RegressionSchema, neighbours: str = REPLACE_ONE, max_rows_per_unit: int = 1
) -> Sensitivity | None:
    """The first version's sensitivity where it was too small: it assumed that shrunk rows stay within the bounds."""
    _check_relation(neighbours, max_rows_per_unit)
    if schema.intercept or schema.ball is None or lowest_of(schema) == lowest_once_shrunk(schema):
        return None
    box = moved_without_intercept(lowest_of(schema), weighted=neighbours == REPLACE_ONE)
    moved = moved_in_ball(schema.ball, intercept=False, box=box)
    return _sensitivity(schema, moved, neighbours, max_rows_per_unit)


def weighed_sensitivity(
    schema: RegressionSchema, places: tuple[tuple[int, int], ...], neighbours: str, max_rows_per_unit: int
) -> Sensitivity:
    """The sensitivity of these entries of the covariates' second moments, with a weight in [0, 1] for each row."""
    _check_relation(neighbours, max_rows_per_unit)
    shape = _Shape.of(schema)
    moved = _moved_in_box(replace(shape, continuous=shape.continuous - 1), weighted=neighbours == REPLACE_ONE)
    largest, square = moved.added, moved.added_square
    if neighbours == REPLACE_ONE:
        largest, square = max(largest, moved.replaced), max(square, moved.replaced_square)
    return Sensitivity(
        l1=float_up(max_rows_per_unit * largest),
        l2=float_up(root_up(max_rows_per_unit**2 * square)),
        weights=tuple(float(2**moved.weight_bits) if i == j and i > 0 else 1.0 for i, j in places),
        neighbours=neighbours,
        max_rows_per_unit=max_rows_per_unit,
    )


def _check_relation(neighbours: str, max_rows_per_unit: int) -> None:
    if neighbours not in NEIGHBOURS:
        raise ValueError(f"cannot bound sensitivity: {neighbours} is no relation. Use replace-one or add-remove.")
    if max_rows_per_unit < 1:
        raise ValueError("cannot bound sensitivity: max_rows_per_unit must be positive. Declare at least 1.")


def _sensitivity(schema: RegressionSchema, moved: Moved, neighbours: str, rows: int) -> Sensitivity:
    largest, square = moved.added, moved.added_square
    if neighbours == REPLACE_ONE:
        same = count_is_public(neighbours, rows, schema.cases)
        largest = moved.replaced if same else max(largest, moved.replaced)
        square = moved.replaced_square if same else max(square, moved.replaced_square)
    return Sensitivity(
        l1=float_up(rows * largest),
        l2=float_up(root_up(rows**2 * square)) if square.denominator > 1 else root_above(rows**2 * int(square)),
        weights=tuple(
            float(2**moved.weight_bits) if i == j and i > 0 else 1.0
            for i, j in released_entries(schema, neighbours, rows)
        ),
        neighbours=neighbours,
        max_rows_per_unit=rows,
    )


def _moved(schema: RegressionSchema, *, weighted: bool) -> Moved:
    if schema.intercept:
        box = _moved_in_box(_Shape.of(schema), weighted=weighted)
    else:
        box = moved_without_intercept(lowest_once_shrunk(schema), weighted=weighted)
    return box if schema.ball is None else moved_in_ball(schema.ball, intercept=schema.intercept, box=box)


@dataclass(frozen=True)
class _Shape:
    """The numbers of columns by kind; the sensitivity does not depend on numbers of levels."""

    continuous: int  # the response included
    two_level: int
    factors: int  # of three levels or more

    @classmethod
    def of(cls, schema: RegressionSchema) -> "_Shape":
        kinds = {variable.column: variable.kind for variable in schema.variables}
        counts = [list(kinds.values()).count(kind) for kind in ("continuous", "two-level", "indicator")]
        return cls(*counts)


def _moved_in_box(shape: _Shape, *, weighted: bool) -> Moved:
    bits = _weight_bits(shape) if weighted else 0
    return Moved(
        replaced=_largest_l1(shape),
        replaced_square=Fraction(_largest_squared_l2(shape)),
        added=_added(shape),
        added_square=_added(shape) + shape.continuous * (4**bits - 1),
        weight_bits=bits,
    )


def _weight_bits(shape: _Shape) -> int:
    """The largest k with 4**k <= (p + 2q + 2C + 3) / 2: weights 2**k on squares do not increase the sensitivity."""
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


def _added(shape: _Shape) -> Fraction:
    """Exact L1 size, and squared L2 size, of one row with its count (docs/sensitivity.md, theorem 3)."""
    span = 1 + shape.continuous + shape.two_level + shape.factors
    return Fraction(span * (span + 1), 2) - shape.two_level - shape.factors


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
    """A second row: `ups` coordinates at alpha, `downs` at -beta; `pull` sums its constant and two-level columns."""

    ups: int
    downs: int
    pull: int
    factors: int

    def largest(self) -> Fraction:
        """The exact maximum over the unit square, from the stationary points inside and on the edges."""
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


def root_above(square: int) -> float:
    """The smallest double whose square is not below `square`."""
    root = math.sqrt(square)
    return root if Fraction(root) ** 2 >= square else math.nextafter(root, math.inf)
