"""The map from a bounded column to [-1, 1] in whole steps: centred, or only scaled where zero must stay zero."""

from dataclasses import dataclass

import numpy as np

from dpbayes_core.bounds import Bounds


@dataclass(frozen=True)
class Standardisation:
    """v = 2 (u - middle) / width for u within the bounds; v is in [-1, 1], and at one bound it is -1 or 1."""

    middle: float
    width: float
    bounds: Bounds

    @classmethod
    def shifted(cls, bounds: Bounds) -> "Standardisation":
        """The bounds become -1 and 1."""
        return cls(bounds.middle, bounds.width, bounds)

    @classmethod
    def scaled(cls, bounds: Bounds) -> "Standardisation":
        """Zero stays zero, and the bound farther from it becomes -1 or 1."""
        furthest = max(abs(bounds.low), abs(bounds.high))
        return cls(0.0, Bounds(-furthest, furthest).width, bounds)

    @property
    def slope(self) -> float:
        """dv / du."""
        return 2 / self.width

    @property
    def shift(self) -> float:
        """v at u = 0."""
        return -2 * (self.middle / self.width)

    def steps(self, bits: int) -> tuple[int, int]:
        """The bounds in whole steps, 2**bits of them a width; encoded values are between them."""
        if self.width == self.bounds.width:
            return -(2 ** (bits - 1)), 2 ** (bits - 1)
        low, high = (
            int(np.rint((end - self.middle) / self.width * 2.0**bits)) for end in (self.bounds.low, self.bounds.high)
        )
        return low, high
