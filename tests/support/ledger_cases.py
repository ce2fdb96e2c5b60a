"""Small accounts, requests and mechanisms that the ledger's tests share."""

import tempfile
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.mechanisms import GaussianMechanism, LaplaceMechanism, gaussian_for, laplace_for
from dpbayes_core.privacy.noise import OpenDPNoise
from dpbayes_core.regression.release import RegressionDesign
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from storage.ledger.entries import Entry, Stamp
from storage.ledger.ledger import Ledger
from storage.ledger.publishing import Publication
from storage.ledger.request import AccountSpec, CapSpec, Request
from tests.support.accounts import open_where_missing
from tests.support.sums import sums_of

SCHEMA = RegressionSchema(Continuous("wage", Bounds(0.0, 5.0)), (Continuous("age", Bounds(16.0, 80.0)),))
SENSITIVITY = regression_sensitivity(SCHEMA)
ENTRIES = len(SENSITIVITY.weights)
COMING = regression_sensitivity(SCHEMA, "add-remove")  # where people may come, go or move
GRID = 20
ROWS = 1000
EXACT = sums_of(np.arange(ENTRIES, dtype=np.float64), ROWS)
STAMP = Stamp("tester", date(2026, 11, 18), {"dpbayes": "0.1.0"})


def design(mechanism: Any) -> RegressionDesign:
    return RegressionDesign(schema=SCHEMA, mechanism=mechanism)


def laplace(epsilon: float) -> LaplaceMechanism:
    return laplace_for(SENSITIVITY, epsilon=epsilon, grid=GRID, entries=ENTRIES)


def gaussian(epsilon: float, delta: float = 1e-6) -> GaussianMechanism:
    return gaussian_for(SENSITIVITY, epsilon=epsilon, delta=delta, grid=GRID)


@cache
def coming(mechanism: Any) -> Any:
    """Noise of the same loss for people who may come or go, with a noisy count."""
    if isinstance(mechanism, LaplaceMechanism):
        return laplace_for(COMING, epsilon=mechanism.epsilon, grid=GRID, entries=len(COMING.weights))
    return gaussian_for(COMING, epsilon=mechanism.epsilon, delta=mechanism.delta, grid=GRID)


def gaussian_of_rho(rho: float) -> GaussianMechanism:
    return gaussian_for(SENSITIVITY, rho=rho, grid=GRID)


def cap(
    limit: str, window: Any = "lifetime", *, measure: Any = "epsilon-delta", programme: str | None = None
) -> CapSpec:
    delta = Decimal("1e-6") if measure == "epsilon-delta" else None
    return CapSpec(window=window, measure=measure, limit=Decimal(limit), delta=delta, programme=programme)


def account(*caps: CapSpec, population: str = "employees", **others: Any) -> AccountSpec:
    spec = AccountSpec(
        population=population,
        unit="person_id",
        max_rows_per_unit=1,
        neighbours="replace-one",
        grain="month",
        people="same",
        caps=caps or (cap("1"),),
    )
    return replace(spec, **others)


def request(
    spec: AccountSpec | None = None, *, release: str = "wage", period: str = "2026-01", **others: Any
) -> Request:
    spec = spec or account()
    plain = Request(
        study="wages",
        release=release,
        period=period,
        holder=None,
        revision=1,
        account=spec,
        definition={"population": spec.population, "release": release},
    )
    return replace(plain, **others)


def url(folder: Path) -> str:
    return f"sqlite:///{folder / 'ledger.db'}"


@cache
def empty_ledger() -> bytes:
    """The file of a new ledger; copying it is faster than making one."""
    with tempfile.TemporaryDirectory() as folder:
        Ledger.create(url(Path(folder)), STAMP).dispose()
        return (Path(folder) / "ledger.db").read_bytes()


def new_ledger(folder: Path) -> Ledger:
    (folder / "ledger.db").write_bytes(empty_ledger())
    return Ledger.open(url(folder))


def commit(ledger: Ledger, wanted: Request, mechanism: Any, stamp: Stamp = STAMP) -> Entry:
    """Charge and release, after opening the account unless it is open."""
    open_where_missing(ledger, wanted.account)
    return ledger.commit(wanted, design(mechanism), EXACT, OpenDPNoise(), stamp=stamp)


def commit_moving(ledger: Ledger, wanted: Request, mechanism: Any) -> tuple[Entry, ...]:
    """A release at all holders of people who may move, made with `coming` noise."""
    assert wanted.account.holders is not None
    open_where_missing(ledger, wanted.account)
    exacts = dict.fromkeys(wanted.account.holders.names, EXACT)
    answers = ledger.commit_all(wanted, moving(mechanism), exacts, OpenDPNoise(), stamp=STAMP)
    return tuple(answer.entry for answer in answers)


def moving(mechanism: Any) -> RegressionDesign:
    """The design of a release at holders between whom people may move."""
    return RegressionDesign(schema=SCHEMA, mechanism=mechanism, neighbours="add-remove")


def publication(charge: Entry, **others: Any) -> Publication:
    stated: dict[str, Any] = {
        "study": "wages",
        "period": "2026-01",
        "analysis": "wage-posterior",
        "key": "a" * 64,
        "path": "posteriors/wages/2026-01/wage-posterior-aaaaaaaaaaaaaaaa",
        "prior": "b" * 64,
        "releases": (charge.key,),
        "signed_by": "SHA256:" + "c" * 64,
        "statement": "d" * 64,
        "status": "converged",
        "content": "f" * 64,
    }
    return Publication(**{**stated, **others})
