"""Reads a study file: one Study, or one StudyInvalid that names the line, the field and what to do."""

from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from dpbayes.strict_yaml.messages import flaws_of
from dpbayes.strict_yaml.problem import Flaw
from dpbayes.strict_yaml.yaml12 import Document, parse
from dpbayes.study.cross_checks import flaws
from dpbayes.study.file import StudyFile
from dpbayes.study.study import Study
from dpbayes.study.unavailable import unavailable_in
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.text import shown

LARGEST_FILE = 1_000_000


def load_study(path: Path | str) -> Study:
    """The study in a file, checked as a whole."""
    path = Path(path)
    try:
        text = read_whole(path, "study")
        return Study(path=path.absolute(), text=text, file=_checked(parse(decoded(text)), path.absolute().parent))
    except Flaw as flaw:
        sentence = str(flaw)
    raise StudyInvalid(f"cannot read study {shown(path.name or str(path))}: {sentence}")


def read_whole(path: Path, what: str) -> bytes:
    """The bytes of a file that people write, a study or a part of one; raises Flaw."""
    try:
        if path.is_dir():
            raise Flaw((), "it is a folder", f"Name the {what} file in it, {what}.yaml for instance")
        if not path.exists():
            remedy = ", or make a study with dpbayes init" if what == "study" else ""
            raise Flaw((), "there is no such file", f"Check the path{remedy}")
        if not path.is_file():
            raise Flaw((), "it is not a file", f"Name a {what} file")
        with path.open("rb") as file:
            text = file.read(LARGEST_FILE + 1)
    except PermissionError:
        raise Flaw((), "you may not read it", "Ask its owner for permission") from None
    except (OSError, ValueError):  # ValueError: a null character in the path
        raise Flaw((), "it cannot be opened", "Check the path and the disk") from None
    if len(text) > LARGEST_FILE:
        raise Flaw((), f"it is larger than any {what} file", "Keep it under 1 MB, or check what file this is")
    return text


def decoded(text: bytes) -> str:
    """The text of such a file; raises Flaw."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise Flaw((), "it is not UTF-8 text", "Save it as UTF-8", line) from None


def _checked(document: Document, folder: Path) -> StudyFile:
    if not isinstance(document.value, dict):
        raise Flaw((), "it is not a list of keys and values", "Start with study: and its name", 1)
    if flaw := first_flaw(unavailable_in(document.value), document):
        raise flaw
    try:
        file = StudyFile.model_validate(document.value)
    except ValidationError as error:
        raise first_flaw(flaws_of(error), document) or Flaw(
            (), "it is not a study", "See the study reference"
        ) from None
    if flaw := first_flaw(flaws(file, folder), document):
        raise flaw
    return file


def first_flaw(found: Iterable[Flaw], document: Document) -> Flaw | None:
    """The flaw that stands first in the file, with its line."""
    placed = [Flaw(flaw.place, flaw.what, flaw.remedy, document.line(flaw.place) or 1) for flaw in found]
    return min(placed, key=lambda flaw: flaw.line or 0, default=None)
