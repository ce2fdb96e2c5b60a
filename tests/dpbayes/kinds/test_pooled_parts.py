"""How several releases are read: as the request says, and of earlier records as every version then read them."""

from typing import Any

import pytest

from dpbayes.audit.parts import superseded_alone
from dpbayes.crates.analysis_request import AnalysisRequest
from dpbayes.kinds.regression.pooled_parts import check_words, law_of, planned_words, superseded
from dpbayes_core.regression import pool
from tests.support.regressions import REGION, SEX, schema_of

PLAIN: dict[str, Any] = {"study": "s", "period": "p", "analysis": "a", "prior": {}, "chains": 2, "draws": 10, "seed": 1}
FOUND: dict[str, Any] = {"alarm": False, "columns": ["age"], "means": 5, "probability": 0.4}


def old(sampler: str = "collapsed", *, releases: int = 3, names: tuple[str, ...] = ("age", "sex[m]")) -> dict[str, Any]:
    """A record of a version before there was a choice."""
    return {
        "coefficients": [{"name": name} for name in ("(intercept)", *names, "sigma")],
        "releases": [{}] * releases,
        "sampler": {"name": sampler},
    }


def test_a_request_before_there_was_a_choice_is_as_it_was() -> None:
    alike, differ = (AnalysisRequest(**PLAIN, sampler="collapsed", parts=parts) for parts in (None, "differ"))
    assert "parts" not in alike.to_record()
    assert differ.to_record() == {**alike.to_record(), "parts": "differ"}
    assert (alike.alike, differ.alike) == (True, False)
    assert (alike.law(numbers=True), differ.law(numbers=True)) == ("alike", "differ")
    with pytest.raises(ValueError, match="taken as no version takes them"):
        AnalysisRequest(**{**PLAIN, "sampler": "collapsed", "parts": "otherwise"})


def test_what_is_drawn_otherwise_today_is_superseded_and_nothing_else() -> None:
    assert superseded(old()) is not None
    others = [
        old(releases=1),
        old("naive"),
        old("normal-x"),
        old(names=("sex[m]", "region[s]")),  # levels had shares of their own in every part
        old() | {"parts": {"law": "alike", "declared": True}},
        old() | {"parts": {"law": "differ", "declared": False}},
    ]
    assert [superseded(other) for other in others] == [None] * len(others)
    assert superseded(old() | {"parts": {"law": "alike", "declared": False}}) is not None


def test_nothing_is_superseded_where_nothing_is_drawn_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "ALLOW_DIFFERENT_PARTS", frozenset())
    assert superseded(old()) is None


def test_rubbish_is_not_superseded() -> None:
    for data in (b"[]", b"{}", b"\xff", b"[" * 9999, b'{"releases": 3, "sampler": []}'):
        assert superseded_alone({"posterior.json": data}, "x") == ()


def test_a_plan_says_how_several_releases_will_be_read() -> None:
    numbers, levels = schema_of("x", SEX), schema_of(SEX, REGION)
    assert planned_words("auto", numbers, alike=False).endswith("may differ")
    assert planned_words("auto", numbers, alike=True).endswith("dealt out to them at random (alike: true)")
    assert planned_words("normal-x", numbers, alike=False).endswith("as if people dealt out to them at random")
    assert planned_words("auto", levels, alike=False) == planned_words("naive", numbers, alike=True)
    assert law_of(old("fixed-s")) == ("none", False)


def test_the_check_names_what_differs_most() -> None:
    assert "in the mean of age, the largest of 5, with a probability of at most 0.4." in check_words(FOUND)
    assert "in the mean square of age" in check_words(FOUND | {"columns": ["age", "age"]})
    alarm = check_words(FOUND | {"columns": ["age", "pay"], "alarm": True, "probability": 0.0})
    assert alarm.startswith(
        "The releases contradict that people were dealt out at random: then they would differ at least"
    )
    assert "in the mean product of age and pay, the largest of 5, with a probability of at most 10⁻³⁰⁰" in alarm
    assert "the only one" in check_words(FOUND | {"means": 1})


def test_no_other_law_is_promised_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for heeding, said in ((frozenset({"collapsed"}), True), (frozenset[str](), False)):
        monkeypatch.setattr(pool, "ALLOW_DIFFERENT_PARTS", heeding)
        assert ("may differ" in check_words(FOUND | {"alarm": True})) == said
        assert ("may differ" in planned_words("auto", schema_of("x"), alike=False)) == said
