"""Sections of the study file about the guarantee: neighbours, delta, and the caps of the account."""

from decimal import Decimal
from typing import Literal, Self

from pydantic import Field, model_validator

from dpbayes.strict_yaml.fields import Delta, Loss, Section, Slug, exactly_one, refusal
from storage.ledger.request import CapSpec, Window


class CapOptions(Section):
    """A limit on privacy loss, stated in one of three measures."""

    epsilon: Loss | None = Field(
        default=None,
        description="Limit as an (epsilon, delta) guarantee, with the delta of `privacy` unless given here.",
        examples=["8"],
    )
    delta: Delta | None = Field(
        default=None, description="The delta of this cap alone; with epsilon only.", examples=["1e-7"]
    )
    rho: Loss | None = Field(
        default=None, description="Limit in zero-concentrated differential privacy.", examples=["0.5"]
    )
    pure_epsilon: Loss | None = Field(
        default=None,
        alias="pure-epsilon",
        description="Limit in pure epsilon; takes no gaussian release.",
        examples=["8"],
    )

    @model_validator(mode="after")
    def _one_measure(self) -> Self:
        measures = {"epsilon": self.epsilon, "rho": self.rho, "pure-epsilon": self.pure_epsilon}
        exactly_one(measures, "the limit of this cap")
        if self.delta is not None and self.epsilon is None:
            raise refusal("delta belongs to an epsilon cap only", "Delete it", "delta")
        return self

    def compiled(self, window: Window, delta: Decimal | None, programme: str | None = None) -> CapSpec:
        """The cap in the form in which an account stores it."""
        if self.rho is not None:
            return CapSpec(window=window, measure="rho", limit=self.rho, programme=programme)
        if self.pure_epsilon is not None:
            return CapSpec(window=window, measure="pure-epsilon", limit=self.pure_epsilon, programme=programme)
        assert self.epsilon is not None
        delta = self.delta or delta
        return CapSpec(window=window, measure="epsilon-delta", limit=self.epsilon, delta=delta, programme=programme)


class ProgrammeOptions(CapOptions):
    """A cap shared by every population of a named programme; it takes the same measures."""

    name: Slug = Field(description="Name of the programme.", examples=["labour-statistics"])


class BudgetSpec(Section):
    """The caps of the population's account: it is opened with them once, and only the ledger changes them later."""

    lifetime: CapOptions | None = Field(
        default=None, description="Limit over all periods: a person's guarantee.", examples=["{epsilon: 8}"]
    )
    per_period: CapOptions | None = Field(
        default=None, alias="per-period", description="Limit on each period's releases.", examples=["{epsilon: 1}"]
    )
    programme: ProgrammeOptions | None = Field(
        default=None,
        description="Limit shared with other populations.",
        examples=["{name: labour-statistics, epsilon: 20}"],
    )

    @model_validator(mode="after")
    def _some_cap(self) -> Self:
        if self.lifetime is None and self.per_period is None and self.programme is None:
            raise refusal("there is no cap", "State at least lifetime")
        return self


class PrivacySpec(Section):
    """The guarantee and its limits."""

    neighbours: Literal["replace-one", "add-remove"] = Field(
        default="replace-one",
        description="Tables that must be indistinguishable: one person replaced, or added or removed.",
        examples=["replace-one"],
    )
    delta: Delta | None = Field(
        default=None,
        description="Probability left outside the guarantee; epsilon caps and gaussian releases of an epsilon need it.",
        examples=["1e-6"],
    )
    budget: BudgetSpec = Field(description="Caps of the population's account.", examples=["{lifetime: {epsilon: 8}}"])

    @property
    def caps(self) -> tuple[CapSpec, ...]:
        """The caps in the form in which the account stores them: lifetime, per-period, programme."""
        lifetime, per_period, programme = self.budget.lifetime, self.budget.per_period, self.budget.programme
        caps: list[CapSpec] = []
        if lifetime is not None:
            caps.append(lifetime.compiled("lifetime", self.delta))
        if per_period is not None:
            caps.append(per_period.compiled("per-period", self.delta))
        if programme is not None:
            caps.append(programme.compiled("programme", self.delta, programme.name))
        return tuple(caps)
