"""Laws of noise that are known up to a scale, as samplers, plans and checks need them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpbayes_core.privacy.mechanisms import Mechanism


@dataclass(frozen=True)
class NoiseLaw:
    """The law of independent noise of scale 1; a sampler names the laws that it can condition on."""

    name: str
    code: int  # its number in compiled kernels
    variance: float
    log_peak: float  # the logarithm of its density at 0
    exceeded: Callable[[float], float]  # the size that its absolute value exceeds with this probability

    @property
    def deviation(self) -> float:
        """Its standard deviation."""
        return math.sqrt(self.variance)


def _normal_exceeded(probability: float) -> float:
    from scipy import stats  # slow to import

    return float(stats.norm.isf(probability / 2))


GAUSSIAN = NoiseLaw("gaussian", 0, 1.0, -math.log(2 * math.pi) / 2, _normal_exceeded)
LAPLACE = NoiseLaw("laplace", 1, 2.0, -math.log(2), lambda probability: -math.log(probability))


def law_of(mechanism: "Mechanism") -> NoiseLaw:
    """The law of its noise; a ValueError where none is known up to a scale."""
    if mechanism.law is None:
        raise ValueError(f"cannot read {mechanism.name} as noise of a known law: it states none. Use its deviations.")
    return mechanism.law


def unread(mechanism: "Mechanism", laws: tuple[NoiseLaw, ...]) -> str | None:
    """Why a sampler that conditions on noise of these laws cannot take a mechanism, or None."""
    if mechanism.law in laws:
        return None
    return f"it knows the noise of these mechanisms only: {', '.join(law.name for law in laws)}"
