"""Noise on further statistics of the same release: it has parameters of its own, and its cost is added."""

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dpbayes_core.privacy.accounting import Cost
from dpbayes_core.rounding import meant, printed_down

if TYPE_CHECKING:
    from dpbayes_core.privacy.mechanisms import Mechanism


def additional_noise_of(mechanism: "Mechanism") -> "Mechanism | None":
    """The noise on the further statistics of a release, where there are any."""
    return getattr(mechanism, "beside", None)


def cost_with(own: Cost, beside: "Mechanism | None") -> Cost:
    """The cost with that of additional noise: pure epsilon and rho add up."""
    if beside is None:
        return own
    other = beside.cost()
    pure = None if own.epsilon is None or other.epsilon is None else own.epsilon + other.epsilon
    return Cost(pure, own.rho + other.rho)


def shares(whole: float | Decimal, own: float, beside: float) -> tuple[float, float]:
    """A loss split in the ratio of two losses; the parts add up to no more than the whole."""
    part = meant(own) / (meant(own) + meant(beside))
    return printed_down(meant(whole) * part), printed_down(meant(whole) * (1 - part))


def recorded(beside: "Mechanism | None") -> dict[str, Any]:
    """Additional noise as a part of a record; empty without it, as in records of earlier versions."""
    return {} if beside is None else {"beside": beside.to_record()}


def read_beside(record: Any) -> "Mechanism | None":
    """The inverse of `recorded`."""
    from dpbayes_core.privacy.mechanisms import mechanism_from_record  # it imports this module

    return mechanism_from_record(record["beside"]) if "beside" in record else None
