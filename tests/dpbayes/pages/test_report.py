"""The report says what the crate says, escapes every string, and loads nothing."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbayes.crates.posterior import posterior_record
from dpbayes.crates.release import release_record
from dpbayes.markup.convergence_advice import BROKEN, DISAGREE, FIRMER, LONGER
from dpbayes.markup.numbers import decimals_for, fixed, listed, short, tick_labels, ticks
from dpbayes.markup.svg import short_number, short_numbers
from dpbayes.pages.report.plots import ForestRow, Interval, axis_for, forest_row, ranks, trace
from dpbayes.pages.report.render import render
from dpbayes_core.arrays import Floats
from dpbayes_core.regression.prior import Prior
from tests.dpbayes.crates.crate_examples import STAMP, analysis, drawn, of, posterior_draws, small_entry

Draws = dict[str, Floats]
FINGERPRINT = "SHA256:" + "0a" * 32


@pytest.fixture(scope="module")
def entry(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return small_entry(tmp_path_factory.mktemp("ledger"))


def report(entry: dict[str, Any], draws: Draws | None = None, *, naive: Draws | None = None, **others: Any) -> str:
    asked = analysis(prior=others.pop("prior", Prior()).to_record())
    release = of(entry).evidence.digest
    posterior = drawn(draws or posterior_draws(), release, **others)
    beside = None if naive is None else drawn(naive, release, sampler="naive", latent={})
    record = posterior_record(asked, posterior, beside, of(entry))
    return render([release_record(entry)], record, posterior.draws, fingerprint=FINGERPRINT, software=STAMP.software)


class Seen(HTMLParser):
    """Tags with their attributes, and the text outside style."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._style = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._style = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._style = False

    def handle_data(self, data: str) -> None:
        self.text += "" if self._style else data


def words(page: str) -> str:
    return re.sub(r"\s+", " ", Seen(page).text)


def test_the_page_says_what_was_asked_spent_and_found(entry: dict[str, Any]) -> None:
    page = words(report(entry, naive=posterior_draws(2)))
    for said in (
        "log_wage by age, tenure, female and region",
        "among the employees of 2026-01",
        "ρ = 0.006642",
        "ε = 0.5 at δ = 10⁻⁶",
        "n = 50,000 people (one row of each)",
        "People50,000 one row of each; public under replace-one",
        "16 to 80",
        "region[south], region[east] and region[west], against north",
        "noise-aware",
        "naive",
        "R-hat",
        "dpbayes audit --crate posteriors/wages/2026-01/wage-posterior-",
        FINGERPRINT,
        entry["payload"]["digest"],
        entry["hash"],
        "Exact for normal covariates.",
    ):
        assert said in page, said


def test_the_table_shows_the_summary_to_two_digits_of_its_sd(entry: dict[str, Any]) -> None:
    values = posterior_draws()["female[yes]"]
    page = words(report(entry))
    assert f"{values.mean():.4f}".replace("-", "−") in page
    assert f"{values.std(ddof=1):.4f}" in page


def test_a_posterior_that_did_not_converge_says_so_first(entry: dict[str, Any]) -> None:
    page = words(report(entry, posterior_draws(drift=1.0)))
    assert page.index("Not converged: do not use these numbers yet") < page.index("log_wage by age")
    assert re.search(r"R-hat of \S+ is 1\.\d+, above 1\.01", page)
    assert "Do not publish these numbers." in page
    assert f"{DISAGREE} {LONGER}" in page


def test_divergences_alone_are_not_told_as_chains_that_disagree(entry: dict[str, Any]) -> None:
    page = words(report(entry, divergences=100))
    assert "Not converged: do not use these numbers yet" in page
    assert f"2.5% of the draws are divergent, above 0.1%. {BROKEN} {FIRMER}" in page
    assert "They do, but that is not enough. 2.5% of the draws" in page
    assert DISAGREE not in page
    assert LONGER not in page


def test_a_prior_that_the_release_contradicts_is_told_beside_the_title_too(entry: dict[str, Any]) -> None:
    page = words(report(entry, prior=Prior(named=(("age", 3.0, 0.05),))))
    said = "Prior and release disagree on age"
    assert page.count(said) == 2
    assert page.index("The prior and the release disagree") < page.index(said) < page.index("Privacy cost")
    assert page.rindex(said) > page.index("What to keep in mind")
    assert "The prior and the release disagree" not in words(report(entry))


def test_what_the_prior_decides_is_told_first_and_as_dependence(entry: dict[str, Any]) -> None:
    age, sigma = (posterior_draws()[name] for name in ("age", "sigma"))
    known = {"age": {"mean": float(age.mean()), "sd": 1.2 * float(age.std())}}
    noise = {"sd": float(sigma.mean())}
    firm = Prior.from_user({"named": known, "noise": noise}, of(entry).evidence.schema)
    page = words(report(entry, prior=firm))
    said = "The prior says more than the release about age: without it "
    assert page.count(said) == 2
    assert page.index("These numbers depend on the prior") < page.index(said) < page.index("Privacy cost")
    assert "it leaves 83% of the prior’s standard deviation" in page
    plain = words(report(entry))
    assert "These numbers depend on the prior" not in plain
    assert plain.index("The prior decides none of these numbers") > plain.index("What to keep in mind")


