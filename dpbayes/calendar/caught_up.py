"""What was done of all that is due, as one document, and as one failure where something could not be done."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpbayes.calendar.states import MOST_SERIOUS_FIRST, PeriodState, worst
from dpbayes.project.project import Broken, load_project
from dpbayes.study.load import load_study
from dpbayes.study.study import Study
from dpbayes_core.errors import DpbayesError, StudyInvalid

Document = dict[str, Any]


class Unfinished(DpbayesError):
    """Not all that is due could be done; everything that was is kept."""

    def __init__(self, document: Document, failures: tuple[tuple[str, DpbayesError], ...]) -> None:
        super().__init__(document, failures)
        self.document = document
        codes = [failure.exit_code for _, failure in failures]
        first = next(failure for _, failure in failures if failure.exit_code == worst(codes))
        self.kind, self.exit_code = first.kind, first.exit_code  # type: ignore[misc]  # those of the most serious

    def __str__(self) -> str:
        ranked = sorted(self.args[1], key=lambda each: MOST_SERIOUS_FIRST.index(each[1].exit_code))
        return " ".join(f"{name}: {failure}" for name, failure in ranked)


def studies_at(place: Path) -> tuple[tuple[Study, ...], tuple[Broken, ...]]:
    """The studies of a project folder, and those that cannot be used; or the one study of a file."""
    if place.is_dir():
        project = load_project(place)
        return project.studies, project.broken
    return (load_study(place),), ()


def error_of(failure: DpbayesError) -> Document:
    """A failure as documents have it."""
    return {"kind": failure.kind, "message": str(failure)}


def study_record(
    study: Study, states: Sequence[PeriodState], runs: Sequence[Document] = (), failure: DpbayesError | None = None
) -> Document:
    """What was run of a study, and every due period that is not done now."""
    return {
        "study": study.study,
        "account": study.population,
        "file": str(study.path),
        "runs": list(runs),
        "periods": [state.to_record() for state in states if state.state != "done"],
        **({} if failure is None else {"error": error_of(failure)}),
    }


def all_records(
    place: Path,
    records: Sequence[Document],
    broken: Sequence[Broken] = (),
    failures: Sequence[tuple[str, DpbayesError]] = (),
) -> Document:
    """What was done of all studies of a place; raises `Unfinished` with it where anything failed."""
    unusable = [{"file": str(path), "message": sentence} for path, sentence in broken]
    document = {"place": str(place), "studies": list(records), "broken": unusable}
    failures = [*failures, *((str(path), StudyInvalid(sentence)) for path, sentence in broken)]
    if failures:
        raise Unfinished(document, tuple(failures))
    return document
