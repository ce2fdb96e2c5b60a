"""What every mechanism of the registry promises: to the ledger its price, to samplers and plans its law."""

import json
import math
from dataclasses import fields, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from dpbayes_core.canonical import canonical_json
from dpbayes_core.privacy.accounting import UNITS, Cost
from dpbayes_core.privacy.mechanisms import MECHANISMS, LaplaceMechanism, Mechanism, mechanism_from_record
from dpbayes_core.privacy.mechanisms.noise_law import GAUSSIAN, LAPLACE, NoiseLaw
from dpbayes_core.privacy.noise import OpenDPNoise, SeededNoise
from dpbayes_core.regression.planning.expected_moments import Expectation
from dpbayes_core.samplers.registry import SAMPLERS
from tests.support.mechanism_examples import EXAMPLES, Bound
from tests.support.regressions import example, example_with_residuals, schema_of
from tests.support.sampler_examples import EXAMPLES as RELEASES_OF

ALPHA = 1e-6
RELEASES = 4000
ALL = [pytest.param(*one, id=f"{name}-{place}") for name, own in EXAMPLES.items() for place, one in enumerate(own)]
EVERY = pytest.mark.parametrize(("mechanism", "values"), ALL)
LAWS = {"gaussian": (GAUSSIAN, stats.norm), "laplace": (LAPLACE, stats.laplace)}


def seeded(seed: int) -> SeededNoise:
    return SeededNoise(seed, i_know_this_is_not_private=True)


def charged(cost: Cost) -> int:
    """The charge in the mechanism's own measure."""
    return cost.rho if cost.epsilon is None else cost.epsilon


def noise_of(mechanism: Mechanism, values: Any) -> Any:
    source = seeded(3)
    return np.stack([mechanism.release(source, values) - values for _ in range(RELEASES)])


def test_every_mechanism_of_the_registry_has_examples() -> None:
    assert {name: kind.name for name, kind in MECHANISMS.items()} == {name: name for name in EXAMPLES}
    assert all(type(one) is MECHANISMS[name] for name, own in EXAMPLES.items() for one, _ in own)


@EVERY
def test_a_record_survives_canonical_json(mechanism: Mechanism, values: Any) -> None:
    text = canonical_json(mechanism.to_record())
    back = mechanism_from_record(json.loads(text))
    assert back == mechanism
    assert canonical_json(back.to_record()) == text


@EVERY
def test_a_record_that_contradicts_itself_is_refused(mechanism: Mechanism, values: Any) -> None:
    record = mechanism.to_record()
    derived = [{name: record[name] / 2} for name in ("scale", "sensitivity") if name in record]
    for changed in (*derived, {"norm": "L7"}, {"seed": 1}):
        with pytest.raises(ValueError, match="cannot"):
            mechanism_from_record({**record, **changed})
    with pytest.raises(ValueError, match="not one of laplace, gaussian"):
        mechanism_from_record({**record, "name": "cauchy"})


@EVERY
def test_what_the_noise_source_certifies_is_charged_and_hardly_more(mechanism: Mechanism, values: Any) -> None:
    certified, due = Fraction(mechanism.certified_loss(OpenDPNoise())) * UNITS, charged(mechanism.cost())
    more = Fraction(1, 10**9 if mechanism.law is None else 10**13)
    assert due * (1 - more) <= certified <= due


class Optimist(OpenDPNoise):
    """A source that certifies a little more loss than ideal noise has."""

    def laplace_loss(self, entries: int, scale: float, sensitivity: float) -> float:
        return super().laplace_loss(entries, scale, sensitivity) * (1 + 1e-12)

    def gaussian_loss(self, entries: int, scale: float, sensitivity: float) -> float:
        return super().gaussian_loss(entries, scale, sensitivity) * (1 + 1e-12)

    def geometric_loss(self, entries: int, scale: float, sensitivity: int) -> float:
        return super().geometric_loss(entries, scale, sensitivity) * (1 + 1e-11)


