"""Checks the study file in a crate: compiled again, it must give the ledger entry's request and its release."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from dpbayes.crates.contained_releases import Source, read_entry, sources_of
from dpbayes.crates.format import Files
from dpbayes.crates.posterior import recorded
from dpbayes.crates.release import ENTRY, RECORD, STUDY, entry_of
from dpbayes.strict_yaml.messages import problems_of
from dpbayes.strict_yaml.yaml12 import parse
from dpbayes.study import requests
from dpbayes.study.file import StudyFile
from dpbayes.study.load import LARGEST_FILE, decoded
from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import DpbayesError
from dpbayes_core.privacy.release import AnyRelease, Design
from dpbayes_core.regression.moments import grid_for
from dpbayes_core.regression.release import Release
from storage.files.archive_paths import POSTERIOR
from storage.ledger.check import Problem, Remark
from storage.ledger.entries import Entry
from storage.ledger.periods import Period

STATED = "the study file is what was released"
ASKED = "the study file asks for the analysis"
COMPARED = 1
"""The first schema version of release.json whose study file must compile; raised when the format of studies changes."""

COVERED = ("study", "population", "source", "period", "columns", "privacy")
"""The sections that decide a release, in addition to the release's own."""
SHAPE = ("schema", "terms", "subject", "what", "neighbours", "max_rows_per_unit")
"""Attributes that must be equal in a design and its release, if both have them."""
SENSITIVITIES = ("sensitivity", "sensitivity_l2")
MOST_BITS = 60  # of a number of rows


@dataclass(frozen=True)
class Compiled:
    """One release of a study file, as this version of the program reads it."""

    file: StudyFile
    definition: bytes
    kind: str
    design: Design


def release_problem(source: Source) -> Problem:
    """What is wrong if the study file in a release's crate does not define that release."""
    if STUDY not in source.files:
        return f"{STUDY} is missing"
    return _of_version(source, _compared(source.files[STUDY], source.files[ENTRY]))


def analysis_problem(files: Files) -> Problem:
    """What is wrong if the study file in a posterior's crate does not define its analysis and its period's releases."""
    record = recorded(files)
    if STUDY not in files:
        return None if record.get("origin") == "crates" else f"{STUDY} is missing"
    own = [source for source in sources_of(files) if source.entry.payload["period"] == record["period"]]
    found = (_of_version(source, _compared(files[STUDY], source.files[ENTRY])) for source in own)
    return next(filter(None, found), None) or _check_analysis(files[STUDY], record)


def _of_version(source: Source, problem: Problem) -> Problem:
    """The problem, or only a remark if the crate is older than the rule that study files compile."""
    old = problem is not None and json.loads(source.files[RECORD])["schema_version"] < COMPARED
    return Remark(f"{STUDY} cannot be compared by this version: {problem}") if old else problem


@lru_cache(maxsize=1024)  # once for its own crate, and again for a posterior of several releases
def _compared(text: bytes, data: bytes) -> Problem:
    """The first difference; cached by the entry's bytes, because entries with 1 and true are equal to Python."""
    entry = entry_of({ENTRY: data})
    payload = entry.payload
    try:
        compiled = _compiled(text, payload["release"], None)
    except (DpbayesError, ValueError, KeyError, AssertionError) as failure:
        return f"{STUDY} cannot be compiled by this version: {failure or type(failure).__name__}"
    return next(filter(None, _differences(compiled, entry, text)), None)


def _differences(compiled: Compiled, entry: Entry, text: bytes) -> Iterator[Problem]:
    payload, file = entry.payload, compiled.file
    yield _same("study", file.study, payload["study"])
    yield _same("population", file.population, payload["account"])
    yield _same("unit", file.source.unit or "row", payload["unit"])
    yield _same("max_rows_per_unit", file.source.max_rows_per_unit, payload["max_rows_per_unit"])
    yield _same("neighbours", compiled.design.neighbours, payload["neighbours"])
    if payload["holder"] not in requests.holders(file):
        yield f"{STUDY} has no such holder as the entry"
    Period.parse(payload["period"], file.period.grain)
    if compiled.definition != canonical_json(payload["definition"]):
        place = next(_differing_keys(json.loads(compiled.definition), payload["definition"], ()), ())
        yield f"{STUDY} states {'.'.join(place) or 'something'} otherwise than the entry's definition"
    yield _released(compiled, entry, text)


