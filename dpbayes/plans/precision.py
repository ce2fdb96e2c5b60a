"""Predicts a regression's posterior from the study file alone: its precision, and what clipping does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from dpbayes.kinds.prior import PriorSpec
from dpbayes.kinds.regression.clipping import clipping_advice
from dpbayes.kinds.regression.pooled_parts import planned_words
from dpbayes.kinds.regression.prior import regression_prior
from dpbayes.markup.numbers import listed
from dpbayes.plans.effects import Effect, effects_of, effects_words, warnings_of
from dpbayes.study.guesses import expected_of, relations_of
from dpbayes.study.study import Study
from dpbayes_core.privacy.mechanisms.additional_noise import additional_noise_of
from dpbayes_core.regression.expected_prior import is_expected
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.planning.expected_moments import Expectation, Expected
from dpbayes_core.regression.planning.noise_blocks import NoiseBlock, noise_blocks
from dpbayes_core.regression.planning.precision import Prediction, impossible, precision_of
from dpbayes_core.regression.planning.relations import CORRELATION, HIGH_CORRELATION, Relations
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import RegressionDesign
from dpbayes_core.regression.schema import Continuous, RegressionSchema
from dpbayes_core.regression.sensitivity.box import released_entries
from storage.ledger.refusal import USUAL_DELTA

GRID = tuple(Decimal(value) for value in ("0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10"))
"""The values of epsilon that are predicted in addition to the study's own."""

PRIOR_DRAWS = 100_000
SEED = 20_261_119


@dataclass(frozen=True)
class ReleasePrediction:
    """The prediction for one release: its precision, the same over a grid of epsilon, and sentences by topic."""

    predicted: tuple[Prediction, ...] = ()
    worse: tuple[Prediction, ...] = ()  # if numbers are highly correlated; empty if their correlations are stated
    exact: tuple[Prediction, ...] = ()  # without noise
    alone: tuple[float, ...] = ()  # half of the prior's 95% interval
    effects: tuple[Effect, ...] = ()
    blocks: tuple[NoiseBlock, ...] = ()
    grid: tuple[tuple[Decimal, tuple[Prediction, ...]], ...] = ()
    sentences: tuple[tuple[str, str], ...] = ()

    def document(self) -> dict[str, Any]:
        """The prediction as plain data."""
        effects = {one.coefficient: one for one in self.effects}
        worse = self.worse or (None,) * len(self.predicted)
        return {
            "predicted": [
                {
                    **_widths(one),
                    "rough": one.rough,
                    "high_correlation": None if high is None else _widths(high),
                    "without_noise": _widths(exact),
                    "prior_interval95": alone,
                    **_effect_fields(effects.get(one.coefficient)),
                }
                for one, high, exact, alone in zip(self.predicted, worse, self.exact, self.alone, strict=True)
            ],
            "grid": [{"epsilon": float(epsilon), "sd": [one.sd for one in found]} for epsilon, found in self.grid],
            "blocks": [
                {
                    "block": one.name,
                    "numbers": one.numbers,
                    "noise": one.noise,
                    "measures": one.measures,
                    "ratio": one.ratio,
                }
                for one in self.blocks
            ],
        }


def _widths(one: Prediction) -> dict[str, Any]:
    return {"coefficient": one.coefficient, "sd": one.sd, "interval95": one.half_width}


def _effect_fields(effect: Effect | None) -> dict[str, Any]:
    least = (None, None) if effect is None else (effect.least, effect.least_worse)
    return dict(zip(("told_from_zero", "told_from_zero_high_correlation"), least, strict=True))


@dataclass(frozen=True, kw_only=True)
class _Regression:
    """One regression of a study, to be predicted with one noise or another."""

    study: Study
    design: RegressionDesign
    prior: Prior
    expected: Mapping[str, Expected]
    relations: Relations

    def expectation(self, mechanism: Any, relations: Relations | None = None) -> Expectation:
        """The expected moments of its release."""
        return Expectation.of(
            self.design.schema,
            mechanism,
            rows=self.study.source.rows,
            expected=self.expected,
            places=released_entries(self.design.schema, self.design.neighbours, self.design.max_rows_per_unit),
            holders=len(self.study.holders),
            relations=relations or self.relations,
        )

    def prediction(self) -> ReleasePrediction:
        """The prediction with its own noise; the grid and the sentences are added later."""
        schema, known = self.design.schema, self.expectation(self.design.mechanism)
        predicted = precision_of(known, self.prior)
        worse: tuple[Prediction, ...] = ()
        if self.relations.unstated(_numbers(schema)):
            high = replace(self.relations, otherwise=HIGH_CORRELATION)
            related = precision_of(self.expectation(self.design.mechanism, high), self.prior)
            worse = tuple(max(pair, key=lambda one: one.half_width) for pair in zip(related, predicted, strict=True))
        exact = precision_of(replace(known, noise=np.zeros_like(known.noise)), self.prior)
        draws = self.prior.draws(schema, PRIOR_DRAWS, np.random.Generator(np.random.Philox(SEED)))
        ends = [np.quantile(draws[one.coefficient], (0.025, 0.975)) for one in predicted]
        alone = tuple(float(high - low) / 2 for low, high in ends)
        additional = additional_noise_of(self.design.mechanism)
        return ReleasePrediction(
            predicted,
            worse,
            exact,
            alone,
            effects_of(known, predicted, worse, alone),
            noise_blocks(known, additional, len(self.study.holders), self.design.besides),
        )


