"""95% intervals on simulated tables: coverage, width and interval score."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.sampling.posterior import Posterior

TAIL = 0.025


@dataclass(frozen=True)
class Fit:
    """95% intervals of every parameter of one table, in the table's units."""

    low: Floats
    high: Floats
    converged: bool = True


def fit_of(posterior: Posterior) -> Fit:
    """The 95% intervals of a posterior, converged or not."""
    values = np.stack([np.ravel(drawn) for drawn in posterior.draws.values()])
    low, high = np.quantile(values, (TAIL, 1 - TAIL), axis=1)
    return Fit(low, high, posterior.converged)


def score_of(fits: Sequence[Fit], truths: Floats) -> tuple[Floats, Floats]:
    """Mean interval score and mean width of each parameter; the score is the width plus a penalty for missed truths."""
    low, high = np.array([fit.low for fit in fits]), np.array([fit.high for fit in fits])
    missed = np.maximum(low - truths, 0.0) + np.maximum(truths - high, 0.0)
    return (high - low + missed / TAIL).mean(axis=0), (high - low).mean(axis=0)


def relative(ours: Sequence[Fit], others: Sequence[Fit], truths: Floats) -> tuple[Floats, Floats]:
    """Interval score and width of each parameter, relative to those of `others` on the same tables."""
    (score, width), (other_score, other_width) = score_of(ours, truths), score_of(others, truths)
    return score / other_score, width / other_width


def coverage_rows(fits: Sequence[Fit], truths: Floats, compared: tuple[Floats, Floats] | None) -> list[dict[str, Any]]:
    """Coverage of intercept, slopes and sigma on these tables; `compared` adds relative score and width."""
    low, high = np.array([fit.low for fit in fits]), np.array([fit.high for fit in fits])
    covered, widths, count = (low <= truths) & (truths <= high), np.median(high - low, axis=0), len(fits)
    parts = {"intercept": slice(0, 1), "slopes": slice(1, -1), "sigma": slice(-1, None)}
    rows = list[dict[str, Any]]()
    for name, part in parts.items():
        each = covered[:, part].mean(axis=1)  # parameters of one table depend on each other
        score, width = (None, None) if compared is None else (_mean(one[part]) for one in compared)
        rows.append(
            {
                "data_sets": count,
                "parameter": name,
                "coverage": float(each.mean()),
                "standard_error": max(float(each.std(ddof=1)) / math.sqrt(count), 0.5 / count),  # never 0
                "worst": float(covered[:, part].mean(axis=0).min()),
                "width": float(np.mean(widths[part])),
                "relative_score": score,
                "relative_width": width,
                "not_converged": float(np.mean([not fit.converged for fit in fits])),
            }
        )
    return rows


def _mean(ratios: Floats) -> float:
    return float(np.exp(np.log(ratios).mean()))


def band(share: float, error: float) -> tuple[float, float, float, float, float]:
    """Five normal quantiles of a share, from its Monte Carlo error."""
    low, lower, upper, high = (min(max(share + z * error, 0.0), 1.0) for z in (-1.645, -0.674, 0.674, 1.645))
    return low, lower, share, upper, high
