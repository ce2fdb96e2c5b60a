"""What `dpbayes analyse` was asked, as an order for tasks: names and paths, checked against each other."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpbayes_core.errors import StudyInvalid

PLACE = "posteriors"  # below the current folder


def crate_order(
    study: Path | None, period: str | None, crates: Sequence[str], given: Mapping[str, Any]
) -> dict[str, Any]:
    """The order for an analysis of crates."""
    if study is not None or period is not None:
        raise StudyInvalid("cannot analyse crates in a study: --from needs no study and no period. Leave them out.")
    return {
        "crates": list(crates),
        "keys": list(given["key"] or ()),
        "prior": given["prior"] and str(given["prior"]),
        "sampler": given["sampler"],
        "chains": given["chains"],
        "draws": given["draws"],
        "seed": given["seed"],
        "alike": given["alike"],
        "to": str(given["to"] or PLACE),
        "sign": given["sign"] and str(given["sign"]),
    }


def only_a_study(study: Path | None, period: str | None, given: Mapping[str, Any]) -> tuple[Path, str]:
    """The study and period; everything else stands in the study file."""
    if study is None:
        raise StudyInvalid("cannot analyse: no study is named. Name a study file, or a crate with --from.")
    if period is None:
        raise StudyInvalid("cannot analyse: no period is named. Add --period, such as 2026-01.")
    for name in (name for name, value in given.items() if value not in (None, [])):
        raise StudyInvalid(f"cannot analyse a study with --{name}: the study file states it. Leave it out.")
    return study, period
