"""Privacy by brute force: every neighbour of small tables, every assignment of subsets, and their mixture."""

import math
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpbayes_core.privacy.mechanisms.centre_scale import CELLS, POINTS, UNIT, CentreScaleMechanism
from dpbayes_core.privacy.mechanisms.exponential import ExponentialMechanism
from dpbayes_core.privacy.noise import OpenDPNoise
from dpbayes_core.subsample.fits import OpenPrior
from dpbayes_core.subsample.probability import STEPS, ProbabilityDesign, ProbabilityQuery, ProbabilityTerms, _mechanism
from dpbayes_core.subsample.quantile import QuantileDesign, QuantileTerms
from dpbayes_core.subsample.schema import OpenSchema, Unbounded
from tests.support.subsets import dealt

SCHEMA = OpenSchema("y", (Unbounded("x"),))
PRIORS = (OpenPrior(kind="flat"), OpenPrior(g=1e9), OpenPrior(kind="normal-inverse-gamma"))
# people by name: the last three never stand in the first table, and pull a subset's slope wherever they like
PEOPLE: dict[str, tuple[float, float]] = {
    "a": (0.0, 0.0), "b": (1.0, 0.1), "c": (2.0, -0.1), "d": (-1.0, 0.0), "e": (-2.0, 0.1), "f": (0.5, 0.0),
    "steep": (1e9, 1e10), "falling": (1e9, -1e10), "twin": (0.0, 0.0),
}  # fmt: skip
NAMES = tuple(PEOPLE)
TABLE = ("a", "b", "c", "d", "e", "falling")
SUBSETS = 2


def design(method: str, prior: OpenPrior) -> ProbabilityDesign:
    """Not through `probability_design`, which refuses so few rows."""
    queries = (
        ProbabilityQuery(coefficient="x", threshold=0.5),
        ProbabilityQuery(coefficient="(intercept)", threshold=0.0),
    )
    terms = ProbabilityTerms(
        schema=SCHEMA, queries=queries, subsets=SUBSETS, rows=6, prior=prior, method=method, least=0.05  # pyright: ignore[reportArgumentType]
    )  # fmt: skip
    return ProbabilityDesign(terms=terms, mechanism=_mechanism(terms, 1.0))


def sums(made: ProbabilityDesign, names: tuple[str, ...], assigned: dict[str, int]) -> NDArray[np.int64]:
    rows = np.array([PEOPLE[name] for name in names])
    return made.answers_of(dealt(rows, np.array([assigned[name] for name in names]), SUBSETS))


def assignments() -> Iterator[dict[str, int]]:
    """Every function from the people who occur to subsets."""
    for numbers in product(range(SUBSETS), repeat=len(NAMES)):
        yield dict(zip(NAMES, numbers, strict=True))


def exchanged(assigned: dict[str, int], one: str, other: str) -> dict[str, int]:
    return {**assigned, one: assigned[other], other: assigned[one]}


def neighbours(kind: str) -> Iterator[tuple[str, ...]]:
    if kind == "add-remove":
        yield from (tuple(name for name in TABLE if name != gone) for gone in TABLE)
        return
    for gone in TABLE:
        yield from (
            tuple(new if name == gone else name for name in TABLE) for new in ("steep", "twin", "f") if new != gone
        )


@pytest.mark.parametrize("method", ["noise-aware", "fisher"])
@pytest.mark.parametrize("kind", ["replace-one", "add-remove"])
def test_a_neighbour_moves_each_query_by_at_most_one_answer_under_every_assignment_and_some_by_all_of_it(
    method: str, kind: str
) -> None:
    worst = np.zeros(2, dtype=np.int64)
    for prior in PRIORS[:2]:
        made, known = design(method, prior), {}
        few = [a for a in assignments() if a["f"] == a["twin"] == 0]
        for other in neighbours(kind):
            gone, new = next(iter({*TABLE} - {*other})), next(iter({*other} - {*TABLE}), None)
            for assigned in few:
                key = tuple(assigned[name] for name in TABLE)
                if key not in known:
                    known[key] = sums(made, TABLE, assigned)
                coupled = assigned if new is None else exchanged(assigned, gone, new)
                worst = np.maximum(worst, np.abs(sums(made, other, coupled) - known[key]))
    assert (worst <= STEPS).all()
    if kind == "replace-one":
        assert worst[0] > 0.999 * STEPS
    else:
        assert worst[0] > 0.2 * STEPS


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior.kind)
def test_a_person_who_keeps_their_name_and_changes_their_row_keeps_their_subset(prior: OpenPrior) -> None:
    made, worst = design("noise-aware", prior), 0
    for numbers in product(range(SUBSETS), repeat=len(TABLE)):
        rows = np.array([PEOPLE[name] for name in TABLE])
        base = made.answers_of(dealt(rows, np.array(numbers), SUBSETS))
        for values in ((1e9, 1e10), (0.0, 0.0), (math.inf, 0.0), (2.0**64, -(2.0**64))):
            changed = rows.copy()
            changed[-1] = np.clip(values, -(2.0**64), 2.0**64)
            moved = made.answers_of(dealt(changed, np.array(numbers), SUBSETS))
            worst = max(worst, int(np.abs(moved - base).max()))
    assert worst <= STEPS
    assert worst > 0.99 * STEPS


