"""Reads a prior from a file of its own, for analyses without a study; the file is what a study has under `prior:`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from dpbayes.kinds.prior import PriorSpec
from dpbayes.kinds.registry import KINDS
from dpbayes.strict_yaml.messages import problems_of
from dpbayes.strict_yaml.problem import Problem
from dpbayes.strict_yaml.yaml12 import Document, parse
from dpbayes.study.load import decoded, first_problem, read_whole
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.text import nearest, shown


def load_prior(path: Path, kind: str, coefficients: Sequence[str]) -> PriorSpec:
    """The prior in a file, checked against a kind of release and the names of its coefficients."""
    try:
        text = decoded(read_whole(path, "prior"))
        return _checked(parse(text, if_empty=_filling(kind)), kind, coefficients)
    except Problem as problem:
        sentence = str(problem)
    raise StudyInvalid(f"cannot read prior {shown(path.name or str(path))}: {sentence}")


def _filling(kind: str) -> str:
    """What to write into an empty file."""
    taken = KINDS[kind].prior
    example = taken and taken.example
    return f"Write what it believes, such as {example}, or leave --prior out" if example else "Leave --prior out"


def _checked(document: Document, kind: str, coefficients: Sequence[str]) -> PriorSpec:
    if not isinstance(document.value, dict):
        raise Problem((), "it is not a list of keys and values", "Write what stands under prior: in a study", 1)
    if set(document.value) == {"prior"}:
        raise Problem(("prior",), "it is the section itself, with its name above it", "Leave prior: out", 1)
    try:
        prior = PriorSpec.model_validate(document.value)
    except ValidationError as error:
        raise first_problem(problems_of(error), document) or error from None
    if problem := first_problem(_problems(prior, kind, coefficients), document):
        raise problem
    return prior


def _problems(prior: PriorSpec, kind: str, coefficients: Sequence[str]) -> Iterator[Problem]:
    """Parts that belong to another kind of release, and names that are not coefficients."""
    taken = KINDS[kind].prior
    if taken is None:
        return
    parts = taken.parts
    for part in taken.others(prior):
        what = f"it is no part of the prior of a {kind} release"
        yield Problem((part,), what, f"Choose from {', '.join(parts)}" if parts else "Leave --prior out")
    for name in prior.named if "named" in parts else ():
        if name not in coefficients:
            yield Problem(
                ("named", name), f"{shown(name)} is no coefficient", nearest(name, coefficients, "The names are")
            )
