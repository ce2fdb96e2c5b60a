"""How far one row moves the released sums, exactly; what `sensitivity` rounds up and multiplies for persons."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Moved:
    """The largest changes in L1 and in squared L2, where squares of continuous columns weigh 2**weight_bits in L2."""

    replaced: Fraction  # one row by another; the count cancels
    replaced_square: Fraction
    added: Fraction  # one row more; the count is among the entries
    added_square: Fraction
    weight_bits: int = 0
