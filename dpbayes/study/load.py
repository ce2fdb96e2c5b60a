"""Reads study files, and priors in files of their own: each is valid, or one StudyInvalid has line, key and remedy."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from dpbayes.kinds.prior import PriorSpec
from dpbayes.kinds.registry import KINDS
from dpbayes.strict_yaml.messages import problems_of
from dpbayes.strict_yaml.problem import Problem
from dpbayes.strict_yaml.yaml12 import Document, parse
from dpbayes.study.cross_checks import problems
from dpbayes.study.file import StudyFile
from dpbayes.study.study import Study
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.text import nearest, shown

LARGEST_FILE = 1_000_000


def load_study(path: Path | str, sha256: str | None = None) -> Study:
    """The study in a file, with every check passed; with a digest, refused unless the file still has that digest."""
    path = Path(path)
    try:
        found = _parsed(path.absolute(), read_whole(path, "study"))
        if sha256 not in (None, found.sha256):
            remedy = "Run again: what is released, archived or kept of chains is used"
            raise Problem((), "it was changed after this run had begun", remedy)
        return found
    except Problem as problem:
        sentence = str(problem)
    raise StudyInvalid(f"cannot read study {shown(path.name or str(path))}: {sentence}")


@lru_cache(maxsize=4)
def _parsed(path: Path, text: bytes) -> Study:
    """The study in these bytes; cached, because every step of a run loads it."""
    return Study(path=path, text=text, file=_checked(parse(decoded(text)), path.parent))


def read_whole(path: Path, what: str) -> bytes:
    """The bytes of a file written by a person, such as a study or a prior; raises Problem."""
    try:
        if path.is_dir():
            raise Problem((), "it is a folder", f"Name the {what} file in it, {what}.yaml for instance")
        if not path.exists():
            remedy = ", or make a study with dpbayes init" if what == "study" else ""
            raise Problem((), "there is no such file", f"Check the path{remedy}")
        if not path.is_file():
            raise Problem((), "it is not a file", f"Name a {what} file")
        with path.open("rb") as file:
            text = file.read(LARGEST_FILE + 1)
    except PermissionError:
        raise Problem((), "you may not read it", "Ask its owner for permission") from None
    except (OSError, ValueError):  # ValueError: a null character in the path
        raise Problem((), "it cannot be opened", "Check the path and the disk") from None
    if len(text) > LARGEST_FILE:
        raise Problem((), f"it is larger than any {what} file", "Keep it under 1 MB, or check what file this is")
    return text


def decoded(text: bytes) -> str:
    """The bytes as text; raises Problem unless they are UTF-8."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise Problem((), "it is not UTF-8 text", "Save it as UTF-8", line) from None


def _checked(document: Document, folder: Path) -> StudyFile:
    if not isinstance(document.value, dict):
        raise Problem((), "it is not a list of keys and values", "Start with study: and its name", 1)
    try:
        file = StudyFile.model_validate(document.value)
    except ValidationError as error:
        raise _first_problem(problems_of(error), document) or error from None
    if problem := _first_problem(problems(file, folder), document):
        raise problem
    return file


def _first_problem(found: Iterable[Problem], document: Document) -> Problem | None:
    """The problem that comes first in the file, with its line number."""
    placed = [
        Problem(problem.place, problem.what, problem.remedy, document.line(problem.place) or 1) for problem in found
    ]
    return min(placed, key=lambda problem: problem.line or 0, default=None)


def load_prior(path: Path, kind: str, coefficients: Sequence[str]) -> PriorSpec:
    """The prior in a file, checked against a kind of release and the names of its coefficients."""
    try:
        text = decoded(read_whole(path, "prior"))
        return _checked_prior(parse(text, if_empty=_remedy_if_empty(kind)), kind, coefficients)
    except Problem as problem:
        sentence = str(problem)
    raise StudyInvalid(f"cannot read prior {shown(path.name or str(path))}: {sentence}")


def _remedy_if_empty(kind: str) -> str:
    """What to write into an empty file."""
    prior_kind = KINDS[kind].prior
    example = prior_kind and prior_kind.example
    return f"Write what it believes, such as {example}, or leave --prior out" if example else "Leave --prior out"


def _checked_prior(document: Document, kind: str, coefficients: Sequence[str]) -> PriorSpec:
    if not isinstance(document.value, dict):
        raise Problem((), "it is not a list of keys and values", "Write what a study has under prior:", 1)
    if set(document.value) == {"prior"}:
        raise Problem(("prior",), "it is the section itself, with its name above it", "Leave prior: out", 1)
    try:
        prior = PriorSpec.model_validate(document.value)
    except ValidationError as error:
        raise _first_problem(problems_of(error), document) or error from None
    if problem := _first_problem(_prior_problems(prior, kind, coefficients), document):
        raise problem
    return prior


def _prior_problems(prior: PriorSpec, kind: str, coefficients: Sequence[str]) -> Iterator[Problem]:
    """Parts that belong to another kind of release, and names that are not coefficients."""
    prior_kind = KINDS[kind].prior
    if prior_kind is None:
        return
    parts = prior_kind.parts
    for part in prior_kind.others(prior):
        what = f"it is no part of the prior of a {kind} release"
        yield Problem((part,), what, f"Choose from {', '.join(parts)}" if parts else "Leave --prior out")
    for name in prior.named if "named" in parts else ():
        if name not in coefficients:
            yield Problem(
                ("named", name), f"{shown(name)} is no coefficient", nearest(name, coefficients, "The names are")
            )
