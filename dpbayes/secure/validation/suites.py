"""The steward's own expectations about a pass's counts: a Great Expectations suite, read before the table is.

A suite is about the profile, never about rows: one line a batch, in columns such as `rows` and `age.nulls`. It may
contain known expectations with plain arguments only, nothing that is executed. An invalid file stops a release before
the pass; an expectation that is not met, or that fails to run, stops nothing.
"""

import io
import json
import logging
import os
import warnings
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from dpbayes.secure.validation.suite_types import argument_problem
from dpbayes.study.table_source import ColumnRule, TableSource
from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import StudyInvalid
from storage.ledger.periods import Period

if TYPE_CHECKING:
    from dpbayes.study.study import Study

_ANY_DAY = datetime(2000, 1, 1, tzinfo=UTC)
_LARGEST_SUITE = 1_000_000  # bytes
OF_NUMBERS, OF_LEVELS = ("nulls", "not_a_number", "out_of_bounds"), ("nulls", "unknown_levels")
_NAMES = ("column", "column_A", "column_B", "column_list")


@dataclass(frozen=True, kw_only=True)
class OwnExpectation:
    """One expectation of a suite, as the file states it."""

    type: str
    kwargs: str  # canonical JSON
    description: str | None = None

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the profile that it is about."""
        return frozenset(_columns(json.loads(self.kwargs)))

    @property
    def words(self) -> str:
        """The expectation as people read it."""
        if self.description:
            return self.description
        stated = cast("Mapping[str, Any]", json.loads(self.kwargs)).items()
        return f"{self.type}: " + ", ".join(f"{name} {value}" for name, value in stated)

    def to_record(self) -> dict[str, Any]:
        """Plain data for the vault's JSON."""
        return {"description": self.description, "kwargs": json.loads(self.kwargs), "type": self.type}

    def built(self) -> Any:
        """The library's own object; raises if the library has no such expectation or refuses the arguments."""
        kwargs = json.loads(self.kwargs)
        if problem := argument_problem(self.type, kwargs):  # checked again, because the library may execute arguments
            raise ValueError(problem)
        from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

        return ExpectationConfiguration(type=self.type, kwargs=kwargs).to_domain_obj()


def _counts_of(rule: ColumnRule) -> tuple[str, ...]:
    """The names of the counts that a pass makes of a column."""
    return OF_NUMBERS if rule.levels is None else OF_LEVELS


def profile_columns(source: TableSource) -> tuple[str, ...]:
    """The columns of a pass's profile, by which expectations name them."""
    persons = () if source.unit is None else ("null_units", "duplicate_rows")
    separate = source.unit is not None and source.holders is not None and source.holders.separate
    return (
        "rows",
        *persons,
        *(("several_holders",) if separate else ()),
        *(f"{rule.name}.{count}" for rule in source.columns for count in _counts_of(rule)),
    )


def read_expectations(study: "Study") -> tuple[OwnExpectation, ...]:
    """The suite that the study names, empty if none; raises StudyInvalid for an expectation that cannot be checked.

    Expectations may be about columns of any release of the study.
    """
    name = study.source.expectations
    if name is None:
        return ()
    found = tuple(_expectations(_parsed(study, name), name))
    period = Period.containing(_ANY_DAY, study.period.grain)  # every period's table has the same columns
    known = {column for release in study.releases for column in profile_columns(study.table(release, period))}
    for place, one in enumerate(found, start=1):
        if unknown := sorted(one.columns - known):
            raise _invalid(name, f"expectation {place} names {unknown[0]}, which no profile has", _REMEDY_COLUMNS)
        if not _buildable(one):
            what = f"expectation {place} lacks an argument, or Great Expectations takes it otherwise"
            raise _invalid(name, what, "Look up its arguments")
    return found


_REMEDY_COLUMNS = "Write rows, null_units, or a column and a count, such as age.nulls"


def _parsed(study: "Study", name: str) -> Any:
    try:
        with (study.path.parent / name).open("rb") as file:
            text = file.read(_LARGEST_SUITE + 1)
    except (OSError, ValueError):
        raise _invalid(name, "there is no such file, or you may not read it", "Put it beside the study") from None
    if len(text) > _LARGEST_SUITE:
        raise _invalid(name, "it is larger than any suite", "Check what file this is")
    try:
        return json.loads(text.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise _invalid(name, "it is not JSON in UTF-8", "Export the suite again") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _expectations(parsed: Any, name: str) -> Iterator[OwnExpectation]:
    suite = cast("Mapping[str, Any]", parsed) if isinstance(parsed, dict) else {}
    listed = suite.get("expectations")
    if not isinstance(listed, list):
        raise _invalid(name, "it has no list of expectations", "Export a suite of Great Expectations as JSON")
    for place, one in enumerate(cast("list[Any]", listed), start=1):
        entry = cast("Mapping[str, Any]", one) if isinstance(one, dict) else {}
        kind, kwargs, description = entry.get("type"), entry.get("kwargs", {}), entry.get("description")
        if not isinstance(kind, str) or not isinstance(kwargs, dict) or not isinstance(description, str | None):
            raise _invalid(name, f"expectation {place} is not a type with arguments", "Write type: and kwargs:")
        if problem := argument_problem(kind, cast("Mapping[str, Any]", kwargs)):
            raise _invalid(
                name, f"expectation {place} {problem}", "Write columns, numbers and true or false, or leave it out"
            )
        if description is not None and not description.replace("\n", " ").isprintable():
            raise _invalid(name, f"the description of expectation {place} cannot be printed", "Write it again by hand")
        yield OwnExpectation(type=kind, kwargs=canonical_json(kwargs).decode(), description=description)


def _columns(kwargs: Mapping[str, Any]) -> Iterator[str]:
    for name in _NAMES:
        named = kwargs.get(name)
        yield from map(str, cast("list[Any]", named) if isinstance(named, list) else () if named is None else (named,))


def _buildable(one: OwnExpectation) -> bool:
    with quiet_library():
        try:
            one.built()
        except Exception:  # of many kinds, and its text is the library's
            return False
    return True


def _invalid(name: str, what: str, remedy: str) -> StudyInvalid:
    return StudyInvalid(f"cannot read the expectations {name}: {what}. {remedy}.")


@contextmanager
def quiet_library() -> Generator[None]:
    """No warning, log line, progress bar or print of the library reaches the terminal or another log."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read when the library loads
    logger = logging.getLogger("great_expectations")
    before = logger.propagate, logger.handlers[:]
    logger.propagate, logger.handlers = False, [logging.NullHandler()]
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.propagate, logger.handlers = before
