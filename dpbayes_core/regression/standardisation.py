"""How a bounded column becomes whole steps in [-1, 1]: shifted to its middle, or only scaled where zero must stay."""

from dataclasses import dataclass

import numpy as np

from dpbayes_core.bounds import Bounds


@dataclass(frozen=True)
class Standardisation:
    """v = 2 (u - middle) / width for u inside the bounds; v lies in [-1, 1], and one end of the bounds is -1 or 1."""

    middle: float
    width: float
    bounds: Bounds

    @classmethod
    def shifted(cls, bounds: Bounds) -> "Standardisation":
        """The bounds become -1 and 1."""
        return cls(bounds.middle, bounds.width, bounds)

    @classmethod
    def scaled(cls, bounds: Bounds) -> "Standardisation":
        """Zero stays zero, and the bound further from it becomes -1 or 1."""
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
        """The bounds as whole numbers of steps, 2**bits of them a width; no value is encoded beyond."""
        if self.width == self.bounds.width:
            return -(2 ** (bits - 1)), 2 ** (bits - 1)
        low, high = (
            int(np.rint((end - self.middle) / self.width * 2.0**bits)) for end in (self.bounds.low, self.bounds.high)
        )
        return low, high
