"""Limits on what a crate makes its reader compute: those of study files, checked before anything is computed."""

import json
from collections.abc import Collection, Mapping
from math import prod
from typing import Any

from dpbayes.crates.contained_releases import FOLDER
from dpbayes.crates.format import MOST_RELEASES, MOST_VARIABLES
from dpbayes.crates.parquet import columns_of
from dpbayes.crates.posterior import DRAWS
from dpbayes.crates.release import ENTRY, NOISY
from dpbayes_core.errors import IntegrityFailure
from storage.files.archive_paths import POSTERIOR
from storage.files.limits import refuse_shape
from storage.ledger.history import MALFORMED

Record = Mapping[str, Any]

LONGEST_WORD = 500  # characters of a column's or a level's name
MOST_CELLS = 1 << 20  # of all tables of a network
MOST_NAMED = 1 << 28  # characters of all names of its cells
MOST_PLACES = 1 << 20  # entries, groups or draws that a mechanism counts
MOST_GRID = 1100  # bits of an output grid
MOST_SUBSETS, MOST_ROWS, MOST_ROWS_OF_A_PERSON = 100_000, 10**12, 1000
MOST_DOUBLED = 16  # times the draws asked for
_COUNTS = ("draws", "entries", "sizes", "values")


def refuse_beyond(files: Mapping[str, bytes], place: str = "the crate") -> None:
    """Refuse a crate larger than any study could produce; its audit finds what else is wrong."""
    for name, data in files.items():
        if name.endswith(".json"):
            refuse_shape(data, f"{place}: {name}")
    if len({name.split("/")[1] for name in files if name.startswith(f"{FOLDER}/")}) > MOST_RELEASES:
        raise _beyond(place, f"it holds more than {MOST_RELEASES:,} releases")
    for name, data in files.items():
        last = name.rpartition("/")[2]
        if last == ENTRY:
            _refuse_entry(data, place)
        elif last == NOISY:
            columns_of(data, f"{place}: {name}")
    if POSTERIOR in files:
        refuse_request(files, place)


def refuse_request(files: Mapping[str, bytes], place: str = "the crate") -> None:
    """Refuse a posterior with a request that no study may make, or with more draws than it states."""
    from dpbayes.study.analyses import AnalysisSpec

    refuse_shape(files[POSTERIOR], f"{place}: {POSTERIOR}")
    try:
        record: Record = json.loads(files[POSTERIOR])
        request, found, names = record["request"], record["diagnostics"], len(record["coefficients"])
        requested = {name: request[name] for name in ("chains", "draws", "seed")}
        AnalysisSpec.model_validate({"release": "release", **requested})
        chains, draws = int(found["chains"]), int(found["draws"])
    except (*MALFORMED, RecursionError):
        raise _beyond(place, f"{POSTERIOR} asks for what no study may ask for") from None
    if chains != request["chains"] or not 0 < draws <= MOST_DOUBLED * request["draws"]:
        raise _beyond(place, f"{POSTERIOR} has more chains or draws than it asks for")
    if DRAWS in files:
        columns, lines = columns_of(files[DRAWS], f"{place}: {DRAWS}")
        if len(columns) > names + 2 or lines > chains * draws:
            raise _beyond(place, f"{DRAWS} holds more than {POSTERIOR} says")


def _refuse_entry(data: bytes, place: str) -> None:
    try:
        entry: Record = json.loads(data)
        stored: str = entry["release"]
        refuse_shape(stored.encode(), f"{place}: {ENTRY}")
        flaw = release_flaw(json.loads(stored)) or _counted_flaw(entry["payload"]["mechanism"])
    except IntegrityFailure:
        raise
    except (*MALFORMED, RecursionError):
        flaw = f"the release in its {ENTRY} cannot be read"
    if flaw:
        raise _beyond(place, flaw)


def release_flaw(record: Record) -> str | None:
    """What in a release's record is larger than in any published release, of any kind."""
    parts: list[Record] = [record, *(record[name] for name in ("terms", "subject") if name in record)]
    found = [_part_flaw(part) for part in parts]
    found += [_schema_flaw(part["schema"]) for part in parts if "schema" in part]
    rows = [part["rows"] for part in (*parts, record["noisy"]) if part.get("rows") is not None]
    if any(not 0 <= value <= MOST_ROWS for value in rows):
        found.append(f"its release has more than {MOST_ROWS:,} rows")
    return next(filter(None, [*found, _counted_flaw(record["mechanism"])]), None)


def _part_flaw(part: Record) -> str | None:
    bounds = (("subsets", MOST_SUBSETS), ("max_rows_per_unit", MOST_ROWS_OF_A_PERSON))
    if all(name not in part or 0 < part[name] <= most for name, most in bounds):
        return None
    return "its release has more subsets, or rows of a person, than any study may ask for"


def _schema_flaw(schema: Record) -> str | None:
    columns: list[Record] = [*schema.get("covariates", ()), *schema.get("nodes", ())]
    sizes = [len(column.get("levels", ())) for column in columns]
    if len(columns) > MOST_VARIABLES or any(size > MOST_VARIABLES for size in sizes):
        return f"its release has more than {MOST_VARIABLES:,} columns, or levels of one"
    if "covariates" in schema and sum(max(1, size - 1) for size in sizes) > MOST_VARIABLES:
        return f"its release has more than {MOST_VARIABLES:,} variables"
    if any(len(str(word)) > LONGEST_WORD for column in columns for word in (column["name"], *column.get("levels", ()))):
        return f"its release has names of more than {LONGEST_WORD} characters"
    if "nodes" in schema and not _are_tables(columns, schema["parents"]):
        return f"the tables of its release have more than {MOST_CELLS:,} cells"
    return None


def _counted_flaw(mechanism: Record) -> str | None:
    return None if _is_counted(mechanism) else f"its mechanism counts more than {MOST_PLACES:,} places"


def _are_tables(nodes: Collection[Record], parents: Mapping[str, Collection[str]]) -> bool:
    """Whether all tables together, and the names of their cells, are small enough to compute with."""
    levels = {node["name"]: len(node["levels"]) for node in nodes}
    longest = {node["name"]: max(map(len, (node["name"], *node["levels"])), default=0) for node in nodes}
    cells = named = 0
    for name in levels:
        family = (*parents.get(name, ()), name)
        size = prod(levels[each] for each in family) if len(family) <= MOST_GRID else MOST_CELLS + 1
        cells += size
        named += size * 2 * sum(longest[each] for each in family)
        if cells > MOST_CELLS or named > MOST_NAMED:
            return False
    return True


def _is_counted(mechanism: Record) -> bool:
    """Whether what a mechanism counts, and how fine its grid is, are within what a release has."""
    counts = [mechanism[name] for name in _COUNTS if name in mechanism]
    counted = (sum(value) if isinstance(value, list) else value for value in counts)
    beside = mechanism.get("beside")
    return (
        all(value <= MOST_PLACES for value in counted)
        and abs(mechanism.get("grid", 0)) <= MOST_GRID
        and (beside is None or _is_counted(beside))
    )


def _beyond(place: str, what: str) -> IntegrityFailure:
    return IntegrityFailure(f"cannot read {place}: {what}. Fetch the crate again.")
