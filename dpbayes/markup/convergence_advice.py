"""What it means that chains have not converged, and what to do; used on the terminal and on pages."""

from collections.abc import Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]

FAR = 1.5  # chains with a larger R-hat hardly overlap, as where each of two modes keeps some of them

DISAGREE = "The chains do not agree on one posterior, so estimates and intervals may be wrong."
FEW = "The chains hold too few independent draws, so intervals may be rough."
BROKEN = (
    "Trajectories broke off at places that the chains cannot follow, so tails of the posterior may be missing from "
    "the draws."
)
LONGER = "Run the analysis again with more draws or chains; that spends nothing."
OTHER_PRIOR = (
    "Where prior and release contradict each other each may have a mode of its own: then more draws do not help, and a "
    "prior that allows for both does."
)
FIRMER = "State a firmer prior, or release with less noise, which is charged: more draws lower no share of divergences."


def why_words(record: Record) -> str:
    """The criteria that were missed, as a sentence; empty if none is recorded."""
    return f"{record['why'].rstrip('.')}." if record["why"] else ""


def advice(record: Record) -> str:
    """What the missed criteria mean and what to do; empty if the chains converged."""
    if record["status"] == "converged":
        return ""
    limits = record["diagnostics"]["gate"]
    rhats, sizes = _of(record, "rhat"), _of(record, "ess_bulk", "ess_tail")
    disagree, broken = not agree(record), _broke_off(record)
    few = any(value is None or value < limits["ess"] for value in sizes)
    sentences = {
        DISAGREE: disagree,
        FEW: few and not disagree,
        BROKEN: broken,
        LONGER: disagree or few or not broken,
        OTHER_PRIOR: any(value is not None and value > FAR for value in rhats),
        FIRMER: broken,
    }
    return " ".join(words for words, holds in sentences.items() if holds)


def agree(record: Record) -> bool:
    """Whether every R-hat passes, whatever other criterion is missed."""
    return all(value is not None and value <= record["diagnostics"]["gate"]["rhat"] for value in _of(record, "rhat"))


def _broke_off(record: Record) -> bool:
    drawn = record["diagnostics"]
    return drawn["divergences"] / (drawn["chains"] * drawn["draws"]) > drawn["gate"]["divergent"]


def _of(record: Record, *diagnostics: str) -> Sequence[float | None]:
    """The values of these diagnostics for every parameter, and for the worst of the latent statistics."""
    latent = record["diagnostics"]["latent"]
    lines = [*record["coefficients"], *([latent] if latent else [])]
    return [line[name] for line in lines for name in diagnostics]
