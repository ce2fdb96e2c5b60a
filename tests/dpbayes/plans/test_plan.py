"""Plans: what they foresee is what the ledger then does, and looking costs nothing."""

import json
import shutil
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dpbayes.plans.document import runs
from dpbayes.plans.plan import period_to_plan
from dpbayes_core.errors import IntegrityFailure, RequestChanged, StudyInvalid
from dpbayes_core.privacy.accounting import analytic_gaussian_epsilon
from storage.ledger.cap_document import CapState, cap_document
from storage.ledger.ledger import Ledger
from storage.ledger.reading import AccountSnapshot
from tests.dpbayes.plans.plan_cases import Bureau, regression
from tests.support.ledger_cases import STAMP

LIFETIME = "{lifetime: {epsilon: 1.2}}"
MONTHS = [f"2026-{month:02d}" for month in range(1, 13)] + ["2027-01"]

SITUATIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "gaussian under one cap": (LIFETIME, (regression("epsilon: 0.5"),)),
    "gaussian that fills its cap": ("{lifetime: {epsilon: 1}}", (regression("epsilon: 1"),)),
    "gaussian of a rho": ("{lifetime: {rho: 0.05}, per-period: {epsilon: 1}}", (regression("rho: 0.01"),)),
    "laplace under a pure cap": ("{lifetime: {pure-epsilon: 2}}", (regression("epsilon: 0.3", "laplace"),)),
    "laplace by either route": (LIFETIME, (regression("epsilon: 0.2", "laplace"),)),
    "two releases in turn": (LIFETIME, (regression("epsilon: 0.2"), regression("epsilon: 0.2", "laplace"))),
    "a second release that never fits": (
        "{lifetime: {pure-epsilon: 3}, per-period: {epsilon: 1}}",
        (regression("epsilon: 0.4", "laplace"), regression("epsilon: 0.7", "laplace")),
    ),
    "three caps": (
        "{lifetime: {epsilon: 2}, per-period: {epsilon: 1}, programme: {name: all, rho: 0.04}}",
        (regression("epsilon: 0.5"),),
    ),
    "nothing fits": ("{lifetime: {epsilon: 8}, per-period: {epsilon: 0.1}}", (regression("epsilon: 0.5"),)),
    "everything fits": ("{lifetime: {epsilon: 100}}", (regression("epsilon: 0.5"),)),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_year_goes_as_charging_the_real_ledger_goes(tmp_path: Path, situation: str) -> None:
    bureau = Bureau.of(tmp_path, *flat(situation))
    foreseen = bureau.plan().year
    assert [one.period.name for one in foreseen] == MONTHS
    with bureau.ledger() as ledger:
        for one in foreseen:
            refused = bureau.run_with(ledger, one.period.name)
            assert (refused, one.status) == ((one.release, "refused") if refused else (None, "fits")), one.period.name
            assert bureau.totals(ledger, one.period.name) == {state.cap.name: state.spent for state in one.after}


def test_the_situations_are_refused_at_once_later_and_never(tmp_path: Path) -> None:
    firsts = set[int | None]()
    for budget, releases in SITUATIONS.values():
        statuses = [one.status for one in Bureau(tmp_path, budget, releases).plan().year]
        firsts.add(statuses.index("refused") if "refused" in statuses else None)
    assert {0, None} < firsts
    assert len(firsts) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("situation", SITUATIONS)
def test_each_release_fits_and_leaves_what_charging_it_then_does(tmp_path: Path, situation: str) -> None:
    bureau = Bureau.of(tmp_path, *flat(situation))
    bureau.run(*MONTHS[:2])
    period = MONTHS[2]
    document = bureau.document(period)
    with bureau.ledger() as ledger:
        for planned in document["releases"]:
            before = spent(bureau, ledger, period)
            assert {cap["cap"]: cap["spent"] for cap in planned["caps"]} == before
            fits = all(cap["fits"] for cap in planned["caps"])
            assert bureau.charge(ledger, planned["name"], period) == fits
            after = {cap["cap"]: cap["after"] for cap in planned["caps"]}
            assert spent(bureau, ledger, period) == (after if fits else before)


ROOMY = [name for name in SITUATIONS if "rho" not in name and "fills" not in name]


