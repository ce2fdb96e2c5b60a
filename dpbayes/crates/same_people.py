"""Whether releases may be of the same people, as far as their crates say: those may not be pooled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast

from dpbayes.crates.contained_releases import Source
from dpbayes.crates.release import STUDY
from dpbayes.strict_yaml.problem import Problem
from dpbayes.strict_yaml.yaml12 import parse
from dpbayes.study.load import LARGEST_FILE
from dpbayes_core.errors import StudyInvalid
from storage.ledger.periods import Period


def refuse_same_people(sources: Sequence[Source]) -> None:
    """Refuse releases whose people could count twice; populations of different names are taken for different people."""
    for one, other in combinations(sources, 2):
        if one.digest == other.digest:
            raise StudyInvalid(
                f"cannot pool {_name(one)} with itself: its people would count twice. Name every release once."
            )
        if _may_share(one, other):
            raise StudyInvalid(
                f"cannot pool {_name(one)} with {_name(other)}: they may be of the same people. Pool different "
                "holders of one period, or periods that their studies declare disjoint."
            )


def _name(source: Source) -> str:
    stated = source.entry.payload
    holder = "" if stated["holder"] is None else f" at {stated['holder']}"
    return f"{stated['release']} of {stated['period']}{holder}"


def _may_share(one: Source, other: Source) -> bool:
    first, second = one.entry.payload, other.entry.payload
    if first["account"] != second["account"]:
        return False
    apart = not _overlap(first["period"], second["period"])
    laws = _Law.of(one), _Law.of(other)
    if None not in (first["holder"], second["holder"]) and first["holder"] != second["holder"]:
        return apart and not all(law.disjoint or law.fixed for law in laws)
    return not (apart and all(law.disjoint for law in laws))


def _overlap(one: str, other: str) -> bool:
    first, second = Period.named(one), Period.named(other)
    return first.first_day <= second.last_day and second.first_day <= first.last_day


@dataclass(frozen=True)
class _Law:
    """What a release's study declares of its people; nothing where it cannot be read."""

    disjoint: bool = False  # everybody is in one period only
    fixed: bool = False  # everybody stays with one holder

    @classmethod
    def of(cls, source: Source) -> "_Law":
        try:
            text = source.files[STUDY]
            study: Any = parse(text.decode()).value if len(text) <= LARGEST_FILE else None
        except (Problem, KeyError, UnicodeDecodeError):
            return cls()
        people = _section(_section(study).get("period")).get("people")
        holder = _section(_section(_section(study).get("source")).get("holder"))
        return cls(people == "disjoint", holder.get("membership") == "fixed")


def _section(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
