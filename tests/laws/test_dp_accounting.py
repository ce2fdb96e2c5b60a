"""A second opinion on every total: dp-accounting prices the same releases by its own formulas.

Its Renyi divergences are what zCDP must agree with and may not fall below; its privacy loss distributions come close
to the truth about a plan fixed in advance, which no statement may fall below either.
"""

import math
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbayes_core.errors import BudgetExceeded
from dpbayes_core.privacy.accounting import (
    UNITS,
    Cost,
    analytic_gaussian_scale,
    epsilon_of,
    exponential_cost,
    from_units,
    geometric_cost,
    pure_cost,
)
from dpbayes_core.privacy.mechanisms import LaplaceMechanism
from dpbayes_core.regression.moments import PRODUCT_BITS, regression_statistics
from storage.ledger.cap_document import CapState
from storage.ledger.caps import Scope, debits
from storage.ledger.exposure import NOTHING, Tally
from storage.ledger.ledger import Ledger
from tests.support.ledger_cases import (
    SCHEMA,
    SENSITIVITY,
    account,
    cap,
    commit,
    gaussian,
    laplace,
    new_ledger,
    request,
)

SAME = 1e-6
DELTA = 1e-6  # of the caps of tests.support.ledger_cases
NEARLY_ONE = 1 + 1e-7  # a divergence of order 1 is the mean of the privacy loss
VAST = 1e12  # and of this order the largest loss
ORDERS = 1 + np.geomspace(0.02, 1e5, 200)
FINE_ORDERS = 1 + np.geomspace(0.011, 1e6, 4000)
PERIODS = ("2026-01", "2026-02", "2026-03")
EXACT_KINDS = ("gaussian", "laplace", "pure")  # those of which zCDP's rho is the divergence of order 1
KINDS = (*EXACT_KINDS, "vector laplace", "geometric", "exponential")
CELL = 5e-4  # width of a privacy loss distribution's cells, rounded up


@dataclass(frozen=True)
class Made:
    """One release: what the ledger is told that it costs, and by what words dp-accounting knows it."""

    kind: str
    epsilon: float
    cost: Cost


@cache
def worst_moves() -> tuple[float, ...]:
    """How far each entry of a simple regression moves between the rows that attain its L1 sensitivity."""
    corner, middling = (
        {"age": np.array([age]), "wage": np.array([wage])} for age, wage in ((80.0, 5.0), (16 + 64 / 3, 5 / 3))
    )
    sums = (regression_statistics(SCHEMA, row).sums for row in (corner, middling))
    moves = tuple(abs(a - b) / 2.0**PRODUCT_BITS for a, b in zip(*sums, strict=True))
    assert SENSITIVITY.l1 * (1 - 1e-5) < sum(moves) <= SENSITIVITY.l1
    return moves


def single(epsilon: float) -> LaplaceMechanism:
    return LaplaceMechanism(epsilon=epsilon, sensitivity=2.0, sensitivity_l2=2.0, grid=20, entries=1)


def price(kind: str, epsilon: float) -> Cost:
    prices = {
        "gaussian": lambda: gaussian(epsilon, DELTA).cost(),
        "laplace": lambda: single(epsilon).cost(),
        "vector laplace": lambda: laplace(epsilon).cost(),
        "geometric": lambda: geometric_cost(2, 2 / epsilon, largest_move=1),  # one count falls, another grows
        "pure": lambda: pure_cost(epsilon),
        "exponential": lambda: exponential_cost(epsilon),
    }
    return prices[kind]()


def releases(count: int, seed: int, kinds: tuple[str, ...]) -> list[Made]:
    generator = np.random.default_rng(seed)
    losses = np.exp(generator.uniform(math.log(0.01), math.log(0.5), count)).round(4).tolist()
    order = (kinds[i % len(kinds)] for i in generator.permutation(count))
    return [Made(kind, loss, price(kind, loss)) for kind, loss in zip(order, losses, strict=True)]


def folded(made: list[Made]) -> dict[Scope, Tally]:
    """The ledger's own fold, over periods in turn."""
    spec = account(cap("8"))
    kept: dict[Scope, Tally] = {}

    def spent(scope: Scope) -> Tally:
        return kept.get(scope, NOTHING)

    for number, one in enumerate(made):
        found = debits(spec, PERIODS[number % len(PERIODS)], one.cost, spent)
        kept.update({debit.scope: debit.after for debit in found})
    return kept


