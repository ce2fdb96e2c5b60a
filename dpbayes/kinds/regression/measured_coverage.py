"""Finds the measured cell of docs/coverage.md that is nearest to a study, and how far away it is.

`python -m dpbayes.kinds.regression.measured_coverage RESULTS ... > coverage_cells.json` makes the cells from the
results.json that `dpbayes evaluate coverage --out FOLDER` writes, or from earlier cells; the last of equal cells wins.
Cells of the former default prior were measured when it was the default.
"""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import numpy as np

from dpbayes.kinds.regression.clipping import response_of
from dpbayes_core.experiments import coverage_cells
from dpbayes_core.experiments.coverage import DEFAULT, EXACT, OTHER
from dpbayes_core.regression.expected_prior import is_expected
from dpbayes_core.regression.pool import pooled
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.schema import SIGMA

Record = Mapping[str, Any]

KEYS = (
    "name",
    "noise",
    "mechanism",
    "epsilon",
    "response_sd",
    "explained",
    "coefficients",
    "levels",
    "related",
    "spread",
    "prior",
)
NAMED = ("covariates", "wide", "too_wide", "clipped", "rows")
IDENTITY = (*NAMED, "explained", "epsilon", "mechanism", "guess")
"""The keys that identify a cell; `guess` is present only where something is expected."""

LEAST_VARIANCE = 4.0  # times the noise on a mean: the least variance of a covariate whose correlations are estimated
_OTHER_MECHANISM = 1.5  # distance of two mechanisms; as in other coordinates, up to 1 is near


@dataclass(frozen=True)
class Setting:
    """The coordinates by which a study is compared with a cell; None where noise hides one."""

    rows: float
    noise: float  # sd of the noise on a mean, columns in [-1, 1]
    mechanism: str
    coefficients: int  # slopes
    levels: float  # share of the slopes that are levels
    response_sd: float | None  # in half widths of the response's bounds
    explained: float | None  # share of the response's variance
    clipped: float | None  # share of a normal response beyond its bounds
    related: float | None  # the largest correlation of two columns among the covariates
    spread: float | None  # the least standard deviation of a number, in half widths of its bounds
    reach: float | None = None  # least prior sd of a coefficient times sd of its number, in sds of the response
    guess: float | None = None  # expected over estimated sd of the response; like reach, of such priors only

    @classmethod
    def of(cls, parts: Sequence[Release], posterior: Record) -> "Setting":
        """The coordinates of releases that are analysed together, and of their posterior's record."""
        evidence = pooled(parts)
        schema, rows, found = evidence.schema, max(evidence.count, 1.0), response_of(evidence)
        variables, spread, explained = schema.variables[:-1], None, None
        if found is not None:
            sigma = {line["name"]: line["mean"] for line in posterior["coefficients"]}[SIGMA]
            spread = found.sd / (schema.standardised(schema.response).width / 2)
            explained = min(max(1 - (sigma / found.sd) ** 2, 0.0), 1.0)
        mechanisms, (related, spreads) = {part.mechanism.name for part in parts}, _covariate_moments(parts)
        labels = [variable.label for variable in variables if variable.kind == "continuous"]
        return cls(
            rows=rows,
            noise=math.hypot(*map(_deviation, parts)) / rows,
            mechanism=mechanisms.pop() if len(mechanisms) == 1 else "several",
            coefficients=len(variables),
            levels=sum(variable.kind != "continuous" for variable in variables) / max(len(variables), 1),
            response_sd=spread,
            explained=explained,
            clipped=None if found is None else found.clipped(schema.response.bounds),
            **related,
            **_guessed(posterior["request"]["prior"], dict(zip(labels, spreads, strict=False)), spread),
        )

    @classmethod
    def of_cell(cls, cell: Record) -> "Setting":
        """The coordinates of a stored cell."""
        stated = {field.name: cell[field.name] for field in fields(cls) if field.name not in ("reach", "guess")}
        numbers = {name: cell["spread"] for name, *_ in cell["prior"]["named"]}
        return cls(**stated, **_guessed(cell["prior"], numbers, cell["response_sd"]))

    def distances(self, other: "Setting") -> dict[str, float]:
        """The distance in each coordinate that noise does not hide; up to 1 counts as near."""
        found = {
            "rows": abs(math.log10(self.rows / other.rows)),
            "noise": abs(math.log(max(self.noise, 1e-300) / other.noise)) / math.log(3),
            "coefficients": abs(math.log(max(self.coefficients, 1) / other.coefficients)) / math.log(2.5),
            "levels": abs(self.levels - other.levels),
            "mechanism": 0.0 if self.mechanism == other.mechanism else _OTHER_MECHANISM,
        }
        units = {"explained": 0.3, "clipped": 0.01, "related": 0.4}
        pairs = {name: (getattr(self, name), getattr(other, name), unit) for name, unit in units.items()}
        found |= {name: abs(one - two) / unit for name, (one, two, unit) in pairs.items() if None not in (one, two)}
        ratios = {"response_sd": 2, "spread": 2, "reach": 3, "guess": 3}
        times = {name: (getattr(self, name), getattr(other, name), unit) for name, unit in ratios.items()}
        found |= {
            name: abs(math.log(one / two)) / math.log(unit)
            for name, (one, two, unit) in times.items()
            if None not in (one, two)
        }
        return found

    @property
    def hidden(self) -> bool:
        """Whether noise hides coordinates that a comparison needs."""
        return self.response_sd is None or self.related is None


