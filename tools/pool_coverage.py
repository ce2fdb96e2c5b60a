"""The table of several releases in docs/coverage.md: `make tables POOLS=FILE`, a result of `evaluate pools --out`."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpbayes_core.experiments.pools import ALIKE, DIFFER
from tools.coverage_tables import share, table

Row = Mapping[str, Any]

HEAD = (
    *("parts", "rows", "epsilon", "tables", "intercept", "slopes", "worst", "sigma"),
    *("alike: slopes", "sigma", "width", "work", "alarm", "missed"),
)


def lines(rows: Sequence[Row]) -> list[list[str]]:
    """One row per cell."""
    cells: dict[tuple[Any, ...], dict[tuple[str, str], Row]] = {}
    for row in rows:
        place = tuple(row[name] for name in ("parts", "by", "covariates", "mechanism", "neighbours", "rows", "epsilon"))
        cells.setdefault(place, {})[row["method"], row["parameter"]] = row
    return [_row(found) for found in cells.values()]


def _row(found: Mapping[tuple[str, str], Row]) -> list[str]:
    ours, alike = ({name: found[method, name] for name in NAMES} for method in (DIFFER, ALIKE))
    slopes = ours["slopes"]
    return [
        *(_name(slopes), slopes["rows"], f"{slopes['epsilon']:g}", str(slopes["data_sets"])),
        *(_coverage(ours["intercept"]), _coverage(slopes), f"{slopes['worst']:.2f}", _coverage(ours["sigma"])),
        *(f"{alike[name]['coverage']:.2f}" for name in ("slopes", "sigma")),
        *(f"{slopes['relative_width']:.2f}", f"{slopes['gradients'] / alike['slopes']['gradients']:.1f}"),
        *(f"{slopes['alarm']:.2f}", f"{slopes['not_converged']:.3f}"),
    ]


NAMES = ("intercept", "slopes", "sigma")


def _coverage(row: Row) -> str:
    return share({"coverage": row["coverage"], "error": row["standard_error"]})


def _name(row: Row) -> str:
    """What differs between the parts, and settings that differ from most cells."""
    name = row["parts"] if row["by"] == 0 or row["parts"] == "alike" else f"{row['parts']} ({row['by']:.2g})"
    more = [row["covariates"]] if row["covariates"] != "two numbers" else []
    more += ["Laplace noise"] if row["mechanism"] == "laplace" else []
    more += ["noisy counts"] if row["neighbours"] == "add-remove" else []
    return ", ".join([name, *more])


def main(files: Sequence[str]) -> None:
    """Print the table of the results in these files."""
    rows = [row for name in files for row in json.loads(Path(name).read_text(encoding="utf-8"))["rows"]]
    print(table(HEAD, lines(rows)))


if __name__ == "__main__":
    main(sys.argv[1:])
