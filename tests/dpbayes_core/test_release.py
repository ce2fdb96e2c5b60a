"""A release says whether its own noise suffices for what it shows."""

from dataclasses import replace

import pytest

from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.mechanisms import Mechanism, gaussian_for, laplace_for
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity

NARROW = RegressionSchema(Continuous("wage", Bounds(0, 5)), (Continuous("age", Bounds(16, 80)),))
WIDE = RegressionSchema(NARROW.response, (*NARROW.covariates, Factor("region", ("north", "south", "east"))))


def released(schema: RegressionSchema, mechanism: Mechanism) -> Release:
    values = (0.0,) * len(schema.entries)
    return Release(schema=schema, neighbours="replace-one", rows=10, mechanism=mechanism, values=values)


def mechanisms(schema: RegressionSchema) -> list[Mechanism]:
    due = regression_sensitivity(schema)
    return [
        laplace_for(due, epsilon=1.0, grid=20, entries=len(schema.entries)),
        gaussian_for(due, epsilon=1.0, delta=1e-6, grid=20),
    ]


@pytest.mark.parametrize("schema", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize("place", [0, 1], ids=["laplace", "gaussian"])
def test_noise_calibrated_to_the_schema_protects_its_release_and_no_other(schema: RegressionSchema, place: int) -> None:
    other = WIDE if schema is NARROW else NARROW
    good = released(schema, mechanisms(schema)[place])
    assert good.protected
    assert Release.from_record(good.to_record()).protected
    assert not released(schema, mechanisms(other)[place]).protected
    assert not replace(good, mechanism=replace(good.mechanism, sensitivity=1e-6)).protected


def test_a_value_too_few_or_other_neighbours_are_not_protected() -> None:
    good = released(WIDE, mechanisms(WIDE)[0])
    assert not replace(good, values=good.values[1:]).protected
    assert not replace(good, neighbours="add-remove").protected


def test_complete_rows_need_their_count_hidden_and_laplace_noise_of_their_own() -> None:
    complete = replace(NARROW, cases="complete")
    values = (0.0,) * len(complete.entries_with_count)
    for made in mechanisms(NARROW):  # for rows that all count
        assert not replace(released(NARROW, made), schema=complete, rows=None, values=values).protected
    due = regression_sensitivity(complete)
    laplace = laplace_for(due, epsilon=1.0, grid=20, entries=len(values))
    good = Release(schema=complete, neighbours="replace-one", rows=None, mechanism=laplace, values=values)
    assert good.protected
    assert Release.from_record(good.to_record()) == good
    assert not replace(good, rows=10, values=values[1:]).protected
    short = replace(laplace, sensitivity=laplace.sensitivity / 1.1)  # that of rows which all count is 1.125 times less
    assert not replace(good, mechanism=short).protected
