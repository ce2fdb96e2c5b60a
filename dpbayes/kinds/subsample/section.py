"""Releases of posterior probabilities and quantiles by subsample and aggregate, for columns without bounds."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dpbayes.kinds.context import ReleaseContext
from dpbayes.kinds.section import PureSection, refused, undeclared
from dpbayes.strict_yaml.fields import Covariates, Real, Says, Section, Spread, Text, refusal
from dpbayes.strict_yaml.problem import Place, Problem
from dpbayes_core.text import shown

if TYPE_CHECKING:
    from dpbayes_core.subsample.fits import OpenPrior
    from dpbayes_core.subsample.probability import ProbabilityDesign
    from dpbayes_core.subsample.quantile import QuantileDesign
    from dpbayes_core.subsample.schema import OpenCovariate, OpenSchema

Numbers = Annotated[tuple[Real, ...], Field(min_length=1, max_length=1000), Says("list of numbers")]


KEYS = {"queries": "thresholds", "threshold": "thresholds"}
"""The keys of the study file for arguments that dpbayes_core names otherwise."""


class OpenPriorSpec(Section):
    """Prior of the whole regression, in the columns' own units: every subset is fitted with its share of it."""

    kind: Literal["zellner", "normal-inverse-gamma", "flat"] = Field(
        default="zellner", description="Law of the coefficients.", examples=["zellner"]
    )
    g: Spread | None = Field(
        default=None, description="Of Zellner's prior: its g; the declared rows if not given.", examples=["50000"]
    )
    intercept_sd: Spread = Field(
        default=1e3, description="Of the normal prior, in residual standard deviations.", examples=["100"]
    )
    coefficient_sd: Spread = Field(
        default=1e3, description="Of the normal prior, in residual standard deviations.", examples=["100"]
    )
    noise_shape: Spread = Field(default=1.0, description="Of the residual variance's inverse gamma.", examples=["1"])
    noise_scale: Spread = Field(default=1.0, description="Of the residual variance's inverse gamma.", examples=["1"])

    @model_validator(mode="after")
    def _only_keys_of_its_kind(self) -> Self:
        keys = {
            "zellner": ("g",),
            "flat": (),
            "normal-inverse-gamma": ("intercept_sd", "coefficient_sd", "noise_shape", "noise_scale"),
        }[self.kind]
        for key in sorted(self.model_fields_set - {"kind", *keys}):
            raise refusal(f"{key} is no part of a {self.kind} prior", "Delete it", key)
        return self

    def compiled(self) -> "OpenPrior":
        """The prior as dpbayes_core represents it."""
        from dpbayes_core.subsample.fits import OpenPrior

        return OpenPrior(**self.model_dump())


class SubsampleSection(PureSection):
    """The keys of releases by subsample and aggregate: the regression, the coefficient, the subsets."""

    all_samplers: ClassVar[tuple[str, ...]] = ("aggregate-noise-aware", "aggregate-plain")

    response: Text = Field(description="Column of numbers to explain; it needs no bounds.", examples=["income"])
    covariates: Covariates = Field(
        description="Columns that explain it, in the order of the coefficients.", examples=["[age, sex]"]
    )
    coefficient: Text = Field(description="The coefficient asked about, as results name it.", examples=["age"])
    subsets: Annotated[int, Field(ge=2, le=100_000)] = Field(
        description="How many random subsets of people are fitted; each person is in one.", examples=["100"]
    )
    prior: OpenPriorSpec = Field(
        default=OpenPriorSpec(), description="Prior; it is part of the release.", examples=["{kind: flat}"]
    )

    @property
    def uses(self) -> tuple[str, ...]:
        """The covariates in their order, then the response."""
        return (*self.covariates, self.response)

    @property
    def clips(self) -> bool:
        """One person changes one subset whatever the values are, so nothing is clipped."""
        return False

    @property
    def publishes_count(self) -> bool:
        return False

    def problems(self, context: ReleaseContext, place: Place) -> Iterator[Problem]:
        """Columns that are not declared, and settings that public facts rule out."""
        found = list(undeclared(context, (*place, "covariates"), self.covariates))
        found += undeclared(context, (*place, "response"), [self.response])
        if self.response in context.columns and context.columns[self.response].levels is not None:
            what = f"{shown(self.response)} has levels, and a response must be a number"
            found.append(Problem((*place, "response"), what, "Choose a column of numbers"))
        yield from found
        if not found:
            yield from refused(lambda: self.design(context), place, KEYS)

    def regression(self, context: ReleaseContext) -> "OpenSchema":
        """The regression in the columns' own units."""
        from dpbayes_core.subsample.schema import OpenSchema

        return OpenSchema(self.response, tuple(_covariate(context, name) for name in self.covariates))

    def question(self, context: ReleaseContext) -> dict[str, Any]:
        """Regression, coefficient and subsets as the ledger hashes them; the prior depends on the declared rows."""
        return {
            "rows": context.rows,
            "coefficient": self.coefficient,
            "covariates": list(self.covariates),
            "prior": asdict(self.prior.compiled()),
            "response": self.response,
            "subsets": self.subsets,
        }