def _guessed(prior: Record, spreads: Mapping[str, float], response: float | None) -> dict[str, Any]:
    """`reach` and `guess` of a prior in units of expected sds, on the standardised scale; empty for other priors."""
    if response is None or not is_expected(prior):
        return {}
    own = {name: sd for name, _, sd in prior["named"]}
    reaches = [own.get(name, prior["coefficient_sd"]) * spread / response for name, spread in spreads.items()]
    return {"reach": min(reaches, default=None), "guess": prior["noise_shape"] * prior["noise_scale"] / response}


def _covariate_moments(parts: Sequence[Release]) -> tuple[dict[str, float | None], list[float]]:
    """Correlations and sds of the covariates estimated from the noisy sums.

    Nothing is estimated where noise may be much of a variance.
    """
    evidence = pooled(parts)
    schema, rows = evidence.schema, max(evidence.count, 1.0)
    moments = np.sum([part.matrix() for part in parts], axis=0) / rows
    first = int(schema.intercept)
    covariance = moments[first:-1, first:-1].copy()
    if schema.intercept:
        covariance -= np.outer(moments[0, 1:-1], moments[0, 1:-1])
    variances = np.diag(covariance)
    if np.any(variances < LEAST_VARIANCE * math.hypot(*map(_deviation, parts)) / rows):
        return {"related": None, "spread": None}, []
    columns = np.array([variable.column for variable in schema.variables[:-1]])
    numbers = np.array([variable.kind == "continuous" for variable in schema.variables[:-1]])
    different = columns[:, None] != columns
    related = np.abs(covariance) / np.sqrt(np.outer(variances, variances))
    spreads: list[float] = np.sqrt(variances[numbers]).tolist()
    largest = min(float(np.max(related, where=different, initial=0.0)), 1.0)
    return {"related": largest, "spread": min(spreads, default=None)}, spreads


def _deviation(part: Release) -> float:
    return float(part.mechanism.deviations.max())


def nearest(place: Setting, prior: Record, known: Sequence[Record]) -> tuple[Record, bool] | None:
    """The nearest cell measured under this prior, and whether it is near; of ties, the one of least coverage.

    A prior in units of expected sds differs between studies; it is compared through the coordinates.
    """
    guessed = is_expected(prior)
    same = [cell for cell in known if (is_expected(cell["prior"]) if guessed else cell["prior"] == prior)]
    if not same:
        return None
    distances = [tuple(place.distances(Setting.of_cell(cell)).values()) for cell in same]
    best = min(range(len(same)), key=lambda k: (round(math.hypot(*distances[k]), 9), same[k]["slopes"]["coverage"]))
    return same[best], not place.hidden and max(distances[best]) <= 1


@cache
def cells() -> tuple[Record, ...]:
    """All measured cells: under the present default prior and under the former one."""
    files = (
        resources("dpbayes.kinds.regression").joinpath(name)
        for name in ("coverage_cells.json", "coverage_cells_conjugate.json")
    )
    return tuple(cell for file in files for cell in json.loads(file.read_text(encoding="utf-8")))


def cells_of(rows: Sequence[Record]) -> list[dict[str, Any]]:
    """Cells from the rows of the experiment: coverage of the default prior, and of the other law."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        place = place_of(row)
        if row["method"] == DEFAULT:
            about = {name: row[name] for name in (*NAMED, *KEYS, "guess") if name in row}
            about |= {"tables": row["data_sets"], "not_converged": row["not_converged"]}
            cell = found.setdefault(place, about)
            cell[row["parameter"]] = _rounded(
                coverage=row["coverage"],
                error=row["standard_error"],
                worst=row["worst"],
                score=row["relative_score"],
                width=row["relative_width"],
            )
        elif row["method"] in (OTHER, EXACT):
            one = found[place].setdefault(row["method"], {})
            one[row["parameter"]] = _rounded(coverage=row["coverage"], error=row["standard_error"])
    return list(found.values())


def place_of(cell: Record) -> tuple[Any, ...]:
    """The values that identify a cell, or a row of the experiment."""
    return tuple(cell.get(name) for name in IDENTITY)


def merged(documents: Sequence[Any]) -> list[Record]:
    """All cells in the order of the command, from new results and from earlier cells."""
    made = [document if isinstance(document, list) else cells_of(document["rows"]) for document in documents]
    found: dict[tuple[Any, ...], Record] = {place_of(cell): cell for each in made for cell in each}
    order = [place_of(cell) for cell in coverage_cells.cells(False)]
    return [found[place] for place in sorted(found, key=order.index)]


def _rounded(**numbers: float) -> dict[str, float]:
    return {name: round(number, 4) for name, number in numbers.items()}


if __name__ == "__main__":
    print(json.dumps(merged([json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:]]), indent=1))
