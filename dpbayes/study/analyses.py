"""Sections of the study file about analyses and the schedule."""

from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field

from dpbayes.kinds.prior import PriorSpec
from dpbayes.kinds.registry import SamplerName
from dpbayes.strict_yaml.fields import Section, Text, refusal
from dpbayes.study.schedule import cron_problem
from dpbayes_core.text import shown


def _timezone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, malformed, or the name of a folder of zones
        raise refusal(f"{shown(name)} is not a timezone", "Write one such as Europe/Amsterdam or UTC") from None
    return name


def _cron(expression: str) -> str:
    if problem := cron_problem(expression):
        raise refusal(problem, 'Write, for instance, "0 2 1 * *": at 02:00 on the first of every month')
    return expression


class FiringsSpec(Section):
    """When a cron fires."""

    cron: Annotated[Text, AfterValidator(_cron)] = Field(
        description="Five fields: minute, hour, day of month, month, day of week.", examples=['"0 2 1 * *"']
    )
    timezone: Annotated[Text, AfterValidator(_timezone)] = Field(
        default="UTC", description="Timezone of the cron fields.", examples=["Europe/Amsterdam"]
    )


class ReanalysisSpec(FiringsSpec):
    """When an analysis is made again, of what is stored by then: later periods, newer revisions, another prior.

    It spends nothing. A result that differs in any of these is archived as a new version, next to a comparison with the
    version before it; where nothing changed, nothing is made.
    """


class TestSpec(Section):
    """Public records on which a network's predictions are evaluated."""

    path: Text = Field(
        description="CSV or Parquet file of public records with a column for each node, relative to the study file; "
        "never the table: its number of records, its sha256 and how well they are predicted are published, uncharged.",
        examples=["public/census.csv"],
    )
    target: Text = Field(description="Node that is predicted from all others.", examples=["pay"])


class AnalysisSpec(Section):
    """A posterior drawn from a release: free, repeatable, and without any access to the table."""

    release: Text = Field(description="Name of the release to analyse.", examples=["wage-regression"])
    periods: Literal["this", "all"] = Field(
        default="this", description="One period at a time, or all of them together.", examples=["this"]
    )
    sampler: SamplerName = Field(
        default="auto",
        description="How to draw: auto takes the calibrated one; naive ignores the noise, for comparison.",
        examples=["auto"],
    )
    prior: PriorSpec = Field(
        default=PriorSpec(), description="Prior; each part has defaults.", examples=["{coefficients: {sd: 1}}"]
    )
    test: TestSpec | None = Field(
        default=None,
        description="Of a network: public records on which its predictions are evaluated.",
        examples=["{path: a.csv, target: pay}"],
    )
    alike: bool = Field(
        default=False,
        description="Of several releases (holders, `periods: all`): whether people were assigned to them at random, so "
        "that their covariates have one law. Without it they may differ.",
        examples=["true"],
    )
    chains: Annotated[int, Field(ge=2, le=64)] = Field(
        default=4, description="Independent chains; convergence is judged across them.", examples=["4"]
    )
    draws: Annotated[int, Field(ge=10, le=100_000)] = Field(
        default=1000,
        description="Posterior draws of each chain to begin with: doubled until the chains pass the gate, up to 16 "
        "times as many; the run says how many there were.",
        examples=["1000"],
    )
    seed: Annotated[int, Field(ge=0, le=2**53)] | None = Field(
        default=None,
        description="Seed of the sampler, never of the noise; derived from the release's digest if not given.",
        examples=["7"],
    )
    schedule: ReanalysisSpec | None = Field(
        default=None,
        description="When the analysis is made again of what is stored by then, spending nothing; it is also made with "
        "every period, as without a schedule.",
        examples=['{cron: "0 4 1 1 *"}'],
    )

    def pools(self, releases: int) -> bool:
        """Whether releases may be analysed together, given how many one period has."""
        return self.periods == "all" or releases > 1


class ScheduleSpec(FiringsSpec):
    """When runs are due: which periods `plan` shows, and which is `previous`. `deploy` has a server start them.

    A period is due when this cron fires for the first time after the period is over. A period during whose next one the
    cron never fires is not due.
    """

    first: Text | None = Field(
        default=None,
        description="The first period that may be due. Without it: the first period of this study in the ledger, and "
        "while there is none, the period that was over when the cron fired last.",
        examples=["2026-01"],
    )
