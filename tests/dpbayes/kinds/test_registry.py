"""Every kind of release is registered once, and its texts answer whatever files and pages ask of a release."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from dpbayes.kinds.counted import Counted
from dpbayes.kinds.prior import PriorSpec
from dpbayes.kinds.registry import KINDS, SAMPLER_NAMES, texts_of
from dpbayes.kinds.texts import Texts
from dpbayes_core.draws.design import network_draws, network_map
from dpbayes_core.networks.schema import NetworkSchema
from dpbayes_core.privacy.noise import SeededNoise
from dpbayes_core.regression.schema import Factor
from dpbayes_core.releases import RELEASES
from dpbayes_core.samplers.registry import SAMPLERS
from tests.support.sampler_examples import EXAMPLES

FOLDER = Path(__file__).parents[3] / "dpbayes" / "kinds"
FILES = ("section.py", "texts.py")
SCHEMA = NetworkSchema((Factor("a", ("no", "yes")), Factor("b", ("x", "y"))), {"b": ("a",)})


def drawn(design: Any) -> Any:
    random, statistic = np.random.default_rng(1), design.statistic()
    exact = statistic.sum(statistic.encode({name: random.integers(0, 2, 300) for name in "ab"}), None)
    return design.release(SeededNoise(2, i_know_this_is_not_private=True), exact)


MADE: Mapping[str, Callable[[], Any]] = {
    **{kind: (lambda make=make: make()[0]) for kind, make in EXAMPLES.items()},
    "posterior-draw": lambda: drawn(network_draws(SCHEMA, epsilon=1.0)),
    "map": lambda: drawn(network_map(SCHEMA, epsilon=1.0, floor=0.05)),
}


def test_a_kind_has_one_name_everywhere() -> None:
    assert KINDS.keys() == RELEASES.keys() == MADE.keys()
    for name, kind in KINDS.items():
        assert get_args(kind.section.model_fields["kind"].annotation) == (name,)


def test_every_folder_has_the_same_files() -> None:
    for folder in (path for path in FOLDER.iterdir() if (path / "__init__.py").exists()):
        assert all((folder / name).exists() for name in FILES), folder.name
    for kind in KINDS.values():
        home = FOLDER / kind.section.__module__.split(".")[-2]
        assert (kind.prior is not None) == (home / "prior.py").exists(), home.name


def test_each_sampler_takes_the_kinds_whose_sections_name_it() -> None:
    assert set(SAMPLER_NAMES) == SAMPLERS.keys()
    for name, sampler in SAMPLERS.items():
        assert {kind for kind, one in KINDS.items() if name in one.section.all_samplers} == set(sampler.takes)


def test_the_parts_of_a_prior_belong_to_one_kind_each() -> None:
    parts = [part for kind in KINDS.values() if kind.prior is not None for part in kind.prior.parts]
    assert sorted(parts) == sorted(PriorSpec.model_fields)


@pytest.mark.parametrize("kind", KINDS)
def test_texts_answer_whatever_is_asked_of_a_release(kind: str) -> None:
    release = MADE[kind]()
    texts = texts_of(release)
    assert isinstance(texts, Texts)
    assert release.kind == kind
    lines = texts.lines(release)
    assert lines
    assert {tuple(line) for line in lines} == {tuple(lines[0])}
    assert {type(value) for line in lines for value in line.values()} <= {int, str, float}
    said = [texts.product(release), texts.title(release), texts.lede(release), texts.model(release)]
    said += [texts.reading(release), *texts.noise(release, Counted("row", 1)), *texts.caveats(release)]
    said += [*texts.noise_size(release), *(part for pair in texts.noise_pairs(release) for part in pair)]
    said += [texts.what, texts.parameter, texts.parameters, texts.units, texts.applied(release.to_record())]
    assert all(isinstance(one, str) and one and "\n" not in one for one in said)
    assert "Mechanism" in dict(texts.noise_pairs(release))
    assert isinstance(texts.limits(release), str)
    names = [column.name for column in texts.declared(release)]
    assert names
    assert len(set(names)) == len(names)
    for graph in texts.graphs(release):
        assert {node for edge in graph.edges for node in edge} <= set(graph.nodes)


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.prior is not None])
def test_a_prior_is_recorded_read_back_and_put_into_words(kind: str) -> None:
    release, own = MADE[kind](), KINDS[kind].prior
    assert own is not None
    for sampler in KINDS[kind].section.all_samplers:
        record = own.prior(release, PriorSpec(), sampler, {}).to_record()
        assert own.from_record(release, record).to_record() == record
        assert texts_of(release).prior(record)
    assert own.others(PriorSpec()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_drawn_once(kind: str) -> None:
    release = MADE[kind]()
    texts = texts_of(release)
    assert texts.answers == bool(texts.answers_of(release))
    names = list(texts.answers_of(release) or texts.meanings(release))
    assert set(texts.meanings(release)) <= set(names)
    drawn = [name for group in texts.groups(release, names) for name in group.names]
    assert sorted(drawn) == sorted(names)
    assert {name for curve in texts.curves(release) for _, name in curve.points} <= set(names)