def counted_in(scope: Scope, made: list[Made]) -> list[Made]:
    return [one for number, one in enumerate(made) if scope.period in (None, PERIODS[number % len(PERIODS)])]


def statement(tally: Tally) -> float:
    """The epsilon that the ledger states of what was spent, at delta."""
    found = CapState(cap("1e-6"), None, tally).epsilon_at_delta  # a cap too small to say that it still holds
    assert found is not None
    return found


# --- the peer: Renyi divergences ------------------------------------------------------------------------------------


def event(one: Made) -> Any:
    import dp_accounting as peer

    if one.kind == "gaussian":
        noise = gaussian(one.epsilon, DELTA)
        return peer.GaussianDpEvent(noise.scale / noise.sensitivity)
    if one.kind == "laplace":
        return peer.LaplaceDpEvent(single(one.epsilon).scale / single(one.epsilon).sensitivity)
    if one.kind == "vector laplace":
        scale = laplace(one.epsilon).scale
        return peer.ComposedDpEvent([peer.LaplaceDpEvent(scale / move) for move in worst_moves()])
    assert one.kind == "pure"
    return peer.RandomizedResponseDpEvent(2 / (1 + math.exp(one.epsilon)), 2)


def accountant(events: list[Any], orders: Any) -> Any:
    from dp_accounting import NeighboringRelation
    from dp_accounting.rdp import RdpAccountant

    made = RdpAccountant(list(orders), NeighboringRelation.REPLACE_ONE)
    for each in events:
        made.compose(each)
    return made


def divergence(events: list[Any], order: float) -> float:
    """The divergence of one order, read back from what dp-accounting converts it to."""
    if order < 1.01:
        return -math.log1p(-(accountant(events, [order]).get_delta(0.0) ** 2))
    epsilon = accountant(events, [order]).get_epsilon(1e-300)
    return epsilon - math.log1p(-1 / order) + (math.log(order) - 300 * math.log(10)) / (order - 1)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """dp-accounting's conversion of zCDP, with orders ever closer to the best one."""
    from dp_accounting import ZCDpEvent

    orders, epsilon = FINE_ORDERS, math.inf
    for _ in range(2):
        epsilon, best = accountant([ZCDpEvent(rho)], orders).get_epsilon_and_optimal_order(delta)
        place = int(np.argmin(np.abs(orders - best)))
        orders = np.linspace(orders[max(place - 1, 0)], orders[min(place + 1, len(orders) - 1)], 1000)
    return float(epsilon)


@pytest.mark.parametrize("seed", [1, 2])
def test_totals_of_a_hundred_releases_are_those_of_dp_accounting(seed: int) -> None:
    made = releases(100, seed, EXACT_KINDS)
    tallies = folded(made)
    assert len(tallies) == 1 + len(PERIODS)
    for scope, tally in tallies.items():
        members = counted_in(scope, made)
        rho = tally.rho / UNITS
        assert rho == pytest.approx(divergence([event(one) for one in members], NEARLY_ONE) / NEARLY_ONE, abs=SAME)
        pure = folded([one for one in members if one.kind != "gaussian"])
        lifetime = next(total for where, total in pure.items() if where.window == "lifetime")
        losses = [event(one) for one in members if one.kind != "gaussian"]
        assert (lifetime.epsilon or 0) / UNITS == pytest.approx(divergence(losses, VAST), abs=SAME)
        assert tally.epsilon is None


@pytest.mark.parametrize("seed", [1, 2])
def test_no_order_has_a_divergence_above_the_total(seed: int) -> None:
    made = releases(100, seed, (*EXACT_KINDS, "vector laplace"))
    rho = next(tally.rho for scope, tally in folded(made).items() if scope.window == "lifetime") / UNITS
    events = [event(one) for one in made]
    shares = [divergence(events, order) / (order * rho) for order in ORDERS]
    assert max(shares) <= 1 + 1e-9
    assert max(shares) > 0.85  # what the vectors' worst neighbours in L1 leave of their bound in L2


