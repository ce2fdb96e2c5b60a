"""Noise for less than the statistics can move, or for other ones than were defined, is not charged and is found."""

from pathlib import Path
from typing import Any

import pytest

from dpbayes_core.errors import DpbayesError
from dpbayes_core.privacy.sensitivity import Sensitivity
from dpbayes_core.regression.release import Release
from storage.ledger import charging
from storage.ledger.verify import verify
from tests.support.ledger_cases import ENTRIES, GRID, SCHEMA, SENSITIVITY, commit, laplace_for, new_ledger, request

WEAK = Sensitivity(
    l1=SENSITIVITY.l1 / 2, l2=SENSITIVITY.l2 / 2, weights=SENSITIVITY.weights, neighbours=SENSITIVITY.neighbours
)
WEAK_MECHANISM = laplace_for(WEAK, epsilon=0.1, grid=GRID, entries=ENTRIES)


def test_noise_for_half_the_sensitivity_is_not_charged(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        with pytest.raises(DpbayesError, match="less than its statistics can move"):
            commit(ledger, request(), WEAK_MECHANISM)
        assert ledger.count("charge") == 0


def test_a_charge_of_weak_noise_is_found_by_the_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with new_ledger(tmp_path) as ledger:
        with monkeypatch.context() as careless:
            careless.setattr(Release, "protected", True)
            commit(ledger, request(), WEAK_MECHANISM)
        failed = [check for check in verify(ledger.entries()) if not check.ok]
    assert [check.check for check in failed] == ["releases are as digested"]
    assert "less than its statistics can move" in failed[0].detail


MECHANISM = laplace_for(SENSITIVITY, epsilon=0.1, grid=GRID, entries=ENTRIES)
PLAIN = {
    "kind": "regression",
    "response": SCHEMA.response.name,
    "covariates": [column.name for column in SCHEMA.covariates],
    "intercept": True,
}


@pytest.mark.parametrize(
    "stated",
    [{"cases": "complete"}, {"robust": {}}, {"moments": "fourth"}, {"covariates": ["other"]}, {"intercept": False}],
)
def test_a_release_of_other_rows_columns_or_steps_than_defined_is_not_charged_and_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: dict[str, Any]
) -> None:
    """A definition of complete cases hides how many there are; a release of all rows publishes their number."""
    asked = request(definition=PLAIN | stated)
    with new_ledger(tmp_path) as ledger:
        with pytest.raises(DpbayesError, match="of other columns, other rows or other steps than its request"):
            commit(ledger, asked, MECHANISM)
        assert ledger.count("charge") == 0
        with monkeypatch.context() as careless:
            careless.setattr(charging, "is_as_defined", lambda definition, release: True)
            commit(ledger, asked, MECHANISM)
        failed = [check for check in verify(ledger.entries()) if not check.ok]
    assert [check.check for check in failed] == ["releases are as digested"]
    assert "than its definition states" in failed[0].detail


def test_a_release_as_defined_is_charged_and_passes(tmp_path: Path) -> None:
    with new_ledger(tmp_path) as ledger:
        commit(ledger, request(definition=PLAIN), MECHANISM)
        assert all(check.ok for check in verify(ledger.entries()))