def test_a_converged_one_does_not_cry_wolf(entry: dict[str, Any]) -> None:
    assert "do not use" not in words(report(entry)).lower()


def test_a_sampler_that_is_not_calibrated_does_not_promise_honest_intervals(entry: dict[str, Any]) -> None:
    page = words(report(entry, sampler="naive", calibrated=False))
    assert "not calibrated" in page
    assert "account for the privacy noise as well" not in page
    assert "noise-aware" not in page


def test_without_a_naive_posterior_there_is_one_series(entry: dict[str, Any]) -> None:
    assert "naive" not in words(report(entry)).lower()


def test_every_cap_shows_before_after_and_what_remains(entry: dict[str, Any]) -> None:
    page = words(report(entry))
    assert re.search(r"lifetime ?all periods, ε at δ 10⁻⁶8 ?0 ?0\.5 ?7\.97", page), page
    assert re.search(r"per-period ?period 2026-01, ε at δ 10⁻⁶1 ?0 ?0\.5 ?0\.84", page)


def test_a_laplace_release_is_priced_in_pure_epsilon(tmp_path: Path) -> None:
    page = words(report(small_entry(tmp_path, "laplace")))
    assert "ε = 0.5 of pure differential privacy" in page
    assert "Laplace noise" in page


def test_the_price_in_precision_is_the_ratio_to_the_naive_spread(entry: dict[str, Any]) -> None:
    draws = posterior_draws()
    naive = {name: values.mean() + (values - values.mean()) / 3 for name, values in draws.items()}
    naive["age"] = draws["age"].mean() + (draws["age"] - draws["age"].mean()) / 12
    assert "intervals roughly 3.0 to 12× as wide" in words(report(entry, draws, naive=naive))
    assert "3.0 to 12× roughly, of that with exact statistics" in words(report(entry, draws, naive=naive))
    assert "Noise on a mean" in words(report(entry, draws))


def test_a_ratio_that_is_only_bounded_is_not_called_rough(entry: dict[str, Any]) -> None:
    draws = posterior_draws()
    naive = {name: values.mean() + (values - values.mean()) / 18.5 for name, values in draws.items()}
    naive["age"] = draws["age"].mean() + (draws["age"] - draws["age"].mean()) / 200
    page = words(report(entry, draws, naive=naive))
    assert "it makes the intervals more than 18× as wide as if" in page
    assert "more than 18× of that with exact statistics" in page


def test_an_empty_table_still_has_a_report(tmp_path: Path) -> None:
    entry = small_entry(tmp_path)
    statistics = json.loads(entry["release"])
    statistics["noisy"]["rows"] = 0
    entry["release"] = json.dumps(statistics)
    assert "noise alone" in words(report(entry))


def test_strings_of_a_study_are_escaped_everywhere(entry: dict[str, Any]) -> None:
    evil = "<script>alert('x')</script>\"&{{ 7*7 }}"
    hostile = json.loads(json.dumps(entry))
    statistics = json.loads(hostile["release"])
    statistics["schema"]["covariates"][0]["name"] = evil
    statistics["schema"]["covariates"][3]["levels"][1] = evil
    hostile["release"] = json.dumps(statistics)
    hostile["payload"]["account"] = hostile["payload"]["noise"] = evil
    draws = posterior_draws(drift=1.0)
    draws[evil] = draws.pop("age")
    draws[f"region[{evil}]"] = draws.pop("region[south]")
    page = report(hostile, draws, naive=draws, caveat=evil, sampler=evil, target=evil)
    tags = {tag for tag, _ in Seen(page).tags}
    assert "script" not in tags
    assert not re.search(r"<script|alert\('x'\)", page)
    assert "49" not in re.findall(r"\b49\b", words(page).replace("0.49", ""))
    assert evil in Seen(page).text


def test_nothing_is_loaded_and_nothing_can_be(entry: dict[str, Any]) -> None:
    page = report(entry, naive=posterior_draws(2))
    seen = Seen(page)
    policy = next(a["content"] for tag, a in seen.tags if tag == "meta" and "http-equiv" in a)
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    assert not {"script", "iframe", "img", "object", "embed", "form", "base"} & {tag for tag, _ in seen.tags}
    for tag, attributes in seen.tags:
        assert not any(name.startswith("on") or name in ("src", "style") for name in attributes), tag
        assert tag != "link" or attributes["href"] == "data:,"
    assert not re.search(r"https?:|url\(|@import", page)