def predict_release(study: Study, name: str, epsilons: Sequence[Decimal] = GRID) -> ReleasePrediction:
    """The prediction for one release, and its precision at these values of epsilon; empty unless it is a regression."""
    design: Any = study.design(name)
    if not isinstance(design, RegressionDesign):
        return ReleasePrediction()
    expected, relations = expected_of(study.columns, design.schema), relations_of(study.columns)
    origin, prior = _stated_prior(study, name, design.schema, expected)
    regression = _Regression(study=study, design=design, prior=prior, expected=expected, relations=relations)
    known, found = regression.expectation(design.mechanism), regression.prediction()
    grid = tuple(
        (epsilon, precision_of(regression.expectation(_at(study, name, epsilon)), prior)) for epsilon in epsilons
    )
    sentences = (
        *((("Mechanism", chosen),) if (chosen := study.release(name).chosen(study.context)) else ()),
        *_assumptions(regression, known, origin),
        *((("Rough", rough),) if (rough := _rough(found.predicted, impossible(known, prior))) else ()),
        *(() if isinstance(prior, IndependentPrior) else warnings_of(known)),  # they hold for the conjugate prior only
        *_besides(design),
        *_several(study, name, design.schema),
        *_clipping(design.schema, expected),
        *effects_words(found.effects),
    )
    return replace(found, grid=grid, sentences=sentences)


def _numbers(schema: RegressionSchema) -> list[str]:
    return [column.name for column in schema.covariates if isinstance(column, Continuous)]


def _stated_prior(
    study: Study, name: str, schema: RegressionSchema, expected: Mapping[str, Expected]
) -> tuple[str, Prior]:
    """The prior of the first analysis of the release, or the default; and where it comes from."""
    for analysis, one in study.analyses.items():
        if one.release == name:
            prior = regression_prior(one.prior, schema, one.sampler, expected)
            return f"that of {analysis} ({_law(prior)})", prior
    prior = regression_prior(PriorSpec(), schema, expected=expected)
    return f"the default ({_law(prior)})", prior


def _law(prior: Prior) -> str:
    units = ", in units of what is expected" if is_expected(prior.to_record()) else ""
    return f"law: {'independent' if isinstance(prior, IndependentPrior) else 'conjugate'}{units}"


def _at(study: Study, name: str, epsilon: Decimal) -> Any:
    """The release's noise at another epsilon; Gaussian noise is the least that a cap of this epsilon admits."""
    spec, context = study.release(name), study.context
    if context.delta is None:
        context = replace(context, delta=USUAL_DELTA)
    mechanism = study.design(name).mechanism.name  # auto keeps its choice
    update = {"epsilon": epsilon, "rho": None, "mechanism": mechanism}
    return spec.model_copy(update=update).design(context).mechanism


def _assumptions(regression: _Regression, known: Expectation, origin: str) -> list[tuple[str, str]]:
    """Assumptions about what the study does not declare, as far as this regression depends on it."""
    schema, relations = regression.design.schema, regression.relations
    columns = [column for column in (schema.response, *schema.covariates) if isinstance(column, Continuous)]
    guessed = [column.name for column in columns if column.name not in regression.expected]
    sentences: list[tuple[str, str]] = []
    if guessed:
        sentences.append(
            (
                "Expected",
                f"nothing is declared of {listed(guessed)}: taken as around the middle of the bounds with a quarter "
                "of their width as standard deviation. Add expect: {mean, sd} for a better prediction",
            )
        )
    parts = [f"the covariates explain {known.explained:.0%} of the response's variance"]
    if relations.unstated(_numbers(schema)):
        others = "other " * any(relations.of(a, b) for a in _numbers(schema) for b in _numbers(schema))
        parts.append(
            f"{others}columns of numbers are correlated by {CORRELATION:g} (state it: expect: {{correlations}})"
        )
    levels = [column.name for column in schema.covariates if not isinstance(column, Continuous)]
    if unknown := [name for name in levels if name not in relations.shares]:
        whose_levels = "levels" if unknown == levels else f"the levels of {listed(unknown)}"
        parts.append(f"{whose_levels} are equally common")
    return [*sentences, ("Predictions assume", f"{listed(parts)}; the prior is {origin}")]


def _besides(design: RegressionDesign) -> list[tuple[str, str]]:
    """What is released in addition to second moments: its share of the loss, and which sampler reads it."""
    additional = additional_noise_of(design.mechanism)
    if additional is None:
        return []
    share = float(Fraction(additional.cost().rho, design.mechanism.cost().rho))
    if design.besides == "residuals":
        return [
            (
                "Robust",
                f"the second step, of covariates weighed by squared residuals, takes {share:.0%} of the rho that this "
                "release costs. What is predicted here takes residuals to be spread equally; where they are not, "
                "intervals are as much wider as their spread asks",
            )
        ]
    return [
        (
            "Fourth moments",
            f"third and fourth moments take {share:.0%} of the rho that this release costs. Only the sampler "
            "gibbs-ss-noisy reads them; what is predicted here is the default sampler's posterior, which does not",
        )
    ]


def _several(study: Study, name: str, schema: RegressionSchema) -> list[tuple[str, str]]:
    """How analyses model several releases; predictions take them to be alike."""
    analyses = [(analysis, one) for analysis, one in study.analyses.items() if one.release == name]
    return [
        ("Several releases", f"{analysis} analyses {planned_words(one.sampler, schema, alike=one.alike)}")
        for analysis, one in analyses
        if one.pools(len(study.holders))
    ]


def _clipping(schema: RegressionSchema, expected: Mapping[str, Expected]) -> list[tuple[str, str]]:
    advice = clipping_advice(schema.response, expected.get(schema.response.name))
    return [("Clipping", advice)] if advice else []


def _rough(predicted: tuple[Prediction, ...], contradicting: tuple[str, ...]) -> str | None:
    """Why predictions are called rough; None if they are not."""
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
