"""Prepares an analysis of stored releases as a study states it: chooses everything that decides the draws."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dpbayes.analyses.stored_releases import newest_releases, releases_until
from dpbayes.crates.analysis_request import AnalysisRequest, analysis_key, earlier_key
from dpbayes.crates.contained_releases import evidence_of, order_of, sources_of
from dpbayes.crates.posterior import recorded
from dpbayes.crates.release import ENTRY
from dpbayes.kinds.prior import NOTHING, AnyPrior, PriorSpec
from dpbayes.kinds.registry import KINDS
from dpbayes.kinds.regression.samplers import INDEPENDENT_SAMPLERS
from dpbayes.study.analyses import AnalysisSpec, TestSpec
from dpbayes.study.guesses import expected_of
from dpbayes.study.study import Study
from dpbayes_core.canonical import canonical_json, digest
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.privacy.release import AnyRelease
from dpbayes_core.regression.planning.expected_moments import Expected
from dpbayes_core.regression.pool import Pool, has_numbers, parts_law
from dpbayes_core.regression.prior import Prior
from storage.files.archive_paths import posterior_path
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.entries import Entry
from storage.ledger.history import MALFORMED

if TYPE_CHECKING:
    from dpbayes.analyses.public_records import PublicTest

SEED_DIGITS = 13  # hexadecimal: 52 bits, an integer in every JSON reader


@dataclass(frozen=True)
class Analysis:
    """One analysis, ready to run: the stored releases, the prior and the request that names the result."""

    entries: tuple[Entry, ...]  # in the order in which they are pooled
    evidence: Any  # the one release, or all of them as a pool
    prior: AnyPrior
    request: AnalysisRequest
    test: "PublicTest | None" = None
    seed: int | None = None  # where the study states one
    by_default: bool = False  # whether the prior is the default
    alike: bool = False  # whether people are declared to be assigned to several releases at random

    @property
    def key(self) -> str:
        """The same releases and request have the same key, and the same draws."""
        return analysis_key(self.entries, self.request)

    @property
    def keys(self) -> tuple[str, str]:
        """The key, and the one by which earlier versions called the same analysis."""
        return self.key, earlier_key(self.evidence.digest, self.request)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that its crate may have in the archive, of either status and any version."""
        request = self.request
        about = (request.study, request.period, request.analysis)
        return tuple(
            posterior_path(*about, key, status=status) for key in self.keys for status in ("converged", "not-converged")
        )

    def under(self, prior: Prior) -> "Analysis":
        """The same analysis under another prior."""
        request = replace(self.request, prior=prior.to_record(), seed=0)
        return replace(self, prior=prior, request=seeded(request, self.evidence, self.seed), by_default=False)

    @property
    def read_as_alike(self) -> "Analysis | None":
        """The same analysis with releases taken as alike, as in earlier versions; None if this one takes them so."""
        if self.request.alike:
            return None
        evidence, request = evidence_of(self.entries, alike=True), replace(self.request, parts=None, seed=0)
        return replace(self, evidence=evidence, request=seeded(request, evidence, self.seed))

    def is_of(self, files: Mapping[str, bytes]) -> bool:
        """Whether a crate contains this analysis of exactly these ledger entries."""
        try:
            mine = [canonical_json(entry.to_record()) for entry in self.entries]
            theirs = [source.files[ENTRY] for source in sources_of(files)]
            return mine == theirs and recorded(files)["key"] in self.keys
        except (*MALFORMED, RecursionError):
            return False


def prepare_analysis(study: Study, name: str, period: str, anchored: AnchoredLedger) -> Analysis:
    """The analysis of the newest revision of every release it is about; spends nothing."""
    spec = study.analysis(name)
    entries = entries_to_analyse(study, name, period, anchored)
    return analysis_of(entries, spec, spec.prior, Named(study.study, period, name), study)


class Named(NamedTuple):
    """What an analysis is called: its study, its period and its own name."""

    study: str
    period: str
    analysis: str


