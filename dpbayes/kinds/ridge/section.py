"""Releases for a ridge regression: noisy moments, noisy X'y and a noisy least eigenvalue, for the sampler ada-ssp."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from dpbayes.kinds.context import ReleaseContext
from dpbayes.kinds.regression.section import MomentsSection, regression_of, response_problems
from dpbayes.kinds.section import undeclared
from dpbayes.strict_yaml.fields import Covariates, Loss, Text
from dpbayes.strict_yaml.problem import Place, Problem
from dpbayes_core.regression.schema import INTERCEPT
from dpbayes_core.text import shown
from storage.ledger.request import decimal_text

if TYPE_CHECKING:
    from dpbayes_core.ridge.release import RidgeDesign


class RidgeSpec(MomentsSection):
    """Noisy statistics for a ridge estimate, released once per period and charged to every cap as one release."""

    all_samplers: ClassVar[tuple[str, ...]] = ("ada-ssp",)

    kind: Literal["ridge"] = Field(description="What is released.", examples=["ridge"])
    response: Text = Field(description="Bounded column to explain.", examples=["log_wage"])
    covariates: Covariates = Field(description="Bounded columns that explain it.", examples=["[age, education]"])
    epsilon: Loss | None = Field(
        default=None,
        description="Privacy loss: the release costs exactly what a cap of this epsilon admits.",
        examples=["0.5"],
    )
    rho: Loss | None = Field(default=None, description="Privacy loss in place of epsilon.", examples=["0.01"])

    @property
    def formula(self) -> str:
        return f"{self.response} ~ {' + '.join(self.covariates)}"

    @property
    def has_pure_epsilon(self) -> bool:
        """Its noise is Gaussian, so it has none."""
        return False

    @property
    def needs_delta(self) -> bool:
        """A loss that is stated as epsilon needs a delta."""
        return self.epsilon is not None

    def problems(self, context: ReleaseContext, place: Place) -> Iterator[Problem]:
        """Columns without bounds, neighbour relations without a proof, and analyses that expect a posterior."""
        if context.neighbours != "replace-one" or context.max_rows_per_unit > 1:
            what = "a ridge release is for people who have one row and are replaced by others"
            yield Problem((*place, "kind"), what, "Release a regression")
        yield from response_problems(context, (*place, "response"), self.response, self.covariates)
        yield from undeclared(context, (*place, "covariates"), self.covariates)
        for name in self.covariates:
            if name in context.columns and context.columns[name].bounds is None:
                what = f"{shown(name)} has no bounds"
                yield Problem((*place, "covariates"), what, "Choose columns that have bounds")
        if INTERCEPT in self.covariates:
            what = f"{INTERCEPT} is the name of another number in the results"
            yield Problem((*place, "covariates"), what, "Rename the column in the table")
        for name, analysis in context.analyses_of(place):
            if analysis.sampler == "auto":
                what = "no calibrated sampler takes a ridge release"
                yield Problem(("analyses", name, "sampler"), what, "Write ada-ssp for its estimate")

    def definition(self, context: ReleaseContext) -> dict[str, Any]:
        mechanism: dict[str, Any] = {"name": "gaussian", **self.losses()}
        if self.needs_delta and context.delta is not None:
            mechanism["delta"] = decimal_text(context.delta)
        return {
            "covariates": list(self.covariates),
            "kind": self.kind,
            "mechanism": mechanism,
            "response": self.response,
        }

    def design(self, context: ReleaseContext) -> "RidgeDesign":
        from dpbayes_core.regression.moments import grid_for
        from dpbayes_core.ridge.release import ridge_design

        schema, grid = regression_of(context, self.response, self.covariates), grid_for(context.rows)
        if self.rho is not None:
            return ridge_design(schema, grid=grid, rho=self.rho)
        return ridge_design(schema, grid=grid, epsilon=self.epsilon, delta=context.delta)