@pytest.mark.slow
@pytest.mark.parametrize("situation", ROOMY)
def test_the_largest_epsilon_is_admitted_and_the_next_step_is_refused(tmp_path: Path, situation: str) -> None:
    budget, releases = SITUATIONS[situation]
    bureau = Bureau.of(tmp_path, budget, releases[-1])
    bureau.run(*MONTHS[:2])
    period = MONTHS[2]
    largest = Decimal(str(bureau.document(period)["releases"][0]["largest_epsilon"]))
    assert largest > 0
    assert bureau.asking(next_step(largest)).run(period) == ["r1"]
    assert bureau.asking(largest).run(period) == [None]


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "mechanism"), [(20_000, "gaussian"), (100_000, "laplace")])
def test_the_largest_epsilon_of_a_wide_cap_is_all_of_it(tmp_path: Path, limit: int, mechanism: str) -> None:
    bureau = Bureau.of(tmp_path, f"{{lifetime: {{epsilon: {limit}}}}}", regression("epsilon: 9000", mechanism))
    (planned,) = bureau.document()["releases"]
    assert planned["largest_epsilon"] == planned["caps"][0]["largest_epsilon"] == limit
    assert bureau.asking(Decimal(limit)).plan().year[0].status == "fits"
    assert bureau.asking(next_step(Decimal(limit))).plan().year[0].status == "refused"


@pytest.mark.slow
def test_the_largest_epsilon_that_a_study_may_ask_for_is_found(tmp_path: Path) -> None:
    bureau = Bureau.of(tmp_path, "{lifetime: {epsilon: 1e6}}", regression("epsilon: 20000"))
    (planned,) = bureau.document()["releases"]
    assert planned["largest_epsilon"] == 1e6
    assert planned["largest_epsilon_for_year"] > 20_000
    with pytest.raises(StudyInvalid, match="Stay between 1e-9 and 1e6"):
        bureau.asking(next_step(Decimal(1_000_000))).plan()


def test_a_mechanism_may_state_the_largest_epsilon_of_a_study(tmp_path: Path) -> None:
    bureau = Bureau.of(tmp_path, "{lifetime: {pure-epsilon: 1e6}}", regression("epsilon: 1e6", "laplace"))
    (planned,) = bureau.document()["releases"]
    assert planned["largest_epsilon"] == 1e6
    assert bureau.plan().year[0].status == "fits"


@pytest.mark.parametrize("situation", ["laplace by either route", "two releases in turn", "three caps"])
def test_the_largest_epsilon_for_the_year_lasts_and_the_next_step_does_not(tmp_path: Path, situation: str) -> None:
    bureau = Bureau.of(tmp_path, *flat(situation))
    largest = bureau.plan().releases[-1].largest_epsilon_for_year
    assert largest > 0
    assert "refused" in {one.status for one in bureau.asking(next_step(largest)).plan().year}
    assert set(bureau.asking(largest).run(*MONTHS)) == {None}


def test_no_epsilon_lasts_where_another_release_already_ends_the_year(tmp_path: Path) -> None:
    bureau = Bureau.of(tmp_path, *flat("a second release that never fits"))
    assert [one.largest_epsilon_for_year for one in bureau.plan().releases] == [0, 0]


@pytest.mark.slow
def test_looking_leaves_every_byte_of_the_home_as_it_was_and_opens_no_table(tmp_path: Path) -> None:
    bureau = Bureau.of(tmp_path, *flat("three caps"))
    bureau.run("2026-01")
    assert not (tmp_path / "data").exists()
    with bureau.ledger():
        pass  # writes the anchor of the charge
    before = tree(tmp_path)
    bureau.document("2026-02")
    assert tree(tmp_path) == before


def test_looking_does_not_open_an_account(tmp_path: Path) -> None:
    bureau = Bureau.of(tmp_path, *flat("three caps"))
    assert bureau.document()["account"] == "as stated"
    with bureau.ledger() as ledger:
        assert ledger.accounts() == ()


@pytest.mark.slow
@pytest.mark.parametrize("gone", ["ledger.db", ""])
def test_without_a_ledger_the_caps_are_those_stated_and_nothing_is_spent(tmp_path: Path, gone: str) -> None:
    bureau = Bureau.of(tmp_path, *flat("three caps"))
    expected = bureau.document()
    if gone:
        (tmp_path / ".dpbayes" / gone).unlink()
        with pytest.raises(IntegrityFailure, match="its database is gone and its anchors stand"):
            bureau.document()
        shutil.rmtree(tmp_path / ".dpbayes" / "archive" / "anchors")
    else:
        shutil.rmtree(tmp_path / ".dpbayes")
    assert bureau.document() == expected | {"ledger": None}


