"""What a flow passes to a task: names and paths only, since Prefect may store them in its database."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, kw_only=True)
class ReleaseOrder:
    """One release of a study for one period."""

    study: str  # path of the study file
    sha256: str | None = None  # of the file as the flow read it, if a flow did
    release: str
    period: str
    revision: int = 1
    reason: str | None = None
    holder: str | None = None  # only this one, where others are released elsewhere
    actor: str = "scheduler"


@dataclass(frozen=True, kw_only=True)
class InspectOrder:
    """An inspection of the table of a study for one period."""

    study: str  # path of the study file
    sha256: str | None = None  # of the file as the flow read it, if a flow did
    period: str
    holder: str | None = None  # only this one, where the others' tables are elsewhere
    actor: str


@dataclass(frozen=True, kw_only=True)
class AnalysisOrder:
    """One analysis of a study for one period."""

    study: str  # path of the study file
    sha256: str | None = None  # of the file as the flow read it, if a flow did
    analysis: str
    period: str
    actor: str = "scheduler"


@dataclass(frozen=True, kw_only=True)
class CratesOrder:
    """An analysis of published crates alone, without a study; what is None is chosen by dpbayes."""

    actor: ClassVar[str] = "scheduler"  # of no ledger: never recorded

    crates: Sequence[str]  # folders, zips or URLs
    keys: Sequence[str]  # fingerprints that are trusted
    to: str  # folder or zip of the crate that is made
    prior: str | None = None  # path of a YAML file
    sampler: str | None = None
    chains: int | None = None
    draws: int | None = None
    seed: int | None = None
    alike: bool | None = None
    sign: str | None = None  # folder with a key of the analyst's own


PosteriorOrder = AnalysisOrder | CratesOrder
"""An analysis that chains are drawn for."""
