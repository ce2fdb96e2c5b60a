"""The sensitivity of released values, and the neighbour relations."""

from dataclasses import dataclass

REPLACE_ONE = "replace-one"


ADD_REMOVE = "add-remove"


NEIGHBOURS = (REPLACE_ONE, ADD_REMOVE)


@dataclass(frozen=True)
class Sensitivity:
    """The largest change of the standardised entries between neighbours: the exact supremum, rounded up to a double."""

    l1: float  # of the entries themselves
    l2: float  # of the entries multiplied by their weights: an upper bound without them, too
    weights: tuple[float, ...]  # powers of two, in the order of `released_entries`
    neighbours: str
    max_rows_per_unit: int = 1