def test_a_study_that_states_other_caps_than_its_account_is_refused_as_a_release_would_be(tmp_path: Path) -> None:
    bureau = Bureau.of(tmp_path, *flat("three caps"))
    bureau.run("2026-01")
    with pytest.raises(StudyInvalid, match="opened with another lifetime cap"):
        bureau.edited("{epsilon: 2}", "{epsilon: 3}").plan("2026-02")


@pytest.mark.slow
def test_a_raised_cap_lasts_longer(tmp_path: Path) -> None:
    bureau = Bureau.of(tmp_path, *flat("gaussian under one cap"))
    bureau.run("2026-01")
    before = [one.status for one in bureau.plan("2026-02").year]
    with bureau.ledger() as ledger:
        ledger.raise_cap("staff", "lifetime", Decimal("1.5"), reason="more months", stamp=STAMP)
    after = bureau.plan("2026-02")
    assert [one.status for one in after.year].count("fits") > before.count("fits")
    assert bureau.document("2026-02")["releases"][0]["caps"][0]["limit"] == 1.5


def test_what_another_study_charged_to_the_same_people_counts(tmp_path: Path) -> None:
    bureau = Bureau.of(tmp_path, *flat("gaussian under one cap"))
    alone = [one.status for one in bureau.plan().year].count("fits")
    bureau.edited("study: pay", "study: other").run("2025-12")
    assert [one.status for one in bureau.plan().year].count("fits") == alone - 1


@pytest.mark.slow
def test_a_programme_that_another_population_used_counts(tmp_path: Path) -> None:
    bureau = Bureau.of(tmp_path, *flat("three caps"))
    bureau.edited("study: pay", "study: other").edited("population: staff", "population: pupils").run("2026-01")
    caps = {cap["cap"]: cap for cap in bureau.document()["releases"][0]["caps"]}
    assert caps["programme all"]["spent"] > 0
    assert caps["lifetime"]["spent"] == 0


@pytest.mark.slow
def test_a_programme_that_another_population_raised_is_planned_with_as_it_stands(tmp_path: Path) -> None:
    budget = "{lifetime: {epsilon: 90}, programme: {name: all, rho: 0.01}}"
    bureau = Bureau.of(tmp_path, budget, regression("epsilon: 0.5"))
    bureau.edited("study: pay", "study: other").edited("population: staff", "population: pupils").run("2026-01")
    with bureau.ledger() as ledger:
        ledger.raise_cap("pupils", "programme all", Decimal("0.02"), reason="more studies", stamp=STAMP)
    document = bureau.document("2026-01")
    assert document["account"] == "as stated"
    assert document["releases"][0]["caps"][1]["limit"] == 0.02
    foreseen = [one["status"] for one in document["year"][:3]]
    assert foreseen == ["fits", "fits", "refused"]
    assert bureau.run("2026-01", "2026-02", "2026-03") == [None, None, "r1"]


@pytest.mark.slow
def test_a_charged_period_is_shown_as_such_and_costs_nothing_again(tmp_path: Path) -> None:
    bureau = Bureau.of(tmp_path, *flat("gaussian under one cap"))
    bureau.run("2026-01", "2026-03")
    document = bureau.document("2026-01")
    assert [one["status"] for one in document["year"]][:4] == ["charged", "fits", "charged", "fits"]
    planned = document["releases"][0]
    assert planned["status"] == "already-released"
    assert all(cap["fits"] and cap["after"] == cap["spent"] for cap in planned["caps"])


def test_a_release_stored_under_another_definition_is_refused_as_a_release_would_be(tmp_path: Path) -> None:
    bureau = Bureau.of(tmp_path, *flat("gaussian under one cap"))
    bureau.run("2026-01")
    with pytest.raises(RequestChanged):
        bureau.asking(Decimal("0.4")).plan("2026-01")
    assert bureau.asking(Decimal("0.4")).plan("2026-02").year[0].status == "fits"


@pytest.mark.slow
def test_a_closed_period_takes_no_charge_and_leaves_it_to_the_others(tmp_path: Path) -> None:
    bureau = Bureau.of(tmp_path, *flat("gaussian under one cap"))
    bureau.run("2026-01")
    with bureau.ledger() as ledger:
        ledger.close("staff", "2026-03", reason="the source is gone", stamp=STAMP)
    document = bureau.document("2026-02")
    assert [one["status"] for one in document["year"]][:3] == ["fits", "closed", "fits"]
    assert bureau.document("2026-03")["releases"][0]["status"] == "period-closed"
    assert not bureau.document("2026-03")["fits"]
    assert document["verdict"].startswith("2026-03 was closed and takes no further charges. 2026-07 would be refused")


