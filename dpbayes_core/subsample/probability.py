"""Posterior probabilities P(coefficient <= threshold): the sums over subsets, their release, and its terms.

Each subset's answer is a whole number of steps up to 2^20, so the sums are integers, one subset changes each by at most
2^20, and the noise is two-sided geometric. Subsets contain whole persons, so replacing, adding or removing a person
changes one subset.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Floats
from dpbayes_core.errors import Refusal
from dpbayes_core.privacy.mechanisms.geometric import GeometricMechanism
from dpbayes_core.privacy.noise import NoiseSource
from dpbayes_core.privacy.sensitivity import REPLACE_ONE
from dpbayes_core.subsample import refusals
from dpbayes_core.subsample.answers import probabilities
from dpbayes_core.subsample.fits import DEFAULT_PRIOR, OpenPrior, Powers, subset_laws
from dpbayes_core.subsample.moments import SubsetScatters
from dpbayes_core.subsample.regressions import SubsetMoments
from dpbayes_core.subsample.release import SubsetDesign, SubsetRelease, stated
from dpbayes_core.subsample.schema import OpenSchema, printed

Method = Literal["noise-aware", "rescaled-normal", "fisher"]

METHODS = ("noise-aware", "rescaled-normal", "fisher")
STEPS = 2**20  # of one subset's answer
LEAST = 0.05  # p* of Fisher's method, where no other is stated


@dataclass(frozen=True, kw_only=True)
class ProbabilityQuery:
    """P(coefficient <= threshold), and its share of epsilon up to a common factor."""

    coefficient: str
    threshold: float
    share: float = 1.0

    @property
    def name(self) -> str:
        """The name of the released parameter."""
        return f"P({self.coefficient} <= {printed(self.threshold)})"


@dataclass(frozen=True, kw_only=True)
class ProbabilityTerms:
    """The public definition of a release of posterior probabilities, without its noise."""

    schema: OpenSchema
    queries: tuple[ProbabilityQuery, ...]
    subsets: int
    rows: int  # as declared
    prior: OpenPrior = DEFAULT_PRIOR
    method: Method = "noise-aware"
    least: float = LEAST  # p*
    neighbours: str = REPLACE_ONE

    @property
    def names(self) -> tuple[str, ...]:
        """The released parameters."""
        return tuple(query.name for query in self.queries)

    def refusal(self, epsilon: float) -> Refusal | None:
        """Why these terms cannot be released, from public facts alone, or None."""
        found = [
            refusals.epsilon_refusal(epsilon),
            *(refusals.coefficient_refusal(self.schema, query.coefficient) for query in self.queries),
            *(refusals.threshold_refusal(query.threshold) for query in self.queries),
            refusals.least_refusal(self.least) if self.method == "fisher" else None,
            refusals.subsets_refusal(self.schema, subsets=self.subsets, rows=self.rows),
        ]
        if self.method not in METHODS:
            what = f"cannot release by method {self.method}: it does not exist"
            found.append(Refusal("method", what, f"Choose one of {METHODS}"))
        if not self.queries:
            what = "cannot release probabilities: none is asked for"
            found.append(Refusal("queries", what, "State a coefficient and thresholds"))
        if len(set(self.names)) < len(self.names):
            what = "cannot release probabilities: one is asked for twice"
            found.append(Refusal("queries", what, "Ask for each once"))
        return next(filter(None, found), None)

    def steps(self, answers: Floats) -> NDArray[np.int64]:
        """Each subset's answer in whole steps: a probability, or its logarithm cut at p*."""
        if self.method == "fisher":
            answers = np.log(np.maximum(answers, self.least)) / math.log(self.least)
        return np.rint(np.clip(answers, 0.0, 1.0) * STEPS).astype(np.int64)

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {
            "least": self.least,
            "method": self.method,
            "neighbours": self.neighbours,
            "prior": self.prior.to_record(),
            "queries": [
                {"coefficient": q.coefficient, "share": q.share, "threshold": q.threshold} for q in self.queries
            ],
            "rows": self.rows,
            "schema": self.schema.to_record(),
            "subsets": self.subsets,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "ProbabilityTerms":
        """The inverse of `to_record`."""
        parts: dict[str, Any] = {
            "schema": OpenSchema.from_record(record["schema"]),
            "prior": OpenPrior.from_record(record["prior"]),
            "queries": tuple(ProbabilityQuery(**query) for query in record["queries"]),
        }
        return cls(**{**record, **parts})


@dataclass(frozen=True, kw_only=True)
class ProbabilityRelease(SubsetRelease):
    """Noisy sums over subsets, in steps, from which alone an analysis starts."""

    kind: ClassVar[str] = "posterior-probability"

    terms: ProbabilityTerms
    mechanism: GeometricMechanism
    values: tuple[int, ...]  # one for each query

    @property
    def protected(self) -> bool:
        """Whether the mechanism's sensitivity is at least that of these sums, one value for each query."""
        whole = len(self.values) == len(self.terms.queries)
        return whole and self.mechanism == _mechanism(self.terms, self.mechanism.epsilon)

    @property
    def means(self) -> Floats:
        """The noisy mean answers: probabilities, or for Fisher's method their cut logarithms in units of log p*."""
        return np.array(self.values, dtype=np.float64) / (STEPS * self.terms.subsets)

    @property
    def noise_scales(self) -> Floats:
        """The scale of the noise on each mean."""
        return self.mechanism.scales / (STEPS * self.terms.subsets)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "ProbabilityRelease":
        """The inverse of `to_record`."""
        return cls(
            terms=ProbabilityTerms.from_record(record["terms"]),
            mechanism=GeometricMechanism.from_record(record["mechanism"]),
            values=tuple(record["noisy"]["values"]),
        )


@dataclass(frozen=True, kw_only=True)
class ProbabilityDesign(SubsetDesign):
    """A release of posterior probabilities, decided before any row is read."""

    terms: ProbabilityTerms
    mechanism: GeometricMechanism

    def answers_of(self, data: SubsetScatters) -> NDArray[np.int64]:
        """The subsets' answers from centred moments, summed."""
        terms = self.terms
        laws = subset_laws(data, terms.prior, Powers.of_probabilities(terms.subsets), terms.rows)
        sums = [
            terms.steps(probabilities(laws, terms.schema.place(q.coefficient), q.threshold, terms.prior)).sum()
            for q in terms.queries
        ]
        return np.array(sums, dtype=np.int64)

    def release(self, noise: NoiseSource, exact: SubsetMoments) -> ProbabilityRelease:
        """Fit, aggregate, add noise; defined for all values."""
        noisy = self.mechanism.release(noise, self.answers(exact))
        return ProbabilityRelease(terms=self.terms, mechanism=self.mechanism, values=tuple(noisy.tolist()))


def probability_design(terms: ProbabilityTerms, *, epsilon: float | Decimal) -> ProbabilityDesign:
    """The design whose noise costs epsilon; a Refusal where public facts rule it out."""
    return ProbabilityDesign(terms=terms, mechanism=_mechanism(terms, stated(terms, epsilon)))


def _mechanism(terms: ProbabilityTerms, epsilon: float) -> GeometricMechanism:
    count = len(terms.queries)
    shares = tuple(query.share for query in terms.queries)
    return GeometricMechanism(
        epsilon=epsilon, sizes=(1,) * count, sensitivities=(STEPS,) * count, largest_move=STEPS, shares=shares
    )
