"""The crate of a posterior: draws, diagnostics and report, tied to the releases they came from."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpbayes.crates.analysis_request import AnalysisRequest, analysis_key
from dpbayes.crates.contained_releases import Source, contained_files, described, evidence_of
from dpbayes.crates.format import METADATA, attested, listed, metadata
from dpbayes.crates.parquet import draws_parquet
from dpbayes.crates.release import ENTRY, NOISY, REPORT, SOFTWARE, STUDY
from dpbayes.crates.release import RECORD as RELEASE
from dpbayes.kinds.regression.pooled_parts import parts_record
from dpbayes_core.arrays import Floats
from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import IntegrityFailure
from storage.files.archive_paths import POSTERIOR, links_of
from storage.home.signatures import Signer

if TYPE_CHECKING:
    from dpbayes_core.sampling.posterior import CoefficientSummary, Posterior


Origin = Literal["study", "crates"]
"""Who analysed: the study's own agency with its ledger, or anybody who has the crates."""

SCHEMA_VERSION = 3  # of posterior.json; 1 had one release, under `release`; keys of 1 and 2 were of noisy values
VERSIONS = (1, 2, 3)  # that are read
PREDICATES = {version: f"urn:dpbayes:attestation:posterior:{version}" for version in VERSIONS}
PREDICATE = PREDICATES[SCHEMA_VERSION]

DRAWS = "draws.parquet"

OWN: Mapping[str, str] = {
    POSTERIOR: "The analysis: prior, sampler, seed, status, summary and diagnostics",
    DRAWS: "The posterior draws, in the user's units",
    REPORT: "The report for people",
    SOFTWARE: "The software that drew the posterior",
}
STATED = {STUDY: "The study file as it was given"}
ONE: Mapping[str, str] = {
    RELEASE: "The release that was analysed",
    NOISY: "Its noisy statistics with the scale of the noise in each, in standardised units",
    ENTRY: "The ledger entry that paid for the release and holds it",
}
CONTENTS: Mapping[str, str] = {**OWN, **ONE, **STATED}
"""The files of a study's crate of a posterior from one release."""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The inputs of an analysis: its releases and, unless there are only crates, its study."""

    sources: tuple[Source, ...]  # in their order
    study_text: bytes | None  # None where there are only crates
    alike: bool = False  # whether people are declared to be assigned to several releases at random

    @property
    def origin(self) -> Origin:
        """Who analysed."""
        return "crates" if self.study_text is None else "study"

    @property
    def proven(self) -> bool:
        """Whether each release has a folder of its own, with its own attestation; the crate's does not prove it."""
        return self.origin == "crates" or len(self.sources) > 1

    @property
    def evidence(self) -> Any:
        """The sampler's input."""
        return evidence_of([source.entry for source in self.sources])

    def links(self) -> list[dict[str, Any]]:
        """Where every release is archived, and what identifies it."""
        return [source.link(proven=self.proven) for source in self.sources]

    def files(self) -> dict[str, bytes]:
        """The files of the releases, as the crate contains them, and the study file."""
        found = {} if self.study_text is None else {STUDY: self.study_text}
        return found | (
            contained_files(self.sources) if self.proven else {name: self.sources[0].files[name] for name in ONE}
        )


def build_posterior_crate(
    request: AnalysisRequest,
    posterior: "Posterior",
    provenance: Provenance,
    *,
    naive: "Posterior | None",
    tried: Mapping[str, Any] | None = None,
    software: Mapping[str, str],
    signer: Signer | None,
) -> dict[str, bytes]:
    """Every file of the crate of an analysis; the same draws, releases, study, versions and key give the same bytes."""
    record = posterior_record(request, posterior, naive, provenance)
    record |= {} if tried is None else {"test": dict(tried)}
    given = provenance.files()
    by = None if signer is None else signer.fingerprint
    files = {
        **given,
        POSTERIOR: canonical_json(record),
        DRAWS: draws_parquet(posterior.draws),
        **derived_files(record, provenance.sources, posterior.draws, given, software=software, by=by),
    }
    if signer is None:
        return listed(files, PREDICATE, predicate_of(record))
    return attested(files, PREDICATE, predicate_of(record), signer)


def derived_files(
    record: Mapping[str, Any],
    sources: Sequence[Source],
    draws: Mapping[str, Floats],
    given: Mapping[str, bytes],
    *,
    software: Mapping[str, str],
    by: str | None,
) -> dict[str, bytes]:
    """The files that follow from the others: report, versions and description; `given` are those of the releases."""
    from dpbayes.pages.report.render import render

    releases = [source.record for source in sources]
    contents = {**OWN, **{name: what for name, what in {**STATED, **ONE}.items() if name in given}, **described(given)}
    return {
        REPORT: render(releases, record, draws, fingerprint=by, software=software).encode(),
        SOFTWARE: canonical_json(dict(software)),
        METADATA: metadata(
            name=f"{record['study']} {record['period']}: {record['analysis']}",
            description="A Bayesian posterior drawn from differentially private releases alone, with its report.",
            day=max(release["date"] for release in releases),
            identifier=f"sha256:{record['key']}",
            files=contents,
            software=software,
            based_on=[name for name in sorted(given) if name.rpartition("/")[2] in (RELEASE, NOISY)],
            signed=by is not None,
        ),
    }


