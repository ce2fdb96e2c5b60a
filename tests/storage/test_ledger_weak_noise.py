"""Noise made for less than the statistics can move is neither charged nor passed by the checks."""

from pathlib import Path

import pytest

from dpbayes_core.errors import DpbayesError
from dpbayes_core.release import Release
from dpbayes_core.sensitivity import Sensitivity
from storage.ledger.verify import verify
from tests.storage.ledger_cases import ENTRIES, GRID, SENSITIVITY, commit, laplace_for, new_ledger, request

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
