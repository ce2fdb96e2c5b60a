"""Sections of the study file about the confidential table: where it is, its holders, its periods."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dpbayes.strict_yaml.fields import (
    ColumnName,
    Length,
    Levels,
    Section,
    Text,
    duration,
    exactly_one,
    refusal,
)
from dpbayes.study.places import DatabaseUrl, HolderPaths, Paths, QueryText
from storage.ledger.request import Grain, Membership


class HolderSpec(Section):
    """Which of several offices each row of the table belongs to: by a column, or by files of each office.

    Every release is then made for each holder separately, in one pass over all rows.
    """

    column: ColumnName | None = Field(
        default=None,
        description="Column that names the holder; rows of another value, or none, count nowhere.",
        examples=["office"],
    )
    values: Levels | None = Field(
        default=None, description="With column: all holders, as that column spells them.", examples=["[n, s]"]
    )
    paths: HolderPaths | None = Field(
        default=None,
        description="Instead of column, values and the source's path: the path, or list of paths, of each holder.",
        examples=["{n: n-{period}.parquet, s: s-{period}.parquet}"],
    )
    membership: Membership = Field(
        description="fixed: everybody is with one holder for good, and that holder is public. movable: people move, "
        "and their holder is protected. undeclared: a person may be with several holders, and charges add up.",
        examples=["fixed"],
    )

    @model_validator(mode="after")
    def _check_holders(self) -> Self:
        exactly_one({"column": self.column, "paths": self.paths}, "what names the holders")
        if self.column is not None and self.values is None:
            raise refusal("the holders have no names", "Write values: and all that the column may say", "column")
        if self.paths is not None and self.values is not None:
            raise refusal("paths name the holders already", "Delete values", "values")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The holders in their declared order."""
        return self.values or tuple(self.paths or ())


class ReadySpec(Section):
    """How long a period waits for its table; without this section a missing table is an error at once.

    A table is missing while there is no file where its path says, or the database does not answer its query.
    """

    after: Length = Field(
        description="How long after the period is due its table may still be missing; then the period is late.",
        examples=["3d"],
    )
    retry: Length = Field(
        default=duration("1h"),
        description="How often the table is looked for, also when the period is late.",
        examples=["1h"],
    )

    @model_validator(mode="after")
    def _looks_in_time(self) -> Self:
        if self.retry.length > self.after.length:
            raise refusal("the table is looked for less often than it is waited for", "Make it after or less", "retry")
        return self


class SourceSpec(Section):
    """Where the confidential table is and what one person is in it."""

    path: Paths | None = Field(
        default=None,
        description=(
            "Parquet or CSV of one period: a file, a folder, a pattern with * ? or **, an fsspec URL, or a list of "
            "them, relative to the study file; {period} becomes the period's name."
        ),
        examples=["data/wages-{period}.parquet"],
    )
    url: DatabaseUrl | None = Field(
        default=None,
        description="PostgreSQL or SQLite database to read instead; its password comes from PGPASSWORD or .pgpass.",
        examples=["postgresql://reader@host/people"],
    )
    query: QueryText | None = Field(
        default=None,
        description="What to read from the database; :period is bound to the period's name. Under replace-one with one "
        "row a person, how many people or rows it finds is published without noise, so a condition on anything else "
        "publishes how many meet it, and whether somebody does is not protected.",
        examples=["select * from wages where month = :period"],
    )
    rows: Annotated[int, Field(ge=1, le=10**12)] = Field(
        description="About how many rows count in a period; where one row of each person does, how many people: a "
        "public guess, never trusted as that number.",
        examples=["50000"],
    )
    unit: ColumnName | None = Field(
        default=None,
        description="Column that names a person. Leave it out only where one row is one person.",
        examples=["person_id"],
    )
    max_rows_per_unit: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=1,
        description="How many rows one person may contribute (with each holder, unless people move); it is enforced.",
        examples=["1"],
    )
    holder: HolderSpec | None = Field(
        default=None,
        description="Several holders of one table, by a column that names them or by files of each.",
        examples=["{column: office, values: [n, s], membership: fixed}"],
    )

    expectations: Text | None = Field(
        default=None,
        description="The steward's own expectations about what a pass counts: a Great Expectations suite as JSON, "
        "relative to the study file, of known expectations with plain arguments; it decides nothing, and what it finds "
        "stays in the vault.",
        examples=["expectations.json"],
    )
    ready: ReadySpec | None = Field(
        default=None,
        description="How long a due period waits for its table.",
        examples=["{after: 3d, retry: 1h}"],
    )

    @property
    def places(self) -> tuple[str, ...]:
        """Every path of the table, or the address of its database."""
        if self.holder is not None and self.holder.paths is not None:
            return tuple(path for paths in self.holder.paths.values() for path in paths)
        return self.path or (self.url or "",)

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        given = {"path": self.path, "url": self.url, "holder.paths": self.holder and self.holder.paths}
        exactly_one(given, "the place of the table")
        if self.url is not None and self.query is None:
            raise refusal("a database is read by a query", "Add query: and a select", "url")
        if self.url is None and self.query is not None:
            raise refusal("a query needs a database", "Add url: and its address", "query")
        return self


class PeriodSpec(Section):
    """What a period is and whether the people in it come back."""

    grain: Grain = Field(
        description="Length of a period: month (2026-01), quarter (2026-Q1), year (2026) or day (2026-01-31).",
        examples=["month"],
    )
    people: Literal["same", "disjoint"] = Field(
        default="same",
        description="same: a person may be in many periods. disjoint: everybody is in one period only.",
        examples=["same"],
    )
