"""From a study's words to one analysis of one stored release: everything that decides the draws, chosen."""

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpbayes_core.canonical import digest
from dpbayes_core.design import AnyRelease
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.releases import release_from_record
from storage.books import Books
from storage.crate_posterior import AnalysisRequest, analysis_key
from storage.crates import posterior_path
from storage.ledger.entries import Entry
from storage.priors import AnyPrior, prior_for
from storage.study.study import Study
from storage.study.work import TestSpec

if TYPE_CHECKING:
    from storage.public_test import PublicTest

SEED_DIGITS = 13  # hexadecimal: 52 bits, an integer in every JSON reader


@dataclass(frozen=True)
class Analysis:
    """One analysis, ready to run: the stored release, the prior and the request that names the result."""

    entry: Entry
    release: AnyRelease
    prior: AnyPrior
    request: AnalysisRequest
    test: "PublicTest | None" = None

    @property
    def key(self) -> str:
        """The same release and request have the same key, and the same draws."""
        return analysis_key(self.release.digest, self.request)

    @property
    def path(self) -> str:
        """Where its crate lies in the archive."""
        return posterior_path(self.request.study, self.request.period, self.request.analysis, self.key)


def prepare_analysis(study: Study, name: str, period: str, books: Books) -> Analysis:
    """The analysis of the newest revision of its release; spends nothing."""
    from dpbayes_core.samplers.driver import choose

    spec = study.analysis(name)
    entry = newest_release(study, spec.release, period, books)
    release = release_from_record(json.loads(entry.release or b""))
    prior = prior_for(release, spec.prior)
    test = _public_test(study, spec.test, release)
    request = AnalysisRequest(
        study=study.study,
        period=period,
        analysis=name,
        sampler=choose(release, spec.sampler).sampler.name,
        prior=prior.to_record(),
        chains=spec.chains,
        draws=spec.draws,
        seed=0,
        test=None if test is None else test.to_record(),
    )
    seed = _derived_seed(release, request) if spec.seed is None else spec.seed
    return Analysis(entry, release, prior, replace(request, seed=seed), test)


def _public_test(study: Study, spec: TestSpec | None, release: Any) -> "PublicTest | None":
    if spec is None:
        return None
    from storage.public_test import read_public_test

    return read_public_test(study, spec, release.schema)


def newest_release(study: Study, release: str, period: str, books: Books) -> Entry:
    """The stored release of the highest revision, as the study defines it now."""
    wanted = study.request(release, period)
    while books.ledger.find(replace(wanted, revision=wanted.revision + 1).key):
        wanted = replace(wanted, revision=wanted.revision + 1)
    entry = books.ledger.known(wanted)
    if entry is None:
        raise StudyInvalid(
            f"cannot analyse {release} of {period}: nothing was released under that name. Run `dpbayes release` first."
        )
    if books.ledger.withdrawn(entry.key):
        raise StudyInvalid(
            f"cannot analyse {release} of {period}: its newest revision was withdrawn. Release the next --revision."
        )
    return entry


def _derived_seed(release: AnyRelease, request: AnalysisRequest) -> int:
    """A seed that nobody chose: from the public release and everything else that is asked."""
    return int(digest({"release": release.digest, "request": request.to_record()})[:SEED_DIGITS], 16)
