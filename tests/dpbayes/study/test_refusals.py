"""The key that a refusal of the mathematics is about follows from the argument it names, not from its words."""

from pathlib import Path

import pytest

from dpbayes.study.load import load_study
from dpbayes_core.errors import Refusal, StudyInvalid

STUDY = """\
study: wages
population: employees
source: {path: "data/{period}.parquet", rows: 5000, unit: person}
period: {grain: month}
columns:
  pay: {bounds: [0, 5]}
  age: {bounds: [16, 80]}
  hours: {bounds: [0, 60]}
  female: {levels: [no, yes]}
  region: {levels: [north, south, east]}
privacy: {delta: 1e-6, budget: {lifetime: {epsilon: 8}}}
releases:
  one: {RELEASE}
"""
NETWORK = "kind: bayes-net, nodes: [female, region], epsilon: 1"
DRAW = "kind: posterior-draw, epsilon: 1"
MODE = "kind: map, epsilon: 1"
OF_REGRESSION = "response: pay, covariates: [age]"
QUANTILE = f"kind: posterior-quantile, {OF_REGRESSION}, coefficient: age, subsets: 100, epsilon: 1"
PROBABILITY = f"kind: posterior-probability, {OF_REGRESSION}, coefficient: age, subsets: 100, epsilon: 1"
GAUSSIAN = "kind: regression, response: pay, mechanism: gaussian, epsilon: 1"
REFUSED = [
    (f"{NETWORK}, edges: {{female: [region], region: [female]}}", "edges"),
    (f"{NETWORK}, families: all, split: {{female: 1}}", "split"),
    (f"{NETWORK}, noise: laplace, split: {{female: 1, region: 1}}", "split"),
    (f"{NETWORK}, split: {{female: 1, region: 1e-30}}", "epsilon"),
    (f"{NETWORK}, mechanism: fourier", "mechanism"),
    (f"{DRAW}, nodes: [female], concentration: 1e+9", "concentration"),
    (f"{DRAW}, nodes: [female], tempering: 1e+9", "tempering"),
    (f"{DRAW}, {OF_REGRESSION}, radius: 1, sigma: 1e-9", "sigma"),
    (f"{DRAW}, {OF_REGRESSION}, radius: 1e-9, sigma: 1", "radius"),
    (f"{DRAW}, {OF_REGRESSION}, radius: 1, sigma: 1, precision: 1e+12", "precision"),
    (f"{MODE}, nodes: [female], floor: 0.9", "floor"),
    (f"{MODE}, nodes: [region], grid: [0.1, 0.9]", "grid"),
    (f"{MODE}, nodes: [female], floor: 0.1, score: density", "score"),
    (f"{QUANTILE}, probabilities: [0.5]", "outer"),
    (f"{QUANTILE}, probabilities: [2], outer: [-1, 1]", "probabilities"),
    (f"{QUANTILE}, probabilities: [0.5], outer: [-1, 1]".replace("epsilon: 1", "epsilon: 0.01"), "subsets"),
    (f"{PROBABILITY}, thresholds: [0]".replace("subsets: 100", "subsets: 1000"), "subsets"),
    (f"{PROBABILITY}, thresholds: [0]".replace("coefficient: age", "coefficient: hours"), "coefficient"),
    (f"{PROBABILITY}, thresholds: [0, 0]", "thresholds"),
    (f"{PROBABILITY}, thresholds: [0], method: fisher, least: 0.7", "least"),
    (f"{GAUSSIAN}, covariates: [age, hours], norm: {{covariates: 9, response: 1}}", "norm"),
    (f"{GAUSSIAN}, covariates: [age, hours], norm: {{covariates: 1e290, response: 1}}", "norm"),
    (f"{GAUSSIAN}, covariates: [age, female], intercept: false", "intercept"),
]
PRIORS = [
    ("{noise: {sd: 1e+150}}", "noise"),
    ("{named: {age: {sd: 1e-300}}}", "named"),
]
PRIOR = STUDY.replace("RELEASE", f"{GAUSSIAN}, covariates: [age]") + "analyses:\n  two: {release: one, prior: PRIOR}\n"


def refused(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(StudyInvalid) as caught:
        load_study(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        *((STUDY.replace("RELEASE", release), f"line 13, releases.one.{key}") for release, key in REFUSED),
        *((PRIOR.replace("PRIOR", prior), f"line 15, analyses.two.prior.{key}") for prior, key in PRIORS),
    ],
)
def test_the_key_to_blame_stays_when_the_words_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, where: str
) -> None:
    path, made = tmp_path / "study.yaml", Refusal.__init__
    said = refused(path, text)
    assert said.startswith(f"cannot read study study.yaml: {where}: ")
    monkeypatch.setattr(Refusal, "__init__", lambda self, field, what, remedy: made(self, field, "dit", "Schrijf dat"))
    assert refused(path, text) == f"cannot read study study.yaml: {where}: dit. Schrijf dat."
    assert "dit" not in said
