"""Releases analysed together: what they must share, and what names them."""

from dataclasses import replace

import numpy as np
import pytest

from dpbayes_core.regression.pool import ALLOW_DIFFERENT_PARTS, Pool, parts_law, parts_of, pooled
from dpbayes_core.regression.prior import Prior
from dpbayes_core.samplers.registry import SAMPLERS, samplers_for
from tests.support.regressions import REGION, SEX, example, schema_of

SCHEMA = schema_of("x")


def test_a_pool_is_named_by_its_parts_in_their_order() -> None:
    first, second = (example(SCHEMA, 50, seed=seed) for seed in (1, 2))
    assert parts_of(pooled([first])) == (first,)
    assert pooled([first, second]).digest == Pool((first, second)).digest
    assert pooled([first, second]).digest != pooled([second, first]).digest
    assert pooled([first, second]).count == 100


def test_only_different_releases_of_one_regression_are_pooled() -> None:
    first, other = example(SCHEMA, 50), example(schema_of("x", "u"), 50)
    for parts, why in (((first,), "fewer than two"), ((first, other), "columns or bounds"), ((first, first), "itself")):
        with pytest.raises(ValueError, match=why):
            Pool(parts)


def test_parts_are_taken_to_differ_where_numbers_are_and_nothing_says_that_they_are_alike() -> None:
    numbers, levels = ([example(schema, 50, seed=seed) for seed in (1, 2)] for schema in (SCHEMA, schema_of(SEX)))
    assert Pool(tuple(numbers)).differing
    assert not Pool(tuple(numbers), alike=True).differing
    assert not Pool(tuple(levels)).differing
    assert pooled(numbers, alike=True).digest == pooled(numbers).digest


def test_complete_rows_are_not_pooled_with_all_rows() -> None:
    first, second = (example(SCHEMA, 50, seed=seed) for seed in (1, 2))
    whole = [
        replace(each, schema=replace(SCHEMA, cases="complete"), rows=None, values=(50.0, *each.values))
        for each in (first, second)
    ]
    assert Pool(tuple(whole)).count == 100
    with pytest.raises(ValueError, match="all rows with those of complete ones"):
        Pool((first, whole[1]))


@pytest.mark.parametrize("name", [sampler.name for sampler in samplers_for("regression")])
def test_those_samplers_heed_whether_parts_are_alike_that_are_said_to(name: str) -> None:
    sampler, parts = SAMPLERS[name], tuple(example(SCHEMA, 400, seed=seed) for seed in (1, 2))
    drawn: list[np.ndarray] = []
    for alike in (False, True):
        evidence = Pool(parts, alike=alike)
        if sampler.refusal(evidence) is not None:
            assert name not in ALLOW_DIFFERENT_PARTS
            return
        problem = sampler.prepare(evidence, Prior())
        state, block = sampler.run_block(problem, sampler.start(problem, 1, 0), 5)
        drawn.append(np.concatenate([state.numbers, block.parameters.ravel()]))
    assert np.array_equal(*drawn) == (name not in ALLOW_DIFFERENT_PARTS)


def test_levels_alone_have_shares_of_their_own_in_every_part() -> None:
    """So whether parts are alike makes no difference, and nobody need say so."""
    parts = tuple(example(schema_of(SEX, REGION), 400, seed=seed) for seed in (1, 2))
    sampler, drawn = SAMPLERS["collapsed"], []
    for alike in (False, True):
        problem = sampler.prepare(Pool(parts, alike=alike), Prior())
        drawn.append(sampler.run_block(problem, sampler.start(problem, 1, 0), 5)[0].numbers)
    assert np.array_equal(*drawn)
    assert parts_law("collapsed", alike=False, numbers=False) == "none"
