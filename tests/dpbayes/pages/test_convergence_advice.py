"""What a person is told who has chains that did not converge: what is true of them, and what helps."""

from typing import Any

import pytest

from dpbayes.markup.convergence_advice import (
    BROKEN,
    DISAGREE,
    FEW,
    FIRMER,
    LONGER,
    OTHER_PRIOR,
    advice,
    agree,
    why_words,
)

GOOD = {"rhat": 1.0, "ess_bulk": 900.0, "ess_tail": 900.0}


def record(divergences: int = 0, latent: dict[str, Any] | None = None, **worst: float | None) -> dict[str, Any]:
    gate = {"divergent": 0.001, "ess": 400.0, "rhat": 1.01}
    drawn = {"chains": 4, "draws": 1000, "divergences": divergences, "gate": gate, "latent": latent}
    return {"status": "not-converged", "why": "why", "coefficients": [GOOD, {**GOOD, **worst}], "diagnostics": drawn}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (record(rhat=1.02), (DISAGREE, LONGER)),
        (record(rhat=1.02, ess_bulk=100.0), (DISAGREE, LONGER)),
        (record(rhat=None), (DISAGREE, LONGER)),
        (record(latent={**GOOD, "rhat": 1.02}), (DISAGREE, LONGER)),
        (record(ess_tail=399.0), (FEW, LONGER)),
        (record(divergences=5), (BROKEN, FIRMER)),
        (record(divergences=5, ess_bulk=100.0), (FEW, BROKEN, LONGER, FIRMER)),
        (record(divergences=5, rhat=1.02), (DISAGREE, BROKEN, LONGER, FIRMER)),
        (record(rhat=1.6), (DISAGREE, LONGER, OTHER_PRIOR)),
        (record(divergences=4), (LONGER,)),
    ],
)
def test_every_way_of_not_converging_has_its_own_advice(found: dict[str, Any], said: tuple[str, ...]) -> None:
    assert advice(found) == " ".join(said)
    assert agree(found) == (DISAGREE not in said)


def test_chains_that_converged_need_none() -> None:
    assert advice({**record(rhat=1.02), "status": "converged"}) == ""


def test_a_reason_ends_with_one_full_stop() -> None:
    assert [why_words({"why": why}) for why in ("it is", "it is.", "")] == ["it is.", "it is.", ""]
