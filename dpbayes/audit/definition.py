"""The checks of a study file: compiled again, it is what was requested of the ledger, and what was released."""

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
"""The first schema version of release.json whose study file has to compile; raised with what studies may say."""

COVERED = ("study", "population", "source", "period", "columns", "privacy")
"""The sections that decide a release; of the others only the release's own."""
SHAPE = ("schema", "terms", "subject", "what", "neighbours", "max_rows_per_unit")
"""What designs have in common with their releases, where they have it."""
SENSITIVITIES = ("sensitivity", "sensitivity_l2")
MOST_BITS = 60  # of a number of rows


@dataclass(frozen=True)
class Compiled:
    """One release of a study file, as this version of the program reads it."""

    file: StudyFile
    definition: bytes
    kind: str
    design: Design


def stated(source: Source) -> Problem:
    """What is wrong where the study file in a release's crate does not define that release."""
    if STUDY not in source.files:
        return f"{STUDY} is missing"
    return _of_version(source, _compared(source.files[STUDY], source.files[ENTRY]))


def stated_again(files: Files) -> Problem:
    """The same of the study file that a posterior of several releases was asked in: those of its own period."""
    record = recorded(files)
    if STUDY not in files:
        return None if record.get("origin") == "crates" else f"{STUDY} is missing"
    own = [source for source in sources_of(files) if source.entry.payload["period"] == record["period"]]
    found = (_of_version(source, _compared(files[STUDY], source.files[ENTRY])) for source in own)
    return next(filter(None, found), None) or _asked_in(files[STUDY], record)


def _of_version(source: Source, problem: Problem) -> Problem:
    """Remark on the problem, and let the crate pass, where it is older than the rule that study files compile."""
    old = problem is not None and json.loads(source.files[RECORD])["schema_version"] < COMPARED
    return Remark(f"{STUDY} cannot be compared by this version: {problem}") if old else problem


@lru_cache(maxsize=1024)  # once for its own crate, and again for a posterior of several releases
def _compared(text: bytes, data: bytes) -> Problem:
    """What differs; by the entry's bytes, because entries that state 1 and true are equal to Python."""
    entry = entry_of({ENTRY: data})
    paid = entry.payload
    try:
        made = _compiled(text, paid["release"], None)
    except (DpbayesError, ValueError, KeyError, AssertionError) as failure:
        return f"{STUDY} cannot be compiled by this version: {failure or type(failure).__name__}"
    return next(filter(None, _differences(made, entry, text)), None)


def _differences(made: Compiled, entry: Entry, text: bytes) -> Iterator[Problem]:
    paid, file = entry.payload, made.file
    yield _same("study", file.study, paid["study"])
    yield _same("population", file.population, paid["account"])
    yield _same("unit", file.source.unit or "row", paid["unit"])
    yield _same("max_rows_per_unit", file.source.max_rows_per_unit, paid["max_rows_per_unit"])
    yield _same("neighbours", made.design.neighbours, paid["neighbours"])
    if paid["holder"] not in requests.holders(file):
        yield f"{STUDY} has no such holder as the entry"
    Period.parse(paid["period"], file.period.grain)
    if made.definition != canonical_json(paid["definition"]):
        place = next(_apart(json.loads(made.definition), paid["definition"], ()), ())
        yield f"{STUDY} states {'.'.join(place) or 'something'} otherwise than the entry's definition"
    yield _released(made, entry, text)


def _same(what: str, due: Any, found: Any) -> Problem:
    return None if due == found else f"{STUDY} states {what} otherwise than the entry"


def _released(made: Compiled, entry: Entry, text: bytes) -> Problem:
    """The release has the columns, bounds, levels, kind and noise that the study compiles to."""
    release = read_entry(entry.release or b"")
    if made.kind != release.kind:
        return f"{STUDY} defines a release of kind {made.kind}, and another kind was released"
    for part in SHAPE:
        if hasattr(made.design, part) and hasattr(release, part) and _part(made.design, part) != _part(release, part):
            return f"the {part.replace('_', ' ')} of the release is not what {STUDY} compiles to"
    return None if _same_noise(made, release, entry) else _coarser(made, release, entry, text)


def _coarser(made: Compiled, release: AnyRelease, entry: Entry, text: bytes) -> Problem:
    """The declared number of rows may have changed since: it decides the grid of the sums and no price."""
    differs = f"the noise of the release is not what {STUDY} compiles to"
    rows = next((1 << bits for bits in range(MOST_BITS) if grid_for(1 << bits) == release.mechanism.grid), None)
    if "rows" in entry.payload["definition"] or rows is None:
        return differs
    again = _compiled(text, entry.payload["release"], rows)
    return None if _same_noise(again, release, entry) else differs


def _same_noise(made: Compiled, release: AnyRelease, entry: Entry) -> bool:
    """Whether it is the noise of the study, made for the sensitivity of then where that has been raised since."""
    due, found = made.design.mechanism, release.mechanism
    if isinstance(release, Release) and release.understated is not None:
        due = replace(due, **{name: getattr(found, name) for name in SENSITIVITIES if hasattr(found, name)})  # type: ignore[type-var]
    return canonical_json(due.to_record()) == canonical_json(entry.payload["mechanism"])


def _part(thing: Any, name: str) -> Any:
    return getattr(thing, name)


@lru_cache(maxsize=64)  # most crates of an archive have one study file
def _compiled(text: bytes, release: str, rows: int | None) -> Compiled:
    value = _read(text)
    kept = {name: value[name] for name in COVERED if name in value}
    kept["releases"] = {release: value["releases"][release]}
    try:
        file = StudyFile.model_validate(kept)
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


def _asked_in(text: bytes, record: Mapping[str, Any]) -> Problem:
    """The study has the analysis that was made, of the release that was read."""
    value = _read(text)
    asked = value.get("analyses", {}).get(record["analysis"])
    if value["study"] != record["study"] or asked is None:
        return f"{STUDY} has no such analysis as {POSTERIOR}"
    if "parts" in record and asked.get("alike", False) is not record["parts"]["declared"]:
        return f"{STUDY} says otherwise than {POSTERIOR} whether its releases are alike"
    links = [record["release"]] if record["schema_version"] == 1 else record["releases"]
    if (
        "parts" not in record and asked.get("alike", False) and len(links) > 1
    ):  # no version before records took the word
        return f"{POSTERIOR} does not say how its releases are read"
    return None if {link["release"] for link in links} == {asked["release"]} else f"{STUDY} analyses another release"


def _apart(due: Any, found: Any, place: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The places where two definitions differ; only names of keys, which are the study's own."""
    if not (isinstance(due, dict) and isinstance(found, dict)):
        if due != found:
            yield place
        return
    for key in sorted(due.keys() | found.keys()):
        if key not in due or key not in found:
            yield (*place, str(key))
        else:
            yield from _apart(due[key], found[key], (*place, str(key)))
