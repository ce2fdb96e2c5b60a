"""Shares of one column's levels in the study file."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from dpbayes.kinds.context import ReleaseContext
from dpbayes.kinds.section import PureSection, undeclared
from dpbayes.strict_yaml.fields import Text
from dpbayes.strict_yaml.problem import Place, Problem
from dpbayes_core.regression.schema import Factor
from dpbayes_core.text import shown

if TYPE_CHECKING:
    from dpbayes_core.shares.release import SharesDesign


class SharesSpec(PureSection):
    """Noisy counts of one column's levels, released once per period and charged to every cap."""

    all_samplers: ClassVar[tuple[str, ...]] = ("latent-shares",)

    kind: Literal["shares"] = Field(description="What is released.", examples=["shares"])
    column: Text = Field(description="Column with levels, of which the shares are asked.", examples=["region"])

    @property
    def uses(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    @property
    def formula(self) -> str:
        """What is counted."""
        return f"shares of {self.column}"

    def problems(self, context: ReleaseContext, place: Place) -> Iterator[Problem]:
        """A column without levels, and neighbours without a proof."""
        yield from undeclared(context, (*place, "column"), (self.column,))
        if self.column in context.columns and context.columns[self.column].levels is None:
            yield Problem((*place, "column"), f"{shown(self.column)} has no levels", "Choose a column that has levels")
        if context.neighbours != "replace-one" or context.max_rows_per_unit > 1:
            what = "shares are of people who have one row and are replaced by others"
            yield Problem((*place, "kind"), what, "Release a network of one node")

    def definition(self, context: ReleaseContext) -> dict[str, Any]:
        """The column and its noise."""
        return {"column": self.column, "kind": self.kind, "mechanism": {"name": "tulap", **self.losses()}}

    def design(self, context: ReleaseContext) -> "SharesDesign":
        """The counts with this noise."""
        from dpbayes_core.shares.release import SharesDesign

        levels = context.columns[self.column].levels
        assert levels is not None
        return SharesDesign(column=Factor(self.column, levels), epsilon=float(self.epsilon))