@pytest.mark.parametrize("seed", range(4))
def test_the_statement_in_epsilon_and_delta_is_that_of_dp_accounting(seed: int) -> None:
    for scope, tally in folded(releases(100, seed, KINDS)).items():
        rho = float(from_units(tally.rho))
        assert statement(tally) == pytest.approx(zcdp_epsilon(rho, DELTA), abs=SAME), scope
        for delta in (1e-3, 1e-9):
            assert epsilon_of(rho, delta) == pytest.approx(zcdp_epsilon(rho, delta), abs=SAME)


@pytest.mark.parametrize("rho", [1e-6, 1e-4, 0.0243559, 0.5, 3.0, 40.0])
def test_both_find_the_same_best_order_from_tiny_to_huge_losses(rho: float) -> None:
    for delta in (1e-2, 1e-6, 1e-12):
        theirs = zcdp_epsilon(rho, delta)
        if theirs > 0:  # a loss below what a divergence of order 1 says of delta is nothing to dp-accounting
            assert epsilon_of(rho, delta) == pytest.approx(theirs, rel=SAME, abs=SAME)


def test_a_pure_total_is_stated_where_it_is_the_better_one() -> None:
    made = releases(3, 5, ("laplace", "pure"))
    lifetime = next(iter(folded(made).values()))
    assert statement(lifetime) == pytest.approx(sum(one.epsilon for one in made), abs=SAME)
    assert statement(lifetime) < zcdp_epsilon(lifetime.rho / UNITS, DELTA)


# --- the peer: the truth --------------------------------------------------------------------------------------------


def loss_distribution(one: Made) -> Any:
    """The privacy loss of the worst neighbours, rounded up."""
    from dp_accounting.pld import privacy_loss_distribution as peer

    cells: dict[str, Any] = {"value_discretization_interval": CELL}
    smooth = cells | {"use_connect_dots": True}
    if one.kind == "gaussian":
        noise = gaussian(one.epsilon, DELTA)
        return peer.from_gaussian_mechanism(noise.scale / noise.sensitivity, **smooth)
    if one.kind == "laplace":
        return peer.from_laplace_mechanism(single(one.epsilon).scale / single(one.epsilon).sensitivity, **smooth)
    if one.kind == "vector laplace":
        scale = laplace(one.epsilon).scale
        return composed([peer.from_laplace_mechanism(scale / move, **smooth) for move in worst_moves()])
    if one.kind == "geometric":
        return peer.from_discrete_laplace_mechanism(one.epsilon / 2, 1, **smooth).self_compose(2)
    if one.kind == "pure":
        return peer.from_randomized_response(2 / (1 + math.exp(one.epsilon)), 2, **cells)
    up = one.epsilon / 2  # two outcomes whose log ratios lie epsilon apart: the worst of bounded range
    likely = math.expm1(one.epsilon - up) / math.expm1(one.epsilon)
    without = {"up": math.log(likely), "down": math.log1p(-likely)}
    with_row = {"up": without["up"] + up, "down": without["down"] + up - one.epsilon}
    return peer.from_two_probability_mass_functions(without, with_row, **cells)


def composed(distributions: list[Any]) -> Any:
    first, *rest = distributions
    for each in rest:
        first = first.compose(each)
    return first


@pytest.mark.parametrize("seed", [1, 2])
def test_no_statement_is_smaller_than_the_truth_and_half_the_charge_would_be(seed: int) -> None:
    made = releases(100, seed, KINDS)
    spent, truth, caught = NOTHING, None, False
    for number, one in enumerate(made, start=1):
        own = loss_distribution(one)
        spent, truth = spent.plus(one.cost), own if truth is None else truth.compose(own)
        if number in (1, 2, 5, 10, 20, 50, 100):
            epsilon = truth.get_epsilon_for_delta(DELTA)
            assert epsilon <= statement(spent) + number * CELL
            halved = replace(spent, everyone=replace(spent.everyone, epsilon=None, rho=spent.rho // 2))
            caught = statement(halved) < epsilon
    assert caught


def test_the_worst_pair_of_bounded_range_is_a_pair_of_laws() -> None:
    one = Made("exponential", 0.4, price("exponential", 0.4))
    assert loss_distribution(one).get_delta_for_epsilon(0.4) == 0
    assert loss_distribution(one).get_delta_for_epsilon(0.0) == pytest.approx(math.tanh(0.1), abs=CELL)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (1.0, 1e-5), (0.1, 1e-5), (8.0, 1e-9)])
