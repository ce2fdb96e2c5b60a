"""Derives from the study file what other rooms need: column rules, table source, account and public definition."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpbayes.kinds.registry import ReleaseSpec
from dpbayes.strict_yaml.dates import DateBounds
from dpbayes.study.columns import ColumnSpec
from dpbayes.study.file import StudyFile
from dpbayes.study.source_sections import HolderSpec, SourceSpec
from dpbayes.study.table_source import WIDEST, ColumnRule, Holders, Query
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.text import nearest, shown
from storage.ledger.request import AccountSpec
from storage.ledger.request import HolderSpec as HolderSplit

FILES_HOLDER = "[holder]"  # the holder's column where files name it; no column of a study has brackets


def column_rules(file: StudyFile, release: ReleaseSpec) -> tuple[ColumnRule, ...]:
    """How a pass reads each column that a release uses; defaults are filled in."""
    indicated = {file.columns[name].missing_of for name in release.uses}
    return tuple(
        _indicator(name, file, release)
        if file.columns[name].missing_of
        else _rule(name, file.columns[name], clips=release.clips, stays=release.complete and name not in indicated)
        for name in dict.fromkeys(release.uses)
    )


def stated_rules(file: StudyFile, release: ReleaseSpec) -> tuple[str, ...]:
    """The columns of a release for which the study itself states what becomes of null and unknown values."""
    columns = {name: file.columns[name] for name in release.uses}
    return tuple(name for name, column in columns.items() if release.complete or column.fills or column.missing_of)


def holders(file: StudyFile) -> tuple[str | None, ...]:
    """The names of the holders in declared order; a single None if the table has no holders."""
    return (None,) if file.source.holder is None else file.source.holder.names


def one_holder(file: StudyFile, holder: str) -> str:
    """The holder's name, if it can be released without the others; StudyInvalid otherwise."""
    spec = file.source.holder
    what, remedy = "it has no such holder", "Leave --holder out"
    if spec is not None and holder not in spec.names:
        remedy = nearest(holder, spec.names, "Name one of")
    elif spec is not None and spec.membership != "movable":
        return holder
    elif spec is not None:
        what = "where people move, their rows are bounded over all holders, so all are released together"
    raise StudyInvalid(f"cannot release {file.study} at {shown(holder)}: {what}. {remedy}.")


def holders_of(file: StudyFile, folder: Path, period: str, only: str | None = None) -> Holders | None:
    """The holders as a pass needs them; with `only`, the files of other holders may be absent."""
    spec = file.source.holder
    if spec is None:
        return None
    needed = {name: paths if only in (None, name) else () for name, paths in (spec.paths or {}).items()}
    paths = tuple(_filled(paths, folder, period) for paths in needed.values())
    column = FILES_HOLDER if spec.column is None else spec.column
    return Holders(column=column, names=spec.names, membership=spec.membership, paths=paths)


def account(file: StudyFile) -> AccountSpec:
    """The account that every release of the study is charged to."""
    return AccountSpec(
        population=file.population,
        unit=file.source.unit or "row",
        max_rows_per_unit=file.source.max_rows_per_unit,
        neighbours=file.privacy.neighbours,
        grain=file.period.grain,
        people=file.period.people,
        caps=file.privacy.caps,
        holders=_holder_split(file.source.holder),
    )


def place(file: StudyFile, folder: Path, period: str) -> tuple[str | tuple[str, ...], Query | None]:
    """Where one period's table is: paths, or a query; relative paths start at the study's folder."""
    source = file.source
    if source.url is not None and source.query is not None:
        return (), Query(url=_resolved_url(source.url, folder), text=source.query, period=period)
    paths = _filled(source.path or (), folder, period)
    return paths[0] if len(paths) == 1 else paths, None


def definition(file: StudyFile, release: ReleaseSpec) -> dict[str, Any]:
    """Every public fact that decides what is released, and nothing else; the request's hash covers it."""
    return {
        **release.definition(file.context),
        "columns": {rule.name: _rule_record(rule) for rule in column_rules(file, release)},
        "neighbours": file.privacy.neighbours,
        "population": file.population,
        "source": {
            "max_rows_per_unit": file.source.max_rows_per_unit,
            **_place(file.source),
            **_holder_record(file.source.holder),
            "unit": file.source.unit,
        },
    }


def _holder_record(spec: HolderSpec | None) -> dict[str, Any]:
    if spec is None:
        return {}
    split: dict[str, Any] = {"membership": spec.membership, "values": list(spec.names)}
    if spec.paths is not None:
        split["paths"] = {name: list(paths) for name, paths in spec.paths.items()}
    return {"holder": split if spec.column is None else {**split, "column": spec.column}}


def _holder_split(spec: HolderSpec | None) -> HolderSplit | None:
    if spec is None:
        return None
    return HolderSplit(by="paths" if spec.column is None else spec.column, names=spec.names, membership=spec.membership)


def _filled(paths: Sequence[str], folder: Path, period: str) -> tuple[str, ...]:
    filled = [path.replace("{period}", period) for path in paths]
    return tuple(path if "://" in path else str(folder / path) for path in filled)


def _place(source: SourceSpec) -> dict[str, Any]:
    if source.path is None and source.url is None:
        return {}  # the holders say where
    if source.path is None:
        return {"query": source.query, "url": source.url}
    return {"path": source.path[0] if len(source.path) == 1 else list(source.path)}


def _resolved_url(url: str, folder: Path) -> str:
    scheme, _, path = url.partition(":///")
    return f"sqlite:///{folder / path}" if scheme == "sqlite" else url


def _indicator(name: str, file: StudyFile, release: ReleaseSpec) -> ColumnRule:
    """The rule of a column that indicates missing values of another column; it is itself never missing."""
    column, other = file.columns[name], file.columns[name].missing_of or ""
    of = _rule(other, file.columns[other], clips=release.clips, stays=True)
    return ColumnRule(name=name, levels=column.levels, unknown=(column.levels or ("",))[0], of=of)


def _rule(name: str, column: ColumnSpec, *, clips: bool, stays: bool) -> ColumnRule:
    rule = ColumnRule(name=name, missing=column.missing or (), stays_missing=stays)
    if column.levels is not None:
        unknown = column.unknown or (None if stays else column.levels[0])
        return replace(rule, levels=column.levels, unknown=unknown)
    middle = 0.0 if column.bounds is None else column.bounds.middle
    nulls = None if stays else middle if column.nulls is None else column.nulls
    bounds = column.bounds if clips and column.bounds is not None else WIDEST
    measure = "date" if isinstance(column.bounds, DateBounds) else "number"
    return replace(rule, bounds=bounds, null_value=nulls, measure=measure)


def _rule_record(rule: ColumnRule) -> dict[str, Any]:
    more: dict[str, Any] = {} if rule.measure == "number" else {"measure": rule.measure}
    if rule.missing:
        more["missing"] = list(rule.missing)
    if rule.of is not None:
        more |= {"missing_of": rule.of.name, "of": _rule_record(rule.of)}
    if rule.bounds is WIDEST:
        return {"nulls": rule.null_value, "unbounded": True, **more}
    if rule.bounds is not None:
        return {"bounds": [rule.bounds.low, rule.bounds.high], "nulls": rule.null_value, **more}
    return {"levels": list(rule.levels or ()), "unknown": rule.unknown, **more}
