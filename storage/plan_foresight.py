"""What a regression's posterior will look like, told from the study file alone: precision, and what clipping does."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dpbayes_core.expectation import CORRELATION, EXPLAINED, Expectation, Expected
from dpbayes_core.foresight import Prediction, foresee, impossible
from dpbayes_core.regression import RegressionDesign
from dpbayes_core.schema import Continuous, RegressionSchema
from dpbayes_core.sensitivity import released_entries
from storage.ledger.refusal import USUAL_DELTA
from storage.priors import prior_for
from storage.report.numbers import listed
from storage.study.compile import priced
from storage.study.kinds.automatic import told_choice
from storage.study.prior import PriorSpec
from storage.study.study import Study
from storage.tellings.clipping import clipping_advice

GRID = tuple(Decimal(value) for value in ("0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10"))
"""The values of epsilon that are told beside the study's own."""


@dataclass(frozen=True)
class Foreseen:
    """What `plan` says of one release: predictions, the same over a grid of epsilon, and sentences by topic."""

    predicted: tuple[Prediction, ...] = ()
    grid: tuple[tuple[Decimal, tuple[Prediction, ...]], ...] = ()
    said: tuple[tuple[str, str], ...] = ()

    def document(self) -> dict[str, Any]:
        """As programs read it."""
        return {
            "predicted": [
                {"coefficient": one.coefficient, "sd": one.sd, "interval95": one.half_width, "rough": one.rough}
                for one in self.predicted
            ],
            "grid": [{"epsilon": float(epsilon), "sd": [one.sd for one in found]} for epsilon, found in self.grid],
        }


@dataclass(frozen=True)
class _Public:
    """As much of a release as a prior is made from."""

    kind: str
    schema: RegressionSchema


def foreseen(study: Study, name: str) -> Foreseen:
    """Of one release; nothing where it is not a regression."""
    design: Any = study.design(name)
    if not isinstance(design, RegressionDesign):
        return Foreseen()
    expected = expected_of(study, design.schema)
    whose, stated = _stated_prior(study, name)
    prior: Any = prior_for(_Public("regression", design.schema), stated)  # type: ignore[arg-type]
    ahead = _expectation(study, design, design.mechanism, expected)
    predicted = foresee(ahead, prior)
    grid = [
        (epsilon, foresee(_expectation(study, design, _at(study, name, epsilon), expected), prior)) for epsilon in GRID
    ]
    chosen = told_choice(study, name)
    made = () if chosen is None else (("Mechanism", chosen),)
    rough = _rough(predicted, impossible(ahead, prior))
    assumed = f"{_assumed(design.schema)}; the prior is {whose}"
    return Foreseen(predicted, tuple(grid), (*made, *_said(design.schema, assumed, rough, expected)))


def expected_of(study: Study, schema: RegressionSchema) -> dict[str, Expected]:
    """The study's public guesses about a regression's columns."""
    guesses = {column.name: study.columns[column.name].expect for column in (*schema.covariates, schema.response)}
    return {name: Expected(float(guess.mean), float(guess.sd)) for name, guess in guesses.items() if guess is not None}


def _expectation(
    study: Study, design: RegressionDesign, mechanism: Any, expected: Mapping[str, Expected]
) -> Expectation:
    return Expectation.of(
        design.schema,
        mechanism,
        rows=study.source.rows,
        expected=expected,
        places=released_entries(design.schema, design.neighbours, design.max_rows_per_unit),
        holders=len(study.holders),
    )


def _stated_prior(study: Study, name: str) -> tuple[str, PriorSpec]:
    """That of the first analysis of the release, else the default; and whose it is."""
    stated = ((f"that of {analysis}", one.prior) for analysis, one in study.analyses.items() if one.release == name)
    return next(stated, ("the default", PriorSpec()))


def _at(study: Study, name: str, epsilon: Decimal) -> Any:
    """The release's noise at another epsilon; of a Gaussian one that which a cap of it would just admit."""
    spec, file = study.release(name), priced(study.file)
    if file.privacy.delta is None:
        file = file.model_copy(update={"privacy": file.privacy.model_copy(update={"delta": USUAL_DELTA})})
    mechanism = study.design(name).mechanism.name  # what auto stands for is not chosen anew
    update = {"epsilon": epsilon, "rho": None, "mechanism": mechanism}
    return spec.model_copy(update=update).design(file).mechanism


def _assumed(schema: RegressionSchema) -> str:
    """What nobody declares, as far as this regression has it."""
    numbers = sum(isinstance(column, Continuous) for column in schema.covariates)
    parts = [f"the covariates explain {EXPLAINED:.0%} of the response's variance"]
    if numbers > 1:
        parts.append(f"columns of numbers are correlated by {CORRELATION:g}")
    if numbers < len(schema.covariates):
        parts.append("levels are equally common")
    return listed(parts)


def _said(
    schema: RegressionSchema, assumed: str, rough: str | None, expected: Mapping[str, Expected]
) -> tuple[tuple[str, str], ...]:
    columns = [column for column in (schema.response, *schema.covariates) if isinstance(column, Continuous)]
    guessed = [column.name for column in columns if column.name not in expected]
    said: list[tuple[str, str]] = []
    if guessed:
        said.append(
            (
                "Expected",
                f"nothing is declared of {listed(guessed)}: taken as around the middle of the bounds with a quarter "
                "of their width as standard deviation. Add expect: {mean, sd} for a better prediction",
            )
        )
    said.append(("Predictions assume", assumed))
    if rough:
        said.append(("Rough", rough))
    if advice := clipping_advice(schema.response, expected.get(schema.response.name)):
        said.append(("Clipping", advice))
    return tuple(said)


def _rough(predicted: tuple[Prediction, ...], contradicting: tuple[str, ...]) -> str | None:
    """Why predictions are called rough."""
    if contradicting:
        return (
            "the prior expects coefficients that cannot be, given what the study expects of its columns: "
            f"{listed(contradicting)} would have the covariates explain more than the response varies. Predictions "
            "are of little use before either is changed"
        )
    if rough := [one.coefficient for one in predicted if one.rough]:
        return (
            f"the noise is so large that the precision of {listed(rough)} hangs on how it falls: releases will "
            "scatter around the prediction by a quarter and more"
        )
    return None
