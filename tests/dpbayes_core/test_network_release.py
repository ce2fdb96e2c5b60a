"""Noisy tables and signed sums: calibrated scales, whole records, tables that agree, a bump that keeps its word."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.networks.design import NetworkDesign, counts_design, fourier_design
from dpbayes_core.networks.marginals import (
    clipped,
    family_tables,
    from_signs,
    noise_bump,
    rows_of,
)
from dpbayes_core.networks.release import NetworkRelease, released_nodes
from dpbayes_core.networks.schema import NetworkSchema
from dpbayes_core.networks.tables import ExactTables, margin
from dpbayes_core.privacy.accounting import UNITS
from dpbayes_core.privacy.noise import OpenDPNoise, SeededNoise
from tests.support.networks import naive_bayes, network

BAYES = naive_bayes(16)
SMALL = network((2, 3, 2), b="a", c="ab")
BINARY = network((2, 2, 2), b="a", c="ab")
DESIGNS: dict[str, NetworkDesign] = {
    "geometric": counts_design(SMALL, epsilon=1.0),
    "every family": counts_design(SMALL, epsilon=1.0, families="all"),
    "shares": counts_design(SMALL, epsilon=1.0, families="all", budget={"a": 1, "b": 2.5, "c": 4}),
    "laplace": counts_design(SMALL, epsilon=0.7, noise="laplace", budget="equal"),
    "add-remove": counts_design(SMALL, epsilon=1.0, neighbours="add-remove"),
    "fourier": fourier_design(BINARY, epsilon=1.0),
    "fourier laplace": fourier_design(BINARY, epsilon=1.0, noise="laplace"),
    "fourier add-remove": fourier_design(BINARY, epsilon=1.0, neighbours="add-remove"),
}


def seeded(seed: int = 1) -> SeededNoise:
    return SeededNoise(seed, i_know_this_is_not_private=True)


def counted(schema: NetworkSchema, rows: int, seed: int = 2) -> ExactTables:
    generator = np.random.default_rng(seed)
    statistic = NetworkDesign.statistic(counts_design(schema, epsilon=1.0))
    columns = {
        node.name: np.minimum(generator.poisson(0.4 + 0.1 * (place % 5), rows), len(node.levels) - 1)
        for place, node in enumerate(schema.nodes)
    }
    return statistic.sum(statistic.encode(columns), None)


# calibration


def test_naive_bayes_has_the_published_and_the_tight_scales() -> None:
    published = counts_design(BAYES, epsilon=1.0, families="all", budget="equal")
    assert published.mechanism.scales == pytest.approx(np.full(66, 34.0), rel=1e-12)
    assert counts_design(BAYES, epsilon=1.0, families="all", budget="equal", neighbours="add-remove").mechanism.scales[
        0
    ] == pytest.approx(17, rel=1e-12)
    tight = fourier_design(BAYES, epsilon=1.0)
    assert tight.mechanism.scales == pytest.approx(np.full(33, 64.0), rel=1e-12)
    assert fourier_design(BAYES, epsilon=1.0, neighbours="add-remove").mechanism.scale == pytest.approx(34, rel=1e-12)


def test_shares_by_the_cube_root_of_cells_make_the_expected_squared_noise_least() -> None:
    def squared(budget: object) -> float:
        design = counts_design(SMALL, epsilon=1e-3, families="all", budget=budget)  # pyright: ignore[reportArgumentType]
        return float((design.mechanism.scales**2).sum())

    best = squared("by-cells")
    assert best < squared("equal")
    cells = {"a": 2, "b": 6, "c": 12}
    for node in cells:
        for factor in (0.8, 0.95, 1.05, 1.25):
            nudged = {name: count ** (1 / 3) * (factor if name == node else 1) for name, count in cells.items()}
            assert squared(nudged) > best


def test_shares_are_of_the_stated_epsilon_which_is_charged_whole() -> None:
    mechanism = DESIGNS["shares"].mechanism
    assert mechanism.cost().epsilon == UNITS
    sizes = np.cumsum([2, 6])
    scales = [part[0] for part in np.split(mechanism.scales, sizes)]
    assert [2 / scale for scale in scales] == pytest.approx([1 / 7.5, 2.5 / 7.5, 4 / 7.5], rel=1e-12)


# releases


@pytest.mark.parametrize("name", DESIGNS)
def test_a_release_survives_canonical_json_and_says_it_is_protected(name: str) -> None:
    design = DESIGNS[name]
    release = design.release(OpenDPNoise(), counted(design.schema, 300))
    back = NetworkRelease.from_record(json.loads(canonical_json(release.to_record())))
    assert back == release
    assert back.digest == release.digest
    assert back.protected
    assert release.rows == (None if design.neighbours == "add-remove" else 300)


@pytest.mark.parametrize("name", DESIGNS)
def test_a_release_with_too_little_noise_or_another_shape_is_not_protected(name: str) -> None:
    design = DESIGNS[name]
    release = design.release(seeded(), counted(design.schema, 300))
    other = "add-remove" if release.neighbours == "replace-one" else "replace-one"
    assert not replace(release, neighbours=other).protected
    assert not replace(release, neighbours="nobody").protected
    assert not replace(release, values=release.values[:-1]).protected
    assert not replace(release, rows=300 if release.rows is None else None).protected
    if name not in ("laplace", "fourier laplace"):
        less = tuple(moved - 1 or moved for moved in release.mechanism.sensitivities)  # pyright: ignore[reportAttributeAccessIssue]
        if less != release.mechanism.sensitivities:  # pyright: ignore[reportAttributeAccessIssue]
            assert not replace(release, mechanism=replace(release.mechanism, sensitivities=less)).protected  # pyright: ignore
    else:
        less = release.mechanism.sensitivity * (1 - 1e-12)
        assert not replace(release, mechanism=replace(release.mechanism, sensitivity=less)).protected  # pyright: ignore


def test_a_design_with_too_little_noise_is_refused() -> None:
    good = DESIGNS["geometric"]
    with pytest.raises(ValueError, match="does not cover"):
        replace(good, neighbours="replace-one", mechanism=counts_design(BINARY, epsilon=1.0).mechanism)
    with pytest.raises(ValueError, match="does not cover"):
        replace(good, mechanism=counts_design(SMALL, epsilon=1.0, neighbours="add-remove").mechanism)


def test_a_record_whose_values_belong_elsewhere_is_refused() -> None:
    record = DESIGNS["geometric"].release(seeded(), counted(SMALL, 50)).to_record()
    record["noisy"]["nodes"][0][0] = "c"
    with pytest.raises(ValueError, match="contradict"):
        NetworkRelease.from_record(record)


def test_counts_come_out_as_integers_around_the_exact_ones() -> None:
    exact = counted(SMALL, 1000)
    design = counts_design(SMALL, epsilon=1e5)
    release = design.release(OpenDPNoise(), exact)
    assert all(isinstance(value, int) for value in release.values)
    assert np.array_equal(release.values, exact.counts)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: fourier_design(SMALL, epsilon=1.0), "does not have two levels"),
        (lambda: counts_design(SMALL, epsilon=1.0, noise="laplace"), "one scale"),
        (lambda: counts_design(SMALL, epsilon=1.0, families="all", budget={"a": 1.0}), "b has no share"),
        (lambda: counts_design(SMALL, epsilon=1.0, budget={"c": 1.0, "a": 1.0}), "a has no released table"),
        (lambda: counts_design(SMALL, epsilon=1.0, budget="half"), "has no share"),  # pyright: ignore
        (lambda: counts_design(SMALL, epsilon=1.0, neighbours="none"), "Choose one"),
    ],
)
def test_a_design_that_cannot_be_is_refused_with_the_reason(call: object, reason: str) -> None:
    with pytest.raises((StudyInvalid, ValueError), match=reason):
        call()  # pyright: ignore[reportCallIssue]


# tables


@pytest.mark.parametrize("nodes", [3, 40])
def test_without_noise_to_speak_of_every_marginal_is_exact(nodes: int) -> None:
    schema = BINARY if nodes == 3 else naive_bayes(39)
    exact = counted(schema, 5000)
    release = fourier_design(schema, epsilon=9e5).release(OpenDPNoise(), exact)
    statistic = fourier_design(schema, epsilon=1.0).statistic()
    for table, family in zip(family_tables(release), schema.families, strict=True):
        assert np.abs(table - statistic.table(exact, family)).max() < 1e-9


def test_tables_from_signed_sums_agree_on_what_they_share_before_clipping() -> None:
    schema = network((2,) * 5, b="a", c="ab", d="bc", e="cd")
    release = fourier_design(schema, epsilon=0.1).release(seeded(), counted(schema, 200))
    tables = dict(zip(schema.families, family_tables(release), strict=True))
    assert any((table < 0).any() for table in tables.values())
    for one, other in itertools.combinations(tables, 2):
        shared = tuple(sorted(set(one) & set(other)))
        gap = margin(tables[one], one, shared) - margin(tables[other], other, shared)
        assert np.abs(gap).max() < 1e-9
    for table in tables.values():
        assert table.sum() == pytest.approx(200, abs=1e-9)


def test_a_family_without_a_table_is_the_mean_of_those_that_contain_it() -> None:
    release = counts_design(BAYES, epsilon=1.0).release(seeded(), counted(BAYES, 500))
    of_class = family_tables(release)[0]
    assert of_class == pytest.approx(np.mean([table.counts.sum(axis=1) for table in release.tables], axis=0))
    assert rows_of(release) == 500


def test_clipping_keeps_what_is_large_and_lifts_what_is_negative() -> None:
    tables = (np.array([-3.0, 2.0, 12.0]),)
    assert clipped(tables, 10)[0].tolist() == [0, 2, 10]
    assert clipped(tables, None)[0].tolist() == [0, 2, 12]


def test_the_number_of_rows_is_estimated_where_it_is_not_public() -> None:
    exact = counted(BAYES, 5000)
    for design in (
        counts_design(BAYES, epsilon=1.0, neighbours="add-remove"),
        fourier_design(BAYES, epsilon=1.0, neighbours="add-remove"),
    ):
        assert rows_of(design.release(seeded(), exact)) == pytest.approx(5000, abs=300)


# the bump


@pytest.mark.parametrize("noise", ["geometric", "laplace"])
def test_the_bump_keeps_cells_of_an_empty_table_from_being_negative_as_often_as_it_says(noise: str) -> None:
    design = fourier_design(BINARY, epsilon=1.0, noise=noise)  # pyright: ignore[reportArgumentType]
    bump = noise_bump(BINARY, design.mechanism, design.neighbours, quantile=0.8)
    empty, source, good = design.statistic().empty(), seeded(7), 0
    for _ in range(2000):
        tables = family_tables(design.release(source, empty), bump=bump)
        good += all((table >= -1e-9).all() for table in tables)
    assert abs(good / 2000 - 0.8) < 5 * math.sqrt(0.16 * (1 / 2000 + 1 / 4000))


def test_the_bump_reads_no_data_and_is_the_same_for_everyone() -> None:
    design = fourier_design(BAYES, epsilon=1.0)
    one, other = (noise_bump(BAYES, design.mechanism, design.neighbours) for _ in range(2))
    assert one == other > 0
    assert one < 1000  # the paper's 4 t |N_I|^2 / epsilon, whose probability of success is wrong, is 4624
    with pytest.raises(ValueError, match="out of range"):
        noise_bump(BAYES, design.mechanism, design.neighbours, quantile=1.0)


def test_signed_sums_of_one_record_give_its_table_back() -> None:
    sums = {frozenset(s): (-1.0) ** len(set(s) & {1}) for s in ((), (0,), (1,), (0, 1))}
    assert from_signs(sums, (0, 1)).tolist() == [[0, 1], [0, 0]]
    assert from_signs(sums, (1, 0)).tolist() == [[0, 0], [1, 0]]


def test_two_hundred_binary_nodes_are_released_and_read_back() -> None:
    schema = naive_bayes(199)
    release = fourier_design(schema, epsilon=10.0).release(OpenDPNoise(), counted(schema, 100))
    assert len(release.values) == len(released_nodes(schema, "signed-sums", "replace-one")) == 399
    assert len(family_tables(release)) == 200
