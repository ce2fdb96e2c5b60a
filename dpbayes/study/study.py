"""A study that was read and checked: its sections, and what follows from them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dpbayes.kinds.context import ReleaseContext
from dpbayes.kinds.registry import ReleaseSpec
from dpbayes.strict_yaml.problem import Problem
from dpbayes.study import requests
from dpbayes.study.analyses import AnalysisSpec, ScheduleSpec
from dpbayes.study.columns import ColumnSpec
from dpbayes.study.file import StudyFile
from dpbayes.study.privacy import PrivacySpec
from dpbayes.study.source_sections import PeriodSpec, SourceSpec
from dpbayes.study.table_source import TableSource
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.text import nearest, shown
from storage.ledger.periods import Period
from storage.ledger.request import AccountSpec, Request

if TYPE_CHECKING:
    from dpbayes_core.exact_sums.protocol import Statistic
    from dpbayes_core.privacy.release import Design


@dataclass(frozen=True, kw_only=True)
class Study:
    """One valid study file; made only by `load_study`."""

    path: Path  # of the file, absolute: the source's path is relative to its folder
    text: bytes = field(repr=False)  # the file as it was read
    file: StudyFile = field(repr=False)

    @property
    def sha256(self) -> str:
        """The digest of the file, by which the steps of a run recognise it."""
        return hashlib.sha256(self.text).hexdigest()

    @property
    def study(self) -> str:
        """The study's name."""
        return self.file.study

    @property
    def population(self) -> str:
        """The name of the people whose account is charged."""
        return self.file.population

    @property
    def source(self) -> SourceSpec:
        """Where the confidential table is."""
        return self.file.source

    @property
    def period(self) -> PeriodSpec:
        """What a period is."""
        return self.file.period

    @property
    def columns(self) -> Mapping[str, ColumnSpec]:
        """The declared columns, by name."""
        return self.file.columns

    @property
    def privacy(self) -> PrivacySpec:
        """Neighbours, delta and caps."""
        return self.file.privacy

    @property
    def releases(self) -> Mapping[str, ReleaseSpec]:
        """What is released, by name."""
        return self.file.releases

    @property
    def analyses(self) -> Mapping[str, AnalysisSpec]:
        """What is inferred from releases, by name."""
        return self.file.analyses

    @property
    def schedule(self) -> ScheduleSpec | None:
        """When the study is due; None without a schedule."""
        return self.file.schedule

    @property
    def reanalysed(self) -> tuple[str, ...]:
        """The names of the analyses that schedules of their own make again."""
        return tuple(name for name, spec in self.analyses.items() if spec.schedule is not None)

    def release(self, name: str) -> ReleaseSpec:
        """The release with that name; raises StudyInvalid if there is none."""
        if name not in self.releases:
            raise self._unknown("release", name, self.releases)
        return self.releases[name]

    def analysis(self, name: str) -> AnalysisSpec:
        """The analysis with that name; raises StudyInvalid if there is none."""
        if name not in self.analyses:
            raise self._unknown("analysis", name, self.analyses)
        return self.analyses[name]

    def parse_period(self, text: str) -> Period:
        """The period with that name; raises StudyInvalid if its length is not the study's."""
        return Period.parse(text, self.period.grain)

    def design(self, release: str) -> "Design":
        """The design of a release: its statistic and its mechanism."""
        return self.release(release).design(self.context)

    @property
    def context(self) -> ReleaseContext:
        """The public facts that releases need."""
        return self.file.context

    @property
    def holders(self) -> tuple[str | None, ...]:
        """The names of the holders in declared order; a single None if the table has no holders."""
        return requests.holders(self.file)

    def account(self) -> AccountSpec:
        """The account that every release of this study is charged to."""
        return requests.account(self.file)

    def only(self, holder: str | None) -> tuple[str | None, ...]:
        """That holder, or all for None; raises StudyInvalid if the holder cannot be released without the others."""
        return self.holders if holder is None else (requests.one_holder(self.file, holder),)

    def table(self, release: str, period: Period | str, *, holder: str | None = None) -> TableSource:
        """One period's table with the columns of a release; with `holder`, without the files of other holders."""
        spec = self.release(release)
        folder, name = self.path.parent, self._period(period).name
        path, query = requests.place(self.file, folder, name)
        holders = requests.holders_of(self.file, folder, name, holder)
        return TableSource(
            path=path,
            query=query,
            columns=requests.column_rules(self.file, spec) + (() if holders is None else (holders.rule,)),
            unit=self.source.unit,
            max_rows_per_unit=self.source.max_rows_per_unit,
            holders=holders,
            stated=requests.stated_rules(self.file, spec),
        )

    def statistic(self, release: str) -> "Statistic":
        """The exact statistic that one pass sums for a release; summed by holder if there are several."""
        from dpbayes_core.regression.holders import HolderSums

        each, spec = self.design(release).statistic(), self.source.holder
        if spec is None:
            return each
        return HolderSums(each, requests.FILES_HOLDER if spec.column is None else spec.column, spec.names)

    def request(
        self,
        release: str,
        period: Period | str,
        revision: int = 1,
        reason: str | None = None,
        *,
        holder: str | None = None,
    ) -> Request:
        """The request to the ledger; revisions after the first need a reason."""
        spec = self.release(release)
        name = self._period(period).name
        if revision < 1:
            raise StudyInvalid(
                f"cannot request {release} of {name}: revisions count from 1. Give 1, or the next revision."
            )
        if (revision > 1) != bool(reason and reason.strip()):
            rule = "a revision after the first needs a reason" if revision > 1 else "the first revision takes no reason"
            remedy = (
                "Say with --reason why the release before it is superseded" if revision > 1 else "Ask for revision 2"
            )
            raise StudyInvalid(f"cannot request {release} of {name}: {rule}. {remedy}.")
        return Request(
            study=self.study,
            release=release,
            period=name,
            holder=holder,
            revision=revision,
            account=self.account(),
            definition=requests.definition(self.file, spec),
            reason=reason,
        )

    def _period(self, period: Period | str) -> Period:
        # parsed again even if it is a Period, because it may have another length
        return self.parse_period(str(period))

    def _unknown(self, what: str, name: str, known: Mapping[str, object]) -> StudyInvalid:
        remedy = nearest(name, known, "Choose one of")
        return StudyInvalid(str(Problem((), f"cannot find {what} {shown(name)}: study {self.study} has none", remedy)))
