"""The gate: what passes it, and what each way of not mixing looks like in words."""

import numpy as np
import pytest
from arviz_stats.base.array import array_stats

from dpbayes_core.arrays import Floats
from dpbayes_core.sampling.diagnostics import Diagnosis, diagnose


def independent(quantities: int = 3, draws: int = 1000) -> Floats:
    return np.random.default_rng(1).standard_normal((quantities, 4, draws))


def test_independent_draws_pass_the_gate() -> None:
    found = diagnose("abc", independent())
    assert found.failures() == []
    assert found.rhat.shape == found.ess_bulk.shape == found.ess_tail.shape == (3,)
    assert np.all(found.ess_bulk > 3000)


def test_a_chain_that_stayed_elsewhere_is_named() -> None:
    draws = independent()
    draws[1, 2] += 1.0
    words = diagnose("abc", draws).failures()
    assert words[0].startswith("R-hat of b is ")
    assert words[0].endswith(", above 1.01")
    assert words[1].startswith("bulk effective sample size of b is ")


def test_chains_of_different_spread_are_noticed_though_their_means_agree() -> None:
    draws = independent()
    draws[0, :2] *= 3.0
    assert diagnose("abc", draws).failures()[0].startswith("R-hat of a is ")


def test_slow_chains_miss_the_effective_sample_size() -> None:
    steps = independent()
    draws = np.zeros_like(steps)
    for t in range(1, steps.shape[-1]):
        draws[..., t] = 0.97 * draws[..., t - 1] + steps[..., t]
    assert any(word.startswith("bulk effective sample size") for word in diagnose("abc", draws).failures())


def test_too_few_draws_miss_it_however_independent_they_are() -> None:
    words = diagnose("abc", independent(draws=50)).failures()
    assert any("tail effective sample size" in word for word in words)


def test_what_misses_the_gate_by_little_is_shown_with_the_digits_that_miss_it() -> None:
    rhat, bulk, tail = (np.array([value]) for value in (1.01004, 399.7, 399.4))
    assert Diagnosis(("a",), rhat, bulk, tail).failures() == [
        "R-hat of a is 1.01004, above 1.01",
        "bulk effective sample size of a is 399.7, below 400",
        "tail effective sample size of a is 399, below 400",
    ]
    least = np.nextafter(np.array([1.01]), 2)
    assert "is 1.0100000000000002, above 1.01" in Diagnosis(("a",), least, bulk, tail).failures()[0]


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_a_quantity_without_diagnostics_never_passes(value: float) -> None:
    draws = independent()
    draws[2] = value
    assert any("of c is" in word for word in diagnose("abc", draws).failures())


SHAPES = [(5, 4, 1000), (3, 3, 333), (2, 1, 50), (6, 5, 99), (1, 2, 4), (2, 4, 7)]


def slow(draws: Floats) -> Floats:
    found = np.zeros_like(draws)
    for t in range(1, draws.shape[-1]):
        found[..., t] = 0.9 * found[..., t - 1] + draws[..., t]
    return found


CHANGES = {
    "independent": lambda draws: draws,
    "slow": slow,
    "with ties": lambda draws: np.round(draws, 1),
    "elsewhere": lambda draws: draws + np.arange(draws.shape[1])[:, None],
    "alternating": lambda draws: draws + 3.0 * (-1.0) ** np.arange(draws.shape[2]),
    "still": lambda draws: np.where(np.arange(len(draws))[:, None, None] == 0, 2.5, draws),
    "no number": lambda draws: np.where(np.arange(len(draws))[:, None, None] == 0, np.nan, draws),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("change", CHANGES)
def test_diagnostics_are_those_of_arviz_to_the_last_bit(shape: tuple[int, int, int], change: str) -> None:
    draws = CHANGES[change](np.random.default_rng(3).standard_normal(shape))
    with np.errstate(all="ignore"):
        due = [
            array_stats.rhat(draws, method="rank"),
            array_stats.ess(draws, method="bulk"),
            array_stats.ess(draws, method="tail", prob=(0.05, 0.95)),
        ]
    found = diagnose([str(each) for each in range(len(draws))], draws)
    assert np.array_equal([found.rhat, found.ess_bulk, found.ess_tail], due, equal_nan=True)


def test_many_draws_are_diagnosed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = independent(quantities=7)
    whole = diagnose("abcdefg", draws)
    monkeypatch.setattr("dpbayes_core.sampling.diagnostics.MOST_AT_ONCE", 2 * draws[0].size)
    assert np.array_equal(whole.ess_tail, diagnose("abcdefg", draws).ess_tail)
