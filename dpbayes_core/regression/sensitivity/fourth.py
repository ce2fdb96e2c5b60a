"""The sensitivity of third and fourth moments (docs/sensitivity.md): exact where all covariates are numbers.

Gaussian noise is added to entries times weights that make them nearly the entries of a symmetric tensor, Laplace noise
to the entries themselves.
"""

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement
from math import comb, factorial, isqrt

from dpbayes_core.privacy.sensitivity import NEIGHBOURS, REPLACE_ONE, Sensitivity
from dpbayes_core.regression.schema import RegressionSchema, Variable
from dpbayes_core.regression.sensitivity.box import count_is_public
from dpbayes_core.rounding import float_up, root_up

Places = tuple[int, int, int, int]
WEIGHT_BITS = 10  # weights are multiples of 2**-10, so that weighted sums are whole numbers too
WEIGHT_UNIT = 2**WEIGHT_BITS


def fourth_weights(schema: RegressionSchema, norm: str) -> tuple[int, ...]:
    """The factor of each entry before noise of this norm is added to it, in units of 1 / WEIGHT_UNIT."""
    entries = tuple(fourth_entries(schema))
    return tuple(_weight(entry) for entry in entries) if norm == "L2" else (WEIGHT_UNIT,) * len(entries)


@lru_cache(maxsize=64)
def fourth_sensitivity(
    schema: RegressionSchema, neighbours: str = REPLACE_ONE, max_rows_per_unit: int = 1
) -> Sensitivity:
    """The L1 sensitivity of the entries, and the L2 sensitivity of the entries times their weights."""
    if neighbours not in NEIGHBOURS or max_rows_per_unit < 1:
        raise ValueError("cannot bound sensitivity: there is no such relation, or no row a person. Correct them.")
    alike = _alike(schema)
    added, added_square = Fraction(len(alike)), Fraction(sum(_weight(entry) ** 2 for entry in alike), WEIGHT_UNIT**2)
    if neighbours == REPLACE_ONE:
        replaced, square = _replaced(schema, alike)
        same = count_is_public(neighbours, max_rows_per_unit, schema.cases)
        added = replaced if same else max(replaced, added)
        added_square = square if same else max(square, added_square)
    return Sensitivity(
        l1=float_up(max_rows_per_unit * added),
        l2=float_up(root_up(max_rows_per_unit**2 * added_square)),
        weights=(1.0,) * len(tuple(fourth_entries(schema))),
        neighbours=neighbours,
        max_rows_per_unit=max_rows_per_unit,
    )


def _replaced(schema: RegressionSchema, alike: tuple[Places, ...]) -> tuple[Fraction, Fraction]:
    kinds = Counter({v.column: v.kind for v in schema.variables[:-1]}.values())
    numbers, signed = kinds["continuous"], kinds["continuous"] + kinds["two-level"]
    columns = signed + kinds["indicator"]
    if numbers == columns:
        lowest = min(_kernel(total) for total in range(-columns, columns + 1, 2))
        dip = Fraction(27 * comb(columns + 2, 3), 4 * (columns + 3) ** 3)
        return len(alike) + dip, Fraction(2 * (_kernel(columns) - lowest))
    changes = [_range(schema, entry) for entry in alike]
    lowest = min(_kernel(-min(signed, 3)), _kernel(-signed))
    separate = Fraction(
        sum(_weight(entry) ** 2 * change**2 for entry, change in zip(alike, changes, strict=True)), WEIGHT_UNIT**2
    )
    return Fraction(sum(changes)), min(separate, Fraction(2 * (_kernel(columns) - lowest)))


def _alike(schema: RegressionSchema) -> tuple[Places, ...]:
    """One entry for each product of columns: of entries for its levels at most one is not zero in a row."""
    variables = dict(enumerate(schema.variables, start=1))
    return tuple({tuple(variables[i].column if i else "" for i in e): e for e in fourth_entries(schema)}.values())


def _range(schema: RegressionSchema, entry: Places) -> int:
    """How far the entries of one product of columns can change together, in L1."""
    numbers = all(i and schema.variables[i - 1].kind == "continuous" for i in entry)
    return 1 if numbers and all(times % 2 == 0 for times in Counter(entry).values()) else 2


def _kernel(total: int) -> int:
    """The sum over ordered quadruples with three or four covariates, as a function of x'y over covariates."""
    return total**4 + 4 * total**3


def _weight(entry: Places) -> int:
    """The root of the number of ordered quadruples that give this product, rounded down."""
    quadruples = 24
    for times in Counter(entry).values():
        quadruples //= factorial(times)
    return isqrt(quadruples * WEIGHT_UNIT**2)


def fourth_entries(schema: RegressionSchema) -> Iterator[Places]:
    """Products of three or four covariates' variables, without squares of levels and two levels of one column."""
    variables = schema.variables[:-1]
    for size in (3, 4):
        for chosen in combinations_with_replacement(range(1, len(variables) + 1), size):
            if _is_new([variables[i - 1] for i in chosen]):
                first, *rest = chosen
                yield (0, first, rest[0], rest[1]) if size == 3 else (first, rest[0], rest[1], rest[2])


def _is_new(chosen: list[Variable]) -> bool:
    levels = [variable.column for variable in chosen if variable.kind != "continuous"]
    return len(set(levels)) == len(levels)
