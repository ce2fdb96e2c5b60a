"""Exact statistics of a table that nobody wrote."""

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.regression.moments import PRODUCT_BITS, ExactStatistics


def sums_of(values: NDArray[np.float64], rows: int) -> ExactStatistics:
    """Sums that are these standardised values, to the last bit of the fixed point."""
    return ExactStatistics(rows, tuple(round(value * 2**PRODUCT_BITS) for value in values.tolist()))
