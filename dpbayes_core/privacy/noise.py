"""Sources of privacy noise: OpenDP's exact samplers, the operating system's entropy, and a seeded source for tests."""

import math
import secrets
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Floats, Integers

if TYPE_CHECKING:
    from opendp.mod import Measurement

GRID_EXPONENT = -40  # values are rounded to multiples of 2^-40 before, and noise is a multiple of 2^-40
UNIFORM_BITS = 53


class NoiseSource(Protocol):
    """Adds noise to statistics and certifies the privacy loss; a release may be made only with a `trusted` source."""

    @property
    def identity(self) -> str:
        """The name and version of the source, for the ledger; never a seed."""
        ...

    @property
    def trusted(self) -> bool:
        """Whether the ledger may charge a release made with it."""
        ...

    def laplace(self, values: Floats, scale: float) -> Floats:
        """The values plus independent Laplace noise."""
        ...

    def gaussian(self, values: Floats, scale: float) -> Floats:
        """The values plus independent Gaussian noise of standard deviation `scale`."""
        ...

    def geometric(self, values: Integers, scale: float) -> Integers:
        """The integers plus independent two-sided geometric noise, P(k) proportional to exp(-|k| / scale)."""
        ...

    def uniform(self, count: int) -> Floats:
        """Independent uniform numbers strictly between 0 and 1: multiples of 2^-53, all equally likely."""
        ...

    def laplace_loss(self, entries: int, scale: float, sensitivity: float) -> float:
        """An upper bound on the pure epsilon of `laplace` on that many entries at this L1 sensitivity."""
        ...

    def gaussian_loss(self, entries: int, scale: float, sensitivity: float) -> float:
        """An upper bound on the zCDP rho of `gaussian` on that many entries at this L2 sensitivity."""
        ...

    def geometric_loss(self, entries: int, scale: float, sensitivity: int) -> float:
        """An upper bound on the pure epsilon of `geometric` on that many integers at this L1 sensitivity."""
        ...


def check_statistics(values: Floats, entries: int) -> None:
    """Refuse values that a sampler would convert silently: wrong type or length, NaN, infinities, no values."""
    if not isinstance(values, np.ndarray) or values.dtype != np.float64:  # pyright: ignore[reportUnnecessaryIsInstance] -- privacy rests on it
        raise ValueError("cannot add noise to statistics: they are not float64. Convert them exactly first.")
    if values.ndim != 1 or len(values) == 0 or len(values) != entries:
        raise ValueError("cannot add noise to statistics: there must be one per declared entry. Give a plain vector.")
    if not np.isfinite(values).all():
        raise ValueError("cannot add noise to statistics: some are not finite. Clip before summing.")


def check_counts(values: Integers, entries: int) -> None:
    """Refuse values that a sampler of integers would convert silently: wrong type or length, no values."""
    if not isinstance(values, np.ndarray) or values.dtype != np.int64:  # pyright: ignore[reportUnnecessaryIsInstance] -- privacy rests on it
        raise ValueError("cannot add noise to counts: they are not 64-bit integers. Convert them exactly first.")
    if values.ndim != 1 or len(values) == 0 or len(values) != entries:
        raise ValueError("cannot add noise to counts: there must be one per declared entry. Give a plain vector.")


def check_count(count: int) -> None:
    """Refuse a count below 1."""
    if count < 1:
        raise ValueError("cannot draw uniform numbers: their number is not positive. Ask for one or more.")


def check_scale(scale: float) -> None:
    """Refuse a scale that is not positive and finite."""
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError("cannot add noise: its scale is not a positive finite number. State a positive loss.")


class OpenDPNoise:
    """Exact discrete Laplace and Gaussian noise on a 2^-40 grid, from the operating system's entropy."""

    trusted = True

    @property
    def identity(self) -> str:
        """Library, version and grid."""
        from opendp.mod import __version__

        return f"opendp {__version__}, k={GRID_EXPONENT}"

    def laplace(self, values: Floats, scale: float) -> Floats:
        """The values plus independent Laplace noise."""
        check_statistics(values, np.size(values))
        return _drawn(_laplace_measurement(len(values), scale), values, np.dtype(np.float64))

    def gaussian(self, values: Floats, scale: float) -> Floats:
        """The values plus independent Gaussian noise."""
        check_statistics(values, np.size(values))
        return _drawn(_gaussian_measurement(len(values), scale), values, np.dtype(np.float64))

    def geometric(self, values: Integers, scale: float) -> Integers:
        """The integers plus independent two-sided geometric noise, exactly."""
        check_counts(values, np.size(values))
        return _drawn(_geometric_measurement(len(values), scale), values, np.dtype(np.int64))

    def uniform(self, count: int) -> Floats:
        """Uniform numbers from the operating system's entropy, 53 bits each; a zero is drawn again."""
        check_count(count)
        steps = np.zeros(count, dtype=np.uint64)
        while (zero := steps == 0).any():
            words = np.frombuffer(secrets.token_bytes(8 * int(zero.sum())), dtype=np.uint64)
            steps[zero] = words >> np.uint64(64 - UNIFORM_BITS)
        return np.ldexp(steps.astype(np.float64), -UNIFORM_BITS)

    def laplace_loss(self, entries: int, scale: float, sensitivity: float) -> float:
        """The pure epsilon of OpenDP's own map, which counts the rounding to its grid."""
        return _laplace_loss(entries, scale, sensitivity)

    def gaussian_loss(self, entries: int, scale: float, sensitivity: float) -> float:
        """The zCDP rho of OpenDP's own map, which counts the rounding to its grid."""
        return _gaussian_loss(entries, scale, sensitivity)

    def geometric_loss(self, entries: int, scale: float, sensitivity: int) -> float:
        """The pure epsilon of OpenDP's own map on integers, without rounding."""
        return _geometric_loss(entries, scale, sensitivity)


