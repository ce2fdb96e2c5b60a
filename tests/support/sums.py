"""Exact statistics without a table."""

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.regression.moments import PRODUCT_BITS, ExactStatistics


def sums_of(values: NDArray[np.float64], rows: int) -> ExactStatistics:
    """Exact statistics with these standardised values, rounded to the fixed point."""
    return ExactStatistics(rows, tuple(round(value * 2**PRODUCT_BITS) for value in values.tolist()))
