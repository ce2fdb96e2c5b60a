"""Texts for a ridge estimate."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpbayes.kinds.counted import Counted
from dpbayes.kinds.regression.texts import CONSTANT, declared_columns
from dpbayes.kinds.texts import Declared, Group, Record, Spread, Texts
from dpbayes.markup.numbers import listed, short
from dpbayes_core.regression.schema import INTERCEPT
from dpbayes_core.ridge.release import RidgeRelease

LEAST = "(least eigenvalue)"


class RidgeTexts(Texts):
    """Texts for noisy moments, noisy X'y and least eigenvalue, and the estimate made from them."""

    what = "noisy statistics for a ridge regression"
    spread = Spread(
        "spread of the privacy noise",
        "Ridge estimate",
        "Ridge estimates with the range that the privacy noise alone gives them in 95 of 100 draws",
        "95% of the noise",
        "noise’s standard deviation",
    )

    def lines(self, release: RidgeRelease) -> list[dict[str, Any]]:
        """One line for each entry, standardised; the last is the least eigenvalue, which has no row and column."""
        labels = (CONSTANT, *(variable.label for variable in release.schema.variables))
        named = [(i, j, labels[i], labels[j]) for i, j in release.entries]
        keys = ("row", "column", "label_row", "label_column", "value", "scale")
        scales: list[float] = release.mechanism.scales.tolist()
        return [
            dict(zip(keys, (*place, value, scale), strict=True))
            for place, value, scale in zip([*named, (-1, -1, LEAST, LEAST)], release.values, scales, strict=True)
        ]

    def product(self, release: RidgeRelease) -> str:
        columns = ", ".join(column.name for column in release.schema.covariates)
        return f"Noisy statistics for the ridge regression of {release.schema.response.name} on {columns}"

    def declared(self, release: RidgeRelease) -> tuple[Declared, ...]:
        return declared_columns(release.schema)

    def applied(self, record: Record) -> str:
        mechanism = record["mechanism"]
        return (
            f"Gaussian noise of scale {mechanism['scale']!r} for a sensitivity of {mechanism['sensitivity']!r} "
            f"({mechanism['norm']}), on exact sums in fixed point and their least eigenvalue."
        )

    def title(self, release: RidgeRelease) -> str:
        return f"{release.schema.response.name} by {listed([column.name for column in release.schema.covariates])}"

    def lede(self, release: RidgeRelease) -> str:
        return "A ridge estimate, drawn with the spread of its privacy noise alone,"

    def model(self, release: RidgeRelease) -> str:
        terms = " + ".join(["intercept", *(column.name for column in release.schema.covariates)])
        return f"{release.schema.response.name} = {terms}, coefficients drawn to zero as the noise asks for"

    def prior(self, prior: Record) -> str:
        return "none: the penalty follows from the noise and the least eigenvalue"

    def meanings(self, release: RidgeRelease) -> Mapping[str, str]:
        slopes = {column.name: f"per unit of {column.name}" for column in release.schema.covariates}
        return {INTERCEPT: f"{release.schema.response.name} where every column is 0", **slopes}

    def groups(self, release: RidgeRelease, names: Sequence[str]) -> tuple[Group, ...]:
        response, slopes = release.schema.response.name, tuple(c.name for c in release.schema.covariates)
        return (
            Group("Slopes", f"in units of {response} per unit of the column", slopes, False, True),
            Group("Intercept", f"in units of {response}", (INTERCEPT,), False, False),
        )

    def reading(self, release: RidgeRelease) -> str:
        return (
            f"Each coefficient is the difference in {release.schema.response.name} that goes with one unit of a "
            "column, the other columns held fixed. The range beside it tells how far the privacy noise alone may have "
            "moved it. It is no interval for the coefficient: sampling error and the penalty's bias are not in it. "
        )

    def noise(self, release: RidgeRelease, counted: Counted) -> tuple[str, ...]:
        deviation, n = float(release.mechanism.scales.max()), counted.words(f"{release.rows:,}")
        return (
            f"What was released are {len(release.values) - 1} sums over n = {n} of columns and their products, each "
            "column mapped to the interval from −1 to 1 by its declared bounds, and the least eigenvalue of the "
            "covariates' sums.",
            f"Every number carries noise with a standard deviation of {short(deviation)}, which is "
            f"{short(deviation / max(release.rows, 1))} on the mean of n. Sampling moves such a sum by at most √n = "
            f"{short(math.sqrt(release.rows))} (one standard deviation), and is no part of the ranges here.",
        )

    def noise_size(self, release: RidgeRelease) -> tuple[str, str, str]:
        """On a mean."""
        size = float(release.mechanism.scales.max()) / max(release.rows, 1)
        return "Noise on a mean", f"± {short(size, 2)}", "columns mapped to −1 … 1"

    def noise_pairs(self, release: RidgeRelease) -> tuple[tuple[str, str], ...]:
        """Mechanism, sensitivity and scale."""
        mechanism = release.mechanism
        moved = f"{short(mechanism.sensitivity)} in {mechanism.norm}, the most that a neighbour can move them together"
        return (
            ("Mechanism", "Gaussian noise, drawn independently for each number"),
            ("Sensitivity", moved),
            ("Scale", f"{short(float(mechanism.scales.max()))} (standard deviation)"),
        )

    def caveats(self, release: RidgeRelease) -> tuple[str, ...]:
        return (
            "A regression release of the same price gives a calibrated posterior.",
            "Values outside their declared bounds were clipped before anything was computed.",
            f"{INTERCEPT} refers to every column at 0, which may lie outside the declared bounds.",
        )


RIDGE = RidgeTexts()
