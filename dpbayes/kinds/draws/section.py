"""Releases of exact draws from a posterior: of a network's probabilities or a regression's coefficients."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from dpbayes.kinds.context import ReleaseContext
from dpbayes.kinds.networks.section import network_formula, network_of, network_problems
from dpbayes.kinds.regression.section import regression_of, response_problems
from dpbayes.kinds.section import PureSection, refused, undeclared
from dpbayes.strict_yaml.fields import Covariates, Real, Says, Spread, Text, exactly_one, refusal
from dpbayes.strict_yaml.problem import Place, Problem

if TYPE_CHECKING:
    from dpbayes_core.draws.design import DrawDesign
    from dpbayes_core.draws.regression import RegressionSubject


OF_NETWORKS = ("edges", "concentration", "tempering", "floor", "grid")
OF_REGRESSIONS = ("precision",)
KEYS = {
    "concentrations": "concentration",
    "floors": "floor",
    "prior_precision": "precision",
    "schema": "nodes",
    "values": "grid",
}
"""The keys of the study file for arguments that dpbayes_core names otherwise."""


class DrawSection(PureSection):
    """The keys that releases of draws share: the model and its prior."""

    nodes: Covariates | None = Field(
        default=None, description="Of a network: columns with levels.", examples=["[sex, pay]"]
    )
    edges: dict[Text, Covariates] = Field(
        default_factory=dict[str, tuple[str, ...]],
        description="Of a network: parents of each node that has any.",
        examples=["{pay: [sex]}"],
    )
    concentration: Spread = Field(
        default=1.0, description="Of a network: pseudo-count of each level, the prior.", examples=["1"]
    )
    response: Text | None = Field(
        default=None, description="Of a regression: bounded column to explain.", examples=["pay"]
    )
    covariates: Covariates | None = Field(
        default=None, description="Of a regression: columns that explain it.", examples=["[age, sex]"]
    )
    radius: Spread | None = Field(
        default=None,
        description="Of a regression: the longest vector of coefficients, every column mapped to [-1, 1].",
        examples=["1"],
    )
    sigma: Spread | None = Field(
        default=None,
        description="Of a regression: the residual standard deviation, taken as known, in half widths of the "
        "response's bounds; it says how far epsilon tempers the likelihood, and the draw depends on epsilon alone.",
        examples=["0.3"],
    )
    precision: Spread = Field(
        default=1.0, description="Of a regression: prior precision of each mapped coefficient.", examples=["1"]
    )

    @model_validator(mode="after")
    def _one_model(self) -> Self:
        exactly_one({"nodes": self.nodes, "response": self.response}, "the model that is drawn from")
        regression = {"covariates": self.covariates, "radius": self.radius, "sigma": self.sigma}
        for key, value in regression.items():
            if self.response is not None and value is None:
                raise refusal(f"{key} is missing", f"Add {key}: and its value here")
            if self.response is None and value is not None:
                raise refusal(f"{key} belongs to a regression", "Delete it", key)
        ignored = OF_REGRESSIONS if self.nodes is not None else OF_NETWORKS
        for key in ignored:
            if key in self.model_fields_set:
                whose = "a regression" if self.nodes is not None else "a network"
                raise refusal(f"{key} belongs to {whose}", "Delete it", key)
        return self

    @property
    def uses(self) -> tuple[str, ...]:
        """The nodes, or the covariates and the response."""
        return self.nodes if self.nodes is not None else (*(self.covariates or ()), *filter(None, [self.response]))

    @property
    def formula(self) -> str:
        if self.nodes is not None:
            return network_formula(self.nodes, self.edges)
        return f"{self.response} ~ {' + '.join(self.covariates or ())}"

    @property
    def analysed(self) -> bool:
        """The draws are the answer, so nothing is analysed."""
        return False

    def problems(self, context: ReleaseContext, place: Place) -> Iterator[Problem]:
        """Problems of the model, and draws that the loss cannot pay for."""
        found = list(self._model_problems(context, place))
        yield from found
        if not found:
            yield from refused(lambda: self.design(context), place, KEYS)

    def model(self) -> dict[str, Any]:
        """The model and its prior, as the ledger hashes them."""
        if self.nodes is not None:
            edges = {node: list(parents) for node, parents in self.edges.items()}
            return {"concentration": self.concentration, "edges": edges, "nodes": list(self.nodes)}
        covariates = list(self.covariates or ())
        stated = {"precision": self.precision, "radius": self.radius, "sigma": self.sigma}
        return {"covariates": covariates, "response": self.response, **stated}

    def subject(self, context: ReleaseContext) -> "RegressionSubject":
        """The regression whose coefficients are drawn."""
        from dpbayes_core.draws.regression import RegressionSubject

        assert self.response is not None
        assert self.radius is not None
        assert self.sigma is not None
        schema = regression_of(context, self.response, self.covariates or ())
        return RegressionSubject(schema=schema, radius=self.radius, sigma=self.sigma, prior_precision=self.precision)

    def _model_problems(self, context: ReleaseContext, place: Place) -> Iterator[Problem]:
        if self.response is None:
            yield from network_problems(context, place, self.nodes or (), self.edges)
            return
        covariates = self.covariates or ()
        yield from undeclared(context, (*place, "covariates"), covariates)
        yield from response_problems(context, (*place, "response"), self.response, covariates)
        if context.max_rows_per_unit > 1:
            what = "draws weigh one row of each person"
            yield Problem(("source", "max_rows_per_unit"), what, "Write 1, or leave it out")


class PosteriorDrawSpec(DrawSection):
    """Exact draws from a posterior, each a release of its own price, charged together to every cap."""

    kind: Literal["posterior-draw"] = Field(description="What is released.", examples=["posterior-draw"])
    draws: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=1, description="How many draws; epsilon is that of all of them.", examples=["1"]
    )
    tempering: Spread = Field(
        default=1.0,
        description="Of a network: the power of the likelihood; 1 counts every record once. Probabilities are kept "
        "above a floor that epsilon sets: at epsilon 1 above .458 for three two-level columns. A regression is "
        "tempered as far as epsilon needs.",
        examples=["1"],
    )

    def definition(self, context: ReleaseContext) -> dict[str, Any]:
        mechanism = {"draws": self.draws, "name": "posterior-draw", "tempering": self.tempering, **self.losses()}
        return {"kind": self.kind, "mechanism": mechanism, **self.model()}

    def design(self, context: ReleaseContext) -> "DrawDesign":
        from dpbayes_core.draws.design import network_draws, tempered

        epsilon, neighbours = float(self.epsilon), context.neighbours
        if self.nodes is None:
            return tempered(self.subject(context), epsilon=epsilon, draws=self.draws, neighbours=neighbours)
        return network_draws(
            network_of(context, self.nodes, self.edges),
            epsilon=epsilon,
            draws=self.draws,
            tempering=self.tempering,
            concentration=self.concentration,
            neighbours=neighbours,
        )


class MapSpec(DrawSection):
    """One draw that is tempered so that it concentrates at the posterior's mode as epsilon grows."""

    kind: Literal["map"] = Field(description="What is released.", examples=["map"])
    floor: Spread | None = Field(
        default=None, description="Of a network: the least probability of any level.", examples=["0.05"]
    )
    grid: Annotated[tuple[Real, ...], Says("list of numbers")] | None = Field(
        default=None,
        description="Of a network of two-level columns: the probabilities to choose from.",
        examples=["[0.1, 0.5, 0.9]"],
    )
    score: Literal["likelihood", "density"] = Field(
        default="likelihood",
        description="What is tempered; density is refused, because one record can change it without limit.",
        examples=["likelihood"],
    )

    @model_validator(mode="after")
    def _one_space(self) -> Self:
        if self.nodes is not None:
            exactly_one({"floor": self.floor, "grid": self.grid}, "the space of the probabilities")
        return self

    def problems(self, context: ReleaseContext, place: Place) -> Iterator[Problem]:
        """A score without a bounded sensitivity is reported before everything else."""
        from dpbayes_core.draws.design import check_score

        found = list(refused(lambda: check_score(self.score), place, KEYS))
        yield from found or super().problems(context, place)

    def definition(self, context: ReleaseContext) -> dict[str, Any]:
        space = {"floor": self.floor, "grid": None if self.grid is None else list(self.grid)}
        return {"kind": self.kind, "mechanism": {"name": "map", **space, **self.losses()}, **self.model()}

    def design(self, context: ReleaseContext) -> "DrawDesign":
        from dpbayes_core.draws.design import grid_map, network_map, tempered
        from dpbayes_core.draws.release import MapRelease

        epsilon, neighbours = float(self.epsilon), context.neighbours
        if self.nodes is None:
            return tempered(self.subject(context), epsilon=epsilon, neighbours=neighbours, kind=MapRelease)
        schema = network_of(context, self.nodes, self.edges)
        if self.grid is not None:
            return grid_map(
                schema,
                epsilon=epsilon,
                values=self.grid,
                concentration=self.concentration,
                neighbours=neighbours,
            )
        assert self.floor is not None
        return network_map(
            schema, epsilon=epsilon, floor=self.floor, concentration=self.concentration, neighbours=neighbours
        )