def test_the_analytic_scale_is_that_of_dp_accounting(epsilon: float, delta: float) -> None:
    from dp_accounting import get_sigma_gaussian

    assert analytic_gaussian_scale(1, epsilon, delta) == pytest.approx(get_sigma_gaussian(epsilon, delta), rel=1e-9)


# --- a real ledger, charge by charge --------------------------------------------------------------------------------


def peer_admits(asked: list[Any]) -> bool:
    """Whether releases fit a cap of (1, 1e-6) by either total, as dp-accounting sees it."""
    from dp_accounting import GaussianDpEvent, ZCDpEvent

    if all(one.name == "laplace" for one in asked) and sum(one.epsilon for one in asked) <= 1 + 1e-12:
        return True
    events: list[Any] = []
    for one in asked:
        if one.name == "gaussian":
            events.append(GaussianDpEvent(one.scale / one.sensitivity))
        else:
            moved, moved_l2 = one.sensitivity / one.scale, one.sensitivity_l2 / one.scale
            events.append(ZCDpEvent(min(moved + math.expm1(-moved), moved_l2**2 / 2)))
    spent = accountant(events, 1 + np.geomspace(1, 1e3, 1000)).get_epsilon(DELTA)
    assert abs(spent - 1) > 1e-5, "this sequence ends on the cap itself: it decides nothing"
    return bool(spent < 1)


def charged(ledger: Ledger, population: str, asked: list[Any]) -> tuple[list[bool], list[str]]:
    """Which releases the ledger admitted, and what it said to the others."""
    spec, admitted, words = account(cap("1"), population=population), list[bool](), list[str]()
    for number, mechanism in enumerate(asked):
        try:
            commit(ledger, request(spec, study=population, release=f"release-{number}"), mechanism)
            admitted.append(True)
        except BudgetExceeded as refused:
            admitted.append(False)
            words.append(str(refused))
    return admitted, words


@pytest.mark.parametrize("seed", range(3))
def test_a_cap_admits_whatever_mix_dp_accounting_admits(tmp_path: Path, seed: int) -> None:
    generator = np.random.default_rng(seed)
    kinds = [(laplace,), (gaussian,), (laplace, gaussian)][seed % 3]
    asked = [kinds[generator.integers(len(kinds))](float(loss)) for loss in generator.uniform(0.02, 0.4, 20).round(3)]
    with new_ledger(tmp_path) as ledger:
        admitted, words = charged(ledger, "employees", asked)
    spent: list[Any] = []
    for mechanism, fits in zip(asked, admitted, strict=True):
        assert peer_admits([*spent, mechanism]) is fits
        spent += [mechanism] if fits else []
    assert 2 < sum(admitted) < len(asked)
    start = "cannot charge release-"
    assert all(
        word.startswith(start) and "the lifetime cap of employees (epsilon 1 at delta 1e-6)" in word for word in words
    )
    assert all(" remains. " in word and ("Ask for epsilon 0." in word or "Nothing more fits" in word) for word in words)


ONE_TENTH = "asks epsilon 0.1 (rho 0.001407)"


@pytest.mark.parametrize(
    ("fitting", "next_one", "reason"),
    [
        ([(gaussian, 1.0)], (gaussian, 0.01), "(epsilon 0.01 at delta 1e-6) and nothing remains. Nothing more fits"),
        ([(laplace, 0.5)] * 2, (laplace, 0.1), f"{ONE_TENTH} and nothing remains. Nothing more fits"),
        (
            [(laplace, 0.1)] * 17,
            (laplace, 0.1),
            f"{ONE_TENTH} and rho 4.497e-4 (epsilon 0.1196 at delta 1e-6) remains. Ask for",
        ),
        ([(gaussian, 0.5), (laplace, 0.1), (gaussian, 0.7)], (laplace, 0.2), "(rho 0.005625) and rho 0.003815"),
    ],
    ids=["one gaussian", "two pure halves", "seventeen tenths by rho", "a mix"],
)
def test_a_cap_of_one_takes_what_either_total_allows_and_says_why_no_more(
    tmp_path: Path, fitting: list[tuple[Any, float]], next_one: tuple[Any, float], reason: str
) -> None:
    with new_ledger(tmp_path) as ledger:
        admitted, words = charged(ledger, "employees", [make(loss) for make, loss in [*fitting, next_one]])
    assert admitted == [True] * len(fitting) + [False]
    assert reason in words[0]
