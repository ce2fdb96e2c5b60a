"""Checks names: each is given once, and every program reads it as the same name."""

import base64
import json
import unicodedata
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from dpbayes.crates.contained_releases import Source, sources_of
from dpbayes.crates.format import ATTESTATION, UNSIGNED, Files
from dpbayes.crates.parquet import INDEX_COLUMNS, column_values, columns_of, read_table
from dpbayes.crates.posterior import DRAWS, recorded
from dpbayes.crates.release import NOISY
from dpbayes_core.canonical import canonical_json
from storage.files.archive_paths import POSTERIOR
from storage.ledger.check import Problem

UNIQUE = "names are unique"


def unique(files: Files) -> Problem:
    """The first name in a crate that is given twice, or that two programs may read in two ways."""
    return next(_found(files), None)


def _found(files: Files) -> Iterator[str]:
    yield from (f"{name} has the name of another file" for name in colliding(files))
    for name, data in files.items():
        if name.endswith(".json"):
            yield from filter(None, [_stated(name, data)])
    yield from _subjects(files)
    for source in sources_of(files):
        yield from (f"the release states {what} twice" for what in _of_release(source))
    if has_duplicates(source.entry.key for source in sources_of(files)):
        yield "a release lies in it twice"
    if POSTERIOR in files:
        yield from _of_posterior(files)


def colliding(names: Iterable[str]) -> list[str]:
    """The names that some file systems confuse with an earlier one."""
    seen: set[str] = set()
    found: list[str] = []
    for name in sorted(names):
        spelled = unicodedata.normalize("NFKC", name).casefold()
        found += [name] if spelled in seen else []
        seen.add(spelled)
    return found


def has_duplicates(names: Iterable[Hashable]) -> bool:
    """Whether a name occurs more than once."""
    given = list(names)
    return len(set(given)) < len(given)


@lru_cache(maxsize=1024)  # the records of a release are in the crate of every posterior drawn from it, too
def _stated(name: str, data: bytes) -> Problem:
    """Check that a record is canonical JSON: programs differ in which value of a repeated key they take."""
    if canonical_json(json.loads(data)) == data:  # which writes no key twice
        return None
    repeated: list[str] = []

    def collect(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        repeated.extend([name] if has_duplicates(key for key, _ in pairs) else [])
        return dict(pairs)

    value = json.loads(data, object_pairs_hook=collect)
    if repeated:
        return f"{name} states a name twice"
    return None if canonical_json(value) == data else f"{name} is not written as this program writes records"


def _subjects(files: Files) -> Iterator[str]:
    """A statement names every file once."""
    for name in (ATTESTATION, UNSIGNED):
        if name in files:
            said = json.loads(files[name])
            body = base64.b64decode(said["payload"]) if "payload" in said else files[name]
            yield from filter(None, [_stated(name, body)])
            if has_ambiguous([each["name"] for each in json.loads(body)["subject"]]):
                yield f"{name} names a file twice"


def has_ambiguous(names: Collection[str]) -> bool:
    """Whether some program takes two of the names for one."""
    return has_duplicates(names) or bool(colliding(names))


def _of_release(source: Source) -> Iterator[str]:
    """Columns, levels, nodes and parameters; the objects among them are canonical, and so have each name once."""
    defined = source.entry.payload["definition"]
    for column in defined.get("columns", {}).values():
        yield from ["a level"] if has_duplicates(column.get("levels", ())) else []
    for what in ("covariates", "nodes"):
        yield from ["a column"] if has_duplicates(defined.get(what, ())) else []
    columns, _ = columns_of(source.files[NOISY], "noisy statistics")
    yield from ["a column of its noisy statistics"] if has_duplicates(columns) else []


def _of_posterior(files: Files) -> Iterator[str]:
    record, table = recorded(files), read_table(files[DRAWS], "posterior draws")
    for lines in (record["coefficients"], record["naive"] or ()):
        if has_duplicates(line["name"] for line in lines):
            yield f"{POSTERIOR} states a coefficient twice"
    if has_duplicates(table.column_names):
        yield f"{DRAWS} has a column twice"
    chains, draws = (record["diagnostics"][name] for name in ("chains", "draws"))
    if table.num_rows != chains * draws:  # checked before arrays of the stated size are made
        yield f"{DRAWS} does not name every draw of every chain once, in order"
        return
    places = (np.repeat(np.arange(chains), draws), np.tile(np.arange(draws), chains))
    for name, due in zip(INDEX_COLUMNS, places, strict=True):
        if not np.array_equal(column_values(table.column(name)), due):
            yield f"{DRAWS} does not name every draw of every chain once, in order"
