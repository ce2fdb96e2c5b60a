"""The request of an analysis, and the key derived from it, under which the result is stored."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from dpbayes.crates.contained_releases import Source, evidence_of
from dpbayes_core.canonical import digest
from dpbayes_core.regression.pool import PartsLaw, parts_law
from storage.ledger.entries import Entry


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
    test: Mapping[str, Any] | None = None  # which public records it is evaluated on, if any
    parts: Literal["differ"] | None = None  # whether several releases' covariates may differ; None: they have one law

    def __post_init__(self) -> None:
        if self.parts not in (None, "differ"):
            raise ValueError("cannot read a request: its parts are taken as no version takes them. Check its origin.")

    @property
    def alike(self) -> bool:
        """Whether the sampler takes several releases as alike."""
        return self.parts is None

    def law(self, *, numbers: bool) -> PartsLaw:
        """How the covariates of several releases are modelled; `numbers`: whether some are numeric."""
        return self.parts or parts_law(self.sampler, alike=True, numbers=numbers)

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON; without `test` and `parts` if they are None, as in earlier versions."""
        record = {**asdict(self), "prior": dict(self.prior)}
        for name in ("test", "parts"):
            if record[name] is None:
                del record[name]
        return record


def analysis_key(entries: Sequence[Entry], request: AnalysisRequest) -> str:
    """The key of an analysis: the digest of its ledger entries, in their order, and its request.

    The hash of a ledger entry covers schema, mechanism and definition too, where a release's digest is of values only.
    """
    return digest({"entries": [entry.hash for entry in entries], "request": request.to_record()})


def earlier_key(evidence: str, request: AnalysisRequest) -> str:
    """The same in records of version 1 and 2, by the digest of the release or pool."""
    return digest({"release": evidence, "request": request.to_record()})


def key_due(version: int, sources: Sequence[Source], request: AnalysisRequest) -> str:
    """The key that a record of some version has to state."""
    entries = [source.entry for source in sources]
    return earlier_key(evidence_of(entries).digest, request) if version < 3 else analysis_key(entries, request)
