"""What remains in a cap reads the same, digit by digit, wherever people are told of it."""

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from cli.commands import app
from dpbayes.crates.release import release_record
from dpbayes.pages.report.price import cap_lines
from dpbayes_core.errors import BudgetExceeded
from dpbayes_core.privacy.noise import OpenDPNoise
from storage.ledger.entries import Entry
from tests.dpbayes.plans.plan_cases import Bureau, regression
from tests.support.accounts import open_where_missing
from tests.support.ledger_cases import STAMP
from tests.support.sums import sums_of

AWKWARD = {
    "tenths of a pure cap": ("{lifetime: {pure-epsilon: 1}}", "laplace", ["0.1"] * 3),
    "a pure cap of 0.7": ("{lifetime: {pure-epsilon: 0.7}}", "laplace", ["0.0123"]),
    "tenths of a cap of rho": ("{lifetime: {rho: 1}}", "gaussian", ["0.1"] * 3),
    "gaussian charges": ("{lifetime: {epsilon: 8}}", "gaussian", ["0.1"] * 7),
    "one gaussian charge": ("{lifetime: {epsilon: 3}}", "gaussian", ["0.3"]),
    "many small charges": ("{lifetime: {epsilon: 1}}", "gaussian", ["0.01"] * 25),
    "small laplace charges by either route": ("{lifetime: {epsilon: 1}}", "laplace", ["0.013"] * 12),
    "nearly everything": ("{lifetime: {epsilon: 1}}", "gaussian", ["0.99"]),
}


def months(many: int) -> list[str]:
    return [f"{2020 + month // 12}-{1 + month % 12:02}" for month in range(many)]


def charged(bureau: Bureau, losses: list[str], noise: str) -> Entry:
    """One release a month, of these losses; the entry of the last."""
    entries: list[Entry] = []
    for month, loss in zip(months(len(losses)), losses, strict=True):
        study = stating(bureau, loss, noise).study
        design: Any = study.design("r1")
        zeros = sums_of(np.zeros(len(design.schema.entries)), 2000)
        with bureau.ledger() as ledger:
            open_where_missing(ledger, study.account())
            entries.append(ledger.commit(study.request("r1", month), design, zeros, OpenDPNoise(), stamp=STAMP))
    return entries[-1]


def stating(bureau: Bureau, loss: str, noise: str) -> Bureau:
    return Bureau(bureau.folder, bureau.budget, (regression(f"epsilon: {loss}", noise),))


def said(*arguments: Any) -> str:
    return CliRunner().invoke(app, [str(word) for word in arguments], catch_exceptions=False).stdout


def digits(text: str) -> Decimal:
    """A number as a page or a table writes it."""
    return Decimal(text.replace(",", "").replace(" × 10⁻", "e-").translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")))


def cell(text: str, header: str) -> Decimal:
    """What stands under a header in the line of the cap."""
    lines = text.splitlines()
    head = next(number for number, line in enumerate(lines) if f"  {header}" in line)
    found = next(line for line in lines[head:] if line.startswith("lifetime"))
    end = lines[head].index(header) + len(header)
    return digits(found[:end].split()[-1])


@pytest.mark.parametrize("situation", AWKWARD)
def test_what_remains_reads_the_same_on_every_screen(tmp_path: Path, situation: str) -> None:
    budget, noise, losses = AWKWARD[situation]
    bureau = Bureau.of(tmp_path, budget)
    entry = charged(bureau, losses, noise)
    asking = stating(bureau, "9", noise)
    study, coming = asking.study, months(len(losses) + 1)[-1]
    shown = cell(said("ledger", "show", study.path), "remaining")
    (programs,) = json.loads(said("ledger", "show", study.path, "--json"))["accounts"][0]["caps"]
    plan = said("plan", study.path, "--period", coming)
    (planned,) = asking.document(coming)["releases"][0]["caps"]
    (page,) = cap_lines(release_record(entry.to_record()))
    with bureau.ledger() as ledger, pytest.raises(BudgetExceeded) as refused:
        ledger.check(study.request("r1", coming), study.design("r1").mechanism)

    assert programs["remaining"] == planned["remaining"]
    assert Decimal(f"{shown:.4g}") == shown
    assert shown <= Decimal(repr(programs["remaining"])) < shown + Decimal(1).scaleb(shown.adjusted() - 3)
    assert digits(page.remaining) == shown
    assert shown in [Decimal(number) for number in re.findall(r"(?:rho|epsilon) ([0-9.e-]+\b)", str(refused.value))]
    assert cell(plan, "remaining") == shown
    assert cell(plan, "largest epsilon") == Decimal(repr(planned["largest_epsilon"]))
    if noise == "gaussian" and "rho" not in budget:  # the largest release of another kind is another number
        assert planned["largest_epsilon"] == float(shown)