def test_without_the_coupling_a_kept_key_would_cost_twice() -> None:
    """One subset loses the falling row, another gains the steep one: both answers change, in one direction."""
    rising = [(0.0, 0.0), (1.0, 1.0), (2.0, 2.1), (3.0, 2.9)]
    sinking = [(x, -y) for x, y in rising]
    terms = ProbabilityTerms(
        schema=SCHEMA, queries=(ProbabilityQuery(coefficient="x", threshold=0.0),), subsets=2, rows=9, prior=PRIORS[0]
    )
    made = ProbabilityDesign(terms=terms, mechanism=_mechanism(terms, 1.0))
    numbers = [0] * 4 + [1] * 4
    before = dealt(np.array([*rising, *sinking, PEOPLE["falling"]]), np.array([*numbers, 0]), 2)
    kept = dealt(np.array([*rising, *sinking, PEOPLE["steep"]]), np.array([*numbers, 1]), 2)
    coupled = dealt(np.array([*rising, *sinking, PEOPLE["steep"]]), np.array([*numbers, 0]), 2)
    base = made.answers_of(before)[0]
    assert abs(made.answers_of(kept)[0] - base) > 1.9 * STEPS
    assert abs(made.answers_of(coupled)[0] - base) <= STEPS


def test_the_mixture_over_assignments_loses_at_most_epsilon() -> None:
    """The released law is a mixture of geometric laws; its likelihood ratio is largest at a sum or beyond them all."""
    epsilon, made = 1.0, design("noise-aware", PRIORS[0])
    other = tuple("steep" if name == "falling" else name for name in TABLE)
    few = [a for a in assignments() if a["f"] == a["twin"] == 0]
    pair = [np.array([sums(made, names, a)[0] for a in few], dtype=np.float64) for names in (TABLE, other)]
    scale = STEPS / epsilon
    places = np.unique(np.concatenate([*pair, [-1.0, SUBSETS * STEPS + 1.0]]))
    logs = [np.log(np.exp(-np.abs(places[:, None] - found) / scale).mean(axis=1)) for found in pair]
    loss = float(np.abs(logs[0] - logs[1]).max())
    assert loss <= epsilon
    assert loss > 0.1 * epsilon


def test_a_neighbour_replaces_one_value_of_every_exponential_mechanism() -> None:
    terms = QuantileTerms(
        schema=SCHEMA, coefficient="x", probabilities=(0.25, 0.5), outer=(-100.0, 100.0), subsets=SUBSETS, rows=6
    )
    plans = (
        QuantileDesign(
            terms=terms, mechanism=ExponentialMechanism(epsilon=1.0, values=SUBSETS, points=POINTS, shares=(1.0, 1.0))
        ),
        QuantileDesign(terms=terms, mechanism=CentreScaleMechanism(epsilon=1.0, values=SUBSETS)),
    )
    worst = 0
    other = tuple("steep" if name == "falling" else name for name in TABLE)
    for made in plans:
        for numbers in product(range(SUBSETS), repeat=len(TABLE)):
            found = [
                made.answers_of(dealt(np.array([PEOPLE[n] for n in names]), np.array(numbers), SUBSETS))
                for names in (TABLE, other)
            ]
            changed = (found[0] != found[1]).sum(axis=1)
            worst = max(worst, int(changed.max()))
    assert worst == 1


def estimated_loss(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    """A lower bound of the log ratio of two events' probabilities, wrong once in a million."""
    low = stats.beta.ppf(5e-7, first.sum(), len(first) - first.sum() + 1)
    high = stats.beta.ppf(1 - 5e-7, second.sum() + 1, len(second) - second.sum())
    return math.log(low / high)


@pytest.mark.slow
def test_the_loss_seen_from_outside_never_exceeds_the_charge_and_comes_near_it() -> None:
    noise, draws = OpenDPNoise(), 100_000
    scale = design("noise-aware", PRIORS[0]).mechanism.group_scales[0]
    seen = [noise.geometric(np.full(draws, total, dtype=np.int64), scale) for total in (0, STEPS)]
    loss = estimated_loss(seen[0] <= 0, seen[1] <= 0)
    assert 0.8 * 0.5 < loss <= 0.5  # each of two queries has half of epsilon

    tables = [np.array([[0, 0, POINTS - 1]]), np.array([[0, POINTS - 1, POINTS - 1]])]
    mechanism = ExponentialMechanism(epsilon=2.0, values=3, points=4, shares=(1.0,))
    small = [np.minimum(table, 3) for table in tables]
    drawn = [np.array([mechanism.release(noise, table)[0] for _ in range(20_000)]) for table in small]
    losses = [estimated_loss(drawn[0] == x, drawn[1] == x) for x in range(4)]
    assert 0.8 < max(losses) <= 2.0  # half of the charge pays for how the other points' weights change


@pytest.mark.slow
def test_centre_and_scale_seen_from_outside_lose_no_more_than_is_charged() -> None:
    noise, mechanism = OpenDPNoise(), CentreScaleMechanism(epsilon=1.5, values=201)
    spread = np.linspace(POINTS // 2 - 10**12, POINTS // 2 + 10**12, 201).astype(np.int64)
    tables = [np.stack([spread, np.full(201, CELLS // 2)]) for _ in range(2)]
    tables[1][0, 100:102] = [0, POINTS - 1]
    tables[0][0, 101] = POINTS - 1
    assert mechanism.with_mean
    drawn = [np.array([mechanism.release(noise, t) for _ in range(3000)]) for t in tables]
    for cut in (-UNIT, 0, UNIT):
        assert estimated_loss(drawn[0][:, 2] <= cut, drawn[1][:, 2] <= cut) <= 1.5
        assert estimated_loss(drawn[1][:, 2] <= cut, drawn[0][:, 2] <= cut) <= 1.5
    for quantile in (0.25, 0.5, 0.75):
        place = np.quantile(drawn[0][:, 0], quantile)
        assert estimated_loss(drawn[0][:, 0] <= place, drawn[1][:, 0] <= place) <= 1.5