class Clueless(OpenDPNoise):
    """A source that cannot say what it costs."""

    def laplace_loss(self, entries: int, scale: float, sensitivity: float) -> float:
        return math.inf

    def gaussian_loss(self, entries: int, scale: float, sensitivity: float) -> float:
        return math.nan

    def geometric_loss(self, entries: int, scale: float, sensitivity: int) -> float:
        return math.nan


@EVERY
@pytest.mark.parametrize("noise", [Optimist(), Clueless()], ids=["optimist", "clueless"])
def test_a_source_that_certifies_more_than_is_charged_releases_nothing(
    mechanism: Mechanism, values: Any, noise: OpenDPNoise
) -> None:
    certified = mechanism.certified_loss(noise)
    if certified == mechanism.certified_loss(OpenDPNoise()):
        assert mechanism.law is None  # its certificate asks no source, for it adds none of the source's noise
        return
    assert not certified * UNITS <= charged(mechanism.cost())
    with pytest.raises(ValueError, match=r"certifies a larger loss|lose more than is charged"):
        mechanism.release(noise, values)


@EVERY
def test_statistics_of_another_shape_or_type_are_refused(mechanism: Mechanism, values: Any) -> None:
    wrong = [np.zeros(3)] if values is None else [values[:0], values[:-1], values[..., :-1], values.astype(np.float32)]
    for one in wrong:
        with pytest.raises(ValueError, match="cannot"):
            mechanism.release(OpenDPNoise(), one)


@EVERY
def test_a_release_leaves_its_statistics_alone_and_has_a_number_for_each_scale(
    mechanism: Mechanism, values: Any
) -> None:
    if values is None:
        assert len(mechanism.scales) == 0
        return
    kept = values.copy()
    noisy = mechanism.release(seeded(2), values)
    assert np.array_equal(values, kept)
    assert noisy.shape == mechanism.scales.shape
    assert np.all(mechanism.scales > 0)
    assert np.array_equal(noisy, mechanism.release(seeded(2), values))
    assert not np.array_equal(noisy, mechanism.release(seeded(3), values))


@EVERY
def test_the_price_grows_with_epsilon(mechanism: Mechanism, values: Any) -> None:
    costs = [mechanism.at(Decimal(epsilon), Decimal("1e-6")) for epsilon in ("0.2", "0.4", "3")]
    assert [charged(cost) for cost in costs] == sorted({charged(cost) for cost in costs})
    assert all(cost.rho > 0 for cost in costs)
    assert {cost.epsilon is None for cost in costs} == {mechanism.cost().epsilon is None}


@EVERY
def test_what_moves_without_a_bound_is_never_protected(mechanism: Mechanism, values: Any) -> None:
    weights = (1.0,) * len(mechanism.scales)
    assert not mechanism.protects(Bound(1e9, 1e9, weights))  # type: ignore[arg-type]


@EVERY
def test_the_stated_deviations_are_those_of_the_noise(mechanism: Mechanism, values: Any) -> None:
    try:
        stated = mechanism.deviations
    except ValueError as error:
        assert "depend on the rows" in str(error)  # noqa: PT017 -- either is right, and only a refusal has words
        assert mechanism.law is None
        return
    assert stated.shape == mechanism.scales.shape
    if values is not None:
        found = noise_of(mechanism, values).var(axis=0)
        assert np.mean(found / stated**2) == pytest.approx(1, abs=0.1)
        assert np.mean(found / (1.15 * stated) ** 2) != pytest.approx(1, abs=0.1)


@EVERY
def test_noise_of_a_stated_law_has_that_law(mechanism: Mechanism, values: Any) -> None:
    if mechanism.law is None:
        return
    sizes = np.abs(noise_of(mechanism, values) / mechanism.scales).ravel()
    assert fits(sizes, mechanism.law)
    assert [law.name for law, _ in LAWS.values() if fits(sizes, law)] == [mechanism.law.name]


