"""What ledger and archive have of each period of a study: they alone decide what is done."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal

from dpbayes.study.study import Study
from storage.files.archive import MANIFEST, Archive
from storage.files.archive_paths import NOT_CONVERGED, place, release_path
from storage.ledger.entries import Entry
from storage.ledger.ledger import Ledger
from storage.ledger.page import Page
from storage.ledger.periods import Period, is_name, overlapped
from storage.ledger.publishing import Publication, on_record

Converged = Literal["converged", "not-converged"]


@dataclass(frozen=True, kw_only=True)
class PeriodFacts:
    """How far a period is."""

    charged: bool = False
    """Whether it was charged for anything."""
    stored: bool = False
    """Whether every release is on the ledger, at every holder: the table is not needed any more."""
    released: bool = False
    """Whether the crates of all of them are in the archive, too."""
    withdrawn: bool = False
    """Whether the newest revision of a release was withdrawn: there is nothing to analyse."""
    closed: bool = False
    """Whether the account takes no more charges for it."""
    passed: bool = False
    """Whether a later period was charged, so that nothing is charged for this one unless somebody asks."""
    analysed: Converged | None = None
    """What became of its analyses, of the newest revisions; None while one is missing."""
    day: str | None = field(default=None, compare=False)
    """The day of its last charge."""

    @property
    def done(self) -> bool:
        """Whether nothing is left to do, or nothing can be done any more."""
        if self.released:
            return self.withdrawn or self.analysed is not None
        return not self.stored and (self.closed or self.passed)


@dataclass(frozen=True)
class StudyFacts:
    """What is known of all periods of a study that the ledger names."""

    charged: Mapping[str, PeriodFacts] = field(default_factory=dict[str, PeriodFacts])
    """The periods of the study's grain that it was charged for, by name."""
    closed: frozenset[str] = frozenset()
    """The periods, of the account's grain, that take no more charges."""
    owes_gaps: bool = False
    """Whether the study states with which period its calendar begins, so that it owes even what was passed over."""

    @property
    def first_entry(self) -> str | None:
        """The first period of the study on the ledger: names of one grain are in the order of the calendar."""
        return min(self.charged, default=None)

    def of(self, period: str) -> PeriodFacts:
        """What is known of a period."""
        grains = {Period.named(name).grain for name in self.closed}
        closed = any(name in self.closed for grain in grains for name in overlapped(period, grain))
        later = period < max(self.charged, default="")
        passed = later and (period in self.charged or not self.owes_gaps)
        return replace(self.charged.get(period, PeriodFacts()), closed=closed, passed=passed)


def facts_of(study: Study, ledger: Ledger | Page, archive: Archive) -> StudyFacts:
    """The facts of a study, by names alone: one look at the ledger, one at each folder of the archive."""
    return facts_of_all([study], ledger, archive)[study.study]


def facts_of_all(studies: Iterable[Study], ledger: Ledger | Page, archive: Archive) -> dict[str, StudyFacts]:
    """The facts of several studies of one ledger, by the names of the studies."""
    published: dict[str, list[Publication]] = defaultdict(list)
    for each in on_record(ledger.of_kind("publish")):
        published[each.publication.study].append(each.publication)
    return {study.study: _facts(study, ledger, archive, published[study.study]) for study in studies}


def _facts(study: Study, ledger: Ledger | Page, archive: Archive, published: Sequence[Publication]) -> StudyFacts:
    charges: dict[str, list[Entry]] = {}
    for entry in ledger.charges_of(study.study):
        if is_name(entry.payload["period"], study.period.grain):
            charges.setdefault(entry.payload["period"], []).append(entry)
    known = _Known(
        study=study,
        withdrawn={entry.payload["withdraws"] for entry in ledger.of_kind("withdraw")},
        published=published,
        folders={folder for kind in ("releases", "posteriors") for folder in _whole(archive, f"{kind}/{study.study}")},
    )
    closings = (entry.payload for entry in ledger.of_kind("close"))
    return StudyFacts(
        {name: known.period(name, charges[name]) for name in sorted(charges)},
        frozenset(payload["period"] for payload in closings if payload["account"] == study.population),
        owes_gaps=study.schedule is not None and study.schedule.first is not None,
    )


def _whole(archive: Archive, folder: str) -> Iterator[str]:
    """Every folder below this one that has its manifest."""
    for name in archive.list(folder):
        path, _, last = name.rpartition("/")
        if last == MANIFEST:
            yield path


@dataclass(frozen=True, kw_only=True)
class _Known:
    """What ledger and archive say of a study."""

    study: Study
    withdrawn: Collection[str]
    published: Sequence[Publication]
    folders: Collection[str]

    def period(self, name: str, charges: Sequence[Entry]) -> PeriodFacts:
        """The facts of a period that was charged for."""
        newest = {release: self._newest(release, charges) for release in self.study.releases}
        entries, stored = [entry for found in newest.values() for entry in found], all(newest.values())
        return PeriodFacts(
            charged=True,
            day=charges[-1].payload["date"],
            stored=stored,
            released=stored and all(release_path(each.to_record()) in self.folders for each in entries),
            withdrawn=any(entry.key in self.withdrawn for entry in entries),
            analysed=self._analysed(name, newest),
        )

    def _newest(self, release: str, charges: Sequence[Entry]) -> list[Entry]:
        """The highest revision that is on the ledger at every holder; nothing where none is."""
        stated = [(entry.payload["revision"], entry.payload["holder"], entry) for entry in charges]
        of = {(revision, holder): entry for revision, holder, entry in stated if entry.payload["release"] == release}
        found: list[Entry] = []
        for revision in count(1):
            asked = [of.get((revision, holder)) for holder in self.study.holders]
            complete = [entry for entry in asked if entry is not None]
            if len(complete) < len(asked):
                return found
            found = complete
        return found

    def _analysed(self, period: str, newest: Mapping[str, Sequence[Entry]]) -> Converged | None:
        found = [self._analysis(name, period, newest[spec.release]) for name, spec in self.study.analyses.items()]
        if None in found:
            return None
        return "not-converged" if "not-converged" in found else "converged"

    def _analysis(self, name: str, period: str, entries: Sequence[Entry]) -> Converged | None:
        """What became of one analysis, by its newest crate of these entries; crates of before by their names."""
        mine = [one for one in self.published if (one.analysis, one.period) == (name, period)]
        keys = {entry.key for entry in entries}
        for one in reversed(mine):
            if one.path in self.folders and keys <= set(one.releases):
                return "converged" if one.status == "converged" else "not-converged"
        folder = f"posteriors/{place(self.study.study, period)}/{name}"
        earlier = re.compile(rf"{re.escape(folder)}({NOT_CONVERGED})?-[0-9a-f]{{16}}")
        found = [match for path in self.folders if (match := earlier.fullmatch(path))]
        if found and not mine:
            return "not-converged" if found[0][1] else "converged"
        return None
