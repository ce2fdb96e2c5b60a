"""A small release of the made-up kind, the same each time."""

from typing import Any

import numpy as np

from dpbayes.kinds.shares.prior import UniformShares
from dpbayes_core.privacy.noise import SeededNoise
from dpbayes_core.regression.schema import Factor
from dpbayes_core.shares.release import SharesDesign


def example() -> tuple[Any, Any]:
    """The release, and a prior for it."""
    design = SharesDesign(column=Factor("colour", ("red", "green", "blue")), epsilon=1.0)
    statistic = design.statistic()
    exact = statistic.sum(statistic.encode({"colour": np.arange(300) % 3}), None)
    return design.release(SeededNoise(2, i_know_this_is_not_private=True), exact), UniformShares()