def predicate_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """What the statement about a crate states in addition to its files."""
    links = links_of(record)
    if record["schema_version"] == 1:
        return {"analysis": record["key"], "ledger": links[0]["ledger"], "release": links[0]["digest"]}
    return {
        "analysis": record["key"],
        "releases": [{"ledger": link["ledger"], "release": link["digest"]} for link in links],
    }


def recorded(files: Mapping[str, bytes]) -> Mapping[str, Any]:
    """The public record in the crate of a posterior; cached, because an audit reads it many times."""
    return _parsed(files[POSTERIOR])


@lru_cache(maxsize=2)
def _parsed(data: bytes) -> Mapping[str, Any]:
    return json.loads(data)


def posterior_record(
    request: AnalysisRequest, posterior: "Posterior", naive: "Posterior | None", provenance: Provenance
) -> dict[str, Any]:
    """The public record of a posterior, of the present schema version."""
    from dpbayes.kinds.regression.prior_check import prior_check

    _refuse_others(request, posterior, provenance)
    evidence = provenance.evidence
    found = prior_check(evidence, request.prior, posterior.draws)
    parts = parts_record(evidence, request, declared=provenance.alike)
    return {
        "analysis": request.analysis,
        "coefficients": _summary(posterior.summary()),
        "diagnostics": _diagnostics(posterior),
        "key": analysis_key([source.entry for source in provenance.sources], request),
        "kind": "posterior",
        "naive": None if naive is None or naive.sampler == posterior.sampler else _summary(naive.summary()),
        "origin": provenance.origin,
        "period": request.period,
        "releases": provenance.links(),
        "request": request.to_record(),
        "sampler": {
            "calibrated": posterior.calibrated,
            "caveat": posterior.caveat,
            "choice": posterior.choice,
            "cost": posterior.cost,
            "name": posterior.sampler,
            "target": posterior.target,
        },
        "schema_version": SCHEMA_VERSION,
        "status": "converged" if posterior.converged else "not-converged",
        "study": request.study,
        "why": posterior.why_not,
        **({} if found is None else {"prior_check": found}),
        **({} if parts is None else {"parts": parts}),
    }


def _refuse_others(request: AnalysisRequest, posterior: "Posterior", provenance: Provenance) -> None:
    """Refuse a posterior of other releases or another seed, and releases of another study or period than requested."""
    stated = [source.entry.payload for source in provenance.sources]
    last = {each["study"] for each in stated}, max(each["period"] for each in stated)
    if provenance.origin == "study" and last != ({request.study}, request.period):
        raise IntegrityFailure(
            "cannot build a posterior's crate: its release is of another study or period. Match them."
        )
    if (posterior.release, posterior.seed) != (provenance.evidence.digest, request.seed):
        raise IntegrityFailure(
            "cannot build a posterior's crate: it was drawn from another release or seed. Draw again."
        )


def _summary(lines: Sequence["CoefficientSummary"]) -> list[dict[str, Any]]:
    """The summary as plain data for canonical JSON; a diagnostic that does not exist is null."""
    return [{name: _number(value) for name, value in asdict(line).items()} for line in lines]


def _diagnostics(posterior: "Posterior") -> dict[str, Any]:
    """What was drawn, the gate, and the worst of the latent statistics, which have to pass it too."""
    from dpbayes_core.sampling.diagnostics import LEAST_ESS, MOST_DIVERGENT, MOST_RHAT

    found, known = posterior.diagnosis, len(posterior.draws)
    chains, count = next(iter(posterior.draws.values())).shape
    latent = {
        "count": len(posterior.latent),
        "ess_bulk": _worst(-found.ess_bulk[known:]),
        "ess_tail": _worst(-found.ess_tail[known:]),
        "rhat": _worst(found.rhat[known:]),
    }
    return {
        "attempt": posterior.attempt,
        "chains": chains,
        "divergences": posterior.divergences,
        "draws": count,
        "gate": {"divergent": MOST_DIVERGENT, "ess": LEAST_ESS, "rhat": MOST_RHAT},
        "gradients": posterior.gradients,
        "latent": latent if posterior.latent else None,
    }


def _worst(badness: Floats) -> float | None:
    """The largest in absolute value, or null where one does not exist."""
    return _number(abs(float(np.max(badness)))) if badness.size else None


def _number(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
