"""A project: a folder of studies with an optional `dpbayes.yaml`, which is all that a deployment needs."""

import glob
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from dpbayes.project.settings import Settings, load_settings
from dpbayes.study.load import load_study
from dpbayes.study.study import Study
from dpbayes_core.errors import DpbayesError, StudyInvalid
from storage.files.archive import MANIFEST


class Broken(NamedTuple):
    """A study file that cannot be used, and why."""

    path: Path
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Project:
    """The studies and settings of one folder; made only by `load_project`."""

    folder: Path  # resolved, so that a folder has one name
    settings: Settings
    studies: tuple[Study, ...]  # by name
    broken: tuple[Broken, ...]  # by path

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """What the file says of home and servers, as variables; one that is set in an environment wins."""
        return {name: environment.get(name) or value for name, value in self.settings.environment(self.folder).items()}


def load_project(folder: Path) -> Project:
    """The project in a folder; a study that cannot be used is listed as broken and does not stop the others."""
    folder = folder.expanduser()
    if not folder.is_dir():
        what = "it is a file" if folder.exists() else "there is no such folder"
        raise StudyInvalid(f"cannot read project {folder}: {what}. Name the folder of its studies.")
    folder = folder.resolve()
    settings = load_settings(folder)
    studies, broken = _read(_study_files(folder, settings))
    return Project(folder=folder, settings=settings, studies=studies, broken=broken)


def _study_files(folder: Path, settings: Settings) -> list[Path]:
    """The files that the patterns name, each once; the copies in crates are not studies of the project."""
    found = {
        (folder / name).resolve(): folder / name
        for pattern in settings.studies
        for name in sorted(glob.iglob(pattern, root_dir=folder, recursive=True), reverse=True)
        if (folder / name).is_file() and not (folder / name).with_name(MANIFEST).exists()
    }
    return sorted(found.values())


def _read(paths: Sequence[Path]) -> tuple[tuple[Study, ...], tuple[Broken, ...]]:
    by_name: dict[str, list[Study]] = defaultdict(list)
    broken: list[Broken] = []
    for path in paths:
        try:
            study = load_study(path)
            by_name[study.study].append(study)
        except DpbayesError as error:
            broken.append(Broken(path, str(error)))
    for name, studies in by_name.items():
        if len(studies) > 1:
            broken.extend(_of_one_name(name, [study.path for study in studies]))
    unique = (by_name[name][0] for name in sorted(by_name) if len(by_name[name]) == 1)
    return tuple(unique), tuple(sorted(broken))


def _of_one_name(name: str, paths: Sequence[Path]) -> Iterator[Broken]:
    """The ledger knows releases by the name of their study, so two studies of one name would be taken for one."""
    for path in paths:
        other = next(each for each in paths if each != path)
        yield Broken(path, f"cannot use study {name}: {other} has the same name. Rename one of them.")