def fits(sizes: Any, law: NoiseLaw) -> bool:
    places = [(p, int((sizes > law.exceeded(p)).sum())) for p in (0.5, 0.1, 0.02)]
    return all(stats.binomtest(count, sizes.size, p).pvalue > ALPHA for p, count in places)


@pytest.mark.parametrize("name", LAWS)
def test_a_law_states_one_density(name: str) -> None:
    law, known = LAWS[name]
    assert (law.name, law.variance) == (name, pytest.approx(known.var()))
    assert math.exp(law.log_peak) == pytest.approx(known.pdf(0))
    assert 2 * known.sf(law.exceeded(1e-5)) == pytest.approx(1e-5)
    assert quad(lambda p: law.exceeded(p) ** 2, 0, 1)[0] == pytest.approx(law.variance, rel=1e-3)
    assert len({one.code for one, _ in LAWS.values()}) == len(LAWS)


@EVERY
def test_a_page_can_begin_a_sentence_with_its_words(mechanism: Mechanism, values: Any) -> None:
    assert mechanism.words[0].isupper()
    assert mechanism.words[-1] != "."


# a law that nobody has heard of


class Unheard(LaplaceMechanism):
    """Noise whose law is not known up to a scale, five times as wide as its scale."""

    name = "unheard"
    law = None

    @property
    def deviations(self) -> Any:
        return 5 * self.scales


def unheard(like: Mechanism) -> Any:
    assert isinstance(like, LaplaceMechanism)
    return Unheard(**{field.name: getattr(like, field.name) for field in fields(like)})


def test_samplers_of_regressions_that_condition_on_noise_refuse_a_law_that_they_do_not_know() -> None:
    release = example(schema_of("x", "w"), 300, name="laplace", scale=5.0)
    odd = replace(release, mechanism=unheard(release.mechanism))
    robust = example_with_residuals(schema_of("x", "w"), 300)
    takers = [sampler for sampler in SAMPLERS.values() if "regression" in sampler.takes]
    refused = {sampler.name: sampler.refusal(odd) for sampler in takers}
    assert [name for name, why in refused.items() if why is None] == ["naive"]  # it takes the statistics for exact
    assert refused["collapsed"] == "it knows the noise of these mechanisms only: gaussian, laplace"
    assert SAMPLERS["robust"].refusal(robust) is None
    assert robust.residuals is not None
    hidden = replace(robust, residuals=replace(robust.residuals, mechanism=unheard(release.mechanism)))
    assert SAMPLERS["robust"].refusal(hidden) == refused["collapsed"]


@pytest.mark.parametrize(("kind", "plain"), [("bayes-net", ["naive-tables"]), ("ridge", [])])
def test_samplers_of_other_kinds_refuse_noise_that_they_do_not_know(kind: str, plain: list[str]) -> None:
    release, _ = RELEASES_OF[kind]()
    odd = replace(release, mechanism=unheard(example(schema_of("x"), 300, name="laplace", scale=5.0).mechanism))
    takers = [sampler for sampler in SAMPLERS.values() if kind in sampler.takes]
    assert all(sampler.refusal(release) is None for sampler in takers)
    refused = {sampler.name: sampler.refusal(odd) for sampler in takers}
    assert [name for name, why in refused.items() if why is None] == plain
    assert all("noise of these mechanisms only" in why for why in refused.values() if why)


def test_a_plan_expects_noise_as_wide_as_it_is_whatever_its_law() -> None:
    schema = schema_of("x", "w")
    plain = example(schema, 300, name="laplace", scale=5.0).mechanism
    known, odd = (
        Expectation.of(schema, one, rows=300, expected={}, places=schema.entries).noise
        for one in (plain, unheard(plain))
    )
    assert odd == pytest.approx(known * 25 / 2)
