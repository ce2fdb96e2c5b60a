"""Whatever a holder's column holds: refused by its shape or summed, and no one row turns one into the other."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbayes.secure.read_table import check_shape, read_statistics
from dpbayes.study.table_source import Holders, TableSource
from dpbayes_core.errors import ShapeMismatch
from dpbayes_core.regression.holders import HolderSums
from dpbayes_core.regression.moments import SecondMoments
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema
from tests.laws.test_fuzzed_tables import BOUNDS, CANARY, FEW, KEY, RULES, WRITERS, Made, Writer, made, parquet

SCHEMA = RegressionSchema(Continuous("y", BOUNDS), (Continuous("born", BOUNDS), Factor("level", ("no", "yes"))))
MEMBERSHIPS: Any = st.sampled_from(("fixed", "movable", "undeclared"))


def outcome(table: TableSource, unit: str | None, membership: Any) -> str | int:
    """What anybody could see: that something was summed of each holder, or the words of the refusal."""
    holders = Holders(column="code", names=("7", "0"), membership=membership)
    seen = replace(table, columns=(*RULES[:3], holders.rule), unit=unit, holders=holders)
    done, said = None, ""
    try:
        check_shape(seen)
        done = read_statistics(seen, HolderSums(SecondMoments(SCHEMA), "code", holders.names), key=KEY)
    except ShapeMismatch as error:
        said = str(error)
    if done is None:
        assert CANARY not in said
        return said
    counted, profile = sum(part.rows for part in done.statistics.parts), done.profile
    nobody = profile.broken("code")
    assert 0 <= counted <= profile.rows - nobody
    assert profile.duplicate_rows == (None if unit is None else profile.rows - nobody - counted)
    assert unit is not None or counted == profile.rows - nobody
    return profile.rows


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.__name__)
@FEW
@given(table=made(), membership=MEMBERSHIPS)
def test_any_holder_is_summed_and_so_is_any_other(tmp_path: Path, writer: Writer, table: Made, membership: str) -> None:
    changed = [table.other, *table.rows[1:]]
    for unit in ("person", None):
        for rows in (table.rows, changed):
            assert outcome(writer(tmp_path, table.types, rows), unit, membership) == len(rows)


@FEW
@given(table=made(wrong=True), membership=MEMBERSHIPS)
def test_any_type_is_refused_or_summed_alike_for_any_other_row(tmp_path: Path, table: Made, membership: str) -> None:
    changed = [table.other, *table.rows[1:]]
    seen = outcome(parquet(tmp_path, table.types, table.rows), "person", membership)
    assert outcome(parquet(tmp_path, table.types, changed), "person", membership) == seen
