"""The array types of the code's signatures, declared once."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
ShortIntegers = NDArray[np.int32]
AnyIntegers = NDArray[np.integer[Any]]
Words = NDArray[np.uint64]
Columns = Mapping[str, NDArray[Any]]
"""A table by column: finite numbers of bounded columns, integer codes of columns with levels."""
