"""Checks a pass's profile with Great Expectations, never its rows: what the steward should look at, for the vault only.

There are two suites: one that a table which needs none of the study's rules would satisfy, and the steward's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpbayes.secure.profile import Profile
from dpbayes.secure.validation.suites import OwnExpectation, profile_columns, quiet_library
from dpbayes.study.table_source import TableSource
from dpbayes_core.confidential import Confidential

OF_TABLE = ("duplicate_rows", "several_holders")
"""Counts of the whole table, not of a batch."""


RULED = ("nulls", "not_a_number", "unknown_levels")
"""The counts of values that `nulls:` or `unknown:` of a column replaces."""


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """A count must stay within limits in every row group, or once for the counts of the whole table."""

    count: str  # a count of `ColumnCounts`; without a column: rows, null_units or one of `OF_TABLE`
    column: str | None = None
    at_least: int = 0
    at_most: int | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class ValidationResult(Confidential):
    """Whether validation ran, and what it found for each expectation; it never decides a release."""

    ran: bool
    met: tuple[tuple[Expectation, bool], ...] = ()
    own: "tuple[tuple[OwnExpectation, bool | None], ...]" = ()  # None where it could not be computed

    @property
    def success(self) -> bool:
        """Whether validation ran and every expectation is met."""
        return self.ran and all(met for _, met in self.met) and all(met for _, met in self.own)

    def to_record(self) -> dict[str, Any]:
        """Plain data for the vault's JSON."""
        return {
            "expectations": [_expectation_record(expectation) | {"met": met} for expectation, met in self.met],
            "own": [expectation.to_record() | {"met": met} for expectation, met in self.own],
            "ran": self.ran,
            "success": self.success,
        }


def expectations_of(source: TableSource) -> tuple[Expectation, ...]:
    """Expectations that a table satisfies if it needs none of the study's rules, except those of `foreseen_by`."""
    return tuple(one for one in _derived(source) if not _foreseen(one, source))


def foreseen_by(source: TableSource) -> tuple[Expectation, ...]:
    """Counts that raise no alarm, because the study itself states what becomes of such values."""
    return tuple(one for one in _derived(source) if _foreseen(one, source))


def _foreseen(expected: Expectation, source: TableSource) -> bool:
    """A column with `nulls:` or `unknown:` may contain such values, and people may have several rows if so declared."""
    if expected.count == "duplicate_rows":
        return source.max_rows_per_unit > 1
    return expected.column in source.stated and expected.count in RULED


def _derived(source: TableSource) -> list[Expectation]:
    derived = [Expectation(count="rows", at_least=1)]
    for rule in source.columns:
        if rule.of is not None:
            continue
        counts = ("nulls", "unknown_levels") if rule.bounds is None else ("nulls", "not_a_number", "out_of_bounds")
        derived += [Expectation(count=count, column=rule.name, at_most=0) for count in counts]
    if source.unit is not None:
        derived += [Expectation(count=count, at_most=0) for count in ("null_units", "duplicate_rows")]
        if source.holders is not None and source.holders.membership == "fixed" and source.holders.all_here:
            derived.append(Expectation(count="several_holders", at_most=0))
    return derived


def validate(
    profile: Profile,
    source: TableSource,
    expectations: Sequence[Expectation] | None = None,
    own: Sequence[OwnExpectation] = (),
) -> ValidationResult:
    """Check the profile against both suites; a failure of the library is a result too."""
    wanted = expectations_of(source) if expectations is None else tuple(expectations)
    applicable = _applicable(source, own)
    try:
        with quiet_library():
            met, found = _run(profile, wanted), _run_own(profile, source, applicable)
    except Exception:  # its text may contain counts, and it decides nothing
        return ValidationResult(ran=False, own=tuple((one, None) for one in applicable))
    return ValidationResult(
        ran=True, met=tuple(zip(wanted, met, strict=True)), own=tuple(zip(applicable, found, strict=True))
    )


def _applicable(source: TableSource, own: Sequence[OwnExpectation]) -> list[OwnExpectation]:
    """The expectations about columns that this release reads."""
    if not own:
        return []
    known = set(profile_columns(source))
    return [one for one in own if one.columns <= known]


def _run_own(profile: Profile, source: TableSource, applicable: Sequence[OwnExpectation]) -> list[bool | None]:
    """The steward's expectations one by one, so that a failure does not affect the others."""
    if not applicable:
        return []
    batch = _batch({name: _counts(profile, _count_named(name)) for name in profile_columns(source)})
    return [_own_met(batch, one) for one in applicable]


def _own_met(batch: Any, one: OwnExpectation) -> bool | None:
    try:
        return _met(batch.validate(one.built(), result_format="BOOLEAN_ONLY"))
    except Exception:  # its text may contain counts
        return None


def _count_named(name: str) -> Expectation:
    column, dot, count = name.rpartition(".")
    return Expectation(count=count, column=column if dot else None)


def _batch(counts: dict[str, list[int]]) -> Any:
    import great_expectations as gx
    import pandas as pd

    context: Any = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_pandas("profile").add_dataframe_asset("counts")
    return asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": pd.DataFrame(counts)})


def _run(profile: Profile, wanted: Sequence[Expectation]) -> list[bool]:
    # neutral names: nothing of the study reaches the library
    batch = _batch({f"count_{place}": _counts(profile, one) for place, one in enumerate(wanted)})
    import great_expectations as gx
    from great_expectations.expectations.core.expect_column_values_to_be_between import ExpectColumnValuesToBeBetween

    suite = gx.ExpectationSuite(name="study")
    for place, one in enumerate(wanted):
        limits: dict[str, Any] = {"min_value": one.at_least, "max_value": one.at_most}
        suite.add_expectation(ExpectColumnValuesToBeBetween(column=f"count_{place}", **limits))
    results = batch.validate(suite, result_format="BOOLEAN_ONLY").results
    outcome = {result.expectation_config.kwargs["column"]: _met(result) for result in results}
    return [outcome[f"count_{place}"] for place in range(len(wanted))]


def _met(result: Any) -> bool:
    if result.exception_info.get("raised_exception", True):
        raise RuntimeError("an expectation could not be computed")
    return bool(result.success)


def _counts(profile: Profile, wanted: Expectation) -> list[int]:
    """One number for each row group; a table without row groups has one line of zeros, so that it is noticed."""
    if wanted.count in OF_TABLE:
        return [getattr(profile, wanted.count) or 0] * max(len(profile.groups), 1)
    counted = [group if wanted.column is None else group.columns[wanted.column] for group in profile.groups]
    return [int(getattr(one, wanted.count) or 0) for one in counted] or [0]


def _expectation_record(expectation: Expectation) -> dict[str, Any]:
    return {
        "at_least": expectation.at_least,
        "at_most": expectation.at_most,
        "column": expectation.column,
        "count": expectation.count,
    }