def analysis_of(
    entries: tuple[Entry, ...], spec: AnalysisSpec, stated: PriorSpec, named: Named, study: Study | None = None
) -> Analysis:
    """The analysis of releases under a stated prior; a study adds its guesses of columns and its public records."""
    evidence, sampler, parts = read_together(entries, spec.sampler, alike=spec.alike)
    refuse_law(stated, sampler)
    regression = evidence.kind == "regression"
    expected = expected_of(study.columns, evidence.schema) if study is not None and regression else NOTHING
    prior = prior_for(evidence, stated, sampler, expected)
    test = None if study is None else _public_test(study, spec.test, evidence)
    request = AnalysisRequest(
        **named._asdict(),
        sampler=sampler,
        prior=prior.to_record(),
        chains=spec.chains,
        draws=spec.draws,
        seed=0,
        test=None if test is None else test.to_record(),
        parts=parts,
    )
    request = seeded(request, evidence, spec.seed)
    by_default = regression and stated.unstated
    return Analysis(entries, evidence, prior, request, test, seed=spec.seed, by_default=by_default, alike=spec.alike)


def entries_to_analyse(study: Study, name: str, period: str, anchored: AnchoredLedger) -> tuple[Entry, ...]:
    """The entries to analyse: every holder's release of the period, or of all periods up to it."""
    spec = study.analysis(name)
    find = releases_until if spec.periods == "all" else newest_releases
    return ordered(find(study, spec.release, period, anchored))


def ordered(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Entries in the order in which their releases are pooled."""
    return tuple(sorted(entries, key=order_of))


def read_together(entries: Sequence[Entry], sampler: str, *, alike: bool) -> tuple[Any, str, Literal["differ"] | None]:
    """The sampler's input, its name, and "differ" if it lets the covariates of several releases differ.

    They differ only where the record of the draws says so.
    """
    evidence = evidence_of(entries, alike=alike)
    name = chosen(evidence, sampler)
    if isinstance(evidence, Pool):
        law = parts_law(name, alike=alike, numbers=has_numbers(evidence.schema))
        if law == "differ":
            return evidence, name, law
    return evidence_of(entries, alike=True), name, None


def chosen(evidence: Any, sampler: str) -> str:
    """The name of the sampler that will draw."""
    from dpbayes_core.samplers.driver import choose

    return choose(evidence, sampler).sampler.name


def seeded(request: AnalysisRequest, evidence: Any, seed: int | None) -> AnalysisRequest:
    """The request with its seed: the stated one, or one derived from the releases and the rest of the request."""
    if seed is None:
        content = {"release": evidence.digest, "request": request.to_record()}
        seed = int(digest(content)[:SEED_DIGITS], 16)
    return replace(request, seed=seed)


def _public_test(study: Study, spec: TestSpec | None, release: Any) -> "PublicTest | None":
    if spec is None:
        return None
    from dpbayes.analyses.public_records import read_public_test

    return read_public_test(study, spec, release.schema)


Guesses = Mapping[str, Expected]
"""What columns are expected to be, by name."""


def prior_for(release: AnyRelease, stated: PriorSpec, sampler: str, expected: Guesses = NOTHING) -> AnyPrior:
    """The stated prior, or the default of that sampler; parts of other kinds are refused.

    A regression's default may be in units of what its columns are expected to be.
    """
    prior_kind = KINDS[release.kind].prior
    assert prior_kind is not None
    for name in prior_kind.others(stated):
        raise StudyInvalid(
            f"cannot use the prior: {name} is no part of a {release.kind} release's. "
            f"Choose from {', '.join(prior_kind.parts) or 'none'}."
        )
    return prior_kind.prior(release, stated, sampler, expected)


def refuse_law(stated: PriorSpec, sampler: str) -> None:
    """Refuse the independent law where the chosen sampler would draw under another one."""
    if stated.law == "independent" and sampler not in INDEPENDENT_SAMPLERS:
        raise StudyInvalid(
            f"cannot analyse with sampler {sampler}: it takes no prior with law: independent. "
            "Choose sampler collapsed, or state law: conjugate."
        )
