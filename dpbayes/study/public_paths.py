"""Refuses public files that are part of the confidential table, by comparing how paths are written; reads no disk."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from dpbayes.study.source_sections import SourceSpec
from storage.ledger.periods import ends_of_names

PERIOD = "{period}"
_TOKENS = re.compile(r"\{period\}|\*\*/|\*+|\[[^/\]]*\]|.", re.DOTALL)
_ON_THIS_MACHINE = re.compile(r"(?:file|local)://")
_DATABASE = "sqlite:///"


def names_table(source: SourceSpec, folder: Path, path: str) -> bool:
    """Whether a path, relative to the study's folder, is written like a path of any period's table or inside one."""
    stated = os.path.normpath(folder / path)
    return any(_matches(template, stated) for template in templates_here(source, folder))


def templates_here(source: SourceSpec, folder: Path) -> Iterator[str]:
    """Full paths on this machine of a study's table, every holder's, with {period} and wildcards left in."""
    for place in source.places:
        if place.startswith(_DATABASE):
            yield os.path.normpath(folder / place.removeprefix(_DATABASE).partition("?")[0])
        elif at := _ON_THIS_MACHINE.match(place):
            yield os.path.abspath(os.path.expanduser(place[at.end() :]))
        elif "://" not in place:
            yield os.path.normpath(folder / place)


def _matches(template: str, path: str) -> bool:
    """Whether the path or a folder above it matches; all alternatives are followed at once, so time is bounded."""
    reached = {0}
    for token in _TOKENS.findall(template):
        reached = _after(token, path, reached) if reached else reached
    return any(place == len(path) or path[place] == "/" for place in reached)


def _after(token: str, path: str, reached: set[int]) -> set[int]:
    if token[0] == "*":
        return _after_stars(token, path, reached)
    literal = {place + len(token) for place in reached if path.startswith(token, place)}
    if token == PERIOD:
        return literal.union(*(ends_of_names(path, place) for place in reached))
    if token[0] not in "?[" or token == "[":
        return literal
    return literal | {place + 1 for place in reached if place < len(path) and path[place] != "/"}


def _after_stars(token: str, path: str, reached: set[int]) -> set[int]:
    first = min(reached)
    if token == "**/":
        return reached | {place + 1 for place in range(first, len(path)) if path[place] == "/"}
    if len(token) > 1:
        return set(range(first, len(path) + 1))
    found: set[int] = set()
    for place in range(first, len(path) + 1):
        if place in reached or (place - 1 in found and path[place - 1] != "/"):
            found.add(place)
    return found
