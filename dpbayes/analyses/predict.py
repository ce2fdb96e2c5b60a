"""Predictions from a posterior's crate and public rows of covariates: no study, ledger or table is read."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from dpbayes.audit.lone_crate import open_verified
from dpbayes.audit.parts import superseded_alone
from dpbayes.crates.contained_releases import evidence_of, named
from dpbayes.crates.files import load_with_manifest
from dpbayes.crates.format import ATTESTATION
from dpbayes.crates.notices_beside import notice_records
from dpbayes.crates.parquet import parquet_table, read_draws
from dpbayes.crates.posterior import DRAWS, recorded
from dpbayes.markup.convergence_advice import advice
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.regression.prediction import Forecast, forecast
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.text import nearest, shown
from storage.files.archive_paths import POSTERIOR
from storage.ledger.offline_ledger import refuse_unspelled, spelled

MOST_BYTES = 1 << 28  # of a file of rows
EPOCH = date(1970, 1, 1).toordinal()

Columns = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class PosteriorCrate:
    """A regression's posterior out of its crate, which agrees with its own signature."""

    record: Mapping[str, Any]
    schema: RegressionSchema
    draws: Mapping[str, Any]
    account: str
    signed_by: tuple[str, ...]
    not_verified: tuple[str, ...]
    notices: tuple[Mapping[str, Any], ...] = ()  # next to the crate, or that today's method is another


def read_posterior(place: str, trusted: Sequence[str] = ()) -> PosteriorCrate:
    """The posterior of a crate in a folder, in a zip or at a URL; refused if it is not whole, or of another kind.

    With `trusted` fingerprints, one of those keys must have signed it.
    """
    refuse_unspelled(trusted)
    files = load_with_manifest(place)
    if POSTERIOR not in files:
        raise StudyInvalid(f"cannot predict from {shown(place)}: it holds no posterior. Name a posterior's crate.")
    crate = open_verified(files, place, trusted, f"predict from {shown(place)}", of_posterior=True)
    fingerprints = tuple(sorted(crate.keys))
    evidence = evidence_of([source.entry for source in crate.sources])
    if evidence.kind != "regression":
        raise StudyInvalid(f"cannot predict from a {evidence.kind}: only regressions are predicted from. Name one.")
    return PosteriorCrate(
        record=recorded(files),
        schema=evidence.schema,
        draws=read_draws(files[DRAWS]),
        account=named(crate.sources, "account"),
        signed_by=fingerprints,
        not_verified=() if trusted else tuple(_unverified(files, fingerprints)),
        notices=_notices(files, place, trusted),
    )


