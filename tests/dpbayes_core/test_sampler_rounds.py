"""What a driver does next, which sampler is chosen, and what is refused."""

from dataclasses import dataclass, replace

import pytest

from dpbayes_core.regression.prior import Prior
from dpbayes_core.samplers.driver import check_run, choose, sample
from dpbayes_core.samplers.registry import SAMPLERS
from dpbayes_core.sampling.protocol import SamplerUnsuitable
from dpbayes_core.sampling.rounds import MOST_EXTENSION, Round, first_round, next_round
from tests.support.regressions import example, schema_of


@dataclass(frozen=True)
class Judged:
    """A posterior as the decision sees it."""

    converged: bool = False
    divergent: bool = False
    exhausted: bool = False
    least_ess: float = 390.0


def after(attempt: int, draws: int, judged: Judged) -> Round | None:
    return next_round(Round(attempt=attempt, draws=draws), judged, 1000)  # pyright: ignore[reportArgumentType]


def test_a_converged_posterior_is_the_end() -> None:
    assert first_round(1000) == Round(attempt=0, draws=1000)
    assert after(0, 1000, Judged(converged=True)) is None


def test_short_chains_are_doubled_up_to_the_cap_and_no_further() -> None:
    draws = 1000
    while (following := after(0, draws, Judged())) is not None:
        assert following == Round(attempt=0, draws=2 * draws)
        draws = following.draws
    assert draws == MOST_EXTENSION * 1000


def test_what_the_cap_would_not_bring_either_is_given_up_early() -> None:
    assert after(0, 2000, Judged(least_ess=1.0)) == Round(attempt=0, draws=4000), "too early to tell"
    assert after(0, 4000, Judged(least_ess=99.0)) is None
    assert after(0, 4000, Judged(least_ess=101.0)) == Round(attempt=0, draws=8000)


def test_what_would_be_more_work_than_a_run_may_be_is_not_begun() -> None:
    assert after(0, 1000, Judged(exhausted=True)) is None
    assert after(0, 1000, Judged(exhausted=True, divergent=True)) is None


def test_divergences_ask_for_one_more_careful_attempt_and_then_for_honesty() -> None:
    assert after(0, 2000, Judged(divergent=True)) == Round(attempt=1, draws=1000)
    assert after(1, 1000, Judged()) == Round(attempt=1, draws=2000)
    assert after(1, 1000, Judged(divergent=True)) is None
    for sampler in SAMPLERS.values():
        assert sampler.warmup(1) >= sampler.warmup(0)


def test_auto_takes_the_calibrated_sampler_and_says_so() -> None:
    choice = choose(example(schema_of("x"), 50))
    assert choice.sampler is SAMPLERS["collapsed"]
    assert choice.reason == "auto: the first calibrated sampler that takes this release"
    assert choose(example(schema_of("x"), 50), "collapsed") == choice, "the same analysis, however it was asked for"
    assert choose(example(schema_of("x"), 50), "naive").reason == "asked for by name"


def test_auto_never_falls_back_on_an_uncalibrated_sampler() -> None:
    few = replace(example(schema_of("x", "z"), 50), rows=3)
    with pytest.raises(SamplerUnsuitable) as refused:
        choose(few)
    assert str(refused.value) == (
        "cannot analyse with a calibrated sampler: robust: it needs one release that was made with robust: true; "
        "collapsed and gibbs-ss-exact: it needs more than 3 rows, the number of encoded variables. "
        "Ask for naive by name to get an uncalibrated posterior."
    )
    assert refused.value.exit_code == 2
    assert choose(few, "naive").sampler is SAMPLERS["naive"]
    assert choose(replace(few, rows=4)).sampler is SAMPLERS["collapsed"]


def test_what_a_sampler_cannot_take_is_refused_in_one_sentence() -> None:
    release = example(schema_of("x"), 50)
    with pytest.raises(
        SamplerUnsuitable, match=r"sampler gibbs: it does not exist\. Choose one of auto, robust, collapsed"
    ):
        choose(release, "gibbs")
    with pytest.raises(SamplerUnsuitable, match="it needs at least 1 row"):
        choose(replace(release, rows=0), "naive")


@pytest.mark.parametrize("wrong", [{"chains": 1}, {"draws": 9}, {"seed": -1}, {"block": 0}])
def test_numbers_that_no_run_can_have_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(SamplerUnsuitable, match=f"cannot sample with {next(iter(wrong))}"):
        check_run(**{"chains": 4, "draws": 1000, "seed": 1, **wrong})


def test_the_block_size_changes_no_draw() -> None:
    release = example(schema_of("x"), 100, name="laplace")
    first, second = (sample(release, Prior(), seed=1, draws=150, block=block) for block in (500, 33))
    assert first.draws.keys() == second.draws.keys()
    for name, values in first.draws.items():
        assert values.tobytes() == second.draws[name].tobytes()


def test_a_run_that_is_too_short_is_extended_until_it_passes() -> None:
    found = sample(example(schema_of("x"), 100), Prior(), seed=1, draws=60)
    assert found.converged
    assert found.draws["x"].shape[1] > 60


def test_a_run_that_cannot_pass_stops_and_says_why() -> None:
    found = sample(example(schema_of("x"), 100), Prior(), seed=1, draws=10, chains=2)
    assert found.draws["x"].shape == (2, 40), "160 draws in each of two chains would not do either"
    assert not found.converged
    assert "effective sample size" in found.why_not


def test_few_rows_under_much_noise_are_sampled_all_the_same() -> None:
    found = sample(example(schema_of("x"), 3, name="laplace", scale=50.0), Prior(), seed=2)
    assert found.converged, found.why_not
