"""Public limits of a column: declared before any row is seen, never taken from the data."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Bounds:
    """A closed interval that a column is clipped to; both ends are public."""

    low: float
    high: float

    def __post_init__(self) -> None:
        # integers become floats: 0 and 0.0 must give the same record, hence the same hash
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise ValueError("cannot declare bounds: both ends must be finite. Give two ordinary numbers.")
        if self.low >= self.high:
            raise ValueError(f"cannot declare bounds [{self.low:g}, {self.high:g}]: low must be below high. Swap them.")
        if not (self.low < self.middle < self.high and math.isfinite(self.width)):
            raise ValueError(
                f"cannot declare bounds [{self.low!r}, {self.high!r}]: double precision cannot divide them. "
                "Shift or rescale the column."
            )

    @property
    def width(self) -> float:
        """high - low."""
        return self.high - self.low

    @property
    def middle(self) -> float:
        """The value that is standardised to 0."""
        return self.low / 2 + self.high / 2  # halves first: the sum may overflow
