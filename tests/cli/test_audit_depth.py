"""A steward who owns the signing key lies in the ledger, in a study file or in a page: `dpbayes audit` finds it."""

import json
from pathlib import Path

import numpy as np
import pytest

from dpbayes.study.load import load_study
from dpbayes_core.privacy.noise import OpenDPNoise
from storage.ledger import charging
from storage.ledger.anchored import AnchoredLedger
from tasks.answers import store_crate
from tasks.stamp import stamp_of
from tests.support.desk import PERIOD, Desk
from tests.support.sums import sums_of

LIES = {
    "a tenth of the epsilon": ("epsilon: 1\n", "epsilon: 0.1\n"),
    "other bounds": ("age: {bounds: [16, 80]}", "age: {bounds: [16, 60]}"),
    "other levels": ("levels: [no, yes]", "levels: [yes, no]"),
    "fewer covariates": ("[age, female, region]", "[age, female]"),
    "another response": ("response: pay\n    covariates: [age,", "response: age\n    covariates: [pay,"),
    "another kind": ("mechanism: gaussian\n", "mechanism: laplace\n"),
}


SEEN_IN_THE_LEDGER = {"fewer covariates", "another response"}  # whose entry contradicts itself, without a study file


def told_otherwise(desk: Desk, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A release charged and published under a definition, and with a study file, that say otherwise; its crate."""
    honest = load_study(desk.study).design("pay-regression")
    desk.edit_study(old, new)
    declared = load_study(desk.study)
    with AnchoredLedger.open(desk.study) as anchored, monkeypatch.context() as dishonest:
        dishonest.setattr(charging, "is_as_defined", lambda definition, release: True)
        entry = anchored.ledger.commit(
            declared.request("pay-regression", PERIOD),
            honest,
            sums_of(np.zeros(len(honest.schema.entries)), 2000),
            OpenDPNoise(),
            stamp=stamp_of("liar"),
        )
        anchored.anchor_pending()
        return Path(store_crate(anchored, entry, declared))


@pytest.mark.parametrize("lie", LIES)
def test_a_release_that_its_definition_contradicts_fails_the_audit_of_all_and_of_its_crate(
    desk: Desk, lie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    crate = told_otherwise(desk, *LIES[lie], monkeypatch)
    for what in ((desk.study,), (desk.study, "--crate", str(crate))):
        result = desk.run("audit", *what, "--json")
        assert result.exit_code == 5, (lie, result.output)
        failed = [check["check"] for check in json.loads(result.stdout)["checks"] if not check["ok"]]
        assert failed[-1:] == ["the study file is what was released"], (lie, failed)
        assert bool(failed[:-1]) == (lie in SEEN_IN_THE_LEDGER), (lie, failed)
