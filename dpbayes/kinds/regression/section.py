"""A regression: noisy second moments of bounded columns."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dpbayes.kinds.context import ReleaseContext
from dpbayes.kinds.regression.noise import (
    MOST_FOR_FOURTH,
    ROBUST_SHARES,
    Chosen,
    MechanismName,
    NoiseRequest,
    chosen_mechanism,
    has_higher_moments,
    noise_for,
    robust_shares,
)
from dpbayes.kinds.regression.samplers import DISTRIBUTED, GIBBS, NOISY, ROBUST, paper_problems, robust_problems
from dpbayes.kinds.section import ReleaseSection, refused, undeclared
from dpbayes.strict_yaml.fields import Covariates, Loss, Section, Spread, Text, exactly_one, refusal
from dpbayes.strict_yaml.problem import Place, Problem
from dpbayes_core.regression.ball import Ball
from dpbayes_core.regression.schema import INTERCEPT, SIGMA, Continuous, Covariate, Factor, RegressionSchema
from dpbayes_core.text import shown
from storage.ledger.request import decimal_text

if TYPE_CHECKING:
    from dpbayes_core.regression.release import RegressionDesign


class NormSpec(Section):
    """A bound on the length of every row, with each column mapped to [-1, 1]; a longer row is shrunk to it."""

    covariates: Spread = Field(
        description="Largest length of a row's covariates together; useful far below the root of their number.",
        examples=["1"],
    )
    response: Spread = Field(description="Largest response, at most 1.", examples=["0.5"])

    @model_validator(mode="after")
    def _in_range(self) -> Self:
        if self.response > 1:
            raise refusal("the response is mapped to [-1, 1] already", "Write at most 1", "response")
        try:
            self.ball()
        except ValueError:
            raise refusal("the norm is too small to keep anything of a row", "Write 0.001 or more") from None
        return self

    def ball(self) -> Ball:
        """The bound as dpbayes_core represents it."""
        return Ball(self.covariates, self.response)

    def to_record(self) -> dict[str, float]:
        """The bound, as the ledger hashes it."""
        return {"covariates": self.covariates, "response": self.response}


class SplitSpec(Section):
    """Shares of the privacy loss among the second moments and the third and fourth; they add up to 1."""

    second: Loss = Field(description="Share of the second moments.", examples=["0.8"])
    fourth: Loss = Field(description="Share of the third and fourth moments of the covariates.", examples=["0.2"])

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.second + self.fourth != Decimal(1):
            raise refusal("the shares do not add up to 1", "Write shares such as 0.8 and 0.2")
        return self

    def to_record(self) -> dict[str, str]:
        """The shares, as the ledger hashes them."""
        return {"fourth": decimal_text(self.fourth), "second": decimal_text(self.second)}


class MomentsSection(ReleaseSection):
    """A release of noisy moments of a response and its covariates, with a loss stated as an epsilon or a rho."""

    if TYPE_CHECKING:  # every section declares these keys itself, at their own positions
        response: Text
        covariates: Covariates
        epsilon: Loss | None
        rho: Loss | None

    @model_validator(mode="after")
    def _one_loss(self) -> Self:
        exactly_one({"epsilon": self.epsilon, "rho": self.rho}, "the privacy loss")
        return self

    @property
    def uses(self) -> tuple[str, ...]:
        """The covariates in their order, then the response."""
        return (*self.covariates, self.response)


class RegressionSpec(MomentsSection):
    """Noisy second moments for a linear regression, released once per period and charged to every cap."""

    all_samplers: ClassVar[tuple[str, ...]] = ("collapsed", ROBUST, "naive", NOISY, *GIBBS, *DISTRIBUTED)

    kind: Literal["regression"] = Field(description="What is released.", examples=["regression"])
    response: Text = Field(description="Bounded column to explain.", examples=["log_wage"])
    covariates: Covariates = Field(
        description="Columns that explain it, in the order of the coefficients.", examples=["[age, female, region]"]
    )
    mechanism: Literal["gaussian", "laplace", "auto"] = Field(
        description="Law of the privacy noise: gaussian, laplace, or auto, which is the one of them with the narrower "
        "intervals at the same cost.",
        examples=["gaussian"],
    )
    epsilon: Loss | None = Field(
        default=None,
        description="Privacy loss; a gaussian release costs exactly what a cap of this epsilon admits.",
        examples=["0.5"],
    )
    rho: Loss | None = Field(
        default=None, description="Privacy loss of a gaussian release, in place of epsilon.", examples=["0.01"]
    )
    moments: Literal["fourth"] | None = Field(
        default=None,
        description="Release third and fourth moments of the covariates too; gibbs-ss-noisy needs them.",
        examples=["fourth"],
    )
    norm: NormSpec | None = Field(
        default=None,
        description="Bound on the length of rows, in addition to the columns' bounds; gaussian noise only.",
        examples=["{covariates: 1, response: 0.5}"],
    )
    split: SplitSpec = Field(
        default=SplitSpec(second=Decimal("0.8"), fourth=Decimal("0.2")),
        description="With moments: shares of the privacy loss.",
        examples=["{second: 0.8, fourth: 0.2}"],
    )
    robust: bool = Field(
        default=False,
        description="Whether residuals may be spread differently at different values of the covariates: a tenth of the "
        "loss goes to a second step over the rows, which the sampler robust needs for intervals that hold then, too.",
        examples=["true"],
    )
    intercept: bool = Field(
        default=True,
        description="Whether the regression has an intercept; without it columns are scaled, not shifted.",
        examples=["true"],
    )

    rows: Literal["all", "complete"] = Field(
        default="all",
        description="Which rows count. all: a missing value becomes the constant or level of its column. complete: "
        "rows with a missing value in a column of this release are left out, and how many are left is one of the noisy "
        "numbers.",
        examples=["complete"],
    )

    @model_validator(mode="after")
    def _matching_keys(self) -> Self:
        if self.rho is not None and self.mechanism == "laplace":
            raise refusal("laplace noise is stated by its epsilon", "Write epsilon in place of rho", "rho")
        if "split" in self.model_fields_set and self.moments is None:
            raise refusal("there is nothing to share the privacy loss with", "Write moments, or delete split", "split")
        if self.norm is not None and self.mechanism != "gaussian":
            raise refusal("a norm makes gaussian noise smaller, and no other", "Write gaussian, or delete norm", "norm")
        return self

    @property
    def formula(self) -> str:
        terms = self.covariates if self.intercept else ("0", *self.covariates)
        return f"{self.response} ~ {' + '.join(terms)}"

    @property
    def complete(self) -> bool:
        return self.rows == "complete"

    @property
    def by_holder(self) -> bool:
        """Each holder's sums are released separately, and analyses pool them."""
        return True

    @property
    def has_pure_epsilon(self) -> bool:
        """Laplace noise has a pure epsilon; `auto` chooses it where a cap needs one."""
        return self.mechanism != "gaussian" and self.epsilon is not None

    @property
    def needs_delta(self) -> bool:
        """Gaussian noise that is stated by an epsilon needs a delta."""
        return self.mechanism == "gaussian" and self.epsilon is not None

    @property
    def samplers(self) -> tuple[str, ...]:
        """Every sampler of regressions that this release has the statistics and the noise for."""
        without = {
            *(() if self.robust else (ROBUST,)),
            *(() if self.moments is not None else (NOISY,)),
            *(() if self.mechanism == "gaussian" else DISTRIBUTED),
        }
        return tuple(name for name in self.all_samplers if name not in without)

    def problems(self, context: ReleaseContext, place: Place) -> Iterator[Problem]:
        """Problems of columns and of the schema, and analyses that this release lacks the statistics for."""
        found = list(response_problems(context, (*place, "response"), self.response, self.covariates))
        found += self._covariate_problems(context, (*place, "covariates"))
        yield from found
        if not found:
            yield from self._schema_problems(context, place)
            yield from self._analysis_problems(context, place)
            if self.robust:
                yield from self._robust_problems(context, (*place, "robust"))
                yield from robust_problems(context, place)

    def definition(self, context: ReleaseContext) -> dict[str, Any]:
        name = self._mechanism_name(context)
        mechanism: dict[str, Any] = {"name": name, **self.losses()}
        if name == "gaussian" and self.epsilon is not None and context.delta is not None:
            mechanism["delta"] = decimal_text(context.delta)
        return {
            "covariates": list(self.covariates),
            "intercept": self.intercept,
            "kind": self.kind,
            "mechanism": mechanism,
            "response": self.response,
            **({} if self.norm is None else {"norm": self.norm.to_record()}),
            **({} if self.moments is None else {"moments": self.moments, "split": self.split.to_record()}),
            **({"robust": robust_shares()} if self.robust else {}),
            **({} if self.rows == "all" else {"cases": self.rows}),
        }

    def chosen(self, context: ReleaseContext) -> str | None:
        """The mechanism chosen for `auto`, and why."""
        if self.mechanism != "auto":
            return None
        chosen = self._chosen(context)
        return f"auto stands for {chosen.name}: {chosen.why}"

    def regression(self, context: ReleaseContext) -> RegressionSchema:
        """The regression as dpbayes_core represents it."""
        plain = regression_of(context, self.response, self.covariates)
        ball = None if self.norm is None else self.norm.ball()
        return replace(plain, intercept=self.intercept, ball=ball, cases=self.rows)

    def design(self, context: ReleaseContext) -> "RegressionDesign":
        from dpbayes_core.regression.release import RegressionDesign

        schema = self.regression(context)
        return RegressionDesign(
            schema=schema,
            mechanism=noise_for(self._noise, self._mechanism_name(context), schema, context),
            neighbours=context.neighbours,
            max_rows_per_unit=context.max_rows_per_unit,
            besides="residuals" if self.robust else "fourth",
        )

    @property
    def _noise(self) -> NoiseRequest:
        if self.robust:
            return NoiseRequest(epsilon=self.epsilon, rho=self.rho, besides="residuals", shares=ROBUST_SHARES)
        if self.moments is not None:
            shares = (self.split.second, self.split.fourth)
            return NoiseRequest(epsilon=self.epsilon, rho=self.rho, besides=self.moments, shares=shares)
        return NoiseRequest(epsilon=self.epsilon, rho=self.rho)

    def _chosen(self, context: ReleaseContext) -> Chosen:
        return chosen_mechanism(self._noise, self.regression(context), context)

    def _mechanism_name(self, context: ReleaseContext) -> MechanismName:
        """The stated mechanism, or the one chosen for `auto`."""
        return self._chosen(context).name if self.mechanism == "auto" else self.mechanism

    def _covariate_problems(self, context: ReleaseContext, place: Place) -> Iterator[Problem]:
        for index, covariate in enumerate(self.covariates):
            yield from undeclared(context, (*place, index), [covariate])
            if covariate in (INTERCEPT, SIGMA):
                what = f"{covariate} is the name of another number in the results"
                yield Problem((*place, index), what, "Rename the column in the table")

    def _analysis_problems(self, context: ReleaseContext, place: Place) -> Iterator[Problem]:
        levels = [name for name in self.covariates if context.columns[name].levels is not None]
        yield from paper_problems(context, place, levels=levels, complete=self.complete, intercept=self.intercept)

    def _robust_problems(self, context: ReleaseContext, place: Place) -> Iterator[Problem]:
        if self.moments is not None:
            what = "it does not go with moments: the loss is shared with one of them"
            yield Problem(place, what, "Delete one of them")
        if not self.intercept or self.norm is not None:
            yield Problem(place, "it goes with an intercept and without a norm", "Delete robust")
        if context.holders:
            yield Problem(place, "it takes a table without holders", "Delete robust")

    def _schema_problems(self, context: ReleaseContext, place: Place) -> Iterator[Problem]:
        if any(refused(lambda: regression_of(context, self.response, self.covariates), place, {})):
            what = "these columns give two coefficients one name"
            yield Problem((*place, "covariates"), what, "Rename a column or a level")
            return
        found = list(refused(lambda: self.regression(context), place, {"ball": "norm"}))
        yield from found
        if self.moments is not None and not found:
            yield from self._fourth_problems(context, (*place, "moments"))

    def _fourth_problems(self, context: ReleaseContext, place: Place) -> Iterator[Problem]:
        if self.complete:
            what = "only gibbs-ss-noisy reads third and fourth moments, and it needs a public number of rows"
            yield Problem(place, what, "Delete moments, or rows: complete")
        elif not self.intercept or self.norm is not None:
            what = "third and fourth moments go with an intercept and without a norm"
            yield Problem(place, what, "Delete moments")
        elif self.regression(context).d > MOST_FOR_FOURTH:
            what = f"there are more than {MOST_FOR_FOURTH} covariates, each level but the first counted as one"
            yield Problem(place, what, "Delete moments, or name fewer covariates")
        elif not has_higher_moments(self.regression(context)):
            yield Problem(place, "the second moments tell all that there is of these covariates", "Delete moments")


def response_problems(
    context: ReleaseContext, place: Place, response: str, covariates: Sequence[str]
) -> Iterator[Problem]:
    """A response that is not declared, has no bounds, or is also a covariate."""
    yield from undeclared(context, place, [response])
    if response in context.columns and context.columns[response].bounds is None:
        what = f"{shown(response)} has no bounds, and a response must be bounded"
        yield Problem(place, what, "Choose a column that has bounds")
    if response in covariates:
        yield Problem(place, f"{shown(response)} is among the covariates too", "Take it out of one of them")


def regression_of(context: ReleaseContext, response: str, covariates: Sequence[str]) -> RegressionSchema:
    """The regression on declared columns, as dpbayes_core represents it."""
    bounds = context.columns[response].bounds
    assert bounds is not None
    return RegressionSchema(Continuous(response, bounds), tuple(_covariate(context, name) for name in covariates))


def _covariate(context: ReleaseContext, name: str) -> Covariate:
    column = context.columns[name]
    if column.bounds is not None:
        return Continuous(name, column.bounds)
    assert column.levels is not None
    return Factor(name, column.levels)
