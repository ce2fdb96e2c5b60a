"""The study file as one model; `docs/study-reference.md` is generated from it."""

from pydantic import Field

from dpbayes.kinds.context import ReleaseContext
from dpbayes.kinds.registry import ReleaseSpec
from dpbayes.strict_yaml.fields import ColumnName, Section, Slug
from dpbayes.study.analyses import AnalysisSpec, ScheduleSpec
from dpbayes.study.columns import ColumnSpec
from dpbayes.study.privacy import PrivacySpec
from dpbayes.study.source_sections import PeriodSpec, SourceSpec
from storage.ledger.request import priced_under


class StudyFile(Section):
    """The whole study file."""

    study: Slug = Field(description="Name of the study.", examples=["wages"])
    population: Slug = Field(
        description="Name of the people; every study that names them is charged to their one account.",
        examples=["employees"],
    )
    source: SourceSpec = Field(description="Where the table is.")
    period: PeriodSpec = Field(description="What a period is.", examples=["{grain: month}"])
    columns: dict[ColumnName, ColumnSpec] = Field(
        min_length=1,
        description="Columns of the table that releases may use, by name.",
        examples=["age: {bounds: [16, 80]}"],
    )
    privacy: PrivacySpec = Field(description="The guarantee and its limits.")
    releases: dict[Slug, ReleaseSpec] = Field(min_length=1, description="What is released, by name.")
    analyses: dict[Slug, AnalysisSpec] = Field(
        default_factory=dict[str, AnalysisSpec], description="Posteriors that are drawn from the releases, by name."
    )
    schedule: ScheduleSpec | None = Field(
        default=None,
        description="When runs are due, for `plan`; `deploy` has a Prefect server start them.",
        examples=['{cron: "0 2 1 * *"}'],
    )

    @property
    def context(self) -> ReleaseContext:
        """The public facts that releases need; a holder's count is not public where people may move between holders."""
        neighbours, holder = self.privacy.neighbours, self.source.holder
        return ReleaseContext(
            columns=self.columns,
            neighbours=neighbours if holder is None else priced_under(neighbours, holder.membership, holder.names[0]),
            delta=self.privacy.delta,
            measures=frozenset(cap.measure for cap in self.privacy.caps),
            rows=self.source.rows,
            max_rows_per_unit=self.source.max_rows_per_unit,
            holders=() if holder is None else holder.names,
            analyses=self.analyses,
        )