def test_plots_and_tables_are_accessible(entry: dict[str, Any]) -> None:
    page = report(entry, naive=posterior_draws(2))
    seen = Seen(page)
    identifiers = [a["id"] for _, a in seen.tags if "id" in a]
    assert len(set(identifiers)) == len(identifiers)
    pictures = [a for tag, a in seen.tags if tag == "svg" and a.get("role") == "img"]
    assert len(pictures) == 8 + 2 * 8 + 2
    for attributes in pictures:
        assert all(each in identifiers for each in (attributes["aria-labelledby"] or "").split())
    assert all("scope" in a for tag, a in seen.tags if tag == "th")
    assert sum(tag == "table" for tag, _ in seen.tags) == sum(tag == "caption" for tag, _ in seen.tags)


def test_the_same_crate_gives_the_same_page(entry: dict[str, Any]) -> None:
    assert report(entry) == report(entry)


def test_truth_is_never_mentioned(entry: dict[str, Any]) -> None:
    assert not re.search(r"\b(truth|true|simulated)\b", words(report(entry)).lower())


@pytest.mark.parametrize(
    ("value", "decimals", "said"),
    [(-0.1234, 3, "−0.123"), (-0.0001, 2, "0.00"), (12345.6, 0, "12,346"), (float("nan"), 2, "–"), (None, 2, "–")],
)
def test_fixed_numbers(value: float | None, decimals: int, said: str) -> None:
    assert fixed(value, decimals) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(1e-6, "10⁻⁶"), (2.5e-7, "2.5 × 10⁻⁷"), (0.006641523, "0.006642"), (8, "8"), (52063.0, "52,063"), (-0.5, "−0.5")],
)
def test_short_numbers(value: float, said: str) -> None:
    assert short(value) == said


def test_lengths_that_are_looked_up_are_those_that_are_written_one_by_one() -> None:
    generator = np.random.default_rng(7)
    exact = np.array([0.0, -0.0, 0.005, 0.015, 2.675, 99.995, 100.0, 0.125])
    for values in (generator.uniform(0, 100, 5000), exact, 3 * generator.standard_normal(100), np.array([np.nan, 1.0])):
        assert short_numbers(values) == [short_number(each) for each in values.tolist()]


def test_decimals_show_two_digits_of_the_uncertainty() -> None:
    assert [decimals_for(sd) for sd in (0.0123, 0.5, 3.0, 250.0, 0.0)] == [3, 2, 1, 0, 4]
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed([]) == ""


def test_ticks_are_round_few_and_inside() -> None:
    generator = np.random.default_rng(5)
    for _ in range(500):
        low = generator.normal() * 10.0 ** generator.integers(-6, 6)
        high = low + abs(generator.normal()) * 10.0 ** generator.integers(-6, 6) + 1e-9
        found = ticks(low, high)
        assert 1 <= len(found) <= 5
        assert all(low - 1e-12 <= t <= high + 1e-12 for t in found), (low, high, found)
        assert len(set(tick_labels(found))) == len(found), (low, high, found)


def test_an_axis_shows_zero_only_where_it_does_not_crush_the_interval() -> None:
    near = ForestRow("near", Interval(1.0, 0.8, 1.2), None, "")
    far = ForestRow("far", Interval(9.0, 8.8, 9.2), None, "")
    negative = ForestRow("negative", Interval(-9.0, -9.2, -8.8), None, "")
    assert axis_for([near], zero=True).zero == "inside"
    assert axis_for([far], zero=True).zero == "left"
    assert axis_for([negative], zero=True).zero == "right"
    assert axis_for([far], zero=False).zero == "none"


def test_a_naive_interval_far_away_is_pointed_at() -> None:
    row = ForestRow("age", Interval(1.0, 0.9, 1.1), Interval(50.0, 49.0, 51.0), "words")
    axis = axis_for([row], zero=True)
    assert axis.place(1.1) - axis.place(0.9) > 10, "the noise-aware interval keeps its width"
    assert "off this axis" in forest_row(row, axis, number=0, labels=True)


def test_chains_that_disagree_look_it() -> None:
    level = [line.split(",") for line in re.findall(r"[\d.]+,[\d.]+", ranks("a", posterior_draws()["age"], number=0))]
    apart = [
        line.split(",")
        for line in re.findall(r"[\d.]+,[\d.]+", ranks("a", posterior_draws(drift=2.0)["age"], number=0))
    ]
    assert np.ptp([float(y) for _, y in level]) < 40 < np.ptp([float(y) for _, y in apart])


def test_many_parameters_and_chains_keep_the_page_small(entry: dict[str, Any]) -> None:
    draws = posterior_draws(chains=12, count=300)
    draws |= {f"age[{k}]": draws["age"] for k in range(40)}
    page = report(entry, draws, latent={})
    assert "the 24 parameters with the largest R-hat" in words(page)
    assert "the first 8 chains" in words(page)
    assert len(page) < 1_000_000


def test_plots_of_constant_or_few_draws_stay_finite() -> None:
    for draws in (np.zeros((2, 4)), np.full((1, 1), 3.0), np.arange(6.0).reshape(2, 3)):
        for picture in (trace("x", draws, number=0), ranks("x", draws, number=0)):
            assert "nan" not in picture
            assert "inf" not in picture
