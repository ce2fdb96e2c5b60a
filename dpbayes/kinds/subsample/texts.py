"""Texts for posterior probabilities and quantiles by subsample and aggregate."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpbayes.kinds.counted import Counted
from dpbayes.kinds.texts import Curve, Declared, Group, Record, Texts
from dpbayes.markup.numbers import listed, short
from dpbayes_core.privacy.mechanisms.centre_scale import MEAN_FROM
from dpbayes_core.regression.schema import Factor
from dpbayes_core.subsample.probability import ProbabilityDesign, ProbabilityRelease
from dpbayes_core.subsample.quantile import QuantileDesign, QuantileRelease
from dpbayes_core.subsample.refusals import noise_to_signal, unresolvable
from dpbayes_core.subsample.schema import OpenCovariate, OpenSchema

Aggregate = ProbabilityRelease | QuantileRelease
Pairs = tuple[tuple[str, str], ...]


class SubsampleTexts(Texts):
    """What both kinds share: the regression, its subsets, and the prior inside the release."""

    parameter = "Answer"
    parameters = "Answers"

    def declared(self, release: Aggregate) -> tuple[Declared, ...]:
        return _declared_open(release.schema)

    def model(self, release: Aggregate) -> str:
        names = " + ".join(column.name for column in release.schema.covariates)
        return (
            f"{release.schema.response} = intercept + {names} + normal residual, fitted in {release.terms.subsets} "
            "random subsets of people"
        )

    def prior(self, prior: Record) -> str:
        g = "" if prior["kind"] != "zellner" else f", g = {short(prior['g'])}" if prior["g"] else ", g = declared rows"
        return f"{prior['kind']}{g}; part of the release, for every subset was fitted with its share of it"

    def caveats(self, release: Aggregate) -> tuple[str, ...]:
        return (
            "The subsets were dealt out by a secret key that no longer exists: they cannot be drawn again.",
            "Numbers were not clipped, for a person moves one subset only, whatever their values. Intervals assume "
            "that subset answers scatter as those of a well-behaved regression do.",
        )

    def noise_pairs(self, release: Aggregate) -> Pairs:
        mechanism = release.mechanism
        on = " on whole numbers" if isinstance(release, ProbabilityRelease) else ""
        return (
            ("Mechanism", f"{mechanism.words}{on}"),
            ("Sensitivity", "one subset's answer: a person is in one subset"),
            ("Subsets", str(release.terms.subsets)),
        )

    def applied(self, record: Record) -> str:
        mechanism = record["mechanism"]
        return (
            f"{mechanism['name'].capitalize()} mechanism of a total epsilon of {mechanism['epsilon']!r} on answers of "
            "random disjoint subsets of people, of which one person moves one."
        )

    def title(self, release: Aggregate) -> str:
        names = [column.name for column in release.schema.covariates]
        return f"{release.schema.response} by {listed(names)}"


class ProbabilityTexts(SubsampleTexts):
    """Texts for posterior probabilities."""

    what = "noisy posterior probabilities of a regression"
    units = "on the scale from 0 to 1"

    def lines(self, release: ProbabilityRelease) -> list[dict[str, Any]]:
        """One line for each question: the noisy mean over subsets, and the scale of its noise."""
        pairs = zip(release.terms.names, release.means.tolist(), release.noise_scales.tolist(), strict=True)
        return [{"query": name, "value": value, "scale": scale} for name, value, scale in pairs]

    def product(self, release: ProbabilityRelease) -> str:
        return f"Noisy means over random subsets for {', '.join(release.terms.names)}"

    def foresight(self, design: ProbabilityDesign, rows: int) -> Pairs:
        """The noise, relative to the spread of a probability."""
        subsets, count = design.terms.subsets, len(design.terms.queries)
        epsilon = design.mechanism.epsilon / count
        ratio = noise_to_signal(subsets=subsets, epsilon=epsilon)
        verdict = (
            "UNRESOLVABLE: the noise drowns the answer"
            if unresolvable(subsets=subsets, epsilon=epsilon)
            else ("the answer can be told from the noise")
        )
        return (
            ("Rows a subset", f"about {rows // subsets:,}"),
            ("Noise on each mean", f"± {short(math.sqrt(2) / (subsets * epsilon), 3)}, of probabilities"),
            ("Noise to signal", f"{short(ratio, 2)}: {verdict}"),
        )

    def lede(self, release: ProbabilityRelease) -> str:
        return "Posterior probabilities of a regression"

    def meanings(self, release: ProbabilityRelease) -> Mapping[str, str]:
        return dict.fromkeys(release.terms.names, "probability, given the whole table")

    def groups(self, release: ProbabilityRelease, names: Sequence[str]) -> tuple[Group, ...]:
        return (Group("Probabilities", "over the thresholds asked about", tuple(names), True, True),)

    def curves(self, release: ProbabilityRelease) -> tuple[Curve, ...]:
        """The distribution function at the thresholds."""
        points = tuple((query.threshold, query.name) for query in release.terms.queries)
        if len(points) < 2:
            return ()
        name = release.terms.queries[0].coefficient
        note = "95% band of what the release tells; the table has the numbers."
        return (Curve(f"Posterior probability that {name} is at most the threshold", note, points),)

    def reading(self, release: ProbabilityRelease) -> str:
        return (
            "Each answer is the posterior probability, had the whole table been analysed without privacy. Shown is "
            "what the noisy release says of that number. "
        )

    def noise(self, release: ProbabilityRelease, counted: Counted) -> tuple[str, ...]:
        scales: list[float] = release.noise_scales.tolist()
        subsets = release.terms.subsets
        said = [
            f"What was released are {len(scales)} means over {subsets} subsets, each with noise of standard deviation "
            f"{short(math.sqrt(2) * max(scales))}.",
        ]
        drowned = [
            name
            for name, scale in zip(release.terms.names, scales, strict=True)
            if unresolvable(subsets=subsets, epsilon=1 / (subsets * scale))
        ]
        if drowned:
            said.append(f"Unresolvable: the noise drowns {listed(drowned)}. The interval is wide because of that.")
        return tuple(said)

    def noise_size(self, release: ProbabilityRelease) -> tuple[str, str, str]:
        return "Noise on a mean", f"± {short(math.sqrt(2) * float(release.noise_scales.max()), 2)}", "of probabilities"


class QuantileTexts(SubsampleTexts):
    """Texts for posterior quantiles."""

    what = "noisy posterior quantiles of a regression"
    units = "in the units of the coefficient"

    def lines(self, release: QuantileRelease) -> list[dict[str, Any]]:
        """One line for each released number: its place on the public grid."""
        places = [f"released {place + 1}" for place in range(len(release.values))]
        return [{"query": name, "value": float(value)} for name, value in zip(places, release.values, strict=True)]

    def product(self, release: QuantileRelease) -> str:
        return f"Private draws for {', '.join(release.terms.names)}"

    def foresight(self, design: QuantileDesign, rows: int) -> Pairs:
        terms = design.terms
        method = terms.algorithm(design.mechanism.epsilon)
        ranks = len(terms.probabilities) if method == "median" else 1
        reach = terms.subsets * design.mechanism.epsilon
        weak = method == "centre-scale" and reach < MEAN_FROM
        reliability = f"{method}; UNRELIABLE below subsets x epsilon = {MEAN_FROM:g}" if weak else method
        return (
            ("Rows a subset", f"about {rows // terms.subsets:,}"),
            ("Method", reliability),
            (
                "Error of a median",
                f"about {short(2 * ranks / design.mechanism.epsilon, 2)} of {terms.subsets} subsets off in rank",
            ),
        )

    def lede(self, release: QuantileRelease) -> str:
        return "Posterior quantiles of a regression"

    def meanings(self, release: QuantileRelease) -> Mapping[str, str]:
        said = {release.terms.coefficient: "the coefficient itself"}
        names = zip(release.terms.names, release.terms.probabilities, strict=True)
        return said | {name: f"its posterior quantile {p:g}, given the whole table" for name, p in names}

    def groups(self, release: QuantileRelease, names: Sequence[str]) -> tuple[Group, ...]:
        return (Group(release.terms.coefficient, "and its posterior quantiles", tuple(names), True, True),)

    def reading(self, release: QuantileRelease) -> str:
        return (
            f"The first line is {release.terms.coefficient} itself; the others are quantiles of its posterior, had the "
            "whole table been analysed without privacy. "
        )

    def noise(self, release: QuantileRelease, counted: Counted) -> tuple[str, ...]:
        low, high = release.terms.outer
        estimates = ", ".join(short(float(value)) for value in release.estimates())
        return (
            f"Numbers were drawn from a grid between the outer bounds {short(low)} and {short(high)}, nearer the "
            f"subsets' median the likelier. As released, the quantiles are {estimates}.",
        )

    def noise_size(self, release: QuantileRelease) -> tuple[str, str, str]:
        return "Subsets", str(release.terms.subsets), "each person in one"


def _declared_open(schema: OpenSchema) -> tuple[Declared, ...]:
    """The declared response and covariates."""
    response = Declared(schema.response, "response", "a number, without bounds", "itself")
    return (response, *(_declared(column) for column in schema.covariates))


def _declared(column: OpenCovariate) -> Declared:
    if not isinstance(column, Factor):
        return Declared(column.name, "covariate", "a number, without bounds", "itself")
    entering = listed([f"{column.name}[{level}]" for level in column.levels[1:]])
    return Declared(column.name, "covariate", ", ".join(column.levels), f"{entering}, against {column.levels[0]}")


PROBABILITY = ProbabilityTexts()
QUANTILE = QuantileTexts()
