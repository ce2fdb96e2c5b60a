"""Intervals of `dpbayes run` and the plain fit on public tables: `python -m tools.real_tables FOLDER` prints them.

FOLDER has the files of `dpbayes evaluate distributed --data`. Bounds are three times as wide as each column's range.
"""

import csv
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tools.coverage_tables import table

WIDER = 3.0
EPSILONS = (2, 20)
NOT_CONVERGED = 6  # the exit code


@dataclass(frozen=True)
class Regression:
    """A regression on a public file; levels begin with the reference."""

    file: str
    response: str
    numbers: tuple[str, ...]
    levels: dict[str, tuple[str, ...]]


REGRESSIONS = (
    Regression("power_plant.csv", "PE", ("AT", "V", "AP", "RH"), {}),
    Regression(
        *("bike_sharing.csv", "cnt", ("temp", "atemp", "hum", "windspeed")),
        {"workingday": ("0", "1"), "season": ("1", "2", "3", "4")},
    ),
)


def main(folder: Path) -> None:
    """Run every regression at every epsilon, and print a table for each."""
    for regression in REGRESSIONS:
        columns = read(folder / regression.file)
        with TemporaryDirectory() as scratch:
            runs, states = run(regression, columns, folder.absolute(), Path(scratch))
        rows = len(next(iter(columns.values())))
        print(f"\n`{regression.file}`, {rows:,} rows: {regression.response} by {', '.join(names(regression)[1:-1])}\n")
        head = (f"epsilon {epsilon}: {state}" for epsilon, state in zip(EPSILONS, states, strict=True))
        print(table(("coefficient", "plain fit", *head), rows_of(runs)))


def read(path: Path) -> dict[str, list[str]]:
    """Every column as text."""
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    return {name: [line[name] for line in lines] for name in lines[0]}


def names(regression: Regression) -> list[str]:
    """The parameters, as results name them."""
    levels = [f"{name}[{level}]" for name, all_levels in regression.levels.items() for level in all_levels[1:]]
    return ["(intercept)", *regression.numbers, *levels, "sigma"]


def plain(regression: Regression, columns: dict[str, list[str]]) -> list[float]:
    """Least squares on the rows as they are."""
    response = np.array(columns[regression.response], dtype=np.float64)
    design = [np.ones(len(response)), *(np.array(columns[name], dtype=np.float64) for name in regression.numbers)]
    for name, levels in regression.levels.items():
        design += [np.array([value == level for value in columns[name]], dtype=np.float64) for level in levels[1:]]
    fitted, residual, *_ = np.linalg.lstsq(np.column_stack(design), response)
    return [*fitted, float(np.sqrt(residual[0] / (len(response) - len(fitted))))]


def study(regression: Regression, columns: dict[str, list[str]]) -> str:
    """A study that states no prior and expects nothing, with a release for each epsilon."""
    lines = [f"study: {Path(regression.file).stem.replace('_', '-')}", "population: public", "source:"]
    lines += ["  path: table-{period}.csv", f"  rows: {len(columns[regression.response])}"]
    lines += ["period: {grain: year, people: same}", "columns:"]
    for name in (regression.response, *regression.numbers):
        values = np.array(columns[name], dtype=np.float64)
        middle, reach = (values.max() + values.min()) / 2, WIDER * (values.max() - values.min()) / 2
        lines.append(f"  {name}: {{bounds: [{middle - reach:.6g}, {middle + reach:.6g}]}}")
    lines += [f"  {name}: {{levels: {json.dumps(levels)}}}" for name, levels in regression.levels.items()]
    lines += ["privacy: {delta: 1e-6, budget: {lifetime: {epsilon: 100}}}", "releases:"]
    covariates = json.dumps([*regression.numbers, *regression.levels])
    about = f"kind: regression, response: {regression.response}, covariates: {covariates}"
    lines += [f"  at-{each}: {{{about}, mechanism: gaussian, epsilon: {each}}}" for each in EPSILONS]
    lines += ["analyses:", *(f"  of-{each}: {{release: at-{each}}}" for each in EPSILONS)]
    return "\n".join(lines) + "\n"


def run(
    regression: Regression, columns: dict[str, list[str]], folder: Path, scratch: Path
) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Parameter, plain fit, and the interval at each epsilon; and whether its chains converged."""
    path = scratch / "study.yaml"
    path.write_text(study(regression, columns), encoding="utf-8")
    copyfile(folder / regression.file, scratch / "table-2026.csv")
    dpbayes(scratch, "ledger", "create", str(path))
    document = json.loads(dpbayes(scratch, "run", str(path), "--period", "2026", "--json"))
    analyses = {one["analysis"]: one for one in document["analyses"]}
    fitted = plain(regression, columns)
    found: list[tuple[Any, ...]] = []
    for place, name in enumerate(names(regression)):
        each = [analyses[f"of-{epsilon}"]["coefficients"][place] for epsilon in EPSILONS]
        assert {one["name"] for one in each} == {name}
        found.append((name, fitted[place], *((one["q025"], one["q975"]) for one in each)))
    return found, [analyses[f"of-{epsilon}"]["status"] for epsilon in EPSILONS]


def dpbayes(folder: Path, *arguments: str) -> str:
    """The output of a command, which must succeed or end with chains that have not converged."""
    done = subprocess.run([sys.executable, "-m", "cli", *arguments], cwd=folder, stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, NOT_CONVERGED):
        raise SystemExit(done.returncode)
    return done.stdout


def rows_of(runs: Sequence[tuple[Any, ...]]) -> list[list[str]]:
    """Each interval, and whether it misses the plain fit."""
    return [[name, f"{fitted:.4g}", *(interval(fitted, *ends) for ends in each)] for name, fitted, *each in runs]


def interval(fitted: float, low: float, high: float) -> str:
    """An interval, marked where it misses."""
    return f"{low:.4g} to {high:.4g}{' (misses)' * (not low <= fitted <= high)}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
