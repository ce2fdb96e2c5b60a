"""Where an analysis reads its releases and stores its crate: a steward's home, or an analyst's folder."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from dpbayes.analyses.comparisons import compare
from dpbayes.analyses.earlier import earlier_posterior
from dpbayes.analyses.prepare import Analysis, entries_to_analyse, prepare_analysis
from dpbayes.analyses.publish import finish_posteriors, is_on_record, publish_posterior
from dpbayes.audit.crate import run_check, signed
from dpbayes.crates.comparison import PAGE, Version
from dpbayes.crates.contained_releases import CONTAINED, Source
from dpbayes.crates.posterior import Provenance, recorded
from dpbayes.study.load import load_study
from dpbayes.study.study import Study
from dpbayes_core.errors import DpbayesError, IntegrityFailure
from storage.files.archive import MANIFEST
from storage.files.archive_paths import path_of, release_path
from storage.home.signatures import Signer
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.entries import Stamp

Order = Mapping[str, Any]
"""A flow's parameters: names and paths only, so that Prefect's database contains nothing else."""


class Workspace(Protocol):
    """One analysis with everything around it that a task needs."""

    @property
    def analysis(self) -> Analysis:
        """What is drawn."""
        ...

    @property
    def work(self) -> Path:
        """The folder of running chains' checkpoints."""
        ...

    @property
    def dask(self) -> str | None:
        """Address of a Dask scheduler; None starts one on this machine."""
        ...

    @property
    def signer(self) -> Signer | None:
        """Who signs the crate, if anybody."""
        ...

    def provenance(self) -> Provenance:
        """The releases with what proves them."""
        ...

    def stored(self) -> Mapping[str, bytes] | None:
        """The files of the crate, if it was made before."""
        ...

    def keep(self, files: Mapping[str, bytes], stamp: Stamp) -> None:
        """Store the crate."""
        ...

    def address(self, name: str = "") -> str:
        """The address of the crate, or of one file in it."""
        ...

    def remarks(self, files: Mapping[str, bytes]) -> Mapping[str, Any]:
        """What else the answer says of the analysis, given its crate."""
        ...


class StudyWorkspace:
    """A study's analysis, in the steward's home."""

    def __init__(self, analysis: Analysis, study: Study, anchored: AnchoredLedger) -> None:
        self.analysis = analysis
        self.study = study
        self.anchored = anchored
        self.work = anchored.home.work
        self.dask = anchored.home.dask
        self._comparison: str | None = None  # its path, once the crate is archived

    @property
    def signer(self) -> Signer | None:
        """The home's present key."""
        return self.anchored.home.signer()

    def provenance(self) -> Provenance:
        """The releases as the archive has them, and the study."""
        folders = [release_path(entry.to_record()) for entry in self.analysis.entries]
        crates = [self.anchored.archive.read_folder(folder) for folder in folders]
        sources = tuple(Source({name: crate[name] for name in CONTAINED}) for crate in crates)
        return Provenance(sources=sources, study_text=self.study.text, alike=self.analysis.alike)

    def stored(self) -> Mapping[str, bytes] | None:
        """The files of the crate in the archive, if there; refused unless they are this home's and on the ledger."""
        path = self._archived_path()
        if path is None:
            return None
        files = self.anchored.archive.read_folder(path)
        mine = not run_check(lambda files: signed(files, self.anchored.home.trusted()), files) and self.analysis.is_of(
            files
        )
        if not (mine and is_on_record(self.anchored, path, files)):
            raise IntegrityFailure(
                f"cannot use {path}: it is not this home's analysis of these ledger entries, or not on the ledger. "
                "Run `dpbayes audit`, move that folder away, and run again."
            )
        self._compare(path, files)
        return files

    def keep(self, files: Mapping[str, bytes], stamp: Stamp) -> None:
        """Put the crate on the ledger, then into the archive, under a name that says if it has not converged."""
        archived = self._archived_path()
        if archived is None:
            path = path_of(recorded(files))
            publish_posterior(self.anchored, self.study.population, path, files, stamp)
        else:
            path = archived
            self.anchored.archive.write_folder(path, files)
        self._compare(path, files)

    def _compare(self, path: str, files: Mapping[str, bytes]) -> None:
        """Archive what changed since the version before, where the study has the analysis made again on a schedule."""
        spec = self.study.analysis(self.analysis.request.analysis)
        if spec.schedule is not None:
            self._comparison = compare(self.anchored, Version(path, files), same_period=spec.periods == "this")

    def address(self, name: str = "") -> str:
        """The address in the archive."""
        return self.anchored.archive.address(f"{self._archived_path()}/{name}".rstrip("/"))

    def remarks(self, files: Mapping[str, bytes]) -> Mapping[str, Any]:
        """Where the comparison with the version before is, and what changed if a default did since the study's last."""
        place = self._comparison
        compared = {} if place is None else {"comparison": self.anchored.archive.address(f"{place}/{PAGE}")}
        return {**earlier_posterior(self.analysis, self.anchored, self._archived_path), **compared}

    def _archived_path(self, analysis: Analysis | None = None) -> str | None:
        """The crate's path in the archive, if it is there; under its earlier name only if of these very entries."""
        archive, analysis = self.anchored.archive, analysis or self.analysis
        present = (path for path in analysis.paths if archive.exists(f"{path}/{MANIFEST}"))
        named = analysis.key[:16]
        return next(
            (each for each in present if each.endswith(named) or analysis.is_of(archive.read_folder(each))), None
        )


@contextmanager
def open_workspace(order: Order, prepared: Workspace | None = None) -> Generator[Workspace]:
    """The workspace of a study's analysis, or of crates alone; what was prepared before is not prepared again."""
    if "crates" in order:
        from dpbayes.analyses.crates_workspace import CratesWorkspace, crates_workspace

        workspace = prepared if isinstance(prepared, CratesWorkspace) else crates_workspace(order)
        yield workspace
        workspace.tidy()
        return
    study = load_study(order["study"], order["sha256"])
    with AnchoredLedger.open(study.path) as anchored:
        finish_posteriors(anchored)
        arguments = (study, order["analysis"], order["period"], anchored)
        if prepared is not None and prepared.analysis.entries != entries_to_analyse(*arguments):
            raise DpbayesError(
                f"cannot archive {order['analysis']}: its releases were superseded, or another period was added, while "
                "chains were drawn. Run again."
            )
        analysis = prepare_analysis(*arguments) if prepared is None else prepared.analysis
        yield StudyWorkspace(analysis, study, anchored)


@contextmanager
def open_workspaces(orders: Sequence[Order]) -> Generator[Iterator[StudyWorkspace]]:
    """The workspace of each of several analyses of one study, prepared in turn, with one opening of the ledger."""
    study = load_study(orders[0]["study"], orders[0]["sha256"])
    with AnchoredLedger.open(study.path) as anchored:
        finish_posteriors(anchored)
        yield (
            StudyWorkspace(prepare_analysis(study, order["analysis"], order["period"], anchored), study, anchored)
            for order in orders
        )
