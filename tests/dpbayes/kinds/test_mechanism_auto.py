"""`mechanism: auto`: decided by public facts that do not change from day to day, and released as if it were written."""

from decimal import Decimal
from pathlib import Path

import pytest

from dpbayes.kinds.regression.noise import CLEARLY
from dpbayes.study.study import Study
from dpbayes_core.privacy.accounting import limit_units
from dpbayes_core.privacy.mechanisms import gaussian_for, laplace_for
from dpbayes_core.regression.planning.noise_blocks import width_ratio
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from tests.dpbayes.plans.plan_cases import Bureau
from tests.support.regressions import JOB, REGION, SEX, schema_of

CAP = "{lifetime: {epsilon: 8}}"
SCHEMAS = {
    "one": schema_of("a"),
    "two": schema_of("a", "b"),
    "levels": schema_of("a", SEX, REGION, JOB),
    "ten": schema_of(*(f"x{k}" for k in range(10))),
}


def study(folder: Path, *, covariates: str = "age", loss: str = "epsilon: 0.4", budget: str = CAP) -> Bureau:
    release = f"{{kind: regression, response: pay, covariates: [{covariates}], mechanism: auto, {loss}}}"
    more = "\n".join(f"  x{k}: {{bounds: [0, 1]}}" for k in range(12))
    return Bureau.of(folder, budget, release).edited(
        "  age: {bounds: [16, 80]}", f"  age: {{bounds: [16, 80]}}\n{more}"
    )


def mechanism_of(study: Study) -> str:
    return study.design("r1").mechanism.name


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"covariates": "age"}, "laplace"),  # few numbers
        ({"covariates": ", ".join(f"x{k}" for k in range(12))}, "gaussian"),  # many
        ({"covariates": "age", "loss": "rho: 0.01"}, "gaussian"),
        ({"covariates": "age", "budget": "{lifetime: {rho: 0.5}}"}, "gaussian"),
        ({"covariates": ", ".join(f"x{k}" for k in range(12)), "budget": "{lifetime: {pure-epsilon: 8}}"}, "laplace"),
    ],
)
def test_the_mechanism_is_chosen_by_width_and_by_what_the_caps_count(
    tmp_path: Path, asked: dict[str, str], name: str
) -> None:
    assert mechanism_of(study(tmp_path, **asked).study) == name


def test_without_a_delta_there_is_laplace_noise_alone(tmp_path: Path) -> None:
    covariates = ", ".join(f"x{k}" for k in range(12))
    bureau = study(tmp_path, covariates=covariates, budget="{lifetime: {epsilon: 8, delta: 1e-6}}")
    assert mechanism_of(bureau.study) == "gaussian"
    assert mechanism_of(bureau.edited("  delta: 1e-6\n", "").study) == "laplace"


def test_what_was_chosen_is_requested_as_if_it_had_been_written(tmp_path: Path) -> None:
    auto = study(tmp_path)
    written = auto.edited("mechanism: auto", "mechanism: laplace")
    other = auto.edited("mechanism: auto", "mechanism: gaussian")
    asked = [one.study.request("r1", "2026-01") for one in (auto, written, other)]
    assert asked[0] == asked[1]
    assert asked[0].definition["mechanism"] == {"name": "laplace", "epsilon": "0.4"}
    assert asked[0].definition != asked[2].definition


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rows: 2000", "rows: 200000000"),
        ("  pay: {bounds: [0, 10]}", "  pay: {bounds: [0, 10], expect: {mean: 1, sd: 0.01}}"),
        ("lifetime: {epsilon: 8}", "lifetime: {epsilon: 80}"),
    ],
)
@pytest.mark.parametrize("covariates", ["age", "age, x1, x2", ", ".join(f"x{k}" for k in range(12))])
def test_what_may_change_any_day_does_not_change_the_choice(
    tmp_path: Path, old: str, new: str, covariates: str
) -> None:
    bureau = study(tmp_path, covariates=covariates)
    assert mechanism_of(bureau.study) == mechanism_of(bureau.edited(old, new).study)


@pytest.mark.slow
def test_it_is_released_and_planned_as_what_was_chosen(tmp_path: Path) -> None:
    bureau = study(tmp_path)
    planned = bureau.document()["releases"][0]
    told = {one["term"]: one["value"] for one in planned["foreseen"]}
    assert planned["mechanism"] == "laplace"
    assert told["Mechanism"].startswith("auto stands for laplace: where noise decides")
    assert bureau.run("2026-01") == [None]
    assert bureau.document()["releases"][0]["status"] == "already-released"


def ratio(schema: RegressionSchema, laplace_epsilon: Decimal, **loss: Decimal) -> float:
    moved = regression_sensitivity(schema)
    laplace = laplace_for(moved, epsilon=laplace_epsilon, grid=20, entries=len(moved.weights))
    return width_ratio(schema, laplace, gaussian_for(moved, grid=20, **loss), schema.entries)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
@pytest.mark.parametrize("epsilon", ["0.01", "0.3", "3"])
def test_at_the_same_rho_laplace_noise_is_always_wider(name: str, epsilon: str) -> None:
    moved = regression_sensitivity(SCHEMAS[name])
    laplace = laplace_for(moved, epsilon=Decimal(epsilon), grid=20, entries=len(moved.weights))
    rho = Decimal(laplace.cost().rho) / limit_units(1.0)
    assert ratio(SCHEMAS[name], Decimal(epsilon), rho=rho) > 1


def test_at_the_same_epsilon_either_may_be_narrower() -> None:
    loss = {"epsilon": Decimal("0.5"), "delta": Decimal("1e-6")}
    found = {name: ratio(schema, Decimal("0.5"), **loss) for name, schema in SCHEMAS.items()}
    assert found["one"] < CLEARLY < 1 < found["ten"]


def test_the_ratio_is_that_of_the_scales_where_all_entries_have_the_same() -> None:
    schema, moved = SCHEMAS["two"], regression_sensitivity(SCHEMAS["two"])
    two = [laplace_for(moved, epsilon=Decimal(e), grid=40, entries=len(moved.weights)) for e in ("1", "2")]
    assert width_ratio(schema, *two, schema.entries) == pytest.approx(two[0].scale / two[1].scale)


def test_the_reason_names_what_decided(tmp_path: Path) -> None:
    declared = study(tmp_path, budget="{lifetime: {pure-epsilon: 8}}").study
    why = declared.release("r1").chosen(declared.context)
    assert why is not None
    assert "pure epsilon" in why
