"""Several releases of one regression on disjoint people, analysed as one: holders of a table, or periods."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from dpbayes_core import canonical
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.schema import RegressionSchema


@dataclass(frozen=True)
class Pool:
    """Two or more releases of the same columns on disjoint people, in an order that matters.

    `alike` states that people were assigned to the parts at random, so that covariates have one law in all parts.
    """

    kind: ClassVar[str] = "regression"

    parts: tuple[Release, ...]
    alike: bool = False

    def __post_init__(self) -> None:
        if len(self.parts) < 2:
            raise ValueError("cannot pool fewer than two releases: one is analysed by itself. Give another.")
        if len({part.schema.cases for part in self.parts}) > 1:
            raise ValueError(
                "cannot pool releases of all rows with those of complete ones. Choose releases of one kind."
            )
        if any(part.schema != self.schema for part in self.parts):
            raise ValueError("cannot pool releases of different columns or bounds. Choose releases of one regression.")
        if len({part.digest for part in self.parts}) < len(self.parts):
            raise ValueError("cannot pool a release with itself: its people would count twice. Name each one once.")

    @property
    def schema(self) -> RegressionSchema:
        """The regression that they share."""
        return self.parts[0].schema

    @property
    def differing(self) -> bool:
        """Whether numeric covariates may have another law in each part; factors always may."""
        return not self.alike and has_numbers(self.schema)

    @property
    def count(self) -> float:
        """The number of rows of all parts, noisy where a part's is not public."""
        return sum(part.count for part in self.parts)

    @property
    def digest(self) -> str:
        """sha256 of the parts' digests in their order."""
        return canonical.digest([part.digest for part in self.parts])


Evidence = Release | Pool


def pooled(releases: Sequence[Release], alike: bool = False) -> Evidence:
    """One release as it is, several as a pool."""
    return releases[0] if len(releases) == 1 else Pool(tuple(releases), alike)


def parts_of(evidence: Evidence) -> tuple[Release, ...]:
    """The releases that are analysed."""
    return evidence.parts if isinstance(evidence, Pool) else (evidence,)


PartsLaw = Literal["differ", "alike", "none"]
"""A sampler's assumption on the numeric covariates of parts: different laws, one law, or none."""

ALLOW_DIFFERENT_PARTS = frozenset({"collapsed"})
"""The samplers that allow parts to differ, unless `alike` is stated."""

TAKEN_AS_RELEASED = frozenset({"naive", "fixed-s", "fixed-s-fast"})
"""The samplers that take the released moments of the covariates as exact, without assuming a law."""


def has_numbers(schema: RegressionSchema) -> bool:
    """Whether a covariate is numeric; factors may have other shares in every part in any case."""
    return any(variable.kind == "continuous" for variable in schema.variables[:-1])


def parts_law(sampler: str, *, alike: bool, numbers: bool) -> PartsLaw:
    """The law that a sampler assumes for the covariates of several parts, by `alike` and whether there are numbers."""
    if sampler in TAKEN_AS_RELEASED or not numbers:
        return "none"
    return "differ" if sampler in ALLOW_DIFFERENT_PARTS and not alike else "alike"
