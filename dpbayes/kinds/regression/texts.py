"""Texts for a regression."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpbayes.kinds.counted import Counted
from dpbayes.kinds.regression.clipping import clipping_caveat
from dpbayes.kinds.texts import Declared, Group, Record, Texts
from dpbayes.markup.numbers import listed, short
from dpbayes_core.bounds import Bounds
from dpbayes_core.privacy.mechanisms.noise_law import GAUSSIAN
from dpbayes_core.regression.independent_prior import LAW
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.schema import INTERCEPT, SIGMA, Continuous, Covariate, RegressionSchema

CONSTANT = "(constant)"  # how the leading 1 of every row is called in files
MOST_NAMED = 6  # covariates in a title

OF_COMPLETE = (
    "Rows with a missing value were left out, except in columns for which the columns’ table names a replacement. The "
    "coefficients describe everybody only if, among people with equal covariates, whether a value is missing does not "
    "depend on the response; otherwise they describe the complete rows."
)
_OF_FILLED = (
    "A missing value entered as the constant or level that the columns’ table names. How many there were is not "
    "published; where there were many, coefficients are wrong in either direction, and intervals do not show it."
)


_FURTHER = {
    "robust": "products of covariates weighed by squared residuals",
    "moments": "third and fourth moments of the covariates",
}


def _noise_words(mechanism: Record) -> str:
    return (
        f"{mechanism['name'].capitalize()} noise of scale {mechanism['scale']!r} for a sensitivity of "
        f"{mechanism['sensitivity']!r} ({mechanism['norm']})"
    )


class RegressionTexts(Texts):
    """Texts for noisy second moments, and for the posterior of a linear regression."""

    what = "noisy second moments of a regression"

    def lines(self, release: Release) -> list[dict[str, Any]]:
        """One line for each entry: its place, its labels, its value and its noise scale, standardised."""
        labels = (CONSTANT, *(variable.label for variable in release.schema.variables))
        scales: list[float] = release.mechanism.scales.tolist()
        return [
            {"row": i, "column": j, "label_row": labels[i], "label_column": labels[j], "value": value, "scale": scale}
            for (i, j), value, scale in zip(release.entries, release.values, scales, strict=True)
        ]

    def product(self, release: Release) -> str:
        columns = ", ".join(c.name for c in release.schema.covariates)
        weighed = "" if release.residuals is None else ", and products of the covariates weighed by squared residuals,"
        return f"Noisy second moments{weighed} for the regression of {release.schema.response.name} on {columns}"

    def declared(self, release: Release) -> tuple[Declared, ...]:
        return declared_columns(release.schema)

    def applied(self, record: Record) -> str:
        mechanism = record["mechanism"]
        if "beside" not in mechanism:
            return f"{_noise_words(mechanism)}, on exact sums in fixed point."
        further = _FURTHER["robust" if "robust" in record["definition"] else "moments"]
        return (
            f"{_noise_words(mechanism)}, on exact sums of second moments in fixed point; and, for a share of the loss "
            f"of its own, {_noise_words(mechanism['beside'])}, on exact sums of {further}."
        )

    def title(self, release: Release) -> str:
        names = [column.name for column in release.schema.covariates]
        more = len(names) - MOST_NAMED
        named = listed(names if more < 2 else [*names[:MOST_NAMED], f"{more} more"])
        return f"{release.schema.response.name} by {named}"

    def lede(self, release: Release) -> str:
        return "A Bayesian linear regression"

    def model(self, release: Release) -> str:
        names = [column.name for column in release.schema.covariates]
        terms = " + ".join(["intercept", *names] if release.schema.intercept else names)
        residual = (
            "normal residual" if release.residuals is None else "residual whose spread may hang on the covariates"
        )
        return f"{release.schema.response.name} = {terms} + {residual}"

    def prior(self, prior: Record) -> str:
        independent = prior.get("law") == LAW
        unit = "half widths of the response’s bounds" if independent else "residual standard deviations"
        residual = "residual standard deviation gamma" if independent else "residual variance inverse gamma"
        return (
            "with every column mapped to −1 … 1: intercept and coefficients normal around 0, with standard deviations "
            f"of {short(prior['intercept_sd'])} and {short(prior['coefficient_sd'])} {unit}; "
            f"{residual} ({short(prior['noise_shape'])}, {short(prior['noise_scale'])})"
            f"{', in the same units' if independent else ''}"
        )

    def meanings(self, release: Release) -> Mapping[str, str]:
        schema, response = release.schema, release.schema.response.name
        references = {c.name: c.levels[0] for c in schema.covariates if not isinstance(c, Continuous)}
        meanings = {INTERCEPT: f"{response} where every column is 0 or at its reference"} if schema.intercept else {}
        for variable in schema.variables[:-1]:
            reference = references.get(variable.column)
            meanings[variable.label] = f"per unit of {variable.column}" if reference is None else f"against {reference}"
        return meanings | {SIGMA: f"standard deviation of {response} around the regression"}

    def groups(self, release: Release, names: Sequence[str]) -> tuple[Group, ...]:
        """Levels share an axis, since their units are the same; every other parameter has its own."""
        variables, response = release.schema.variables[:-1], release.schema.response.name
        levels = tuple(v.label for v in variables if v.level is not None)
        slopes = tuple(v.label for v in variables if v.level is None)
        each = "each on its own axis"
        return (
            Group("Levels", f"against their reference, in units of {response}; one axis for all", levels, True, True),
            Group("Slopes", f"in units of {response} per unit of the column; {each}", slopes, False, True),
            Group("Intercept and residual spread", f"in units of {response}; {each}", (INTERCEPT, SIGMA), False, False)
            if release.schema.intercept
            else Group("Residual spread", f"in units of {response}", (SIGMA,), False, False),
        )

    def reading(self, release: Release) -> str:
        return (
            f"Each coefficient is the difference in {release.schema.response.name} that goes with one unit of a "
            "column, or with a level against its reference, the other columns held fixed. "
        )

    def noise(self, release: Release, counted: Counted) -> tuple[str, ...]:
        n = round(release.count)
        if n < 1:
            return ("By the released numbers the table had no rows, so what was released is noise alone.",)
        return (
            f"What was released are {len(release.values)} sums over {_n_words(release, counted)} of columns and their "
            f"products, {_mapping_words(release.schema)}.{_further_sums(release)}",
            f"Every sum carries noise with a standard deviation of up to {short(_deviation(release))}, which is "
            f"{short(_on_mean(release))} on the mean of n. Sampling moves such a sum by at most √n = "
            f"{short(math.sqrt(n))} (one standard deviation). But coefficients hang on small differences between "
            "sums, so noise can matter more to them than that comparison suggests.",
        )

    def noise_size(self, release: Release) -> tuple[str, str, str]:
        return "Noise on a mean", f"± {short(_on_mean(release), 2)}", "columns mapped to −1 … 1"

    def noise_pairs(self, release: Release) -> tuple[tuple[str, str], ...]:
        mechanism = release.mechanism
        low, high = float(mechanism.scales.min()), float(mechanism.scales.max())
        scales = short(high) if low == high else f"{short(low)} to {short(high)}, smallest on the squares of columns"
        weighing = mechanism.norm if low == high else f"{mechanism.norm} of the weighted numbers"
        moved = f"{short(mechanism.sensitivity)} in {weighing}, the most that a neighbour can move them"
        kind = "standard deviation" if mechanism.law is GAUSSIAN else f"{mechanism.name.capitalize()} scale"
        return (
            ("Mechanism", f"{mechanism.words}, drawn independently for each number"),
            ("Sensitivity", moved),
            ("Scale", f"{scales} ({kind})"),
            *_further_noise_pairs(release),
        )

    def caveats(self, release: Release) -> tuple[str, ...]:
        intercept = f"{INTERCEPT} refers to every column at 0, which may lie outside the declared bounds."
        without = f"There is no intercept: {release.schema.response.name} is taken to be 0 where every column is 0."
        shrunk = "Rows longer than the declared norm were shrunk to it, and the coefficients describe the shrunk rows."
        return (
            clipping_caveat(release),
            missing_caveat(release.schema),
            intercept if release.schema.intercept else without,
            *(() if release.schema.ball is None else (shrunk,)),
        )


def missing_caveat(schema: RegressionSchema) -> str:
    """How missing values were treated, and what that leaves open."""
    return OF_COMPLETE if schema.cases == "complete" else _OF_FILLED


def declared_columns(schema: RegressionSchema) -> tuple[Declared, ...]:
    """The declared response and covariates."""
    return tuple(_declared(column, schema) for column in (schema.response, *schema.covariates))


def _declared(column: Covariate, schema: RegressionSchema) -> Declared:
    role = "response" if column.name == schema.response.name else "covariate"
    if isinstance(column, Continuous):
        return Declared(column.name, role, _interval(column.bounds), "itself, clipped to these bounds")
    entering = listed([f"{column.name}[{level}]" for level in column.levels[1:]])
    return Declared(column.name, role, ", ".join(column.levels), f"{entering}, against {column.levels[0]}")


def _interval(bounds: Bounds) -> str:
    return f"{short(bounds.low)} to {short(bounds.high)}"


def _n_words(release: Release, counted: Counted) -> str:
    if release.rows is not None:
        return f"n = {counted.words(f'{release.rows:,}')}"
    noisy = "; how many is one of the noisy numbers"
    return f"about n = {counted.words(f'{round(release.count):,}', noisy)}"


def _mapping_words(schema: RegressionSchema) -> str:
    """How columns became the numbers that were summed."""
    if schema.intercept:
        mapping = "each column mapped to the interval from −1 to 1 by its declared bounds"
    else:
        mapping = "each column divided by the size of its declared bounds, the larger of the two"
    if schema.ball is None:
        return mapping
    longest, largest = short(schema.ball.covariates), short(schema.ball.response)
    return f"{mapping}, then shrunk to a length of at most {longest} (the response to at most {largest})"


def _further_sums(release: Release) -> str:
    """A sentence about sums released in addition to second moments; empty without them."""
    if release.residuals is not None:
        return (
            f" Besides, {len(release.residuals.values)} sums of products of covariates were released of the same rows, "
            "each row weighed by its squared residual, with noise of their own."
        )
    if release.fourth is None:
        return ""
    count = len(release.fourth.values)
    return f" Besides, {count} sums of products of three and four covariates were released, with noise of their own."


def _further_noise_pairs(release: Release) -> tuple[tuple[str, str], ...]:
    """Terms and values of the noise on these sums."""
    if (found := release.residuals) is not None:
        limit = short(_in_response_units(release, found.fit.limit))
        weighed = (
            f"scale {short(found.mechanism.scale)}, paid for by a share of the privacy loss; a row weighs 1 from a "
        )
        return (("Sums weighed by residuals", f"{weighed}residual of {limit} on"),)
    if release.fourth is None:
        return ()
    low, high = float(release.fourth.scales.min()), float(release.fourth.scales.max())
    scales = short(high) if low == high else f"{short(low)} to {short(high)}"
    return (("Third and fourth moments", f"scale {scales}, paid for by a share of the privacy loss"),)


def _in_response_units(release: Release, length: float) -> float:
    """Converts a length on the standardised response to its own units."""
    return length * release.schema.standardised(release.schema.response).width / 2


def _deviation(release: Release) -> float:
    return float(release.mechanism.deviations.max())


def _on_mean(release: Release) -> float:
    return _deviation(release) / max(release.count, 1)


REGRESSION = RegressionTexts()
