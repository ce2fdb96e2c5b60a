"""Other forms of regression under every relation: the ledger takes their noise, and admits what it offers instead."""

import re
from pathlib import Path

import numpy as np
import pytest

from dpbayes_core.errors import BudgetExceeded
from dpbayes_core.privacy.noise import OpenDPNoise
from dpbayes_core.regression.release import RegressionDesign, Release
from tests.dpbayes.plans.plan_cases import Bureau
from tests.support.accounts import open_where_missing
from tests.support.ledger_cases import STAMP

FORMS = {
    "through zero": "intercept: false",
    "ball": "norm: {covariates: 1, response: 0.5}",
    "fourth": "moments: fourth",
    "robust": "robust: true",
}
RELATIONS = {
    "one row replaced": "",
    "several rows replaced": "max_rows_per_unit: 3, ",
    "people come and go": "",
}
BUDGET = "{lifetime: {epsilon: 2}, per-period: {epsilon: 0.4}}"


def bureau_of(folder: Path, form: str, relation: str, mechanism: str = "gaussian", epsilon: float = 0.3) -> Bureau:
    section = (
        f"{{kind: regression, response: pay, covariates: [age, rank], mechanism: {mechanism}, epsilon: {epsilon}, "
    )
    bureau = Bureau.of(folder, BUDGET, f"{section}{form}}}").edited("  age:", "  rank: {bounds: [-2, 2]}\n  age:")
    bureau = bureau.edited("rows: 2000, ", f"rows: 2000, {RELATIONS[relation]}")
    return bureau.edited("privacy:\n", "privacy:\n  neighbours: add-remove\n") if "come" in relation else bureau


def committed(bureau: Bureau) -> Release:
    design = bureau.study.design("r1")
    assert isinstance(design, RegressionDesign)
    statistic, generator = design.statistic(), np.random.default_rng(1)
    exact = statistic.sum(statistic.encode({name: generator.uniform(-5, 50, 500) for name in statistic.columns}))
    with bureau.ledger() as ledger:
        open_where_missing(ledger, bureau.study.account())
        entry = ledger.commit(bureau.study.request("r1", "2026-01"), design, exact, OpenDPNoise(), stamp=STAMP)
        assert entry.release is not None
    release = design.release(OpenDPNoise(), exact)
    assert release.protected
    return release


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("form", FORMS)
def test_the_ledger_takes_a_form_under_every_relation(tmp_path: Path, form: str, relation: str, mechanism: str) -> None:
    if form == "ball" and mechanism == "laplace":
        mechanism = "gaussian"  # the only one that a norm is for
    release = committed(bureau_of(tmp_path, FORMS[form], relation, mechanism))
    assert (release.rows is None) == (relation != "one row replaced")
    assert (release.fourth is not None) == (form == "fourth")
    assert (release.residuals is not None) == (form == "robust")
    assert release.max_rows_per_unit == (3 if "several" in relation else 1)


@pytest.mark.parametrize("form", ["fourth", "robust"])
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_what_a_refusal_offers_for_a_split_loss_is_admitted_and_nearly_fills_the_cap(
    tmp_path: Path, mechanism: str, form: str
) -> None:
    asking = bureau_of(tmp_path, FORMS[form], "one row replaced", mechanism, 0.9)
    with pytest.raises(BudgetExceeded) as refused:
        committed(asking)
    offered = re.search(r"Ask for epsilon ([0-9.e-]+) or less", str(refused.value))
    assert offered is not None
    assert 0.39 <= float(offered[1]) <= 0.4
    committed(bureau_of_again(asking, float(offered[1])))


def bureau_of_again(bureau: Bureau, epsilon: float) -> Bureau:
    return bureau.edited("epsilon: 0.9", f"epsilon: {epsilon}")


def test_shares_are_part_of_what_is_asked_and_their_default_is_said(tmp_path: Path) -> None:
    bureau = bureau_of(tmp_path, FORMS["fourth"], "one row replaced")
    plain = bureau.study.request("r1", "2026-01")
    assert plain.definition["split"] == {"fourth": "0.2", "second": "0.8"}
    other = bureau.edited("moments: fourth", "moments: fourth, split: {second: 0.5, fourth: 0.5}")
    assert other.study.request("r1", "2026-01").hash != plain.hash
    usual = bureau.edited(", moments: fourth", "").study.request("r1", "2026-01")
    assert not {"norm", "moments", "split", "robust"} & set(usual.definition)
