"""The crate of a posterior: draws, diagnostics and report, tied to the release they came from."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.canonical import canonical_json, digest
from dpbayes_core.errors import IntegrityFailure
from storage.codecs import draws_parquet
from storage.crate_release import ENTRY, NOISY, REPORT, SOFTWARE, STUDY
from storage.crate_release import RECORD as RELEASE
from storage.crates import METADATA, attested, metadata, posterior_path, release_path
from storage.signatures import Signer

if TYPE_CHECKING:
    from dpbayes_core.posterior import CoefficientSummary, Posterior

Floats = NDArray[np.float64]

SCHEMA_VERSION = 1  # of posterior.json
PREDICATE = "urn:dpbayes:attestation:posterior:1"

RECORD = "posterior.json"
DRAWS = "draws.parquet"

CONTENTS: Mapping[str, str] = {
    RECORD: "The analysis: prior, sampler, seed, status, summary and diagnostics",
    DRAWS: "The posterior draws, in the user's units",
    REPORT: "The report for people",
    RELEASE: "The release that was analysed",
    NOISY: "Its noisy statistics with the scale of the noise in each, in standardised units",
    ENTRY: "The ledger entry that paid for the release and holds it",
    STUDY: "The study file as it was given",
    SOFTWARE: "The software that drew the posterior",
}


@dataclass(frozen=True, kw_only=True)
class AnalysisRequest:
    """Everything that decides the draws, given the release: sampler, prior and seed already chosen."""

    study: str
    period: str
    analysis: str
    sampler: str
    prior: Mapping[str, Any]  # the prior's record
    chains: int
    draws: int  # of each chain
    seed: int
    test: Mapping[str, Any] | None = None  # which public records it is tried on, if any

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON; without a test as it was before there were tests."""
        record = {**asdict(self), "prior": dict(self.prior)}
        if self.test is None:
            del record["test"]
        return record


def analysis_key(release_digest: str, request: AnalysisRequest) -> str:
    """The name of an analysis of a release: the same request finds the crate that is stored."""
    return digest({"release": release_digest, "request": request.to_record()})


def build_posterior_crate(
    request: AnalysisRequest,
    posterior: "Posterior",
    *,
    naive: "Posterior | None",
    tried: Mapping[str, Any] | None = None,
    release_crate: Mapping[str, bytes],
    study_text: bytes,
    software: Mapping[str, str],
    signer: Signer,
) -> dict[str, bytes]:
    """Every file of the crate of an analysis; the same draws, release, study, versions and key give the same bytes."""
    from storage.report.render import render

    release: Mapping[str, Any] = json.loads(release_crate[RELEASE])
    record = posterior_record(request, posterior, naive, json.loads(release_crate[ENTRY]))
    record |= {} if tried is None else {"test": dict(tried)}
    files = {
        RECORD: canonical_json(record),
        DRAWS: draws_parquet(posterior.draws),
        REPORT: render(release, record, posterior.draws, fingerprint=signer.fingerprint, software=software).encode(),
        STUDY: study_text,
        SOFTWARE: canonical_json(dict(software)),
        METADATA: metadata(
            name=f"{request.study} {request.period}: {request.analysis}",
            description="A Bayesian posterior drawn from a differentially private release, with its report.",
            day=release["date"],
            identifier=f"sha256:{record['key']}",
            files=CONTENTS,
            software=software,
            based_on=(RELEASE, NOISY),
        ),
        **{name: release_crate[name] for name in (RELEASE, NOISY, ENTRY)},
    }
    predicate = {"analysis": record["key"], "ledger": release["ledger"], "release": release["digest"]}
    return attested(files, PREDICATE, predicate, signer)


def path_of(record: Mapping[str, Any]) -> str:
    """Where the crate of a posterior record lies in the archive."""
    return posterior_path(record["study"], record["period"], record["analysis"], record["key"])


def posterior_record(
    request: AnalysisRequest, posterior: "Posterior", naive: "Posterior | None", entry: Mapping[str, Any]
) -> dict[str, Any]:
    """The public record of a posterior, of the present schema version."""
    stated = entry["payload"]
    if (request.study, request.period) != (stated["study"], stated["period"]):
        raise IntegrityFailure(
            "cannot build a posterior's crate: its release is of another study or period. Match them."
        )
    if (posterior.release, posterior.seed) != (stated["digest"], request.seed):
        raise IntegrityFailure(
            "cannot build a posterior's crate: it was drawn from another release or seed. Draw again."
        )
    return {
        "analysis": request.analysis,
        "coefficients": _summary(posterior.summary()),
        "diagnostics": _diagnostics(posterior),
        "key": analysis_key(stated["digest"], request),
        "kind": "posterior",
        "naive": None if naive is None or naive.sampler == posterior.sampler else _summary(naive.summary()),
        "period": request.period,
        "release": release_link(entry),
        "request": request.to_record(),
        "sampler": {
            "calibrated": posterior.calibrated,
            "caveat": posterior.caveat,
            "choice": posterior.choice,
            "name": posterior.sampler,
            "target": posterior.target,
        },
        "schema_version": SCHEMA_VERSION,
        "status": "converged" if posterior.converged else "not-converged",
        "study": request.study,
        "why": posterior.why_not,
    }


def release_link(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Where a release is found, and by what it is known."""
    stated = entry["payload"]
    return {
        "crate": release_path(entry),
        "digest": stated["digest"],
        "ledger": {"hash": entry["hash"], "seq": entry["seq"]},
        "release": stated["release"],
        "revision": stated["revision"],
    }


def _summary(lines: Sequence["CoefficientSummary"]) -> list[dict[str, Any]]:
    """What canonical JSON can hold: a diagnostic that does not exist is null."""
    return [{name: _number(value) for name, value in asdict(line).items()} for line in lines]


def _diagnostics(posterior: "Posterior") -> dict[str, Any]:
    """What was drawn, the gate, and the worst of the latent statistics, which have to pass it too."""
    from dpbayes_core.diagnostics import LEAST_ESS, MOST_DIVERGENT, MOST_RHAT

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