def _same(what: str, due: Any, found: Any) -> Problem:
    return None if due == found else f"{STUDY} states {what} otherwise than the entry"


def _released(compiled: Compiled, entry: Entry, text: bytes) -> Problem:
    """Check that the release has the columns, bounds, levels, kind and noise that the study compiles to."""
    release = read_entry(entry.release or b"")
    if compiled.kind != release.kind:
        return f"{STUDY} defines a release of kind {compiled.kind}, and another kind was released"
    for part in SHAPE:
        if (
            hasattr(compiled.design, part)
            and hasattr(release, part)
            and _part(compiled.design, part) != _part(release, part)
        ):
            return f"the {part.replace('_', ' ')} of the release is not what {STUDY} compiles to"
    return None if _same_noise(compiled, release, entry) else _noise_of_other_rows(compiled, release, entry, text)


def _noise_of_other_rows(compiled: Compiled, release: AnyRelease, entry: Entry, text: bytes) -> Problem:
    """Check the noise for another declared number of rows, which decides the grid of the sums and no price."""
    differs = f"the noise of the release is not what {STUDY} compiles to"
    rows = next((1 << bits for bits in range(MOST_BITS) if grid_for(1 << bits) == release.mechanism.grid), None)
    if "rows" in entry.payload["definition"] or rows is None:
        return differs
    recompiled = _compiled(text, entry.payload["release"], rows)
    return None if _same_noise(recompiled, release, entry) else differs


def _same_noise(compiled: Compiled, release: AnyRelease, entry: Entry) -> bool:
    """Whether the noise is the study's; where the sensitivity has been raised since, with its former value."""
    due, found = compiled.design.mechanism, release.mechanism
    if isinstance(release, Release) and release.understated is not None:
        due = replace(due, **{name: getattr(found, name) for name in SENSITIVITIES if hasattr(found, name)})  # type: ignore[type-var]
    return canonical_json(due.to_record()) == canonical_json(entry.payload["mechanism"])


def _part(thing: Any, name: str) -> Any:
    return getattr(thing, name)


@lru_cache(maxsize=64)  # most crates of an archive have one study file
def _compiled(text: bytes, release: str, rows: int | None) -> Compiled:
    value = _read(text)
    sections = {name: value[name] for name in COVERED if name in value}
    sections["releases"] = {release: value["releases"][release]}
    try:
        file = StudyFile.model_validate(sections)
    except ValidationError as error:
        raise next(problems_of(error)) from None
    spec, context = file.releases[release], file.context
    if rows is not None:
        context = replace(context, rows=rows)
    definition = canonical_json(requests.definition(file, spec))
    return Compiled(file, definition, spec.kind, spec.design(context))


@lru_cache(maxsize=8)
def _read(text: bytes) -> Any:
    if len(text) > LARGEST_FILE:
        raise ValueError("it is larger than any study file")
    return parse(decoded(text)).value


def _check_analysis(text: bytes, record: Mapping[str, Any]) -> Problem:
    """Check that the study has this analysis of these releases."""
    value = _read(text)
    analysis = value.get("analyses", {}).get(record["analysis"])
    if value["study"] != record["study"] or analysis is None:
        return f"{STUDY} has no such analysis as {POSTERIOR}"
    if "parts" in record and analysis.get("alike", False) is not record["parts"]["declared"]:
        return f"{STUDY} says otherwise than {POSTERIOR} whether its releases are alike"
    links = [record["release"]] if record["schema_version"] == 1 else record["releases"]
    if (
        "parts" not in record and analysis.get("alike", False) and len(links) > 1
    ):  # a version without `parts` in records did not accept `alike`
        return f"{POSTERIOR} does not say how its releases are read"
    return None if {link["release"] for link in links} == {analysis["release"]} else f"{STUDY} analyses another release"


def _differing_keys(due: Any, found: Any, place: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The paths of keys, without values, at which two definitions differ."""
    if not (isinstance(due, dict) and isinstance(found, dict)):
        if due != found:
            yield place
        return
    for key in sorted(due.keys() | found.keys()):
        if key not in due or key not in found:
            yield (*place, str(key))
        else:
            yield from _differing_keys(due[key], found[key], (*place, str(key)))
