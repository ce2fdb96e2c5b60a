"""The cells of the coverage study: strengths of relations, widths of bounds, shapes, noises, and clipping."""

from typing import Any

from dpbayes_core.experiments.coverage_tables import EXPLAINED, LAWS
from dpbayes_core.experiments.interface import Cell

DATA_SETS, QUICK_DATA_SETS = 60, 2
SLOW_DATA_SETS = 20  # of cells whose fits take twenty times as long as others
SHAPES_DATA_SETS = 120  # of cells with independent covariates
FIRM_DATA_SETS = 200  # of cells by which the default prior was chosen
NAMES = {
    "binary": "two levels, 50% to 1%",
    "mixed levels": "mixed with levels",
    "related": "correlated, and a factor",
    "one": "a single number",
    "skewed": "correlated and skewed",
    "wages": "age, age squared, sex and region",
}

PLACES = ((700, 2.0), (5000, 1.0), (50_000, 1.0), (50_000, 5.0))  # rows and epsilon
BOUNDS = ((1.0, "all columns"), (3.0, "all columns"), (10.0, "all columns"), (3.0, "covariates"), (10.0, "covariates"))
STRENGTHS = (0.0, 0.1, 0.5, 0.85, 0.95)
FIRM = (  # strength, how much too wide all bounds are, rows, epsilon
    *((0.85, 3.0, 700, 2.0), (0.85, 3.0, 50_000, 1.0), (0.95, 10.0, 50_000, 5.0), (0.95, 1.0, 50_000, 5.0)),
    *((0.5, 1.0, 5000, 1.0), (0.0, 1.0, 700, 2.0), (0.0, 1.0, 50_000, 1.0)),
)


GUESSES = (1.0, 3.0, 1 / 3)
"""The stated sd of the response over its true sd, in studies that state sds; those of covariates are true."""


def cell_of(covariates: str, explained: float, rows: int, epsilon: float, **more: Any) -> Cell:
    """A cell, with default values for the other parameters."""
    usual = {"wide": 1.0, "too_wide": "all columns", "clipped": 0.0, "mechanism": "gaussian", "data_sets": DATA_SETS}
    return {"covariates": covariates, "explained": explained, "rows": rows, "epsilon": epsilon, **usual, **more}


def cells(quick: bool) -> tuple[Cell, ...]:
    """Relations of every strength by bounds of every width; then other shapes, another noise, and clipping."""
    strengths, places, bounds = (STRENGTHS, PLACES, BOUNDS) if not quick else ((0.5, 0.95), PLACES[:2], BOUNDS[:2])
    found = [
        cell_of("related", explained, rows, epsilon, wide=wide, too_wide=which)
        for explained in strengths
        for wide, which in bounds
        for rows, epsilon in places
    ]
    found += [cell_of("one", 0.85, rows, epsilon, wide=3.0) for rows, epsilon in places]
    found += [cell_of("wages", 0.138, rows, 1.0) for rows in (50_000, 200_000)[: 1 if quick else 2]]
    found += [cell_of("skewed", explained, rows, 1.0) for explained in (0.5, 0.85) for rows in (5000, 50_000)]
    found += [
        cell_of("related", explained, rows, 1.0, wide=wide, mechanism="laplace")
        for explained, wide in ((0.5, 1.0), (0.85, 3.0))
        for rows in (5000, 50_000)
    ]
    shapes = [(law, 0.0) for law in LAWS] + [("normal", 0.005), ("normal", 0.02)]
    found += [
        cell_of(law, EXPLAINED, rows, 1.0, clipped=clipped, data_sets=SHAPES_DATA_SETS)
        for rows in (1000, 100_000)
        for law, clipped in shapes
    ]
    found += _guessed() if not quick else [cell_of("related", 0.95, *PLACES[0], **COVARIATES, guess=1.0)]
    counts = [QUICK_DATA_SETS if quick else _data_sets(cell) for cell in found]
    return tuple({**cell, "data_sets": count, "quick": quick} for cell, count in zip(found, counts, strict=True))


COVARIATES = {"wide": 10.0, "too_wide": "covariates"}


def _guessed() -> list[Cell]:
    """Cells whose study states expected moments: with too wide bounds of the covariates, then with wrong guesses."""
    places, strengths = PLACES[1:3], (0.1, 0.95)
    found = [
        cell_of("related", explained, rows, epsilon, wide=wide, too_wide="covariates", guess=GUESSES[0])
        for wide in (3.0, 10.0)
        for explained in (0.1, 0.5, 0.95)
        for rows, epsilon in PLACES
    ]
    found += [
        cell_of("related", explained, *PLACES[1], wide=wide, too_wide="covariates", guess=guess)
        for wide in (3.0, 10.0)
        for explained in strengths
        for guess in GUESSES[1:]
    ]
    found += [cell_of("related", explained, *place, guess=GUESSES[0]) for explained in (0.0, 0.5) for place in places]
    return [*found, cell_of("skewed", 0.85, 50_000, 1.0, **COVARIATES, guess=GUESSES[0])]


def _data_sets(cell: Cell) -> int:
    if "guess" in cell:
        slow = cell["wide"] == 10 and cell["epsilon"] == 5
        return SLOW_DATA_SETS if slow else DATA_SETS
    place = (cell["explained"], cell["wide"], cell["rows"], cell["epsilon"])
    related = cell["covariates"] == "related" and cell["too_wide"] == "all columns" and cell["mechanism"] == "gaussian"
    wages = cell["covariates"] == "wages" and cell["rows"] == 50_000
    one = cell["covariates"] == "one" and cell["rows"] == 700
    return FIRM_DATA_SETS if (related and place in FIRM) or wages or one else cell["data_sets"]


GUESSED = dict(zip(GUESSES, ("", " to vary 3 times as much", " to vary a third as much"), strict=True))


def name_of(cell: Cell) -> str:
    """The name of a cell's covariates on pages."""
    covariates = str(cell["covariates"])
    name = NAMES.get(covariates, covariates)
    if cell["wide"] > 1:
        name += f", bounds of {cell['too_wide']} {cell['wide']:g} times too wide"
    if "guess" in cell:
        name += f", expected{GUESSED[cell['guess']]}"
    return f"{name}, {100 * cell['clipped']:g}% clipped" if cell["clipped"] else name
