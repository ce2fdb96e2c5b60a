"""A bound on the norm of a row's covariates, in addition to the bounds of each column."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHRINK = 1 - 2.0**-45  # compensates for more than three roundings of doubles


@dataclass(frozen=True)
class Ball:
    """|x| <= covariates and |y| <= response on the standardised scale; longer rows are scaled down to these norms."""

    covariates: float
    response: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "covariates", float(self.covariates))
        object.__setattr__(self, "response", float(self.response))
        if not (math.isfinite(self.covariates) and self.covariates >= 1e-3):
            raise ValueError("cannot bound rows: the norm of the covariates is not at least 0.001. State a larger one.")
        if not 1e-3 <= self.response <= 1:
            raise ValueError("cannot bound rows: the norm of the response is not in [0.001, 1]. State one within.")

    def clip(self, integers: NDArray[Any], unit: int) -> None:
        """Scale integer rows (covariates, then the response) into the ball, in place; `unit` is the integer of 1."""
        largest = math.floor(Fraction(self.response) * unit)
        np.clip(integers[:, -1], -largest, largest, out=integers[:, -1])
        rows = integers[:, :-1].astype(np.int64)
        squares = (rows * rows).sum(axis=1)  # below 2**53 for any number of columns that fits in memory
        (long,) = np.nonzero(squares > math.floor((Fraction(self.covariates) * unit) ** 2))
        factor = self.covariates * unit * SHRINK / np.sqrt(squares[long].astype(np.float64))
        # rounded towards zero, so that the integers are in the ball, too
        integers[long, :-1] = np.trunc(rows[long] * factor[:, None]).astype(integers.dtype)

    def to_record(self) -> dict[str, float]:
        """Plain data for canonical JSON."""
        return {"covariates": self.covariates, "response": self.response}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Ball":
        """The inverse of `to_record`."""
        return cls(record["covariates"], record["response"])