class ProbabilitySpec(SubsampleSection):
    """Posterior probabilities that a coefficient is at most a threshold, from noisy means over random subsets."""

    kind: Literal["posterior-probability"] = Field(description="What is released.", examples=["posterior-probability"])
    thresholds: Numbers = Field(description="The numbers it is compared with; epsilon is split.", examples=["[0, 1]"])
    method: Literal["noise-aware", "rescaled-normal", "fisher"] = Field(
        default="noise-aware", description="How subsets are combined.", examples=["noise-aware"]
    )
    least: Spread | None = Field(
        default=None,
        description="Of fisher: p*, below which probabilities are cut; 0.05 if not given.",
        examples=["0.05"],
    )

    @model_validator(mode="after")
    def _least_is_fishers(self) -> Self:
        if self.least is not None and self.method != "fisher":
            raise refusal("p* belongs to fisher", "Delete it", "least")
        return self

    @property
    def formula(self) -> str:
        thresholds = ", ".join(f"{threshold:g}" for threshold in self.thresholds)
        model = f"{self.response} ~ {' + '.join(self.covariates)}"
        return f"P({self.coefficient} <= {thresholds}) in {model}, {self.subsets} subsets"

    def definition(self, context: ReleaseContext) -> dict[str, Any]:
        mechanism = {"least": self.least, "method": self.method, "name": "posterior-probability", **self.losses()}
        thresholds = list(self.thresholds)
        return {"kind": self.kind, "mechanism": mechanism, "thresholds": thresholds, **self.question(context)}

    def design(self, context: ReleaseContext) -> "ProbabilityDesign":
        from dpbayes_core.subsample.probability import LEAST, ProbabilityQuery, ProbabilityTerms, probability_design

        terms = ProbabilityTerms(
            schema=self.regression(context),
            queries=tuple(ProbabilityQuery(coefficient=self.coefficient, threshold=t) for t in self.thresholds),
            subsets=self.subsets,
            rows=context.rows,
            prior=self.prior.compiled(),
            method=self.method,
            least=LEAST if self.least is None else self.least,
            neighbours=context.neighbours,
        )
        return probability_design(terms, epsilon=self.epsilon)


class QuantileSpec(SubsampleSection):
    """Posterior quantiles of a coefficient within public outer bounds, by the exponential mechanism over subsets."""

    kind: Literal["posterior-quantile"] = Field(description="What is released.", examples=["posterior-quantile"])
    probabilities: Numbers = Field(description="Which quantiles.", examples=["[0.025, 0.5, 0.975]"])
    outer: Annotated[tuple[Real, Real], Says("two numbers")] | None = Field(
        default=None,
        description="Required: two numbers between which they certainly lie, never taken from the data.",
        examples=["[-100, 100]"],
    )
    method: Literal["auto", "median", "centre-scale"] = Field(
        default="auto",
        description="median: each by itself; centre-scale: a normal posterior's centre and scale; auto chooses by "
        "subsets and epsilon.",
        examples=["auto"],
    )

    @property
    def formula(self) -> str:
        probabilities = ", ".join(f"{p:g}" for p in self.probabilities)
        model = f"{self.response} ~ {' + '.join(self.covariates)}"
        return f"quantiles {probabilities} of {self.coefficient} in {model}, {self.subsets} subsets"

    def definition(self, context: ReleaseContext) -> dict[str, Any]:
        outer = None if self.outer is None else list(self.outer)
        mechanism = {"method": self.method, "name": "posterior-quantile", "outer": outer, **self.losses()}
        return {
            "kind": self.kind,
            "mechanism": mechanism,
            "probabilities": list(self.probabilities),
            **self.question(context),
        }

    def design(self, context: ReleaseContext) -> "QuantileDesign":
        from dpbayes_core.subsample.quantile import QuantileTerms, quantile_design
        from dpbayes_core.subsample.refusals import outer_refusal

        if refusal := outer_refusal(self.outer):
            raise refusal
        assert self.outer is not None
        terms = QuantileTerms(
            schema=self.regression(context),
            coefficient=self.coefficient,
            probabilities=self.probabilities,
            outer=self.outer,
            subsets=self.subsets,
            rows=context.rows,
            prior=self.prior.compiled(),
            method=self.method,
            neighbours=context.neighbours,
        )
        return quantile_design(terms, epsilon=self.epsilon)


def _covariate(context: ReleaseContext, name: str) -> "OpenCovariate":
    from dpbayes_core.regression.schema import Factor
    from dpbayes_core.subsample.schema import Unbounded

    levels = context.columns[name].levels
    return Unbounded(name) if levels is None else Factor(name, levels)