@lru_cache(maxsize=16)  # used to check and then to draw: a measurement has no state between draws
def _laplace_measurement(entries: int, scale: float) -> "Measurement":
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance
    from opendp.mod import enable_features

    check_scale(scale)
    enable_features("contrib")
    domain = vector_domain(atom_domain(T=float, nan=False), size=entries)
    return make_laplace(domain, l1_distance(T=float), scale=scale, k=GRID_EXPONENT)


@lru_cache(maxsize=16)
def _gaussian_measurement(entries: int, scale: float) -> "Measurement":
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    check_scale(scale)
    enable_features("contrib")
    domain = vector_domain(atom_domain(T=float, nan=False), size=entries)
    return make_gaussian(domain, l2_distance(T=float), scale=scale, k=GRID_EXPONENT)


@lru_cache(maxsize=64)  # a release may have a scale for each of its tables
def _geometric_measurement(entries: int, scale: float) -> "Measurement":
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance
    from opendp.mod import enable_features

    check_scale(scale)
    enable_features("contrib")
    domain = vector_domain(atom_domain(T="i64"), size=entries)
    return make_laplace(domain, l1_distance(T="i64"), scale=scale)


@lru_cache(maxsize=16)
def _laplace_loss(entries: int, scale: float, sensitivity: float) -> float:
    return float(_laplace_measurement(entries, scale).map(sensitivity))


@lru_cache(maxsize=16)
def _gaussian_loss(entries: int, scale: float, sensitivity: float) -> float:
    return float(_gaussian_measurement(entries, scale).map(sensitivity))


@lru_cache(maxsize=64)
def _geometric_loss(entries: int, scale: float, sensitivity: int) -> float:
    return float(_geometric_measurement(entries, scale).map(sensitivity))


def _drawn(measurement: "Measurement", values: NDArray[Any], kind: np.dtype[Any]) -> NDArray[Any]:
    failed = False
    noisy = np.empty(0)
    try:
        noisy = np.array(measurement(values.tolist()), dtype=kind)
    except Exception:  # the library's message may quote its argument
        failed = True
    if failed or noisy.shape != values.shape or not np.isfinite(noisy).all():
        raise RuntimeError("cannot add noise to statistics: OpenDP refused them. Nothing was released.")
    return noisy


class SeededNoise:
    """Reproducible noise for tests: who knows the seed can remove it, so the ledger refuses it."""

    trusted = False

    def __init__(self, seed: int, *, i_know_this_is_not_private: Literal[True]) -> None:
        if i_know_this_is_not_private is not True:  # pyright: ignore[reportUnnecessaryComparison] -- for untyped callers
            raise ValueError("cannot make seeded noise: it protects nobody. Opt in explicitly, in tests only.")
        self._generator = np.random.Generator(np.random.Philox(seed))

    @property
    def identity(self) -> str:
        """The name of the source, without its seed."""
        return "seeded test double, not private"

    def laplace(self, values: Floats, scale: float) -> Floats:
        """The values plus floating-point Laplace noise."""
        check_statistics(values, np.size(values))
        check_scale(scale)
        return values + self._generator.laplace(0.0, scale, len(values))

    def gaussian(self, values: Floats, scale: float) -> Floats:
        """The values plus floating-point Gaussian noise."""
        check_statistics(values, np.size(values))
        check_scale(scale)
        return values + self._generator.normal(0.0, scale, len(values))

    def geometric(self, values: Integers, scale: float) -> Integers:
        """The integers plus the difference of two geometric numbers."""
        check_counts(values, np.size(values))
        check_scale(scale)
        up, down = (np.floor(scale * self._generator.standard_exponential(len(values))) for _ in range(2))
        noise = np.clip(up - down, -(2.0**62), 2.0**62)
        return values + noise.astype(np.int64)  # the floor of an exponential number is geometric

    def uniform(self, count: int) -> Floats:
        """Reproducible uniform numbers of 53 bits."""
        check_count(count)
        steps = self._generator.integers(1, 2**UNIFORM_BITS, count)
        return np.ldexp(steps.astype(np.float64), -UNIFORM_BITS)

    def laplace_loss(self, entries: int, scale: float, sensitivity: float) -> float:
        """The pure epsilon of ideal Laplace noise."""
        check_scale(scale)
        return sensitivity / scale

    def gaussian_loss(self, entries: int, scale: float, sensitivity: float) -> float:
        """The zCDP rho of ideal Gaussian noise."""
        check_scale(scale)
        return (sensitivity / scale) ** 2 / 2

    def geometric_loss(self, entries: int, scale: float, sensitivity: int) -> float:
        """The pure epsilon of ideal geometric noise."""
        check_scale(scale)
        return sensitivity / scale