@pytest.mark.slow
def test_a_closed_period_is_planned_with_no_room(tmp_path: Path) -> None:
    bureau = Bureau.of(tmp_path, *flat("gaussian under one cap"))
    bureau.run("2026-01")
    with bureau.ledger() as ledger:
        ledger.close("staff", "2026-03", reason="the source is gone", stamp=STAMP)
    planned = bureau.document("2026-03")
    assert planned["verdict"].startswith("2026-03 was closed and takes no further charges.")
    assert planned["releases"][0]["largest_epsilon"] == 0
    for cap in planned["releases"][0]["caps"]:
        assert (cap["fits"], cap["largest_epsilon"], cap["after"]) == (False, 0, cap["spent"])


def test_a_ledger_older_than_its_anchors_is_not_planned_with(tmp_path: Path) -> None:
    bureau = Bureau.of(tmp_path, *flat("gaussian under one cap"))
    file = tmp_path / ".dpbayes" / "ledger.db"
    shutil.copy(file, tmp_path / "old.db")
    bureau.run("2026-01")
    with bureau.ledger():
        pass  # anchors what was charged
    shutil.copy(tmp_path / "old.db", file)
    with pytest.raises(IntegrityFailure, match="backup"):
        bureau.plan("2026-02")


def test_the_next_period_follows_the_last_that_this_study_charged(tmp_path: Path) -> None:
    bureau = Bureau.of(tmp_path, *flat("gaussian under one cap"))
    bureau.run("2026-04")
    bureau.edited("study: pay", "study: other").run("2026-09")
    with bureau.snapshot() as snapshot:
        assert period_to_plan(bureau.study, snapshot, datetime(2030, 1, 1, tzinfo=UTC)).name == "2026-05"


@pytest.mark.parametrize(("hour", "period"), [(21, "2026-05"), (22, "2026-06")])
def test_without_any_charge_the_present_period_is_that_of_the_schedules_timezone(
    tmp_path: Path, hour: int, period: str
) -> None:
    study = Bureau.of(tmp_path, *flat("gaussian under one cap")).study
    now = datetime(2026, 5, 31, hour, 30, tzinfo=UTC)  # midnight in Amsterdam is 22:00
    assert period_to_plan(study, AccountSnapshot(study.account()), now).name == period


@pytest.mark.slow
def test_the_document_keeps_its_contract_and_is_plain_json(tmp_path: Path) -> None:
    document = Bureau.of(tmp_path, *flat("three caps")).document()
    assert document.keys() >= {"study", "period", "releases", "year", "verdict"}
    (planned,) = document["releases"]
    assert planned.keys() >= {"name", "mechanism", "neighbours", "norm", "sensitivity", "scale", "entries", "cost"}
    assert planned["cost"].keys() == {"epsilon", "rho", "delta"}
    names = [one["coefficient"] for one in planned["predicted"]]
    assert names == ["(intercept)", "age", "sigma"]
    assert all(one.keys() >= {"sd", "interval95"} and one["sd"] > 0 for one in planned["predicted"])
    assert all(len(point["sd"]) == len(names) for point in planned["grid"])
    for cap in planned["caps"]:
        assert cap.keys() >= {"cap", "window", "limit", "spent", "after", "largest_epsilon", "fits"}
    for one in document["year"]:
        assert one.keys() >= {"period", "fits", "refused_by"}
    assert json.loads(json.dumps(document)) == document


@pytest.mark.slow
def test_the_verdict_names_the_first_period_and_the_cap_that_refuse(tmp_path: Path) -> None:
    document = Bureau.of(tmp_path, *flat("gaussian under one cap")).document()
    first = next(one for one in document["year"] if not one["fits"])
    assert first["refused_by"] == "lifetime"
    assert document["verdict"] == f"{first['period']} would be refused by lifetime (epsilon 1.2 at delta 1e-06)."


@pytest.mark.slow
def test_the_verdict_of_several_releases_names_the_one_that_is_refused(tmp_path: Path) -> None:
    verdict = Bureau.of(tmp_path, *flat("a second release that never fits")).document()["verdict"]
    assert verdict == "2026-01 would be refused by per-period (epsilon 1 at delta 1e-06), at its release r2."


@pytest.mark.slow
def test_a_year_that_fits_says_so(tmp_path: Path) -> None:
    document = Bureau.of(tmp_path, *flat("everything fits")).document()
    assert document["verdict"] == "Nothing from 2026-01 to 2027-01 would be refused."


