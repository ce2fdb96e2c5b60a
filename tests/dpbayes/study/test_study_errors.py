"""Every mistake in a study file is one sentence with its line, its field and what to do."""

import re
from pathlib import Path
from typing import get_args

import pytest

from dpbayes.kinds.registry import SamplerName
from dpbayes.study.load import load_study
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.text import listed

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
  female: {levels: [no, yes]}
  region: {levels: [north, south, east]}
privacy:
  neighbours: replace-one
  delta: 1e-6
  budget:
    lifetime: {epsilon: 8}
    per-period: {epsilon: 1}
releases:
  wage-regression:
    kind: regression
    response: log_wage
    covariates: [age, female]
    mechanism: gaussian
    epsilon: 0.5
analyses:
  wage-posterior:
    release: wage-regression
    sampler: auto
schedule: {cron: "0 2 1 * *", timezone: Europe/Amsterdam}
"""
LOSS = "    epsilon: 0.5\n"
LIFETIME = "    lifetime: {epsilon: 8}\n"
PER_PERIOD = "    per-period: {epsilon: 1}\n"
CAPS = LIFETIME + PER_PERIOD
AGE = "  age: {bounds: [16, 80]}"
FEMALE = "  female: {levels: [no, yes]}"
CORRELATED = "columns.age.expect.correlations"
RELEASE = "releases.wage-regression"
ANALYSIS = "analyses.wage-posterior"
MORE = "    sampler: auto\n"

Mistake = tuple[str, str, int, str, str]  # what stands there, what is written instead, line, field, words

KEYS: list[Mistake] = [
    ("population: employees", "populaton: employees", 2, "populaton", "no such key here. Did you mean population?"),
    ("    response:", "    respons:", 22, f"{RELEASE}.respons", "Did you mean response?"),
    ("    per-period:", "    per_period:", 18, "privacy.budget.per_period", "Did you mean per-period?"),
    ("people: same", "folk: same", 7, "period.folk", "The keys here are grain, people"),
    ("study: wages\n", "study: wages\nstudy: wages\n", 2, "study", "study is given twice (first in line 1)"),
    (AGE, f"{AGE}\n{AGE}", 11, "columns.age", "age is given twice (first in line 10)"),
    ("study: wages\n", "", 1, "study", "it is missing. Add study:"),
    ("    response: log_wage\n", "", 20, f"{RELEASE}.response", "it is missing"),
    ("    mechanism: gaussian\n", "", 20, f"{RELEASE}.mechanism", "it is missing"),
    ("  rows: 50000\n", "", 3, "source.rows", "it is missing"),
    ("study: wages", "study: Wages 2026", 1, "study", "lower-case letters"),
    ("study: wages", "study: ../wages", 1, "study", "lower-case letters"),
    ("study: wages", "study: 7", 1, "study", "text belongs here"),
    ("study: wages", "study: [wages]", 1, "study", "text belongs here, not a list"),
    ("study: wages", f"study: {'w' * 65}", 1, "study", "too long"),
    ("population: employees", "population: -x-", 2, "population", "lower-case letters"),
    ("  wage-regression:\n", "  Wage_Regression:\n", 20, "releases.Wage_Regression", "lower-case letters"),
    ("  wage-posterior:\n", "  'wage posterior':\n", 27, "analyses.wage posterior", "lower-case letters"),
    ("period: {grain: month, people: same}", "period: month", 7, "period", "a section with keys belongs here"),
    ("study: wages", "study: wages\nunit: person_id", 2, "unit", "no such key here"),
    ("  unit: person_id", "  unit:", 6, "source.unit", "no value"),
    ("  delta: 1e-6", "  delta:", 15, "privacy.delta", "no value"),
]
SOURCE: list[Mistake] = [
    ("wages-{period}", "wages-2026", 4, "source.path", "there is no {period}"),
    ("wages-{period}", "{period}-{holder}", 4, "source.path", "braces other than {period}"),
    ("wages-{period}", "{period.__class__}-{period}", 4, "source.path", "braces other than"),
    ("wages-{period}", "{{period}}", 4, "source.path", "braces other than"),
    ("data/wages-", "../data/wages-", 4, "source.path", "climb out"),
    ("data/wages-{period}", "data/{period}/../../x", 4, "source.path", "climb out"),
    ("data/wages-{period}", "data\\..\\{period}", 4, "source.path", "climb out"),
    ("data/wages-{period}.parquet", '"data/{period}\\0.parquet"', 4, "source.path", "cannot be seen"),
    ("rows: 50000", "rows: 0", 5, "source.rows", "0 is too small. Write at least 1"),
    ("rows: 50000", "rows: -5", 5, "source.rows", "too small"),
    ("rows: 50000", "rows: 5.5", 5, "source.rows", "a whole number belongs here"),
    ("rows: 50000", "rows: 5_000", 5, "source.rows", "a whole number belongs here"),
    ("rows: 50000", "rows: true", 5, "source.rows", "a whole number belongs here"),
    ("rows: 50000", "rows: 1000000000001", 5, "source.rows", "too large"),
    ("person_id", "age", 10, "columns.age", "names people"),
    ("grain: month", "grain: week", 7, "period.grain", "week is not known here. Choose one of month, quarter"),
    ("people: same", "people: Same", 7, "period.people", "Did you mean same?"),
    ("0 2 1 * *", "0 2 1 *", 30, "schedule.cron", "this has 4"),
    ("0 2 1 * *", "60 2 1 * *", 30, "schedule.cron", "the minute"),
    ("0 2 1 * *", "0 2 31 2 *", 30, "schedule.cron", "no month"),
    ("Europe/Amsterdam", "Europe/Atlantis", 30, "schedule.timezone", "not a timezone"),
    ("Europe/Amsterdam", "Europe", 30, "schedule.timezone", "not a timezone"),
    ("Europe/Amsterdam", "../../etc/passwd", 30, "schedule.timezone", "not a timezone"),
    ("Europe/Amsterdam", "UTC, first: 2026-Q1", 30, "schedule.first", "not the canonical name of a month"),
    ("Europe/Amsterdam", "UTC, first: 2026-13", 30, "schedule.first", "Write a real one like 2026-01"),
    ("Europe/Amsterdam", "UTC, first: 2026", 30, "schedule.first", "Put quotes around it"),
    ("  rows: 50000\n", "  rows: 50000\n  ready: {after: 3}\n", 6, "source.ready.after", "no length of time"),
    ("  rows: 50000\n", "  rows: 50000\n  ready: {after: 3w}\n", 6, "source.ready.after", "30m, 6h or 3d"),
    ("  rows: 50000\n", "  rows: 50000\n  ready: {after: 0d}\n", 6, "source.ready.after", "no length of time"),
    ("  rows: 50000\n", "  rows: 50000\n  ready: {after: 367d}\n", 6, "source.ready.after", "longer than a year"),
    ("  rows: 50000\n", "  rows: 50000\n  ready: {retry: 1h}\n", 6, "source.ready.after", "it is missing"),
    ("  rows: 50000\n", "  rows: 50000\n  ready: {after: 30m}\n", 6, "source.ready.retry", "less often than"),
]
COLUMNS: list[Mistake] = [
    (AGE, "  age: {}", 10, "columns.age", "what the column may hold is missing. Write one of bounds, levels"),
    (AGE, "  age: {bounds: [16, 80], levels: [a, b]}", 10, "columns.age", "bounds, levels are given together"),
    (AGE, "  age: {bounds: [80, 16]}", 10, "columns.age.bounds", "low is above high"),
    (AGE, "  age: {bounds: [16, 16]}", 10, "columns.age.bounds", "low and high are equal"),
    (AGE, "  age: {bounds: [16, .inf]}", 10, "columns.age.bounds", "not finite"),
    (AGE, "  age: {bounds: [.nan, 80]}", 10, "columns.age.bounds", "not finite"),
    (AGE, "  age: {bounds: [16, 1e999]}", 10, "columns.age.bounds", "outside what can be computed"),
    (AGE, "  age: {bounds: [1e16, 10000000000000001]}", 10, "columns.age.bounds", "low and high are equal"),
    (AGE, "  age: {bounds: [1, 1.0000000000000003]}", 10, "columns.age.bounds", "double precision"),
    (AGE, "  age: {bounds: [16]}", 10, "columns.age.bounds", "two numbers"),
    (AGE, "  age: {bounds: 16}", 10, "columns.age.bounds", "two numbers"),
    (AGE, "  age: {bounds: {low: 16, high: 80}}", 10, "columns.age.bounds", "two numbers"),
    (AGE, "  age: {bounds: ['16', 80]}", 10, "columns.age.bounds", "16 is text, not a number"),
    (AGE, "  age: {bounds: [no, yes]}", 10, "columns.age.bounds", "no is text, not a number"),
    (AGE, "  age: {bounds: [true, 80]}", 10, "columns.age.bounds", "a number belongs here"),
    (AGE, "  age: {bounds: [16, 80], nulls: 81}", 10, "columns.age.nulls", "81 is outside the bounds"),
    (AGE, "  age: {bounds: [16, 80], unknown: x}", 10, "columns.age.unknown", "takes nulls, not unknown"),
    (AGE, "  age: {bounds: [16, 80], expect: {mean: 2, sd: 1}}", 10, "columns.age.expect", "outside the bounds"),
    (AGE, "  age: {bounds: [16, 80], expect: {mean: 20, sd: 0}}", 10, "columns.age.expect.sd", "above 0"),
    (AGE, "  'age[x]': {bounds: [16, 80]}", 10, "columns.age[x]", "brackets"),
    (AGE, "  ' age': {bounds: [16, 80]}", 10, "columns. age", "spaces around"),
    (FEMALE, "  female: {levels: [yes]}", 11, "columns.female.levels", "at least 2"),
    (FEMALE, "  female: {levels: []}", 11, "columns.female.levels", "at least 2"),
    (FEMALE, "  female: {levels: [no, yes, no]}", 11, "columns.female.levels", "level no is given twice"),
    (FEMALE, "  female:\n    levels:\n      - no\n      - 1", 14, "columns.female.levels", "text belongs here"),
    (FEMALE, "  female: {levels: [true, false]}", 11, "columns.female.levels", "text belongs here"),
    (FEMALE, "  female: {levels: [no, '']}", 11, "columns.female.levels", "empty"),
    (FEMALE, "  female: {levels: no}", 11, "columns.female.levels", "a list belongs here"),
    (FEMALE, "  female: {levels: [no, yes], unknown: maybe}", 11, "columns.female.unknown", "not one of the levels"),
    (FEMALE, "  female: {levels: [no, yes], nulls: 0}", 11, "columns.female.nulls", "takes unknown, not nulls"),
    (FEMALE, "  female: {levels: [no, yes], expect: {mean: 0, sd: 1}}", 11, "columns.female.expect", "for bounded"),
    (AGE, "  age: {bounds: [16, 80], expect: {mean: 20}}", 10, "columns.age.expect", "a mean and an sd. Write both"),
    (AGE, "  age: {bounds: [16, 80], expect: {}}", 10, "columns.age.expect", "nothing is expected"),
    (AGE, "  age: {bounds: [16, 80], expect: {shares: {a: 0.5}}}", 10, "columns.age.expect", "shares are of levels"),
    (
        FEMALE,
        "  female: {levels: [no, yes], expect: {shares: {ja: 0.5}}}",
        11,
        "columns.female.expect",
        "ja is not one",
    ),
    (
        FEMALE,
        "  female: {levels: [no, yes], expect: {shares: {no: 0}}}",
        11,
        "columns.female.expect.shares.no",
        "between",
    ),
    (
        FEMALE,
        "  female: {levels: [no, yes], expect: {shares: {no: 0.7, yes: 0.4}}}",
        11,
        "columns.female.expect",
        "do not add up",
    ),
    *(
        (AGE, f"  age: {{bounds: [16, 80], expect: {{correlations: {{{stated}}}}}}}", 10, f"{CORRELATED}{field}", said)
        for stated, field, said in (
            ("female: 1", ".female", "between -1 and 1"),
            ("age: 0.5", ".age", "not correlated with itself"),
            ("region: 0.5", ".region", "no column with bounds or two levels"),
            ("log_wag: 0.5", ".log_wag", "Did you mean log_wage?"),
        )
    ),
    (
        f"{AGE}\n{FEMALE}",
        "  age: {bounds: [16, 80], expect: {correlations: {female: 0.5}}}\n"
        "  female: {levels: [no, yes], expect: {correlations: {age: 0.5}}}",
        11,
        "columns.female.expect.correlations.age",
        "this pair is stated at age, too. Write it once",
    ),
    (
        f"{AGE}\n{FEMALE}",
        "  age: {bounds: [16, 80], expect: {correlations: {female: 0.9, log_wage: 0.9}}}\n"
        "  female: {levels: [no, yes], expect: {correlations: {log_wage: -0.9}}}",
        10,
        CORRELATED,
        "no columns have all of the correlations that are stated. Correct one of them",
    ),
]
PRIVACY: list[Mistake] = [
    ("replace-one", "add", 14, "privacy.neighbours", "add is not known here"),
    ("delta: 1e-6", "delta: 0", 15, "privacy.delta", "not a probability"),
    ("delta: 1e-6", "delta: 1", 15, "privacy.delta", "not a probability"),
    ("delta: 1e-6", "delta: -1e-6", 15, "privacy.delta", "not a probability"),
    ("delta: 1e-6", "delta: 1e-6x", 15, "privacy.delta", "1e-6x is text, not a number"),
    ("  delta: 1e-6\n", "", 16, "privacy.budget.lifetime", "needs a delta"),
    (LIFETIME, "    lifetime: {epsilon: 0}\n", 17, "privacy.budget.lifetime.epsilon", "0 is not above 0"),
    (LIFETIME, "    lifetime: {epsilon: -8}\n", 17, "privacy.budget.lifetime.epsilon", "not above 0"),
    (LIFETIME, "    lifetime: {rho: -0.0}\n", 17, "privacy.budget.lifetime.rho", "not above 0"),
    (LIFETIME, "    lifetime: {epsilon: .inf}\n", 17, "privacy.budget.lifetime.epsilon", "not finite"),
    (LIFETIME, "    lifetime: {epsilon: 1e7}\n", 17, "privacy.budget.lifetime.epsilon", "no usable privacy loss"),
    (
        LIFETIME,
        "    lifetime: {epsilon: 8, rho: 1}\n",
        17,
        "privacy.budget.lifetime",
        "epsilon, rho are given together",
    ),
    (LIFETIME, "    lifetime: {rho: 1, delta: 1e-6}\n", 17, "privacy.budget.lifetime.delta", "epsilon cap only"),
    (
        LIFETIME,
        "    lifetime: {pure-epsilon: 1, delta: 1e-6}\n",
        17,
        "privacy.budget.lifetime.delta",
        "epsilon cap only",
    ),
    (LIFETIME, "    lifetime: {}\n", 17, "privacy.budget.lifetime", "the limit of this cap is missing"),
    (LIFETIME, "    lifetime: 8\n", 17, "privacy.budget.lifetime", "a section with keys belongs here"),
    (LIFETIME, "    lifetime: {pure-epsilon: 8}\n", 24, f"{RELEASE}.mechanism", "gaussian noise has no pure epsilon"),
    (PER_PERIOD, "    programme: {epsilon: 20}\n", 18, "privacy.budget.programme.name", "it is missing"),
    (LIFETIME, "", 16, "privacy.budget", "nothing limits what the same people lose"),
    (CAPS, "    {}\n", 16, "privacy.budget", "there is no cap"),
]
RELEASES: list[Mistake] = [
    ("response: log_wage", "response: logwage", 22, f"{RELEASE}.response", "not declared. Did you mean log_wage?"),
    ("response: log_wage", "response: female", 22, f"{RELEASE}.response", "a response must be bounded"),
    ("response: log_wage", "response: [log_wage]", 22, f"{RELEASE}.response", "text belongs here"),
    ("[age, female]", "[age, log_wage]", 22, f"{RELEASE}.response", "among the covariates"),
    ("[age, female]", "[age, femal]", 23, f"{RELEASE}.covariates", "femal is not declared. Did you mean female?"),
    ("[age, female]", "[age, age]", 23, f"{RELEASE}.covariates", "covariate age is given twice"),
    ("[age, female]", "[]", 23, f"{RELEASE}.covariates", "there is no covariate"),
    ("[age, female]", "age", 23, f"{RELEASE}.covariates", "a list belongs here"),
    ("[age, female]", "\n      - age\n      - tenure", 25, f"{RELEASE}.covariates", "tenure is not declared"),
    (LOSS, "", 20, RELEASE, "the privacy loss is missing. Write one of epsilon, rho"),
    (LOSS, LOSS + "    rho: 0.1\n", 20, RELEASE, "epsilon, rho are given together"),
    (LOSS, "    epsilon: 0\n", 25, f"{RELEASE}.epsilon", "0 is not above 0"),
    (LOSS, "    epsilon: -0.5\n", 25, f"{RELEASE}.epsilon", "-0.5 is not above 0"),
    (LOSS, "    epsilon: 1e-10\n", 25, f"{RELEASE}.epsilon", "no usable privacy loss"),
    (LOSS, "    epsilon: .nan\n", 25, f"{RELEASE}.epsilon", "not finite"),
    (LOSS, '    epsilon: "0.5"\n', 25, f"{RELEASE}.epsilon", "0.5 is text, not a number"),
    ("gaussian\n" + LOSS, "laplace\n    rho: 0.1\n", 25, f"{RELEASE}.rho", "laplace noise is stated by its epsilon"),
    ("kind: regression", "kind: regresion", 21, f"{RELEASE}.kind", "Did you mean regression?"),
    ("mechanism: gaussian", "mechanism: normal", 24, f"{RELEASE}.mechanism", "Choose one of gaussian, laplace"),
    ("release: wage-regression", "release: wage", 28, f"{ANALYSIS}.release", "there is no release wage"),
    ("sampler: auto", "sampler: colapsed", 29, f"{ANALYSIS}.sampler", "Did you mean collapsed?"),
    (
        "sampler: auto",
        "sampler: quickest",
        29,
        f"{ANALYSIS}.sampler",
        f"Choose one of {', '.join(get_args(SamplerName))}.",
    ),
    (MORE, "    chains: 1\n", 29, f"{ANALYSIS}.chains", "1 is too small. Write at least 2"),
    (MORE, "    chains: 65\n", 29, f"{ANALYSIS}.chains", "too large"),
    (MORE, "    chains: 4.0\n", 29, f"{ANALYSIS}.chains", "a whole number belongs here"),
    (MORE, "    draws: 0\n", 29, f"{ANALYSIS}.draws", "too small"),
    (MORE, "    draws: 100001\n", 29, f"{ANALYSIS}.draws", "too large"),
    (MORE, "    seed: -1\n", 29, f"{ANALYSIS}.seed", "too small"),
    (MORE, "    prior: {noise: {shape: 0}}\n", 29, f"{ANALYSIS}.prior.noise.shape", "above 0"),
    (MORE, "    prior: {intercept: {sd: -1}}\n", 29, f"{ANALYSIS}.prior.intercept.sd", "above 0"),
    (MORE, "    prior: {coefficients: {sd: 1e-300}}\n", 29, f"{ANALYSIS}.prior.coefficients.sd", "must be from 1e-06"),
    (MORE, "    prior: {noise: {scale: 1e+150}}\n", 29, f"{ANALYSIS}.prior.noise.scale", "from 1e-12 to 1e+12"),
    (MORE, "    prior: {noise: {sd: 1e+150}}\n", 29, f"{ANALYSIS}.prior.noise", "noise_scale must be from 1e-12"),
    (MORE, "    prior: {named: {age: {sd: 1e-300}}}\n", 29, f"{ANALYSIS}.prior.named", "age needs a mean of at most"),
    (MORE, "    prior: {coefficients: {sd: .inf}}\n", 29, f"{ANALYSIS}.prior.coefficients.sd", "not finite"),
    (MORE, "    prior: {coefficient: {sd: 1}}\n", 29, f"{ANALYSIS}.prior.coefficient", "Did you mean coefficients?"),
    (MORE, "    prior: {concentration: 1}\n", 29, f"{ANALYSIS}.prior.concentration", "no part of the prior of a regr"),
    (MORE, "    prior: {noise: {sd: 1, scale: 2}}\n", 29, f"{ANALYSIS}.prior.noise.sd", "scale and sd state one thing"),
    (MORE, "    prior: {named: {age: {mean: 1}}}\n", 29, f"{ANALYSIS}.prior.named.age.sd", "it is missing"),
    (MORE, "    prior: {named: {age: 1}}\n", 29, f"{ANALYSIS}.prior.named.age", "a section with keys belongs here"),
    (MORE, "    prior: {named: {age: {sd: -1}}}\n", 29, f"{ANALYSIS}.prior.named.age.sd", "above 0"),
    (
        MORE,
        "    prior: {named: {agee: {sd: 1}}}\n",
        29,
        f"{ANALYSIS}.prior.named.agee",
        "agee is no coefficient of log_wage ~ age + female. Did you mean age?",
    ),
    (
        MORE,
        "    prior: {named: {female: {sd: 1}}}\n",
        29,
        f"{ANALYSIS}.prior.named.female",
        "Did you mean female[yes]?",
    ),
]


def refusal(tmp_path: Path, text: str) -> str:
    path = tmp_path / "wages.yaml"
    path.write_text(text)
    with pytest.raises(StudyInvalid) as caught:
        load_study(path)
    assert type(caught.value) is StudyInvalid
    assert caught.value.exit_code == 2
    return str(caught.value)


def edited(*changes: tuple[str, str]) -> str:
    text = STUDY
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def test_the_study_that_the_mistakes_are_made_in_is_right(tmp_path: Path) -> None:
    (tmp_path / "wages.yaml").write_text(STUDY)
    assert load_study(tmp_path / "wages.yaml").study == "wages"


@pytest.mark.parametrize(("old", "new", "line", "field", "words"), [*KEYS, *SOURCE, *COLUMNS, *PRIVACY, *RELEASES])
def test_a_mistake_is_one_sentence_with_its_line_and_field(
    tmp_path: Path, old: str, new: str, line: int, field: str, words: str
) -> None:
    message = refusal(tmp_path, edited((old, new)))
    assert message.startswith(f"cannot read study wages.yaml: line {line}, {field}: ")
    assert words in message
    assert "\n" not in message
    assert re.search(r"\. [A-Z].*[.?]$", message), "a message ends with what to do"
    assert not re.search(r"pydantic|validation error|should be|Input|type=|Field required", message)


def test_of_several_mistakes_the_first_in_the_file_is_named(tmp_path: Path) -> None:
    message = refusal(tmp_path, edited(("rows: 50000", "rows: none"), ("[16, 80]", "[80, 16]"), ("0.5", "-1")))
    assert "line 5, source.rows" in message


@pytest.mark.parametrize("name", ["sigma", "(intercept)"])
def test_a_covariate_cannot_take_the_name_of_another_result(tmp_path: Path, name: str) -> None:
    text = edited(("  age:", f"  {name}:"), ("[age, female]", f"[{name}, female]"))
    assert f"line 23, {RELEASE}.covariates: {name} is the name of another number" in refusal(tmp_path, text)


def test_gaussian_noise_of_an_epsilon_needs_a_delta_even_under_rho_caps(tmp_path: Path) -> None:
    text = edited(("  delta: 1e-6\n", ""), ("{epsilon: 8}", "{rho: 1}"), ("{epsilon: 1}", "{rho: 0.1}"))
    assert f"line 23, {RELEASE}.mechanism: gaussian noise of an epsilon needs a delta" in refusal(tmp_path, text)


def test_a_message_shows_no_more_of_a_hostile_file_than_one_printable_line(tmp_path: Path) -> None:
    message = refusal(tmp_path, edited(("study: wages", '"\\e[2J\\n' + "x" * 10_000 + '": wages')))
    assert message.isprintable()
    assert len(message) < 300


def test_a_long_list_of_names_ends_with_how_many_are_left_out() -> None:
    assert listed("abc") == "a, b, c"
    assert listed("abcde", 3) == "a, b, c and 2 more"
