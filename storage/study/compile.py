"""From the study file to what the other rooms take: schema, table source, account and the public definition."""

from typing import Any

from dpbayes_core.schema import Continuous, Covariate, Factor, RegressionSchema
from storage.ledger.request import AccountSpec, decimal_text
from storage.source import ColumnRule
from storage.study.models import StudyFile
from storage.study.table import ColumnSpec
from storage.study.work import ReleaseSpec


def regression_schema(file: StudyFile, release: ReleaseSpec) -> RegressionSchema:
    """The regression that a release describes, in the terms of its statistics."""
    response = file.columns[release.response].bounds
    assert response is not None
    covariates = tuple(_covariate(name, file.columns[name]) for name in release.covariates)
    return RegressionSchema(Continuous(release.response, response), covariates)


def column_rules(file: StudyFile, release: ReleaseSpec) -> tuple[ColumnRule, ...]:
    """What a pass must know of the columns that a release uses, defaults filled in."""
    return tuple(_rule(name, file.columns[name]) for name in (*release.covariates, release.response))


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
    )


def uses_delta(release: ReleaseSpec) -> bool:
    """Whether the noise is calibrated with the study's delta."""
    return release.mechanism == "gaussian" and release.epsilon is not None


def definition(file: StudyFile, release: ReleaseSpec) -> dict[str, Any]:
    """Every public fact that decides what is released, and nothing else: the request's hash covers this."""
    mechanism: dict[str, Any] = {"name": release.mechanism}
    for name, loss in (("epsilon", release.epsilon), ("rho", release.rho)):
        if loss is not None:
            mechanism[name] = decimal_text(loss)
    if uses_delta(release) and file.privacy.delta is not None:
        mechanism["delta"] = decimal_text(file.privacy.delta)
    return {
        "columns": {rule.name: _rule_record(rule) for rule in column_rules(file, release)},
        "covariates": list(release.covariates),
        "intercept": release.intercept,
        "kind": release.kind,
        "mechanism": mechanism,
        "neighbours": file.privacy.neighbours,
        "population": file.population,
        "response": release.response,
        "source": {
            "max_rows_per_unit": file.source.max_rows_per_unit,
            "path": file.source.path,
            "unit": file.source.unit,
        },
    }


def _covariate(name: str, column: ColumnSpec) -> Covariate:
    if column.bounds is not None:
        return Continuous(name, column.bounds)
    assert column.levels is not None
    return Factor(name, column.levels)


def _rule(name: str, column: ColumnSpec) -> ColumnRule:
    if column.bounds is not None:
        nulls = column.bounds.middle if column.nulls is None else column.nulls
        return ColumnRule(name=name, bounds=column.bounds, null_value=nulls)
    assert column.levels is not None
    return ColumnRule(name=name, levels=column.levels, unknown=column.unknown or column.levels[0])


def _rule_record(rule: ColumnRule) -> dict[str, Any]:
    if rule.bounds is not None:
        return {"bounds": [rule.bounds.low, rule.bounds.high], "nulls": rule.null_value}
    return {"levels": list(rule.levels or ()), "unknown": rule.unknown}