def _notices(files: Mapping[str, bytes], place: str, trusted: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
    """The notices next to the crate, and one if it is drawn by another method today."""
    adjacent = notice_records(place, {spelled(each) for each in trusted})
    return (*adjacent, *superseded_alone(files, shown(place, 300)))


def _unverified(files: Mapping[str, bytes], fingerprints: Sequence[str]) -> Iterator[str]:
    """What the signatures in the crate do not prove."""
    whose = "the crate"
    if ATTESTATION not in files:
        yield "who made the posterior: nobody signed it. `dpbayes audit --crate` with --replay draws it again."
        whose = "the releases in it"
    yield (
        f"who signed {whose}: nothing says that {', '.join(fingerprints)} is the agency's. Compare it with what the "
        "agency publishes."
    )


def read_rows(path: Path) -> dict[str, list[Any]]:
    """The columns of a CSV or Parquet file of public rows."""
    import pyarrow as pa

    try:
        content = path.read_bytes() if path.stat().st_size <= MOST_BYTES else None
    except OSError:
        content = None
    if content is None:
        raise StudyInvalid(f"cannot read {shown(str(path))}: it is not there, or too large. Name a file of rows.")
    try:
        if path.suffix == ".parquet":
            table = parquet_table(content)
            names, columns = table.column_names, [column.to_pylist() for column in table.columns]
        else:
            names, columns = _csv(content.decode("utf-8-sig"))
    except (pa.ArrowException, UnicodeDecodeError, csv.Error):
        raise StudyInvalid(f"cannot read {shown(str(path))}: it is neither CSV nor Parquet. Write one.") from None
    if len(set(names)) < len(names):
        raise StudyInvalid(f"cannot read {shown(str(path))}: two columns have one name. Rename one.")
    return dict(zip(names, columns, strict=True))


def _csv(text: str) -> tuple[list[str], list[list[Any]]]:
    """Header and columns as text; the schema decides which are numbers."""
    lines = list(csv.reader(io.StringIO(text)))
    header, body = (lines[0], [line for line in lines[1:] if line]) if lines else ([], [])
    if any(len(line) != len(header) for line in body):
        raise csv.Error
    return header, [[line[place] for line in body] for place in range(len(header))]


def stated_row(texts: Sequence[str], schema: RegressionSchema) -> dict[str, list[Any]]:
    """One row from texts such as `age=40,female=yes`; several texts add up."""
    names = [column.name for column in schema.covariates]
    found: dict[str, list[Any]] = {}
    for part in (part for text in texts for part in text.split(",")):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not sign:
            raise StudyInvalid(f"cannot predict at {shown(part)}: it is no name=value. Write age=40,female=yes, say.")
        if name not in names:
            remedy = nearest(name, names, "Choose from").rstrip("?")
            raise StudyInvalid(f"cannot predict at {shown(part)}: {shown(name)} is no covariate. {remedy}.")
        if name in found:
            raise StudyInvalid(f"cannot predict at {shown(part)}: {shown(name)} is given twice. Keep one.")
        found[name] = [value]
    return found


def predictions(posterior: PosteriorCrate, rows: Columns, level: float) -> dict[str, Any]:
    """The predictions as a document: status and caveat, then a line for each row."""
    if not 0 < level < 1:
        raise StudyInvalid("cannot predict at this level: it is no probability between 0 and 1. Write 0.95, say.")
    schema, record = posterior.schema, posterior.record
    given = {column.name: _values(rows[column.name], column) for column in schema.covariates if column.name in rows}
    found = forecast(posterior.draws, schema, given, ((1 - level) / 2, (1 + level) / 2))
    sampler = record["sampler"]
    return {
        **{name: record[name] for name in ("analysis", "study", "period", "status", "why")},
        "account": posterior.account,
        "advice": advice(record),
        **{name: sampler[name] for name in ("calibrated", "caveat")},
        "sampler": sampler["name"],
        "signed_by": list(posterior.signed_by),
        "notices": list(posterior.notices),
        "not_verified": list(posterior.not_verified),
        "response": schema.response.name,
        "level": level,
        "rows": [{"row": place + 1, **line} for place, line in enumerate(_lines(found))],
        "notes": _notes(found, schema),
    }


def _values(values: Sequence[Any], column: Any) -> list[Any]:
    """Levels as text; numbers as they are, a date as the days since 1970-01-01 that dates are released as."""
    if isinstance(column, Continuous):
        return [_number(value) for value in values]
    return [str(value).lower() if isinstance(value, bool) else str(value) for value in values]


def _number(value: Any) -> Any:
    if isinstance(value, str) and len(value) == len("1970-01-01") and value[4] == value[7] == "-":
        try:
            value = date.fromisoformat(value)
        except ValueError:
            return value
    return value.toordinal() - EPOCH if isinstance(value, date) else value


def _lines(found: Forecast) -> list[dict[str, Any]]:
    table = np.column_stack([found.mean, found.sd, found.quantiles, found.expected_sd, found.expected_quantiles])
    return [
        {"mean": mean, "sd": sd, "low": low, "high": high, "expected": {"sd": spread, "low": bottom, "high": top}}
        for mean, sd, low, high, spread, bottom, top in table.tolist()
    ]


def _notes(found: Forecast, schema: RegressionSchema) -> list[str]:
    bounds = schema.response.bounds
    if (found.quantiles < bounds.low).any() or (found.quantiles > bounds.high).any():
        return [
            f"Some intervals leave the bounds of {schema.response.name}, {bounds.low:g} to {bounds.high:g}: the "
            "regression knows of no bounds, though values were clipped to them before the release."
        ]
    return []