@pytest.mark.slow
def test_the_noise_is_that_of_the_mechanism_and_the_analytic_figure_stands_beside_it(tmp_path: Path) -> None:
    bureau = Bureau.of(tmp_path, LIFETIME, regression("epsilon: 0.5"), regression("epsilon: 0.3", "laplace"))
    gaussian, laplace = bureau.document()["releases"]
    made = bureau.study.design("r1").mechanism
    assert gaussian["entries"] == laplace["entries"] == len(made.scales)
    assert gaussian["scale"] == made.scale
    exact = analytic_gaussian_epsilon(made.sensitivity, made.scale, 1e-6)
    assert gaussian["analytic"]["epsilon"] == pytest.approx(exact, rel=1e-6)
    assert gaussian["analytic"]["epsilon"] < gaussian["cost"]["epsilon"]
    assert gaussian["analytic"]["scale"] < gaussian["scale"]
    assert gaussian["analytic"]["rho"] > gaussian["cost"]["rho"]
    assert laplace["analytic"] is None
    assert laplace["cost"]["delta"] is None


@pytest.mark.slow
def test_what_predictions_assume_is_said_beside_them(tmp_path: Path) -> None:
    bureau = Bureau.of(tmp_path, LIFETIME, regression("epsilon: 0.5"))
    more = "  tenure: {bounds: [0, 40]}\n  region: {levels: [n, e, s]}\nprivacy:"
    several = bureau.edited("privacy:", more).edited("[age]", "[age, tenure, region]")
    analysed = bureau.edited("schedule:", "analyses: {monthly: {release: r1}}\nschedule:")
    told = [
        {one["term"]: one["value"] for one in each.document()["releases"][0]["foreseen"]}["Predictions assume"]
        for each in (bureau, several, analysed)
    ]
    explained = "the covariates explain 25% of the response's variance"
    assert told == [
        f"{explained}; the prior is the default (law: independent)",
        f"{explained}, columns of numbers are correlated by 0.25 (state it: expect: {{correlations}}) and "
        "levels are equally common; the prior is the default (law: independent)",
        f"{explained}; the prior is that of monthly (law: independent)",
    ]


@pytest.mark.slow
def test_a_prior_that_cannot_be_is_said_to_be_the_reason_why_predictions_are_rough(tmp_path: Path) -> None:
    analysed = "analyses: {a: {release: r1, prior: {named: {age: {mean: 5, sd: 0.01}}}}}\nschedule:"
    bureau = Bureau.of(tmp_path, LIFETIME, regression("epsilon: 0.5")).edited("schedule:", analysed)
    (planned,) = bureau.document()["releases"]
    assert all(one["rough"] for one in planned["predicted"])
    (rough,) = [one["value"] for one in planned["foreseen"] if one["term"] == "Rough"]
    assert rough.startswith("the prior expects coefficients that cannot be")
    assert ": age would" in rough


@pytest.mark.slow
def test_entries_of_different_noise_list_their_scales(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(6)]
    declared = "".join(f"  {name}: {{bounds: [0, 1]}}\n" for name in names)
    bureau = Bureau.of(tmp_path, *flat("gaussian under one cap")).edited("privacy:", f"{declared}privacy:")
    bureau = bureau.edited("[age]", f"[{', '.join(names)}]")
    scale = bureau.document()["releases"][0]["scale"]
    assert scale == bureau.study.design("r1").mechanism.scales.tolist()
    assert len(set(scale)) == 2


@pytest.mark.slow
def test_refusals_in_a_row_are_read_as_one_while_they_leave_the_caps_alone(tmp_path: Path) -> None:
    document = Bureau.of(tmp_path, *flat("gaussian under one cap")).document()
    found = runs(document["year"])
    assert [one for run in found for one in run] == document["year"]
    assert [len(run) for run in found[:-1]] == [1] * (len(found) - 1)
    assert {one["status"] for one in found[-1]} == {"refused"}
    spending = Bureau.of(tmp_path / "spending", *flat("a second release that never fits")).document()
    assert len(runs(spending["year"])) > 3


def flat(situation: str) -> tuple[str, ...]:
    budget, releases = SITUATIONS[situation]
    return budget, *releases


def next_step(epsilon: Decimal) -> Decimal:
    """The next number of four digits."""
    return epsilon + Decimal(1).scaleb(epsilon.adjusted() - 3)


def spent(bureau: Bureau, ledger: Ledger, period: str) -> dict[str, Any]:
    """What `ledger show` calls spent."""
    totals = bureau.totals(ledger, period)
    return {
        cap.name: cap_document(CapState(cap, None, totals[cap.name]))["spent"] for cap in bureau.study.account().caps
    }


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
