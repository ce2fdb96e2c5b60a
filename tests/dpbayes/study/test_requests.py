"""What a study asks of tables and of the ledger: what changes a request, and what must not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dpbayes.study.load import load_study
from dpbayes.study.study import Study
from dpbayes.study.table_source import ColumnRule
from dpbayes_core.bounds import Bounds
from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import StudyInvalid
from storage.ledger.periods import Period
from storage.ledger.request import Request

STUDY = """\
study: wages
population: employees
source:
  path: data/wages-{period}.parquet
  rows: 50000
  unit: person_id
period: {grain: month, people: same}
columns:
  log_wage: {bounds: [0, 5]}
  age: {bounds: [16, 80]}
  hours: {bounds: [0, 80], nulls: 38}
  region: {levels: [north, south, east], unknown: south}
  female: {levels: [no, yes]}
privacy:
  delta: 1e-6
  budget: {lifetime: {epsilon: 8}}
releases:
  wage:
    kind: regression
    response: log_wage
    covariates: [age, region, female]
    mechanism: gaussian
    epsilon: 0.5
analyses:
  posterior: {release: wage, chains: 4}
schedule: {cron: "0 2 1 * *"}
"""
AGE, HOURS = "  age: {bounds: [16, 80]}\n", "  hours: {bounds: [0, 80], nulls: 38}\n"
OTHER = "{kind: regression, response: hours, covariates: [age], mechanism: laplace, epsilon: 1}"
CHANGES = {
    "population": ("employees", "tenants"),
    "source template": ("data/wages-", "data/pay-"),
    "unit of privacy": ("unit: person_id", "unit: household"),
    "no unit of privacy": ("  unit: person_id\n", ""),
    "bounds of a covariate": ("[16, 80]", "[16, 90]"),
    "bounds of the response": ("[0, 5]", "[0, 6]"),
    "null rule of a covariate": ("age: {bounds: [16, 80]}", "age: {bounds: [16, 80], nulls: 40}"),
    "a level": ("[north, south, east]", "[north, south, west]"),
    "order of levels": ("[north, south, east]", "[south, north, east]"),
    "unknown level": ("unknown: south", "unknown: north"),
    "response": ("response: log_wage", "response: hours"),
    "another covariate": ("[age, region, female]", "[age, region, hours]"),
    "order of covariates": ("[age, region, female]", "[region, age, female]"),
    "mechanism": ("mechanism: gaussian", "mechanism: laplace"),
    "epsilon": ("epsilon: 0.5", "epsilon: 0.6"),
    "rho for epsilon": ("epsilon: 0.5", "rho: 0.5"),
    "delta, for gaussian noise of an epsilon": ("delta: 1e-6", "delta: 1e-7"),
}
KEEPS = {
    "comments": ("study: wages", "# a comment\nstudy:   wages  # another"),
    "order of keys": ("study: wages\npopulation: employees\n", "population: employees\nstudy: wages\n"),
    "order of columns": (AGE + HOURS, HOURS + AGE),
    "spelling of numbers": ("epsilon: 0.5", "epsilon: 5.00e-1"),
    "spelling of delta": ("delta: 1e-6", "delta: 0.0000010"),
    "spelling of bounds": ("[0, 5]", "[-0.0, 5.0]"),
    "quotes": ("[no, yes]", "['no', \"yes\"]"),
    "a default written out": ("age: {bounds: [16, 80]}", "age: {bounds: [16, 80], nulls: 48}"),
    "a default level written out": ("{levels: [no, yes]}", "{levels: [no, yes], unknown: no}"),
    "default neighbours written out": ("  delta: 1e-6", "  neighbours: replace-one\n  delta: 1e-6"),
    "default row bound written out": ("  rows: 50000", "  rows: 50000\n  max_rows_per_unit: 1"),
    "expected rows": ("rows: 50000", "rows: 60000"),
    "public guesses": ("[0, 5]}", "[0, 5], expect: {mean: 2, sd: 1}}"),
    "an unused column": ("nulls: 38", "nulls: 39"),
    "another release": ("releases:\n", f"releases:\n  more: {OTHER}\n"),
    "prior": ("chains: 4", "prior: {coefficients: {sd: 1}}"),
    "chains": ("chains: 4", "chains: 8"),
    "no analyses": ("analyses:\n  posterior: {release: wage, chains: 4}\n", ""),
    "schedule": ('cron: "0 2 1 * *"', 'cron: "5 2 1 * *"'),
    "caps": ("{lifetime: {epsilon: 8}}", "{lifetime: {epsilon: 9}}"),
    "the study's own name": ("study: wages", "study: pay"),
    "the people's return": ("people: same", "people: disjoint"),
}


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Study]:
    def study(*change: str) -> Study:
        text = STUDY
        if change:
            old, new = change
            assert old in text
            text = text.replace(old, new, 1)
        path = tmp_path / "study.yaml"
        path.write_text(text)
        return load_study(path)

    return study


@pytest.mark.parametrize("what", CHANGES)
def test_what_defines_a_release_changes_its_request(read: Callable[..., Study], what: str) -> None:
    before, after = (s.request("wage", "2026-01").hash for s in (read(), read(*CHANGES[what])))
    assert before != after


@pytest.mark.parametrize("what", KEEPS)
def test_what_does_not_define_a_release_leaves_its_request(read: Callable[..., Study], what: str) -> None:
    before, after = (s.request("wage", "2026-01").hash for s in (read(), read(*KEEPS[what])))
    assert before == after


def test_delta_is_no_part_of_a_release_that_does_not_use_it(read: Callable[..., Study]) -> None:
    for loss, mechanism in (("rho: 0.5", "gaussian"), ("epsilon: 0.5", "laplace")):
        change = f"mechanism: {mechanism}\n    {loss}"
        study = read("mechanism: gaussian\n    epsilon: 0.5", change)
        assert "delta" not in study.request("wage", "2026-01").definition["mechanism"]


def test_the_definition_is_plain_json_with_every_default_filled_in(read: Callable[..., Study]) -> None:
    assert read().request("wage", "2026-01").definition == {
        "columns": {
            "age": {"bounds": [16.0, 80.0], "nulls": 48.0},
            "female": {"levels": ["no", "yes"], "unknown": "no"},
            "log_wage": {"bounds": [0.0, 5.0], "nulls": 2.5},
            "region": {"levels": ["north", "south", "east"], "unknown": "south"},
        },
        "covariates": ["age", "region", "female"],
        "intercept": True,
        "kind": "regression",
        "mechanism": {"delta": "0.000001", "epsilon": "0.5", "name": "gaussian"},
        "neighbours": "replace-one",
        "population": "employees",
        "response": "log_wage",
        "source": {"max_rows_per_unit": 1, "path": "data/wages-{period}.parquet", "unit": "person_id"},
    }
    assert canonical_json(read().request("wage", "2026-01").definition)


def test_the_hash_of_a_definition_does_not_drift_between_versions(read: Callable[..., Study]) -> None:
    # a ledger keeps this hash for ever: if it must change, old entries need a reader of their own
    expected = "088a01b09d02160dc35bca13139d26b6fec4daa94bff887077a3364b9fafd747"
    assert read().request("wage", "2026-01").hash == expected


def test_a_request_is_keyed_by_study_release_period_and_revision(read: Callable[..., Study]) -> None:
    study = read()
    keys = {
        study.request("wage", "2026-01").key,
        study.request("wage", "2026-02").key,
        study.request("wage", "2026-01", 2, "the table was wrong").key,
        read("study: wages", "study: pay").request("wage", "2026-01").key,
    }
    assert len(keys) == 4
    assert study.request("wage", study.parse_period("2026-01")).key in keys


def test_the_account_is_the_population_with_its_caps(read: Callable[..., Study]) -> None:
    account = read().account()
    assert (account.population, account.unit, account.neighbours) == ("employees", "person_id", "replace-one")
    assert (account.grain, account.people, account.max_rows_per_unit) == ("month", "same", 1)
    assert read("{epsilon: 8}", "{epsilon: 8.00}").account().to_record() == account.to_record()


@pytest.mark.parametrize(("revision", "reason"), [(0, None), (-1, "x"), (2, None), (2, "  "), (1, "why")])
def test_a_revision_counts_from_one_and_says_why(read: Callable[..., Study], revision: int, reason: str | None) -> None:
    with pytest.raises(StudyInvalid, match="cannot request wage of 2026-01: "):
        read().request("wage", "2026-01", revision, reason)


@pytest.mark.parametrize("period", ["2026-1", "2026-13", "../2026-01", "2026-Q1", ""])
def test_no_path_is_formed_of_what_is_not_a_period(read: Callable[..., Study], period: str) -> None:
    for ask in (read().table, read().request):
        with pytest.raises(StudyInvalid, match="cannot use period"):
            ask("wage", period)
    with pytest.raises(StudyInvalid, match="cannot use period"):
        read().table("wage", Period.parse("2026", "year"))


def test_a_table_is_beside_the_study_with_only_the_columns_used(read: Callable[..., Study], tmp_path: Path) -> None:
    table = read().table("wage", "2026-01")
    assert table.path == str(tmp_path / "data" / "wages-2026-01.parquet")
    assert table.unit == "person_id"
    assert table.columns == (
        ColumnRule(name="age", bounds=Bounds(16, 80), null_value=48.0),
        ColumnRule(name="region", levels=("north", "south", "east"), unknown="south"),
        ColumnRule(name="female", levels=("no", "yes"), unknown="no"),
        ColumnRule(name="log_wage", bounds=Bounds(0, 5), null_value=2.5),
    )


def test_a_full_path_stays_where_it_is(read: Callable[..., Study], tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "wages-{period}.parquet"
    study = read("data/wages-{period}.parquet", str(elsewhere))
    assert study.table("wage", "2026-02").path == str(elsewhere).replace("{period}", "2026-02")


def test_the_schema_names_the_coefficients_in_the_study_s_order(read: Callable[..., Study]) -> None:
    schema = read().design("wage").schema
    assert schema.coefficients == ("(intercept)", "age", "region[south]", "region[east]", "female[yes]")
    assert schema.response.bounds == Bounds(0, 5)


def test_a_relative_study_path_is_kept_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    monkeypatch.chdir(tmp_path)
    study = load_study("study.yaml")
    monkeypatch.chdir(tmp_path.parent)
    assert study.table("wage", "2026-01").path == str(tmp_path / "data" / "wages-2026-01.parquet")
    assert isinstance(study.request("wage", "2026-01"), Request)
