"""Posterior quantiles of a coefficient within public outer bounds: medians over subsets, or centre and scale."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Literal

import numpy as np

from dpbayes_core.arrays import Floats, Integers
from dpbayes_core.errors import Refusal
from dpbayes_core.privacy.mechanisms.centre_scale import (
    CELLS,
    MEAN_FROM,
    OCTAVES,
    PER_OCTAVE,
    POINTS,
    UNIT,
    CentreScaleMechanism,
)
from dpbayes_core.privacy.mechanisms.exponential import ExponentialMechanism
from dpbayes_core.privacy.noise import NoiseSource
from dpbayes_core.privacy.sensitivity import REPLACE_ONE
from dpbayes_core.subsample import refusals
from dpbayes_core.subsample.answers import quantiles, spreads
from dpbayes_core.subsample.fits import DEFAULT_PRIOR, OpenPrior, Powers, subset_laws
from dpbayes_core.subsample.moments import SubsetScatters
from dpbayes_core.subsample.regressions import SubsetMoments
from dpbayes_core.subsample.release import SubsetDesign, SubsetRelease, stated
from dpbayes_core.subsample.schema import OpenSchema, printed

Method = Literal["auto", "median", "centre-scale"]
QuantileMechanism = ExponentialMechanism | CentreScaleMechanism

METHODS = ("auto", "median", "centre-scale")


@dataclass(frozen=True, kw_only=True)
class QuantileTerms:
    """The public definition of a release of posterior quantiles, without its noise."""

    schema: OpenSchema
    coefficient: str
    probabilities: tuple[float, ...]
    outer: tuple[float, float]
    subsets: int
    rows: int  # as declared
    prior: OpenPrior = DEFAULT_PRIOR
    method: Method = "auto"
    neighbours: str = REPLACE_ONE

    @property
    def names(self) -> tuple[str, ...]:
        """The released parameters."""
        return tuple(f"{self.coefficient}[q{printed(probability)}]" for probability in self.probabilities)

    @property
    def step(self) -> float:
        """The distance of grid points, in the coefficient's units."""
        return (self.outer[1] - self.outer[0]) / (POINTS - 1)

    def algorithm(self, epsilon: float) -> str:
        """The method; "auto" chooses centre and scale where a mean improves on medians, else medians."""
        if self.method != "auto":
            return self.method
        return "centre-scale" if self.subsets * epsilon >= MEAN_FROM else "median"

    def refusal(self, epsilon: float) -> Refusal | None:
        """Why these terms cannot be released, from public facts alone, or None."""
        found = [
            refusals.epsilon_refusal(epsilon),
            refusals.outer_refusal(self.outer),
            refusals.coefficient_refusal(self.schema, self.coefficient),
            *(refusals.quantile_refusal(probability) for probability in self.probabilities),
            refusals.subsets_refusal(self.schema, subsets=self.subsets, rows=self.rows),
        ]
        if self.method not in METHODS:
            what = f"cannot release by method {self.method}: it does not exist"
            found.append(Refusal("method", what, f"Choose one of {METHODS}"))
        if not self.probabilities or len(set(self.probabilities)) < len(self.probabilities):
            what = "cannot release quantiles: none is asked for, or one twice"
            found.append(Refusal("probabilities", what, "State distinct probabilities"))
        return next(filter(None, found), None) or refusals.ranks_refusal(subsets=self.subsets, epsilon=epsilon)

    def place(self, points: Floats | int) -> Any:
        """Grid points in the coefficient's units."""
        return self.outer[0] + self.step * np.asarray(points, dtype=np.float64)

    def points(self, values: Floats) -> Integers:
        """The nearest grid points."""
        found = np.rint((np.clip(values, *self.outer) - self.outer[0]) / self.step)
        return np.clip(found, 0, POINTS - 1).astype(np.int64)

    def cells(self, scales: Floats) -> Integers:
        """The nearest indices on the logarithmic grid of scales."""
        with np.errstate(divide="ignore"):
            octaves = np.log2(scales / (self.outer[1] - self.outer[0])) + OCTAVES
        return np.rint(np.clip(octaves * PER_OCTAVE, 0, CELLS - 1)).astype(np.int64)

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return {
            "coefficient": self.coefficient,
            "method": self.method,
            "neighbours": self.neighbours,
            "outer": list(self.outer),
            "prior": self.prior.to_record(),
            "probabilities": list(self.probabilities),
            "rows": self.rows,
            "schema": self.schema.to_record(),
            "subsets": self.subsets,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "QuantileTerms":
        """The inverse of `to_record`."""
        parts: dict[str, Any] = {
            "schema": OpenSchema.from_record(record["schema"]),
            "prior": OpenPrior.from_record(record["prior"]),
            "outer": tuple(record["outer"]),
            "probabilities": tuple(record["probabilities"]),
        }
        return cls(**{**record, **parts})


@dataclass(frozen=True, kw_only=True)
class QuantileRelease(SubsetRelease):
    """Grid points drawn by the exponential mechanism; with a released mean, the noisy sum from which it is computed."""

    kind: ClassVar[str] = "posterior-quantile"

    terms: QuantileTerms
    mechanism: QuantileMechanism
    values: tuple[int, ...]  # one for each probability; or centre, scale and, where there is one, sum

    @property
    def protected(self) -> bool:
        """Whether the mechanism is that of the terms, and has one value for each of its entries."""
        whole = len(self.values) == self.mechanism.entries
        return whole and self.mechanism == _mechanism(self.terms, self.mechanism.epsilon)

    @property
    def centre(self) -> float:
        """The released location of the posterior; only where centre and scale were released."""
        centre = float(self.terms.place(self.values[0]))
        if len(self.values) < 3:
            return centre
        return centre + self.radius * self.values[2] / (UNIT * self.terms.subsets)

    @property
    def spread(self) -> float:
        """The released standard deviation of the posterior; only where centre and scale were released."""
        return (self.terms.outer[1] - self.terms.outer[0]) * 2.0 ** (self.values[1] / PER_OCTAVE - OCTAVES)

    @property
    def radius(self) -> float:
        """Half the clipping interval of the mean; only where centre and scale were released."""
        if not isinstance(self.mechanism, CentreScaleMechanism):
            raise ValueError("cannot tell a clipping interval: medians were released. Ask for their values.")
        return self.mechanism.radius(self.values[1]) * self.terms.step

    def estimates(self) -> Floats:
        """The released quantiles, in the coefficient's units."""
        if isinstance(self.mechanism, ExponentialMechanism):
            return self.terms.place(np.array(self.values))
        from scipy.special import ndtri

        return self.centre + self.spread * ndtri(np.array(self.terms.probabilities))

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "QuantileRelease":
        """The inverse of `to_record`."""
        known = {ExponentialMechanism.name: ExponentialMechanism, CentreScaleMechanism.name: CentreScaleMechanism}
        return cls(
            terms=QuantileTerms.from_record(record["terms"]),
            mechanism=known[record["mechanism"]["name"]].from_record(record["mechanism"]),
            values=tuple(record["noisy"]["values"]),
        )


@dataclass(frozen=True, kw_only=True)
class QuantileDesign(SubsetDesign):
    """A release of posterior quantiles, decided before any row is read."""

    terms: QuantileTerms
    mechanism: QuantileMechanism

    def answers_of(self, data: SubsetScatters) -> Integers:
        """The subsets' answers from centred moments, as grid points."""
        terms = self.terms
        laws = subset_laws(data, terms.prior, Powers.of_quantiles(terms.subsets), terms.rows)
        place = terms.schema.place(terms.coefficient)
        if isinstance(self.mechanism, ExponentialMechanism):
            found = [quantiles(laws, place, p, terms.prior, outer=terms.outer) for p in terms.probabilities]
            return np.stack([terms.points(values) for values in found])
        middles = quantiles(laws, place, 0.5, terms.prior, outer=terms.outer)
        widths = spreads(laws, place, widest=terms.outer[1] - terms.outer[0])
        return np.stack([terms.points(middles), terms.cells(widths)])

    def release(self, noise: NoiseSource, exact: SubsetMoments) -> QuantileRelease:
        """Fit, aggregate, draw; defined for all values."""
        drawn = self.mechanism.release(noise, self.answers(exact))
        return QuantileRelease(terms=self.terms, mechanism=self.mechanism, values=tuple(drawn.tolist()))


def quantile_design(terms: QuantileTerms, *, epsilon: float | Decimal) -> QuantileDesign:
    """The design whose mechanism costs epsilon; a Refusal where public facts rule it out."""
    return QuantileDesign(terms=terms, mechanism=_mechanism(terms, stated(terms, epsilon)))


def _mechanism(terms: QuantileTerms, epsilon: float) -> QuantileMechanism:
    if terms.algorithm(epsilon) == "centre-scale":
        return CentreScaleMechanism(epsilon=epsilon, values=terms.subsets)
    shares = (1.0,) * len(terms.probabilities)
    return ExponentialMechanism(epsilon=epsilon, values=terms.subsets, points=POINTS, shares=shares)
